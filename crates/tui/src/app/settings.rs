//! The settings dialog: search, toggle, choose, and type values.

use parallax_sdk::settings::{FooterItem, Kind, Layer, SettingRow, SettingScope};
use serde_json::Value;

use super::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Body, Overlay, Purpose};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};

/// The title of the settings list.
pub(super) const SETTINGS: &str = "Settings";
/// The only setting whose value is validated here.
const FOOTER: &str = "ui.footer.items";

impl App {
    pub(super) fn settings_dialog(&mut self) {
        self.settings_list = None;
        self.scope = SettingScope::User;
        self.settings_again();
    }

    /// Returns a list title that includes the settings scope.
    pub(super) fn scoped(&self, what: &str) -> String {
        match self.scope {
            SettingScope::User => format!("{what} · user: all projects"),
            SettingScope::Workspace => format!("{what} · workspace: this project"),
        }
    }

    /// Tab: switches the settings scope.
    pub(super) fn switch_scope(&mut self, what: &str) {
        self.scope = match self.scope {
            SettingScope::User => SettingScope::Workspace,
            SettingScope::Workspace => SettingScope::User,
        };
        let title = self.scoped(what);
        if let Some(list) = self.dialogs.list_mut() {
            list.retitle(title);
        }
    }

    /// Reopens the settings list with its previous cursor position and search.
    pub(super) fn settings_again(&mut self) {
        let Some(launch) = &self.launch else { return self.too_early() };
        let rows = launch.setting_rows();
        let items = rows.iter().map(|row| self.setting_item(row, &rows)).collect();
        let list = match self.settings_list.take() {
            Some(mut list) => {
                list.replace(items);
                list
            }
            None => {
                ListDialog::new(self.scoped(SETTINGS), items).searched().tabbed(tabs(&rows)).hint(
                    "←→ group · type to search · enter change · tab change scope · ctrl+l \
                     default · esc close",
                )
            }
        };
        self.open(Overlay::list(Purpose::Settings, list));
    }

    /// Sets the settings list aside for a dialog opened from it.
    fn settings_aside(&mut self) {
        self.settings_list = match self.dialogs.take() {
            Some(Overlay { purpose: Purpose::Settings, body: Body::List(list) }) => Some(*list),
            _ => None,
        };
    }

    /// Refreshes the values in the dialog.
    pub(super) fn refresh_settings(&mut self) {
        let Some(launch) = &self.launch else { return };
        if self.dialogs.purpose() != Some(&Purpose::Settings) {
            return;
        }
        let rows = launch.setting_rows();
        let items = rows.iter().map(|row| self.setting_item(row, &rows)).collect();
        if let Some(list) = self.dialogs.list_mut() {
            list.replace(items);
        }
    }

    fn setting_item(&self, row: &SettingRow, rows: &[SettingRow]) -> ListItem {
        let mut preview = vec![
            parallax_screen::Line::styled(row.doc, self.theme.text),
            parallax_screen::Line::styled(row.key, self.theme.accent),
        ];
        let mut facts = format!("default: {}", shown(&row.default));
        if let Some(origin) = &row.origin {
            facts.push_str(&format!(" · set in {}", origin.file.display()));
        }
        if row.restart {
            facts.push_str(" · takes effect with the next session");
        }
        preview.push(parallax_screen::Line::styled(facts, self.theme.secondary));
        let scope = match row.origin.as_ref().map(|origin| origin.layer) {
            None => "",
            Some(Layer::User | Layer::UserGemini) => "  (user)",
            Some(Layer::Workspace | Layer::WorkspaceGemini) => "  (workspace)",
            Some(Layer::System | Layer::SystemDefaults) => "  (system)",
        };
        let item = ListItem::new(row.key, row.label, format!("{}{scope}", shown(&row.value)));
        let tab = tabs(rows).iter().position(|tab| *tab == row.category);
        ListItem { tab: tab.unwrap_or(0), ..item.previewed(preview) }
    }

    fn setting_row(&self, key: &str) -> Option<SettingRow> {
        self.launch.as_ref()?.setting_rows().into_iter().find(|row| row.key == key)
    }

