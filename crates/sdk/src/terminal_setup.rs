//! `/terminal-setup`: configures Shift+Enter in the terminals of editors.

use std::path::PathBuf;

use parallax_protocol::event::{Failure, FailureKind};

use crate::launch::{Launch, failure};

pub use parallax_config::EditorKeys;

/// An editor with an integrated terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalEditor {
    /// VS Code.
    VsCode,
    /// Cursor.
    Cursor,
    /// Windsurf.
    Windsurf,
}

impl TerminalEditor {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::VsCode => "VS Code",
            Self::Cursor => "Cursor",
            Self::Windsurf => "Windsurf",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::VsCode => "Code",
            Self::Cursor => "Cursor",
            Self::Windsurf => "Windsurf",
        }
    }
}

impl Launch {
    /// Returns the editor whose terminal this program runs in, if it is a known one.
    pub fn terminal_editor(&self) -> Option<TerminalEditor> {
        let variable = |name: &str| self.config.environment.of_process(name);
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
    /// Returns an error if there is no home directory.
    pub fn editor_keys_file(&self, editor: TerminalEditor) -> Result<PathBuf, Failure> {
        let variable = |name: &str| {
            let path = self.config.environment.of_process(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let base = if cfg!(target_os = "macos") {
            variable("HOME").map(|home| home.join("Library/Application Support"))
        } else if cfg!(windows) {
            variable("APPDATA")
        } else {
            variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))
        };
        let none = || failure(FailureKind::Config, "there is no home directory".to_owned());
        Ok(base.ok_or_else(none)?.join(editor.folder()).join("User/keybindings.json"))
    }

    /// Adds key bindings for Shift+Enter and Ctrl+Enter to the editor's file, after backing it up.
    /// Returns the file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be parsed or written.
    pub fn set_up_terminal(
        &self,
        editor: TerminalEditor,
    ) -> Result<(PathBuf, EditorKeys), Failure> {
        let file = self.editor_keys_file(editor)?;
        let done = parallax_config::add_editor_keys(&file);
        done.map(|keys| (file, keys))
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }
}
