//! Facts about a launch for display, and the shell history of the project.

use std::path::{Path, PathBuf};

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;

use crate::about;
use crate::credential::{Credential, method_name};
use crate::launch::{Launch, failure};
use crate::options::LaunchOptions;
use crate::system;

/// Maximum number of shell lines in the history.
const SHELL_LINES: usize = 100;
/// Maximum bytes of `keybindings.json`.
const LARGEST_KEYS: u64 = 1024 * 1024;

impl Launch {
    /// Returns whether a text of the user replaces the whole built-in system prompt. Blocking.
    pub fn has_own_prompt(&self) -> bool {
        system::prompt_files(self).is_ok_and(|files| files.whole.is_some())
    }

    /// Returns whether the directory is trusted.
    pub fn is_trusted(&self) -> bool {
        self.config.trust.trusted
    }

    /// Returns whether a session of the project is stored on disk and can be resumed. A session
    /// without a prompt is not.
    pub fn keeps_session(&self, id: &SessionId) -> bool {
        self.homes().journal(&self.options.directory, id).is_file()
    }

    /// Returns the last two components of the working directory.
    pub fn short_directory(&self) -> String {
        let directory = &self.options.directory;
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
        let title = self.config.environment.get("CLI_TITLE").map(str::to_owned);
        let name =
            || self.options.directory.file_name().map(|name| name.to_string_lossy().into_owned());
        title.filter(|text| !text.trim().is_empty()).or_else(name).unwrap_or_else(|| "/".to_owned())
    }

    /// Returns the context usage (0 to 1) at which compaction starts.
    pub fn compression_threshold(&self) -> f64 {
        self.config.settings.number("model.compressionThreshold").unwrap_or(0.5)
    }

    /// Returns a short description of the command sandbox, and whether there is one. Blocking:
    /// probes the kernel.
    pub fn sandbox_short(&self) -> (String, bool) {
        match about::sandbox_words(self).as_str() {
            "off" => ("no sandbox".to_owned(), false),
            "none on this machine" => ("no sandbox here".to_owned(), false),
            "namespaces" => ("sandbox".to_owned(), true),
            other => (format!("sandbox: {other}"), true),
        }
    }

    /// Returns a short description of the authentication method. Blocking.
    pub fn auth_name(&self) -> String {
        match self.provider_manager().credential() {
            Credential::Found { method, .. } => method_name(method).to_owned(),
            Credential::NotNeeded => "scripted".to_owned(),
            Credential::Missing { .. } => "no key".to_owned(),
        }
    }

    /// Returns the contents of `keybindings.json` from `~/.parallax`, or else from `~/.gemini`;
    /// empty if there is none. Blocking.
    pub fn keybindings(&self) -> String {
        let homes = &self.config.homes;
        let read = |folder: &Path| {
            let path = folder.join("keybindings.json");
            let small = std::fs::metadata(&path).is_ok_and(|facts| facts.len() <= LARGEST_KEYS);
            small.then(|| std::fs::read_to_string(path).ok()).flatten()
        };
        let mut text = read(&homes.parallax).or_else(|| read(&homes.gemini)).unwrap_or_default();
        // Some editors write a byte order mark.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        text
    }

    /// Prepares a launch for another session of the same process. Settings are read again.
    /// Blocking.
    ///
    /// # Errors
    /// Returns the errors of [`Launch::prepare`], except for an untrusted directory.
    pub fn reopened(&self, options: LaunchOptions) -> Result<Self, Failure> {
        let config = Self::load(&options)?;
        Self::of(options, config)
    }

    /// Checks a directory that a resumed session worked in. Blocking.
    ///
    /// # Errors
    /// Returns an error if it is not a directory or not trusted.
    pub(crate) fn folder_to_add(&self, typed: &str) -> Result<PathBuf, Failure> {
        let real = self.real_folder(typed)?;
        if !self.trust_of(&real)?.trusted {
            let why = format!(
                "`{0}` is not trusted; run `/permissions trust {0}` to trust it",
                real.display()
            );
            return Err(failure(FailureKind::Input, why));
        }
        Ok(real)
    }

    /// Resolves a typed directory (with `~` or a relative path) to add to the workspace, and
    /// returns whether it is trusted. Trust given to the session's directory for one run does not
    /// apply to others. Blocking.
    ///
    /// # Errors
    /// Returns an error if it is not an accessible directory.
    pub fn folder_and_trust(&self, typed: &str) -> Result<(PathBuf, bool), Failure> {
        let real = self.real_folder(typed)?;
        let own = std::fs::canonicalize(&self.options.directory).unwrap_or_default();
        let trust = match real.starts_with(own) {
            true => self.trust_of(&real)?,
            false => self.trust_of_other(&real)?,
        };
        Ok((real, trust.trusted))
    }

    fn real_folder(&self, typed: &str) -> Result<PathBuf, Failure> {
        let path = self.options.directory.join(self.config.expand_home(Path::new(typed)));
        let told = |why: String| failure(FailureKind::Input, why);
        let real = path
            .canonicalize()
            .map_err(|error| told(format!("failed to add `{}`: {error}", path.display())))?;
        match real.is_dir() {
            true => Ok(real),
            false => Err(told(format!("`{}` is not a directory", real.display()))),
        }
    }

    /// Accepts the project's current rules. Blocking.
    ///
    /// # Errors
    /// Returns an error if that cannot be saved.
    pub fn accept_policy_update(&self) -> Result<(), Failure> {
        let accepted = self.policy_sources().accept_project_rules();
        accepted.map(drop).map_err(|why| failure(FailureKind::Config, why))
    }

    /// Returns the shell lines that the user ran in the project, oldest first. Blocking.
    pub fn shell_history(&self) -> Vec<String> {
        parallax_store::shell_history(&self.homes(), &self.options.directory, SHELL_LINES)
    }

    /// Saves a shell line. A failure is only logged. Blocking.
    pub fn remember_shell(&self, line: &str) {
        let kept = parallax_store::remember_shell(&self.homes(), &self.options.directory, line);
        if let Err(error) = kept {
            tracing::warn!(%error, "a shell command could not be saved");
        }
    }
}
