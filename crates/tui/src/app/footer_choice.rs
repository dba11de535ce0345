//! `/footer`: selects and orders the footer items.

use parallax_screen::Line;
use parallax_sdk::settings::FooterItem;
use serde_json::Value;

use super::App;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::footer;

/// Row ids that are not items.
const LABELS: &str = "labels";
const USUAL: &str = "usual";

impl App {
    /// Opens the dialog: shown items in their order, then hidden ones.
    pub(super) fn footer_dialog(&mut self) {
        let list = ListDialog::new("Status line", self.footer_items())
            .hint("enter show or hide · ←→ move · esc close");
        self.open(Overlay::list(Purpose::Footer, list));
    }

    fn footer_items(&self) -> Vec<ListItem> {
        let shown = self.settings.footer.clone().unwrap_or_default();
        let row = |item: &FooterItem, sign: &str| {
            let label = format!("{sign} {}", item.as_str());
            ListItem::new(item.as_str(), label, item.meaning()).previewed(self.footer_sample(*item))
        };
        let sign = |item: &FooterItem| if shown.contains(item) { "[x]" } else { "[ ]" };
        let order = self.footer_order();
        let mut rows: Vec<ListItem> = order.iter().map(|item| row(item, sign(item))).collect();
        let sign = if self.settings.footer_labels { "[x]" } else { "[ ]" };
        rows.push(ListItem::new(
            LABELS,
            format!("{sign} labels"),
            "a row with labels above the status line",
        ));
        rows.push(ListItem::new(
            USUAL,
            "    default",
            "removes `ui.footer.items` from your settings",
        ));
        rows
    }

    /// Returns a sample of an item.
    fn footer_sample(&self, item: FooterItem) -> Vec<Line> {
        let rows = footer::rows(&self.facts, &[item], false, self.width(), &self.theme);
        match rows.into_iter().next() {
            Some(row) => vec![row],
            None => vec![Line::styled("nothing to show at the moment", self.theme.secondary)],
        }
    }

    /// Handles Enter on a row.
    pub(super) fn footer_chosen(&mut self, id: &str) {
        match id {
            LABELS => {
                let on = !self.settings.footer_labels;
                self.settings.footer_labels = on;
                self.keep_setting("ui.footer.showLabels", Some(Value::Bool(on)));
            }
            USUAL => self.keep_setting("ui.footer.items", None),
            id => {
                let Some(item) = FooterItem::parse(id) else { return };
                let shown = self.settings.footer.clone().unwrap_or_default();
                // A hidden item keeps its position for when it is shown again.
                self.footer_order = self.footer_order();
                let order = self.footer_order.iter().copied();
                let is_shown = |other: &FooterItem| shown.contains(other) != (*other == item);
                let shown = order.filter(is_shown).collect();
                self.keep_footer(shown);
            }
        }
        self.refresh_footer();
    }

    /// Returns all items in the order of the dialog: shown items in their order, hidden ones at
    /// their previous positions.
    fn footer_order(&self) -> Vec<FooterItem> {
        let shown = self.settings.footer.clone().unwrap_or_default();
        let mut order = self.footer_order.clone();
        if order.is_empty() {
            order.clone_from(&shown);
            order.extend(FooterItem::ALL.into_iter().filter(|item| !shown.contains(item)));
        }
        let mut next = shown.iter();
        let is_shown = |item: &&mut FooterItem| shown.contains(item);
        for slot in order.iter_mut().filter(is_shown) {
            *slot = next.next().copied().unwrap_or(*slot);
        }
        order
    }

    /// Handles an arrow key on a row: moves the item left or right in the footer.
    pub(super) fn footer_moved(&mut self, id: &str, left: bool) {
        let mut shown = self.settings.footer.clone().unwrap_or_default();
        let Some(at) = shown.iter().position(|item| item.as_str() == id) else { return };
        let to = if left { at.checked_sub(1) } else { Some(at + 1) };
        let Some(to) = to.filter(|to| *to < shown.len()) else { return };
        shown.swap(at, to);
        self.keep_footer(shown);
        self.refresh_footer();
    }

    /// Applies the change and saves it.
    fn keep_footer(&mut self, shown: Vec<FooterItem>) {
        let words = shown.iter().map(|item| Value::from(item.as_str())).collect();
        if self.settings.footer.replace(shown).is_none() {
            self.keep_setting("ui.hideFooter", Some(Value::Bool(false)));
        }
        self.keep_setting("ui.footer.items", Some(Value::Array(words)));
    }

    /// Refreshes the items of the dialog.
    pub(super) fn refresh_footer(&mut self) {
        if self.dialogs.purpose() != Some(&Purpose::Footer) {
            return;
        }
        let items = self.footer_items();
        if let Some(list) = self.dialogs.list_mut() {
            list.replace(items);
        }
    }
}
