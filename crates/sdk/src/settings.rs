//! Settings for the settings dialog and the user interface.

use std::path::PathBuf;

use parallax_config::Config;
use parallax_extensions::ExtensionManager;
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

use crate::session_config::failure;

pub use parallax_config::{
    FooterItem, InlineImages, Layer, LoadingPhrases, NotificationMethod, SettingRow, SettingScope,
    SettingType, TitleMode, UiSettings, ValueOrigin,
};

/// Shows and changes settings.
pub struct SettingsManager<'a> {
    pub(crate) config: &'a Config,
    pub(crate) extensions: ExtensionManager<'a>,
}

impl SettingsManager<'_> {
    /// Returns the settings of the dialog, by group.
    pub fn rows(&self) -> Vec<SettingRow> {
        parallax_config::setting_rows(&self.config.settings)
    }

    /// Returns whether DevTools starts with sessions of the terminal (`general.devtools`).
    pub fn starts_devtools(&self) -> bool {
        self.config.settings.flag("general.devtools")
    }

    /// Returns the user interface settings. Blocking: reads extensions.
    pub fn ui(&self) -> UiSettings {
        let mut ui = UiSettings::from_settings(&self.config.settings);
        for (name, theme) in self.extensions.extensions().themes() {
            ui.custom_themes.entry(name).or_insert(theme);
        }
        ui
    }

    /// Writes a setting to a Parallax settings file, or removes it with `None`. It applies to
    /// sessions prepared afterwards. Returns the file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the value has the wrong type, a project must not set it, or the file
    /// cannot be read or written.
    pub fn set(
        &self,
        scope: SettingScope,
        key: &str,
        value: Option<&Value>,
    ) -> Result<PathBuf, Failure> {
        parallax_config::set_setting(self.config, scope, key, value)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }
}
