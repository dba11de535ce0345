//! Small facts of a launch that a face shows, and what a person typed in the
//! project before.

use std::path::{Path, PathBuf};

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;

use crate::credential::{Credential, method_name};
use crate::launch::{Launch, LaunchOptions, failure};

/// Shell lines that are kept in reach.
const SHELL_LINES: usize = 100;
/// `keybindings.json` beyond this is not read.
const LARGEST_KEYS: u64 = 1024 * 1024;

impl Launch {
    /// Whether the folder is trusted.
    pub fn is_trusted(&self) -> bool {
        self.config.trust.trusted
    }

    /// Whether a session of the project is on the disk, so that it can be resumed:
    /// one without a prompt is not.
    pub fn keeps_session(&self, id: &SessionId) -> bool {
        self.homes().journal(&self.options.directory, id).is_file()
    }

    /// The last two parts of the working directory.
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

    /// The last name of the working folder, or what `CLI_TITLE` says instead.
    pub fn folder_name(&self) -> String {
        let title = self.config.environment.get("CLI_TITLE").map(str::to_owned);
        let name =
            || self.options.directory.file_name().map(|name| name.to_string_lossy().into_owned());
        title.filter(|text| !text.trim().is_empty()).or_else(name).unwrap_or_else(|| "/".to_owned())
    }

    /// The share of the window (0 to 1) from which the context is large.
    pub fn compression_threshold(&self) -> f64 {
        self.config.settings.number("model.compressionThreshold").unwrap_or(0.5)
    }

    /// What confines commands, for a narrow place, and whether anything does.
    /// Looks at the kernel. Blocking.
    pub fn sandbox_short(&self) -> (String, bool) {
        match self.sandbox_words().as_str() {
            "off" => ("no sandbox".to_owned(), false),
            "none on this machine" => ("no sandbox here".to_owned(), false),
            "namespaces" => ("sandbox".to_owned(), true),
            other => (format!("sandbox: {other}"), true),
        }
    }

    /// How one is signed in, in a few words. Blocking.
    pub fn auth_name(&self) -> String {
        match self.credential() {
            Credential::Found { method, .. } => method_name(method).to_owned(),
            Credential::NotNeeded => "scripted".to_owned(),
            Credential::Missing { .. } => "no key".to_owned(),
        }
    }

    /// The text of `keybindings.json`: ours, else the one in `~/.gemini`; empty
    /// where there is none. Blocking.
    pub fn keybindings(&self) -> String {
        let homes = &self.config.homes;
        let read = |folder: &Path| {
            let path = folder.join("keybindings.json");
            let small = std::fs::metadata(&path).is_ok_and(|facts| facts.len() <= LARGEST_KEYS);
            small.then(|| std::fs::read_to_string(path).ok()).flatten()
        };
        let mut text = read(&homes.parallax).or_else(|| read(&homes.gemini)).unwrap_or_default();
        // What some editors begin a file with is none of it.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        text
    }

    /// The launch for another session of the same program run: settings are read
    /// again, so that what changed counts. Blocking.
    ///
    /// # Errors
    /// As [`Launch::prepare`], and never because of trust.
    pub fn reopened(&self, options: LaunchOptions) -> Result<Self, Failure> {
        let config = Self::load(&options)?;
        Self::of(options, config)
    }

    /// A folder that a session worked in, to be taken back. Blocking.
    ///
    /// # Errors
    /// No folder, or one that is not trusted.
    pub(crate) fn folder_to_add(&self, typed: &str) -> Result<PathBuf, Failure> {
        let real = self.real_folder(typed)?;
        if !self.trust_of(&real)?.trusted {
            let why =
                format!("`{0}` is not trusted; `/permissions trust {0}` trusts it", real.display());
            return Err(failure(FailureKind::Input, why));
        }
        Ok(real)
    }

    /// A folder to be added to the workspace, as typed (`~` and relative paths are
    /// understood), with whether it is trusted. What is said of the session's folder for
    /// one run says nothing of another. Blocking.
    ///
    /// # Errors
    /// It is no folder, or cannot be reached.
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
        let path = self.options.directory.join(self.expand_home(Path::new(typed)));
        let told = |why: String| failure(FailureKind::Input, why);
        let real = path
            .canonicalize()
            .map_err(|error| told(format!("`{}` cannot be added: {error}", path.display())))?;
        match real.is_dir() {
            true => Ok(real),
            false => Err(told(format!("`{}` is no folder", real.display()))),
        }
    }

    /// Lets the project's rules count as they are now. Blocking.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn accept_policy_update(&self) -> Result<(), Failure> {
        let accepted = self.accept_project_rules();
        accepted.map(drop).map_err(|why| failure(FailureKind::Config, why))
    }

    /// The shell lines that the person ran in the project, oldest first.
    /// Blocking.
    pub fn shell_history(&self) -> Vec<String> {
        parallax_store::shell_history(&self.homes(), &self.options.directory, SHELL_LINES)
    }

    /// Keeps a shell line; one that cannot be kept is only missing later.
    /// Blocking.
    pub fn remember_shell(&self, line: &str) {
        let kept = parallax_store::remember_shell(&self.homes(), &self.options.directory, line);
        if let Err(error) = kept {
            tracing::warn!(%error, "a shell line could not be kept");
        }
    }
}
