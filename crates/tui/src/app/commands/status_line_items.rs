//! `/footer`: selects and orders the status line items.

use parallax_sdk::settings::FooterItem;
use serde_json::Value;

use crate::app::App;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::components::settings_view::{FooterChange, move_footer_item};
use crate::dialog::{ListDialog, ListItem};

/// Opens the dialog: shown items in their order, then hidden ones.
pub(crate) fn open(app: &mut App) {
    let list =
        ListDialog::new("Status line", items(app)).hint("enter show or hide · ←→ move · esc close");
    app.open(Overlay::list(DialogPurpose::Footer, list));
}

fn items(app: &App) -> Vec<ListItem> {
    let width = app.window.width();
    app.settings_view.footer_items(&app.settings, &app.status_data, width, &app.theme)
}

/// Handles Enter on a row.
pub(crate) fn handle_choice(app: &mut App, id: &str) {
    match app.settings_view.footer_chosen(id, &app.settings) {
        Some(FooterChange::Labels(on)) => {
            app.settings.footer_labels = on;
            app.save_setting("ui.footer.showLabels", Some(Value::Bool(on)));
        }
        Some(FooterChange::Default) => app.save_setting("ui.footer.items", None),
        Some(FooterChange::Items(shown)) => save(app, shown),
        None => return,
    }
    refresh(app);
}

/// Handles an arrow key on a row: moves the item left or right in the status line.
pub(crate) fn move_item(app: &mut App, id: &str, left: bool) {
    let items = app.settings.footer.as_deref().unwrap_or_default();
    if let Some(moved) = move_footer_item(items, id, left) {
        save(app, moved);
        refresh(app);
    }
}

/// Applies the change and saves it.
fn save(app: &mut App, items: Vec<FooterItem>) {
    let words = items.iter().map(|item| Value::from(item.as_str())).collect();
    if app.settings.footer.replace(items).is_none() {
        app.save_setting("ui.hideFooter", Some(Value::Bool(false)));
    }
    app.save_setting("ui.footer.items", Some(Value::Array(words)));
}

/// Refreshes the items of the dialog.
pub(crate) fn refresh(app: &mut App) {
    let items = items(app);
    if let Some(list) = app.dialogs.list_for(&DialogPurpose::Footer) {
        list.replace(items);
    }
}
