//! The connection to the companion extension of an editor.

use std::sync::Arc;
use std::time::Duration;

use parallax_config::Config;
use parallax_protocol::event::{Failure, FailureKind};

use crate::open::OpenSession;
use crate::options::LaunchOptions;
use crate::session_config::failure;

pub use parallax_ide::{
    ClosedDiff, Companion, CompanionSnapshot, CompanionStatus, Diagnosis, DiffDecision,
    DisconnectReason, HostEditor, OpenDiff,
};

/// The companion extension for editors based on VS Code.
const EXTENSION: &str = "google.gemini-cli-vscode-ide-companion";
/// Timeout of installing the extension.
const INSTALL_TIME: Duration = Duration::from_secs(120);

/// Describes the state of the connection in a few lines.
pub fn status_text(snapshot: &CompanionSnapshot) -> String {
    let mut text = match &snapshot.status {
        CompanionStatus::Connecting => "🟡 Connecting…".to_owned(),
        CompanionStatus::Connected => format!("🟢 Connected to {}", snapshot.editor_name()),
        CompanionStatus::Disconnected(reason) => format!("🔴 Disconnected: {reason}"),
    };
    if snapshot.is_connected() {
        if !snapshot.can_diff {
            text.push_str(" (it shows no diffs)");
        }
        text.push_str(match snapshot.files.files.is_empty() {
            true => "\nNo files are open.",
            false => "\nOpen files, most recent first:",
        });
        for file in &snapshot.files.files {
            let active = if file.is_active { " (active)" } else { "" };
            let path = file.path.replace('\n', " ");
            text.push_str(&format!("\n  {path}{active}"));
        }
    }
    without_controls(&text)
}

/// Formats a diagnosis in a few lines.
pub fn diagnosis_text(diagnosis: &Diagnosis) -> String {
    without_controls(&diagnosis.to_string())
}

/// Removes control characters, because names and paths come from other programs.
fn without_controls(text: &str) -> String {
    text.chars().map(|char| if char.is_control() && char != '\n' { ' ' } else { char }).collect()
}

/// Finds, connects, and diagnoses the companion extension of an editor.
#[derive(Clone, Copy)]
pub struct CompanionManager<'a> {
    pub(crate) options: &'a LaunchOptions,
    pub(crate) config: &'a Config,
}

impl CompanionManager<'_> {
    /// Returns whether the connection is enabled (`ide.enabled`).
    pub fn is_enabled(&self) -> bool {
        self.config.settings.flag("ide.enabled")
    }

    /// Starts a companion, which connects in the background if enabled. Must be
    /// called on a tokio runtime.
    pub fn start(&self) -> Companion {
        let options = &self.options;
        // Only variables of the process, because a project could set others.
        let variables = options.variables.clone();
        let enabled = self.is_enabled();
        Companion::start(&options.directory, variables, options.version, enabled)
    }

    /// Returns the editor if the user should be asked once whether to connect: this is the terminal
    /// of a supported editor, and the user has not answered yet.
    pub fn editor_to_suggest(&self) -> Option<HostEditor> {
        let settings = &self.config.settings;
        if self.is_enabled() || settings.flag("ide.hasSeenNudge") {
            return None;
        }
        parallax_ide::detect(&self.options.variables, None)
    }

    /// Diagnoses the connection: all servers that were found, and what to do. Blocking.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be created.
    pub fn diagnose(&self) -> Result<Diagnosis, Failure> {
        let diagnosed =
            parallax_ide::diagnose_blocking(&self.discovery_options(), self.options.version);
        diagnosed.map_err(|error| failure(FailureKind::Internal, error.to_string()))
    }

    /// Installs the companion extension in the editor whose terminal this is. Returns what was
    /// done. Blocking.
    ///
    /// # Errors
    /// Returns an error with instructions if the editor is unknown, has no installer, or fails.
    pub fn install(&self) -> Result<String, Failure> {
        let input = |text: String| failure(FailureKind::Input, text);
        let by_hand = format!("Install the extension `{EXTENSION}` from the editor's marketplace");
        let editor = parallax_ide::host_editor(&self.discovery_options()).ok_or_else(|| {
            input(format!("This is not the integrated terminal of a supported editor. {by_hand}"))
        })?;
        let name = &editor.name;
        let Some(command) = editor.install_command() else {
            return Err(input(format!("Parallax cannot install extensions in {name}. {by_hand}")));
        };
        let arguments = ["--install-extension", EXTENSION, "--force"];
        let directory = self.config.dirs.parallax.as_path();
        let directory = if directory.is_dir() { directory } else { std::path::Path::new("/") };
        let limit = 1024 * 1024;
        let ran =
            parallax_exec::program::output(command, arguments, directory, &[], limit, INSTALL_TIME);
        match ran {
            Some(_) => Ok(format!("Installed the companion extension in {name}")),
            None => {
                let line = format!("{command} {}", arguments.join(" "));
                Err(input(format!("Failed to run `{line}`. {by_hand}")))
            }
        }
    }

    fn discovery_options(&self) -> parallax_ide::DiscoveryOptions {
        parallax_ide::DiscoveryOptions {
            directory: self.options.directory.clone(),
            variables: self.options.variables.clone(),
        }
    }

    /// Returns whether edits are reviewed in an editor, which needs whole files.
    pub(crate) fn shows_diffs(&self) -> bool {
        self.options.interactive && self.options.companion.is_some() && self.is_enabled()
    }

    pub(crate) fn context(&self) -> Option<Arc<parallax_ide::CompanionContext>> {
        let companion = self.options.companion.clone()?;
        Some(Arc::new(parallax_ide::CompanionContext::new(companion)))
    }
}

impl OpenSession {
    /// Returns the connection to the editor.
    pub fn companion(&self) -> Option<&Companion> {
        self.launch.options.companion.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ide_status_names_the_connection_problem() {
        let directory = tempfile::tempdir().expect("a directory");
        let companion = Companion::start(directory.path(), Vec::new(), "1", false);
        let text = status_text(&companion.snapshot());
        assert_eq!(text, "🔴 Disconnected: turned off. Connect with /ide enable");
    }
}
