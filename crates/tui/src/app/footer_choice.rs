//! `/footer`: selects and orders the status line items.

use parallax_sdk::settings::FooterItem;
use serde_json::Value;

use super::App;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::components::settings_view::{FooterChange, footer_moved};
use crate::dialog::{ListDialog, ListItem};

impl App {
    /// Opens the dialog: shown items in their order, then hidden ones.
    pub(super) fn footer_dialog(&mut self) {
        let list = ListDialog::new("Status line", self.footer_items())
            .hint("enter show or hide · ←→ move · esc close");
        self.open(Overlay::list(Purpose::Footer, list));
    }

    fn footer_items(&self) -> Vec<ListItem> {
        let width = self.window.width();
        self.settings_view.footer_items(&self.settings, &self.facts, width, &self.theme)
    }

    /// Handles Enter on a row.
    pub(super) fn footer_chosen(&mut self, id: &str) {
        match self.settings_view.footer_chosen(id, &self.settings) {
            Some(FooterChange::Labels(on)) => {
                self.settings.footer_labels = on;
                self.keep_setting("ui.footer.showLabels", Some(Value::Bool(on)));
            }
            Some(FooterChange::Default) => self.keep_setting("ui.footer.items", None),
            Some(FooterChange::Items(shown)) => self.keep_footer(shown),
            None => return,
        }
        self.refresh_footer();
    }

    /// Handles an arrow key on a row: moves the item left or right in the status line.
    pub(super) fn footer_moved(&mut self, id: &str, left: bool) {
        let shown = self.settings.footer.as_deref().unwrap_or_default();
        if let Some(shown) = footer_moved(shown, id, left) {
            self.keep_footer(shown);
            self.refresh_footer();
        }
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
        let items = self.footer_items();
        if let Some(list) = self.dialogs.list_for(&Purpose::Footer) {
            list.replace(items);
        }
    }
}
