//! Questions about a directory that a front end asks the user: whether it is trusted, and whether
//! its settings and rules may grant permissions.

use std::path::{Path, PathBuf};

use parallax_config::trust::TRUST_VARIABLE;
use parallax_config::trust::{self, TrustFiles};
use parallax_config::trust_state::trust_state;
use parallax_config::{Config, ConfigError, LoadOptions, TrustReason};
use parallax_protocol::event::{Failure, FailureKind};

use crate::options::LaunchOptions;
use crate::session_config::{SessionConfig, failure};

pub use parallax_config::trust::TrustLevel;
pub use parallax_config::trust_state::TrustState;
pub use parallax_config::{
    Acceptance, IgnoredSettings, PreviewedHook, PreviewedServer, Trust, TrustPreview,
};
pub use parallax_policy_sources::PolicyUpdate;

/// The configuration of a session, or a question that must be answered first.
pub enum PreparedConfig {
    /// The launch is ready to open.
    Ready(Box<SessionConfig>),
    /// It is not known whether the directory is trusted.
    NeedsTrust(Box<TrustQuestion>),
}

/// The question whether a directory is trusted. Nothing from the directory is used until the user
/// answers.
pub struct TrustQuestion {
    /// The directory.
    pub folder: PathBuf,
    /// Its parent, if it has one.
    pub parent: Option<PathBuf>,
    /// What the directory would add: unmodified names and text, which must be sanitized before
    /// they are printed to a terminal.
    pub preview: TrustPreview,
    ui: parallax_config::UiSettings,
    connects_companion: bool,
    files: TrustFiles,
    options: LaunchOptions,
}

/// The user's answer to the trust question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustAnswer {
    /// Trust the directory and everything below it.
    Folder,
    /// Trust the parent directory and everything below it.
    Parent,
    /// Do not trust the directory, and remember that.
    No,
    /// Do not trust the directory this time; ask again next time.
    NotNow,
    /// The editor trusts the directory. It is trusted this time only, and nothing is saved.
    ByEditor,
}

impl TrustQuestion {
    /// Returns the user's own settings for the interface.
    pub fn ui(&self) -> parallax_config::UiSettings {
        self.ui.clone()
    }

    /// Starts a companion whose editor may answer, if the user's own settings enable it. Must be
    /// called on a tokio runtime.
    pub fn start_companion(&self) -> Option<parallax_ide::Companion> {
        let LaunchOptions { directory, variables, version, .. } = &self.options;
        let start = || parallax_ide::Companion::start(directory, variables.clone(), version, true);
        self.connects_companion.then(start)
    }

    /// Saves the answer and returns the configuration. In an untrusted directory, the session opens
    /// without using anything of the directory.
    ///
    /// # Errors
    /// Returns an error if the trust file cannot be written or settings are invalid.
    pub fn answer(mut self, answer: TrustAnswer) -> Result<SessionConfig, Failure> {
        let level = match answer {
            TrustAnswer::Folder => Some(TrustLevel::TrustFolder),
            TrustAnswer::Parent => Some(TrustLevel::TrustParent),
            TrustAnswer::No => Some(TrustLevel::DoNotTrust),
            TrustAnswer::NotNow => None,
            TrustAnswer::ByEditor => {
                self.options.skip_trust = true;
                None
            }
        };
        if level.is_some() {
            trust::set(&self.files, &self.folder, level).map_err(|error| config_failure(&error))?;
        }
        let config = SessionConfig::load(&self.options)?;
        SessionConfig::from_config(self.options, config)
    }
}

fn config_failure(error: &ConfigError) -> Failure {
    failure(FailureKind::Config, error.to_string())
}

impl SessionConfig {
    /// Reads settings like [`SessionConfig::prepare`], for a front end that can ask the user. For
    /// an unknown directory, returns a question. An untrusted directory opens without its files.
    ///
    /// # Errors
    /// Returns an error if settings are invalid or the approval mode is disabled.
    pub fn prepare_or_ask(options: LaunchOptions) -> Result<PreparedConfig, Failure> {
        let loaded = Self::load(&options)?;
        if loaded.trust.trusted || loaded.trust.reason != TrustReason::Unknown {
            return Ok(PreparedConfig::Ready(Box::new(Self::from_config(options, loaded)?)));
        }
        let files = TrustFiles::find(&loaded.environment, &loaded.dirs);
        let folder = loaded.project.clone();
        let real = std::fs::canonicalize(&folder).unwrap_or(folder);
        Ok(PreparedConfig::NeedsTrust(Box::new(TrustQuestion {
            parent: real.parent().map(Path::to_owned),
            preview: parallax_config::inspect(&real, &loaded.outer),
            ui: parallax_config::UiSettings::from_settings(&loaded.settings),
            connects_companion: loaded.settings.flag("ide.enabled"),
            folder: real,
            files: files.map_err(|error| config_failure(&error))?,
            options,
        })))
    }
}

