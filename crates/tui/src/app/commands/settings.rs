//! The settings dialog: search, toggle, choose, and type values.

use parallax_sdk::settings::SettingRow;

use crate::app::App;
use crate::app::commands::choices;
use crate::components::dialog_stack::DialogPurpose;
use crate::components::settings_view::{SettingStep, setting_chosen, setting_items, typed_value};

pub(crate) fn open(app: &mut App) {
    app.settings_view.reset();
    reopen(app);
}

/// Tab: switches the settings scope.
pub(crate) fn switch_scope(app: &mut App) {
    let Some(purpose) = app.dialogs.purpose().cloned() else { return };
    if let Some(list) = app.dialogs.list_mut() {
        app.settings_view.switch_scope(&purpose, list);
    }
}

/// Reopens the settings list with its previous cursor position and search.
pub(crate) fn reopen(app: &mut App) {
    let Some(launch) = &app.launch else { return app.report_not_ready() };
    let overlay = app.settings_view.list(&launch.settings_manager().rows(), &app.theme);
    app.open(overlay);
}

/// Refreshes the values in the dialog.
pub(crate) fn refresh(app: &mut App) {
    let Some(launch) = &app.launch else { return };
    if let Some(list) = app.dialogs.list_for(&DialogPurpose::Settings) {
        list.replace(setting_items(&launch.settings_manager().rows(), &app.theme));
    }
}

fn row(app: &App, key: &str) -> Option<SettingRow> {
    app.launch.as_ref()?.settings_manager().rows().into_iter().find(|row| row.key == key)
}

/// Handles Enter on a setting: toggles a flag, selects the next choice, or opens a field.
pub(crate) fn handle_choice(app: &mut App, key: &str) {
    let Some(row) = row(app, key) else { return };
    match setting_chosen(&row, app.settings.footer.as_deref()) {
        SettingStep::Save(value) => {
            app.save_setting_in(app.settings_view.scope(), key, Some(value));
        }
        SettingStep::Themes => {
            app.settings_view.park(app.dialogs.take());
            choices::open_theme_dialog(app);
        }
        SettingStep::Show(overlay) => {
            app.settings_view.park(app.dialogs.take());
            app.open(overlay);
        }
        SettingStep::Nothing => {}
    }
}

/// Handles a typed value.
pub(crate) fn handle_typed(app: &mut App, key: &str, text: &str) {
    let Some(row) = row(app, key) else { return };
    match typed_value(&row, text) {
        Ok(value) => {
            reopen(app);
            app.save_setting_in(app.settings_view.scope(), key, value);
        }
        Err(reason) => {
            if let Some(field) = app.dialogs.field_mut() {
                field.problem = Some(reason);
            }
        }
    }
}

pub(crate) fn reset(app: &mut App, key: &str) {
    app.save_setting_in(app.settings_view.scope(), key, None);
}
