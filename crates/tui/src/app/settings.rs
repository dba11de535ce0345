//! The settings dialog: search, toggle, choose, and type values.

use parallax_sdk::settings::SettingRow;

use super::App;
use crate::components::dialog_stack::Purpose;
use crate::components::settings_view::{SettingStep, setting_chosen, setting_items, typed_value};

impl App {
    pub(super) fn settings_dialog(&mut self) {
        self.settings_view.reset();
        self.settings_again();
    }

    /// Tab: switches the settings scope.
    pub(super) fn switch_scope(&mut self) {
        let Some(purpose) = self.dialogs.purpose().cloned() else { return };
        if let Some(list) = self.dialogs.list_mut() {
            self.settings_view.switch_scope(&purpose, list);
        }
    }

    /// Reopens the settings list with its previous cursor position and search.
    pub(super) fn settings_again(&mut self) {
        let Some(launch) = &self.launch else { return self.too_early() };
        let overlay = self.settings_view.list(&launch.setting_rows(), &self.theme);
        self.open(overlay);
    }

    /// Refreshes the values in the dialog.
    pub(super) fn refresh_settings(&mut self) {
        let Some(launch) = &self.launch else { return };
        if let Some(list) = self.dialogs.list_for(&Purpose::Settings) {
            list.replace(setting_items(&launch.setting_rows(), &self.theme));
        }
    }

    fn setting_row(&self, key: &str) -> Option<SettingRow> {
        self.launch.as_ref()?.setting_rows().into_iter().find(|row| row.key == key)
    }

    /// Handles Enter on a setting: toggles a flag, selects the next choice, or opens a field.
    pub(super) fn setting_chosen(&mut self, key: &str) {
        let Some(row) = self.setting_row(key) else { return };
        match setting_chosen(&row, self.settings.footer.as_deref()) {
            SettingStep::Save(value) => {
                self.keep_setting_in(self.settings_view.scope(), key, Some(value));
            }
            SettingStep::Themes => {
                self.settings_view.set_aside(self.dialogs.take());
                self.theme_dialog();
            }
            SettingStep::Show(overlay) => {
                self.settings_view.set_aside(self.dialogs.take());
                self.open(overlay);
            }
            SettingStep::Nothing => {}
        }
    }

    /// Handles a typed value.
    pub(super) fn setting_typed(&mut self, key: &str, text: &str) {
        let Some(row) = self.setting_row(key) else { return };
        match typed_value(&row, text) {
            Ok(value) => {
                self.settings_again();
                self.keep_setting_in(self.settings_view.scope(), key, value);
            }
            Err(why) => {
                if let Some(field) = self.dialogs.field_mut() {
                    field.problem = Some(why);
                }
            }
        }
    }

    pub(super) fn reset_setting(&mut self, key: &str) {
        self.keep_setting_in(self.settings_view.scope(), key, None);
    }
}
