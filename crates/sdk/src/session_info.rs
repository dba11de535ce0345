//! Facts about a session for display before it opens, and the shell history of the project.

use std::path::{Path, PathBuf};

use parallax_store::SessionDirs;

use crate::about;
use crate::credential::{Credential, method_name};
use crate::session_config::SessionConfig;
use crate::system;

/// Maximum number of shell lines in the history.
const SHELL_LINES: usize = 100;
/// Maximum bytes of `keybindings.json`.
const MAX_KEYS_BYTES: u64 = 1024 * 1024;

/// What an interface shows about a session.
pub struct SessionInfo<'a> {
    pub(crate) launch: &'a SessionConfig,
}

impl SessionInfo<'_> {
    /// Returns whether the user's text replaces the whole built-in system prompt. Blocking.
    pub fn has_own_prompt(&self) -> bool {
        system::prompt_files(self.launch).is_ok_and(|files| files.replacement.is_some())
    }

    /// Returns the last two components of the working directory.
    pub fn short_directory(&self) -> String {
        let directory = &self.launch.options.directory;
        let parts: Vec<_> = directory
            .components()
            .filter(|part| matches!(part, std::path::Component::Normal(_)))
            .map(|part| part.as_os_str().to_string_lossy())
            .collect();
        match parts.as_slice() {
            [.., parent, name] if parts.len() > 2 => format!("{parent}/{name}"),
            _ => directory.to_string_lossy().into_owned(),
        }
    }

    /// Returns the name of the working directory, or the value of `CLI_TITLE`.
    pub fn folder_name(&self) -> String {
        let title = self.launch.config.environment.get("CLI_TITLE").map(str::to_owned);
        let name = || {
            self.launch
                .options
                .directory
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        title.filter(|text| !text.trim().is_empty()).or_else(name).unwrap_or_else(|| "/".to_owned())
    }

    /// Returns the context usage (0 to 1) at which compaction starts.
    pub fn compression_threshold(&self) -> f64 {
        self.launch.config.settings.number("model.compressionThreshold").unwrap_or(0.5)
    }

    /// Returns a short description of the command sandbox, and whether there is one. Blocking:
    /// probes the kernel.
    pub fn short_sandbox(&self) -> (String, bool) {
        match about::describe_sandbox(self.launch).as_str() {
            "off" => ("no sandbox".to_owned(), false),
            "none on this machine" => ("no sandbox here".to_owned(), false),
            "namespaces" => ("sandbox".to_owned(), true),
            other => (format!("sandbox: {other}"), true),
        }
    }

    /// Returns a short description of the authentication method. Blocking.
    pub fn auth_name(&self) -> String {
        let manager = self.launch.provider_manager();
        match manager.credential() {
            Credential::Found { method, .. } => method_name(method).to_owned(),
            Credential::NotNeeded if manager.is_scripted => "scripted".to_owned(),
            Credential::NotNeeded => "no key needed".to_owned(),
            Credential::Missing { .. } => "no key".to_owned(),
        }
    }

    /// Returns the contents of `keybindings.json` from `~/.parallax`, or else from `~/.gemini`;
    /// empty if there is none. Blocking.
    pub fn keybindings(&self) -> String {
        let dirs = &self.launch.config.dirs;
        let read = |directory: &Path| {
            let path = directory.join("keybindings.json");
            let small =
                std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_KEYS_BYTES);
            small.then(|| std::fs::read_to_string(path).ok()).flatten()
        };
        let mut text = read(&dirs.parallax).or_else(|| read(&dirs.gemini)).unwrap_or_default();
        // Some editors write a byte order mark.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        text
    }
}

/// The shell lines that the user ran in a project.
pub struct ShellHistory {
    pub(crate) dirs: SessionDirs,
    pub(crate) directory: PathBuf,
}

impl ShellHistory {
    /// Returns the lines, oldest first. Blocking.
    pub fn lines(&self) -> Vec<String> {
        parallax_store::shell_history(&self.dirs, &self.directory, SHELL_LINES)
    }

    /// Saves a line. A failure is only logged. Blocking.
    pub fn remember(&self, line: &str) {
        let saved = parallax_store::remember_shell(&self.dirs, &self.directory, line);
        if let Err(error) = saved {
            tracing::warn!(%error, "a shell command could not be saved");
        }
    }
}
