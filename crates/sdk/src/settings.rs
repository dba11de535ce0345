//! Settings as a dialog shows and changes them, and as the screen uses them.

use std::path::PathBuf;

use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

use crate::launch::{Launch, failure};

pub use parallax_config::{
    FooterItem, InlineImages, Kind, Layer, LoadingPhrases, NotificationMethod, Origin, SettingRow,
    SettingScope, TitleMode, UiSettings,
};

impl Launch {
    /// The settings that a dialog offers, group by group.
    pub fn setting_rows(&self) -> Vec<SettingRow> {
        parallax_config::setting_rows(&self.config.settings)
    }

    /// What the settings say about the screen.
    pub fn ui(&self) -> UiSettings {
        let mut ui = UiSettings::of(&self.config.settings);
        for (name, theme) in self.extensions().themes() {
            ui.custom_themes.entry(name).or_insert(theme);
        }
        ui
    }

    /// Writes a setting into a file of ours; `None` takes it out. It counts in
    /// what is prepared from then on. Gives the file. Blocking.
    ///
    /// # Errors
    /// A value of the wrong type, a project that must not say this, a file that
    /// cannot be used or written.
    pub fn set_setting(
        &self,
        scope: SettingScope,
        key: &str,
        value: Option<&Value>,
    ) -> Result<PathBuf, Failure> {
        parallax_config::set_setting(&self.config, scope, key, value)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// The same launch with the settings as the files have them now: what does
    /// not need a new session (the screen, dialogs) reads them from it. Blocking.
    ///
    /// # Errors
    /// As [`Launch::prepare`], and never because of trust.
    pub fn reread(&self) -> Result<Self, Failure> {
        Self::of(self.options.clone(), Self::load(&self.options)?)
    }
}
