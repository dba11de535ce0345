//! The status line printed by a command of the user (`ui.statusLine.command`).

use std::path::PathBuf;
use std::time::Duration;

use parallax_exec::environment::{is_secret, user_command_environment};

use parallax_sdk::SessionConfig;

/// Timeout of the command.
const TIME: Duration = Duration::from_millis(300);
/// Maximum bytes of its output.
const MAX_BYTES: u64 = 16 * 1024;

/// The status line command, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusLineCommand {
    line: String,
    directory: PathBuf,
}

impl StatusLineCommand {
    /// Returns the status line command if the settings configure one.
    pub(crate) fn from_config(launch: &SessionConfig) -> Option<Self> {
        let line = launch.settings_manager().ui().status_line?;
        Some(Self { line, directory: launch.options().directory.clone() })
    }

    /// Runs the command with these facts as JSON on stdin and returns the first line of its output.
    /// Secret variables are not passed to it. Blocking.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started, fails, or takes longer than 300 ms.
    #[cfg(unix)]
    pub(crate) fn run(&self, status: &serde_json::Value) -> Result<String, String> {
        let mut environment = user_command_environment(std::env::vars_os(), "cat");
        environment
            .retain(|(name, value)| !is_secret(&name.to_string_lossy(), &value.to_string_lossy()));
        let input = status.to_string();
        let limits = (MAX_BYTES, TIME);
        let bytes = parallax_exec::user_program::answer(
            &self.line,
            &self.directory,
            &environment,
            input.as_bytes(),
            limits,
        )
        .map_err(|error| {
            format!("`ui.statusLine.command` failed: {error}. Change or remove it in the settings.")
        })?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Status line commands are available on Unix only.
    ///
    /// # Errors
    /// Always returns an error.
    #[cfg(not(unix))]
    pub(crate) fn run(&self, _facts: &serde_json::Value) -> Result<String, String> {
        Err("`ui.statusLine.command` is available on Unix only".to_owned())
    }
}
