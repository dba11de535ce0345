//! The settings dialogs: the list with its scope, typed values, and the items of the status line.

use parallax_screen::Line;
use parallax_sdk::settings::{
    FooterItem, Layer, SettingRow, SettingScope, SettingType, UiSettings,
};
use serde_json::Value;

use super::dialog_stack::{DialogPurpose, Overlay, OverlayBody};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};
use crate::sanitize::sanitize;
use crate::status_line::{self, StatusLineData};
use crate::theme::Theme;

/// The title of the settings list.
const SETTINGS: &str = "Settings";
/// The title of the theme list.
const THEMES: &str = "Themes";
/// The only setting whose value is validated here.
const FOOTER: &str = "ui.footer.items";

/// Row ids of the status line dialog that are not items.
const LABELS: &str = "labels";
const DEFAULT: &str = "usual";

/// What to do after Enter on a setting.
#[derive(Debug)]
pub(crate) enum SettingStep {
    /// Save this value.
    Save(Value),
    /// Open the list of themes.
    Themes,
    /// Open this dialog.
    Show(Overlay),
    /// The setting has nothing to choose.
    Nothing,
}

/// A change in the status line dialog.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FooterChange {
    /// Show or hide the labels.
    Labels(bool),
    /// Remove the setting.
    Default,
    /// Show these items.
    Items(Vec<FooterItem>),
}

/// The state of the settings dialogs.
#[derive(Debug)]
pub(crate) struct SettingsView {
    /// The scope that changed settings are written to.
    scope: SettingScope,
    /// The settings list while a dialog opened from it is shown.
    parked_list: Option<ListDialog>,
    /// The status line items in the order of their dialog, including hidden ones.
    footer_order: Vec<FooterItem>,
}

impl Default for SettingsView {
    fn default() -> Self {
        Self { scope: SettingScope::User, parked_list: None, footer_order: Vec::new() }
    }
}

impl SettingsView {
    /// Returns the scope that changed settings are written to.
    pub(crate) fn scope(&self) -> SettingScope {
        self.scope
    }

    /// Starts with the settings of the user.
    pub(crate) fn reset(&mut self) {
        self.parked_list = None;
        self.scope = SettingScope::User;
    }

    /// Writes to the settings of the user, unless a dialog was opened from the list.
    pub(crate) fn reset_scope(&mut self) {
        if self.parked_list.is_none() {
            self.scope = SettingScope::User;
        }
    }

    /// Whether the list was set aside for a dialog opened from it.
    pub(crate) fn has_parked_list(&self) -> bool {
        self.parked_list.is_some()
    }

    /// Switches the scope of a list.
    pub(crate) fn switch_scope(&mut self, purpose: &DialogPurpose, list: &mut ListDialog) {
        self.scope = match self.scope {
            SettingScope::User => SettingScope::Workspace,
            SettingScope::Workspace => SettingScope::User,
        };
        list.set_title(match purpose {
            DialogPurpose::Theme(_) => self.theme_title(),
            _ => self.title_with_scope(SETTINGS),
        });
    }

    /// Returns the title of the theme list.
    pub(crate) fn theme_title(&self) -> String {
        self.title_with_scope(THEMES)
    }

    /// Returns a list title that includes the settings scope.
    fn title_with_scope(&self, what: &str) -> String {
        match self.scope {
            SettingScope::User => format!("{what} · user: all projects"),
            SettingScope::Workspace => format!("{what} · workspace: this project"),
        }
    }

    /// Sets the settings list aside for a dialog opened from it.
    pub(crate) fn park(&mut self, overlay: Option<Overlay>) {
        self.parked_list = match overlay {
            Some(Overlay { purpose: DialogPurpose::Settings, body: OverlayBody::List(list) }) => {
                Some(*list)
            }
            _ => None,
        };
    }

    /// Returns the settings list, with its previous cursor position and search if it was set aside.
    pub(crate) fn list(&mut self, rows: &[SettingRow], theme: &Theme) -> Overlay {
        let items = setting_items(rows, theme);
        let list = match self.parked_list.take() {
            Some(mut list) => {
                list.replace(items);
                list
            }
            None => ListDialog::new(self.title_with_scope(SETTINGS), items)
                .with_search()
                .with_tabs(tabs(rows))
                .hint("enter change · tab scope · ctrl+l reset · esc close"),
        };
        Overlay::list(DialogPurpose::Settings, list)
    }

    /// Returns the items of the status line dialog: shown items in their order, then hidden ones.
    pub(crate) fn footer_items(
        &self,
        settings: &UiSettings,
        status_data: &StatusLineData,
        width: usize,
        theme: &Theme,
    ) -> Vec<ListItem> {
        let items = settings.footer.clone().unwrap_or_default();
        let row = |item: &FooterItem, checkbox: &str| {
            let label = format!("{checkbox} {}", item.as_str());
            let sample = footer_sample(*item, status_data, width, theme);
            ListItem::new(item.as_str(), label, item.description()).with_preview(sample)
        };
        let checkbox_of = |item: &FooterItem| if items.contains(item) { "[x]" } else { "[ ]" };
        let order = self.footer_order(&items);
        let mut rows: Vec<ListItem> =
            order.iter().map(|item| row(item, checkbox_of(item))).collect();
        let checkbox = if settings.footer_labels { "[x]" } else { "[ ]" };
        rows.push(ListItem::new(
            LABELS,
            format!("{checkbox} labels"),
            "a row with labels above the status line",
        ));
        rows.push(ListItem::new(
            DEFAULT,
            "    default",
            "removes `ui.footer.items` from your settings",
        ));
        rows
    }

