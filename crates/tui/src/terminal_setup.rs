//! `/terminal-setup`: configures Shift+Enter in the terminals of editors.

use std::path::PathBuf;

use parallax_protocol::event::{Failure, FailureKind};

use parallax_config::EditorKeys;
use parallax_sdk::SessionConfig;

/// An editor with an integrated terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalEditor {
    /// VS Code.
    VsCode,
    /// Cursor.
    Cursor,
    /// Windsurf.
    Windsurf,
}

impl TerminalEditor {
    /// Returns the display name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::VsCode => "VS Code",
            Self::Cursor => "Cursor",
            Self::Windsurf => "Windsurf",
        }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::VsCode => "Code",
            Self::Cursor => "Cursor",
            Self::Windsurf => "Windsurf",
        }
    }
}

/// Returns the editor whose terminal this program runs in, if it is a known one.
pub(crate) fn terminal_editor(launch: &SessionConfig) -> Option<TerminalEditor> {
    let variable = |name: &str| launch.config().environment.process_variable(name);
    let helper = variable("VSCODE_GIT_ASKPASS_MAIN").unwrap_or_default().to_lowercase();
    if variable("CURSOR_TRACE_ID").is_some() || helper.contains("cursor") {
        return Some(TerminalEditor::Cursor);
    }
    if helper.contains("windsurf") {
        return Some(TerminalEditor::Windsurf);
    }
    (variable("TERM_PROGRAM") == Some("vscode")).then_some(TerminalEditor::VsCode)
}

/// Returns the editor's key bindings file.
///
/// # Errors
/// Returns an error if the home directory is unknown.
fn editor_keys_file(launch: &SessionConfig, editor: TerminalEditor) -> Result<PathBuf, Failure> {
    let variable = |name: &str| {
        let path = launch.config().environment.process_variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let base = if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Application Support"))
    } else if cfg!(windows) {
        variable("APPDATA")
    } else {
        variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))
    };
    let none = || Failure::new(FailureKind::Config, "the home directory is unknown".to_owned());
    Ok(base.ok_or_else(none)?.join(editor.directory()).join("User/keybindings.json"))
}

/// Adds key bindings for Shift+Enter and Ctrl+Enter to the editor's file, after backing it up.
/// Returns the file. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be parsed or written.
pub(crate) fn set_up(
    launch: &SessionConfig,
    editor: TerminalEditor,
) -> Result<(PathBuf, EditorKeys), Failure> {
    let file = editor_keys_file(launch, editor)?;
    let done = parallax_config::add_editor_keys(&file);
    done.map(|keys| (file, keys))
        .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_launch::TestHome;

    #[test]
    fn key_bindings_are_added_in_the_terminal_of_an_editor() {
        let home = TestHome::new();
        let inside = home.launch(&[("TERM_PROGRAM", "vscode"), ("CURSOR_TRACE_ID", "1")]);
        assert_eq!(terminal_editor(&inside), Some(TerminalEditor::Cursor));
        assert_eq!(terminal_editor(&home.launch(&[])), None);
        let (file, done) = set_up(&inside, TerminalEditor::Cursor).expect("set up");
        assert!(file.starts_with(home.path()) && file.is_file(), "{}", file.display());
        assert!(matches!(done, EditorKeys::Added { backup: None, .. }));
    }
}