    /// Handles Enter on a setting: toggles a flag, selects the next choice, or opens a field.
    pub(super) fn setting_chosen(&mut self, key: &str) {
        let Some(row) = self.setting_row(key) else { return };
        let next = match row.kind {
            Kind::Flag => Value::Bool(row.value != Value::Bool(true)),
            Kind::Choice(words) => {
                let now = row.value.as_str().unwrap_or_default();
                let at = words.iter().position(|word| *word == now);
                let next = at.map_or(0, |at| (at + 1) % words.len().max(1));
                match words.get(next) {
                    Some(word) => Value::String((*word).to_owned()),
                    None => return,
                }
            }
            _ if key == "ui.theme" => {
                self.settings_aside();
                return self.theme_dialog();
            }
            _ => {
                let mut intro =
                    vec![row.doc.to_owned(), format!("default: {}", shown(&row.default))];
                intro.extend(wanted(key, row.kind));
                if let (FOOTER, Some(items)) = (key, &self.settings.footer) {
                    let items: Vec<&str> = items.iter().map(|item| item.as_str()).collect();
                    intro.push(format!("currently shown: {}", items.join(", ")));
                }
                self.settings_aside();
                let now = if row.value.is_null() { String::new() } else { shown(&row.value) };
                let dialog = FieldDialog::new(row.label, intro, Field::with(now));
                return self.open(Overlay::field(Purpose::SettingValue(key.to_owned()), dialog));
            }
        };
        self.keep_setting_in(self.scope, key, Some(next));
    }

    /// Handles a typed value.
    pub(super) fn setting_typed(&mut self, key: &str, text: &str) {
        let Some(row) = self.setting_row(key) else { return };
        match value(row.kind, text).and_then(|value| check(key, value)) {
            Ok(value) => {
                self.settings_again();
                self.keep_setting_in(self.scope, key, value);
            }
            Err(why) => {
                if let Some(field) = self.dialogs.field_mut() {
                    field.problem = Some(why);
                }
            }
        }
    }

    pub(super) fn reset_setting(&mut self, key: &str) {
        self.keep_setting_in(self.scope, key, None);
    }
}

/// Returns the setting categories in order.
fn tabs(rows: &[SettingRow]) -> Vec<&'static str> {
    let mut tabs: Vec<&'static str> = rows.iter().map(|row| row.category).collect();
    tabs.dedup();
    tabs
}

/// Formats a value as one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => clean(text),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns the input format of a setting, if it needs explanation.
fn wanted(key: &str, kind: Kind) -> Option<String> {
    match kind {
        _ if key == FOOTER => {
            Some(format!("names in order, separated by commas: {}", FooterItem::words()))
        }
        Kind::Texts | Kind::List => Some("several values, separated by commas".to_owned()),
        Kind::TextOrTexts => Some("one value, or several separated by commas".to_owned()),
        Kind::Object => Some("a JSON object".to_owned()),
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
        if let Some(word) = FooterItem::unknown(&words).first() {
            return Err(format!("unknown status line item `{}`", clean(word)));
        }
    }
    Ok(value)
}

/// Parses a typed value according to the setting's kind. Empty input removes the setting.
fn value(kind: Kind, text: &str) -> Result<Option<Value>, String> {
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
        Kind::Number => number().ok_or_else(|| format!("`{text}` is not a number"))?,
        Kind::Texts | Kind::List => words(),
        Kind::TextOrTexts if text.contains(',') => words(),
        Kind::FlagOr(_) if text == "true" || text == "false" => Value::Bool(text == "true"),
        Kind::Flag => match text {
            "true" | "false" => Value::Bool(text == "true"),
            _ => return Err("must be `true` or `false`".to_owned()),
        },
        Kind::Object => {
            serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))?
        }
        _ => Value::String(text.to_owned()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_what_the_setting_holds() {
        assert_eq!(value(Kind::Number, " 12 "), Ok(Some(Value::from(12))));
        assert_eq!(value(Kind::Number, "0.5"), Ok(Some(Value::from(0.5))));
        assert!(value(Kind::Number, "many").is_err());
        assert_eq!(value(Kind::Texts, "a, b,"), Ok(Some(serde_json::json!(["a", "b"]))));
        let listed = value(Kind::Texts, "mode, moon").expect("a list");
        assert!(check(FOOTER, listed.clone()).is_err_and(|why| why.contains("`moon`")));
        assert_eq!(check("context.fileName", listed.clone()), Ok(listed));
        assert_eq!(value(Kind::Text, ""), Ok(None));
        assert_eq!(value(Kind::FlagOr(&["docker"]), "true"), Ok(Some(Value::Bool(true))));
    }
}