    /// Returns the change that Enter on a row of the status line dialog makes.
    pub(crate) fn footer_chosen(
        &mut self,
        id: &str,
        settings: &UiSettings,
    ) -> Option<FooterChange> {
        match id {
            LABELS => Some(FooterChange::Labels(!settings.footer_labels)),
            DEFAULT => Some(FooterChange::Default),
            id => {
                let item = FooterItem::parse(id)?;
                let items = settings.footer.clone().unwrap_or_default();
                // A hidden item keeps its position for when it is shown again.
                self.footer_order = self.footer_order(&items);
                let order = self.footer_order.iter().copied();
                let is_shown = |other: &FooterItem| items.contains(other) != (*other == item);
                Some(FooterChange::Items(order.filter(is_shown).collect()))
            }
        }
    }

    /// Returns all items in the order of the dialog: shown items in their order, hidden ones at
    /// their previous positions.
    fn footer_order(&self, items: &[FooterItem]) -> Vec<FooterItem> {
        let mut order = self.footer_order.clone();
        if order.is_empty() {
            order = items.to_vec();
            order.extend(FooterItem::ALL.into_iter().filter(|item| !items.contains(item)));
        }
        let mut next = items.iter();
        let is_shown = |item: &&mut FooterItem| items.contains(item);
        for slot in order.iter_mut().filter(is_shown) {
            *slot = next.next().copied().unwrap_or(*slot);
        }
        order
    }
}

/// Returns the status line with an item moved to the left or right, if it can move.
pub(crate) fn move_footer_item(
    items: &[FooterItem],
    id: &str,
    left: bool,
) -> Option<Vec<FooterItem>> {
    let mut changed_items = items.to_vec();
    let index = changed_items.iter().position(|item| item.as_str() == id)?;
    let to = if left { index.checked_sub(1) } else { Some(index + 1) };
    let to = to.filter(|to| *to < changed_items.len())?;
    changed_items.swap(index, to);
    Some(changed_items)
}

/// Returns a sample of an item of the status line.
fn footer_sample(
    item: FooterItem,
    status_data: &StatusLineData,
    width: usize,
    theme: &Theme,
) -> Vec<Line> {
    let rows = status_line::rows(status_data, &[item], false, width, theme);
    match rows.into_iter().next() {
        Some(row) => vec![row],
        None => vec![Line::styled("nothing to show at the moment", theme.secondary)],
    }
}

/// Returns the items of the settings list.
pub(crate) fn setting_items(rows: &[SettingRow], theme: &Theme) -> Vec<ListItem> {
    rows.iter().map(|row| setting_item(row, rows, theme)).collect()
}

fn setting_item(row: &SettingRow, rows: &[SettingRow], theme: &Theme) -> ListItem {
    let mut facts = format!(" · default: {}", default_of(row));
    if let Some(origin) = &row.origin {
        facts.push_str(&format!(" · set in {}", origin.file.display()));
    }
    if row.needs_restart {
        facts.push_str(" · takes effect with the next session");
    }
    let facts = Line::styled(row.key, theme.accent).with_span(facts, theme.secondary);
    let scope = match row.origin.as_ref().map(|origin| origin.layer) {
        None => "",
        Some(Layer::User | Layer::UserGemini) => "  (user)",
        Some(Layer::Workspace | Layer::WorkspaceGemini) => "  (workspace)",
        Some(Layer::System | Layer::SystemDefaults) => "  (system)",
    };
    let item = ListItem::new(row.key, row.label, format!("{}{scope}", format_value(&row.value)));
    let tab = tabs(rows).iter().position(|tab| *tab == row.category);
    let doc = row.doc.trim_end_matches(" (Parallax only)");
    let item = item.with_description(doc).with_preview(vec![facts]);
    ListItem { tab: tab.unwrap_or(0), keywords: row.key.to_owned(), ..item }
}

/// Returns what Enter on a setting does: toggles a flag, selects the next choice, or opens a field.
/// `footer` are the items of the status line.
pub(crate) fn setting_chosen(row: &SettingRow, footer: Option<&[FooterItem]>) -> SettingStep {
    match row.kind {
        SettingType::Flag => SettingStep::Save(Value::Bool(row.value != Value::Bool(true))),
        SettingType::Choice(words) => {
            let current = row.value.as_str().unwrap_or_default();
            let index = words.iter().position(|word| *word == current);
            let next = index.map_or(0, |at| (at + 1) % words.len().max(1));
            match words.get(next) {
                Some(word) => SettingStep::Save(Value::String((*word).to_owned())),
                None => SettingStep::Nothing,
            }
        }
        _ if row.key == "ui.theme" => SettingStep::Themes,
        _ => {
            let mut intro = vec![row.doc.to_owned(), format!("default: {}", default_of(row))];
            intro.extend(input_format(row.key, row.kind));
            if let (FOOTER, Some(items)) = (row.key, footer) {
                let items: Vec<&str> = items.iter().map(|item| item.as_str()).collect();
                intro.push(format!("currently shown: {}", items.join(", ")));
            }
            let current =
                if row.value.is_null() { String::new() } else { format_value(&row.value) };
            let dialog = FieldDialog::new(row.label, intro, Field::with(current));
            SettingStep::Show(Overlay::field(
                DialogPurpose::SettingValue(row.key.to_owned()),
                dialog,
            ))
        }
    }
}

