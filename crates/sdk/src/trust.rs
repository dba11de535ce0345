//! Questions about a directory that a front end asks the user: whether it is trusted, and whether
//! its settings and rules may grant permissions.

use std::path::{Path, PathBuf};

use parallax_config::trust::TRUST_VARIABLE;
use parallax_config::trust::{self, TrustFiles};
use parallax_config::{ConfigError, LoadOptions, TrustReason};
use parallax_protocol::event::{Failure, FailureKind};

use crate::launch::{Launch, failure};
use crate::options::LaunchOptions;

pub use parallax_config::trust::{Standing, TrustLevel};
pub use parallax_config::{Acceptance, LooseSettings, Survey, SurveyedHook, SurveyedServer, Trust};
pub use parallax_policy_sources::PolicyUpdate;

/// A launch, or a question that must be answered first.
pub enum Prepared {
    /// The launch is ready to open.
    Ready(Box<Launch>),
    /// It is not known whether the directory is trusted.
    NeedsTrust(Box<TrustQuestion>),
}

/// The question whether a directory is trusted. Nothing of the directory is used before it is
/// answered.
pub struct TrustQuestion {
    /// The directory.
    pub folder: PathBuf,
    /// Its parent, if it has one.
    pub parent: Option<PathBuf>,
    /// What the directory would bring: unmodified names and texts, which must be sanitized before
    /// they are printed to a terminal.
    pub brings: Survey,
    ui: parallax_config::UiSettings,
    wants_companion: bool,
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
        self.wants_companion.then(start)
    }

    /// Saves the answer and returns the launch. In an untrusted directory, the session opens
    /// without using anything of the directory.
    ///
    /// # Errors
    /// Returns an error if the trust file cannot be written or settings are invalid.
    pub fn answer(mut self, answer: TrustAnswer) -> Result<Launch, Failure> {
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
            trust::set(&self.files, &self.folder, level).map_err(|error| config(&error))?;
        }
        let config = Launch::load(&self.options)?;
        Launch::of(self.options, config)
    }
}

fn config(error: &ConfigError) -> Failure {
    failure(FailureKind::Config, error.to_string())
}

impl Launch {
    /// Reads settings like [`Launch::prepare`], for a front end that can ask the user. For an
    /// unknown directory, returns a question. An untrusted directory opens without its files.
    ///
    /// # Errors
    /// Returns an error if settings are invalid or the approval mode is disabled.
    pub fn prepare_or_ask(options: LaunchOptions) -> Result<Prepared, Failure> {
        let loaded = Self::load(&options)?;
        if loaded.trust.trusted || loaded.trust.reason != TrustReason::Unknown {
            return Ok(Prepared::Ready(Box::new(Self::of(options, loaded)?)));
        }
        let files = TrustFiles::find(&loaded.environment, &loaded.homes);
        let folder = loaded.project.clone();
        let real = std::fs::canonicalize(&folder).unwrap_or(folder);
        Ok(Prepared::NeedsTrust(Box::new(TrustQuestion {
            parent: real.parent().map(Path::to_owned),
            brings: parallax_config::survey(&real, &loaded.outer),
            ui: parallax_config::UiSettings::of(&loaded.settings),
            wants_companion: loaded.settings.flag("ide.enabled"),
            folder: real,
            files: files.map_err(|error| config(&error))?,
            options,
        })))
    }

    /// Returns the project settings that are ignored because they grant permissions and were not
    /// accepted.
    pub fn loose_settings(&self) -> &[LooseSettings] {
        &self.config.loose
    }

    /// Accepts the project's current settings that grant permissions. They apply in the next
    /// launch. Blocking.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn accept_loose_settings(&self) -> Result<Vec<LooseSettings>, Failure> {
        let (homes, project) = (&self.config.homes, &self.config.project);
        parallax_config::accept_settings(homes, &self.config.outer, project)
            .map_err(|error| config(&error))
    }

    /// Remembers that the user declined the current settings ([`Acceptance::Declined`]). Blocking.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn decline_loose_settings(&self) -> Result<Vec<LooseSettings>, Failure> {
        let (homes, project) = (&self.config.homes, &self.config.project);
        parallax_config::decline_settings(homes, &self.config.outer, project)
            .map_err(|error| config(&error))
    }

    /// Returns the trust state of a directory without reading any of its contents. Blocking.
    ///
    /// # Errors
    /// Returns an error if the trust file or a settings file is invalid.
    pub fn trust_of(&self, folder: &Path) -> Result<Trust, Failure> {
        Ok(self.standing(folder)?.trust)
    }

    /// Returns the trust state of a directory other than the session's, to which `--skip-trust` and
    /// `GEMINI_CLI_TRUST_WORKSPACE` do not apply. Blocking.
    ///
    /// # Errors
    /// Returns the errors of [`Launch::trust_of`].
    pub(crate) fn trust_of_other(&self, folder: &Path) -> Result<Trust, Failure> {
        let mut variables = self.options.variables.clone();
        variables.retain(|(name, _)| name != TRUST_VARIABLE);
        let options = LoadOptions { variables, skip_trust: false, ..self.load_options() };
        trust::standing(&options, folder).map(|it| it.trust).map_err(|error| config(&error))
    }

    /// Saves whether a directory is trusted; `None` removes the entry. Running sessions are not
    /// affected. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory does not exist or a file cannot be read or written.
    pub fn set_trust(&self, folder: &Path, level: Option<TrustLevel>) -> Result<Trust, Failure> {
        let standing = self.standing(folder)?;
        trust::set(&standing.files, folder, level).map_err(|error| config(&error))?;
        self.trust_of(folder)
    }

    fn load_options(&self) -> LoadOptions {
        LoadOptions {
            cwd: self.options.directory.clone(),
            variables: self.options.variables.clone(),
            skip_trust: self.options.skip_trust,
            ignore_env: self.options.ignore_env,
        }
    }

    fn standing(&self, folder: &Path) -> Result<Standing, Failure> {
        trust::standing(&self.load_options(), folder).map_err(|error| config(&error))
    }
}