/// The trust of directories, and the project settings that need the user's acceptance.
#[derive(Clone, Copy)]
pub struct TrustManager<'a> {
    pub(crate) options: &'a LaunchOptions,
    pub(crate) config: &'a Config,
}

impl<'a> TrustManager<'a> {
    /// Returns the project settings that are ignored because they grant permissions and were not
    /// accepted.
    pub fn loosening_settings(self) -> &'a [IgnoredSettings] {
        &self.config.loosening_settings
    }

    /// Accepts the project's current settings that grant permissions. They apply in the next
    /// launch. Blocking.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn accept_loosening_settings(&self) -> Result<Vec<IgnoredSettings>, Failure> {
        let (dirs, project) = (&self.config.dirs, &self.config.project);
        parallax_config::accept_settings(dirs, &self.config.outer, project)
            .map_err(|error| config_failure(&error))
    }

    /// Remembers that the user declined the current settings ([`Acceptance::Declined`]). Blocking.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn decline_loosening_settings(&self) -> Result<Vec<IgnoredSettings>, Failure> {
        let (dirs, project) = (&self.config.dirs, &self.config.project);
        parallax_config::decline_settings(dirs, &self.config.outer, project)
            .map_err(|error| config_failure(&error))
    }

    /// Returns the trust state of a directory without reading any of its contents. Blocking.
    ///
    /// # Errors
    /// Returns an error if the trust file or a settings file is invalid.
    pub fn trust(&self, folder: &Path) -> Result<Trust, Failure> {
        Ok(self.state(folder)?.trust)
    }

    /// Returns the trust state of a directory other than the session's, to which `--skip-trust` and
    /// `GEMINI_CLI_TRUST_WORKSPACE` do not apply. Blocking.
    ///
    /// # Errors
    /// Returns the errors of [`TrustManager::trust`].
    pub(crate) fn trust_of_other(&self, folder: &Path) -> Result<Trust, Failure> {
        let mut variables = self.options.variables.clone();
        variables.retain(|(name, _)| name != TRUST_VARIABLE);
        let options = LoadOptions { variables, skip_trust: false, ..self.options.load_options() };
        trust_state(&options, folder).map(|it| it.trust).map_err(|error| config_failure(&error))
    }

    /// Saves whether a directory is trusted; `None` removes the entry. Running sessions are not
    /// affected. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory does not exist or a file cannot be read or written.
    pub fn set(&self, folder: &Path, level: Option<TrustLevel>) -> Result<Trust, Failure> {
        let state = self.state(folder)?;
        trust::set(&state.files, folder, level).map_err(|error| config_failure(&error))?;
        self.trust(folder)
    }

    /// Checks a directory that a resumed session worked in. Blocking.
    ///
    /// # Errors
    /// Returns an error if it is not a directory or not trusted.
    pub(crate) fn folder_to_add(&self, input: &str) -> Result<PathBuf, Failure> {
        let real = self.resolve_directory(input)?;
        if !self.trust(&real)?.trusted {
            let reason = format!(
                "`{0}` is not trusted; run `/permissions trust {0}` to trust it",
                real.display()
            );
            return Err(failure(FailureKind::Input, reason));
        }
        Ok(real)
    }

    /// Resolves a typed directory (with `~` or a relative path) to add to the workspace, and
    /// returns whether it is trusted. Trust given to the session's directory for one run does not
    /// apply to others. Blocking.
    ///
    /// # Errors
    /// Returns an error if it is not an accessible directory.
    pub fn resolve_folder(&self, input: &str) -> Result<(PathBuf, bool), Failure> {
        let real = self.resolve_directory(input)?;
        let own = std::fs::canonicalize(&self.options.directory).unwrap_or_default();
        let trust = match real.starts_with(own) {
            true => self.trust(&real)?,
            false => self.trust_of_other(&real)?,
        };
        Ok((real, trust.trusted))
    }

    fn resolve_directory(&self, input: &str) -> Result<PathBuf, Failure> {
        let path = self.options.directory.join(self.config.expand_home(Path::new(input)));
        let input_failure = |reason: String| failure(FailureKind::Input, reason);
        let real = path.canonicalize().map_err(|error| {
            input_failure(format!("failed to add `{}`: {error}", path.display()))
        })?;
        match real.is_dir() {
            true => Ok(real),
            false => Err(input_failure(format!("`{}` is not a directory", real.display()))),
        }
    }

    fn state(&self, folder: &Path) -> Result<TrustState, Failure> {
        trust_state(&self.options.load_options(), folder).map_err(|error| config_failure(&error))
    }
}
