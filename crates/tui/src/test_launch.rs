//! A temporary home directory for tests that need a prepared launch.

use std::ffi::OsString;
use std::path::Path;

use parallax_sdk::{LaunchOptions, SessionConfig};

pub(crate) struct TestHome {
    folder: tempfile::TempDir,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect("written");
    }

    /// Prepares the configuration of a session in a trusted directory with these variables.
    pub(crate) fn launch(&self, variables: &[(&str, &str)]) -> SessionConfig {
        let project = self.path().join("project");
        std::fs::create_dir_all(&project).expect("project");
        let none = self.path().join("none.json");
        let mut all: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.path().into()),
            // Ignore the system settings of the machine that runs the tests.
            ("GEMINI_CLI_SYSTEM_SETTINGS_PATH".into(), none.into()),
        ];
        all.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        SessionConfig::prepare(LaunchOptions {
            directory: project,
            variables: all,
            skip_trust: true,
            version: "0.0.0",
            ..LaunchOptions::default()
        })
        .expect("prepared")
    }
}