/// Reads a typed value of a setting. `None` removes the setting.
///
/// # Errors
/// Returns why the value is invalid.
pub(crate) fn typed_value(row: &SettingRow, text: &str) -> Result<Option<Value>, String> {
    value(row.kind, text).and_then(|value| check(row.key, value))
}

/// Returns the setting categories in order.
fn tabs(rows: &[SettingRow]) -> Vec<&'static str> {
    let mut tabs: Vec<&'static str> = rows.iter().map(|row| row.category).collect();
    tabs.dedup();
    tabs
}

/// Formats the default of a setting.
fn default_of(row: &SettingRow) -> String {
    if row.default.is_null() { "none".to_owned() } else { format_value(&row.default) }
}

/// Formats a value as one line.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => sanitize(text),
        Value::Array(items) => items.iter().map(format_value).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns the input format of a setting, if it needs explanation.
fn input_format(key: &str, kind: SettingType) -> Option<String> {
    match kind {
        _ if key == FOOTER => {
            Some(format!("names in order, separated by commas: {}", FooterItem::list_names()))
        }
        SettingType::Texts | SettingType::List => {
            Some("several values, separated by commas".to_owned())
        }
        SettingType::TextOrTexts => Some("one value, or several separated by commas".to_owned()),
        SettingType::Object => Some("a JSON object".to_owned()),
        _ => None,
    }
}

/// Validates a value.
fn check(key: &str, value: Option<Value>) -> Result<Option<Value>, String> {
    if key == FOOTER
        && let Some(Value::Array(items)) = &value
    {
        let words: Vec<String> =
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if let Some(word) = FooterItem::unknown_footer_items(&words).first() {
            return Err(format!("unknown status line item `{}`", sanitize(word)));
        }
    }
    Ok(value)
}

/// Parses a typed value according to the setting's kind. Empty input removes the setting.
fn value(kind: SettingType, text: &str) -> Result<Option<Value>, String> {
    let text = text.trim();
    if text.is_empty() || text == "–" {
        return Ok(None);
    }
    let number = || {
        let whole = text.parse::<i64>().ok().map(Value::from);
        whole.or_else(|| {
            text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number)
        })
    };
    let words = || {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        Value::Array(items.map(Value::from).collect())
    };
    Ok(Some(match kind {
        SettingType::Number => number().ok_or_else(|| format!("`{text}` is not a number"))?,
        SettingType::Texts | SettingType::List => words(),
        SettingType::TextOrTexts if text.contains(',') => words(),
        SettingType::FlagOr(_) if text == "true" || text == "false" => Value::Bool(text == "true"),
        SettingType::Flag => match text {
            "true" | "false" => Value::Bool(text == "true"),
            _ => return Err("must be `true` or `false`".to_owned()),
        },
        SettingType::Object => {
            serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))?
        }
        _ => Value::String(text.to_owned()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_text_is_converted_to_a_setting_value() {
        assert_eq!(value(SettingType::Number, " 12 "), Ok(Some(Value::from(12))));
        assert_eq!(value(SettingType::Number, "0.5"), Ok(Some(Value::from(0.5))));
        assert!(value(SettingType::Number, "many").is_err());
        assert_eq!(value(SettingType::Texts, "a, b,"), Ok(Some(serde_json::json!(["a", "b"]))));
        let listed = value(SettingType::Texts, "mode, moon").expect("a list");
        assert!(check(FOOTER, listed.clone()).is_err_and(|reason| reason.contains("`moon`")));
        assert_eq!(check("context.fileName", listed.clone()), Ok(listed));
        assert_eq!(value(SettingType::Text, ""), Ok(None));
        assert_eq!(value(SettingType::FlagOr(&["docker"]), "true"), Ok(Some(Value::Bool(true))));
    }

    #[test]
    fn hidden_item_returns_to_its_position() {
        let mut settings = UiSettings {
            footer: Some(vec![FooterItem::ALL[0], FooterItem::ALL[1], FooterItem::ALL[2]]),
            ..UiSettings::default()
        };
        let before = settings.footer.clone();
        let mut view = SettingsView::default();
        for _ in 0..2 {
            let id = FooterItem::ALL[1].as_str();
            let Some(FooterChange::Items(items)) = view.footer_chosen(id, &settings) else {
                panic!("no items");
            };
            settings.footer = Some(items);
        }
        assert_eq!(settings.footer, before);
        assert_eq!(view.footer_chosen("nothing", &settings), None);
    }
}
