//! `/footer`: what the footer shows, and in which order.

use parallax_screen::Line;
use parallax_sdk::settings::FooterItem;
use serde_json::Value;

use super::App;
use super::overlay::{Body, Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::footer;

/// Ids of rows that are not items.
const LABELS: &str = "labels";
const USUAL: &str = "usual";

impl App {
    /// The dialog: what is shown in its order, then the rest.
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

    /// What an item looks like now.
    fn footer_sample(&self, item: FooterItem) -> Vec<Line> {
        let rows = footer::rows(&self.facts, &[item], false, self.width(), &self.theme);
        match rows.into_iter().next() {
            Some(row) => vec![row],
            None => vec![Line::styled("nothing to show at the moment", self.theme.secondary)],
        }
    }

    /// Enter on a row.
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
                // One that is hidden keeps its place for when it is shown again.
                self.footer_order = self.footer_order();
                let order = self.footer_order.iter().copied();
                let is_shown = |other: &FooterItem| shown.contains(other) != (*other == item);
                let shown = order.filter(is_shown).collect();
                self.keep_footer(shown);
            }
        }
        self.refresh_footer();
    }

    /// All items in the order of the dialog: those that are shown in their order, hidden
    /// ones where they were.
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

    /// An arrow on a row: further left in the footer, or further right.
    pub(super) fn footer_moved(&mut self, id: &str, left: bool) {
        let mut shown = self.settings.footer.clone().unwrap_or_default();
        let Some(at) = shown.iter().position(|item| item.as_str() == id) else { return };
        let to = if left { at.checked_sub(1) } else { Some(at + 1) };
        let Some(to) = to.filter(|to| *to < shown.len()) else { return };
        shown.swap(at, to);
        self.keep_footer(shown);
        self.refresh_footer();
    }

    /// Shows it at once and writes it down.
    fn keep_footer(&mut self, shown: Vec<FooterItem>) {
        let words = shown.iter().map(|item| Value::from(item.as_str())).collect();
        if self.settings.footer.replace(shown).is_none() {
            self.keep_setting("ui.hideFooter", Some(Value::Bool(false)));
        }
        self.keep_setting("ui.footer.items", Some(Value::Array(words)));
    }

    /// The dialog shows what holds now.
    pub(super) fn refresh_footer(&mut self) {
        if !matches!(&self.overlay, Some(Overlay { purpose: Purpose::Footer, .. })) {
            return;
        }
        let items = self.footer_items();
        if let Some(Overlay { body: Body::List(list), .. }) = &mut self.overlay {
            list.replace(items);
        }
    }
}
