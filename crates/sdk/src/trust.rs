//! Questions about a folder that a face puts to the person: whether its own
//! files count, and whether they may loosen what may happen.

use std::path::{Path, PathBuf};

use parallax_config::trust::{self, TrustFiles};
use parallax_config::{ConfigError, LoadOptions, RulesChange, TrustReason};
use parallax_policy::{Policy, PolicyOptions, Tier};
use parallax_protocol::event::{Failure, FailureKind};

use crate::launch::{Launch, LaunchOptions, failure};

use parallax_config::trust::TRUST_VARIABLE;
pub use parallax_config::trust::{Standing, TrustLevel};
pub use parallax_config::{Acceptance, LooseSettings, Survey, SurveyedHook, SurveyedServer, Trust};

/// A launch, or what must be asked before there is one.
pub enum Prepared {
    /// It can be opened.
    Ready(Box<Launch>),
    /// Nobody said yet whether the folder is trusted.
    NeedsTrust(Box<TrustQuestion>),
}

/// The question whether a folder is trusted. Nothing of the folder counts
/// before it is answered.
pub struct TrustQuestion {
    /// The folder.
    pub folder: PathBuf,
    /// Its parent, if it has one.
    pub parent: Option<PathBuf>,
    /// What it would bring: names and texts as the folder has them, to be
    /// escaped before a terminal gets them.
    pub brings: Survey,
    ui: parallax_config::UiSettings,
    wants_companion: bool,
    files: TrustFiles,
    options: LaunchOptions,
}

/// What a person says of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustAnswer {
    /// It is trusted, and all below it.
    Folder,
    /// Its parent is trusted, and all below that.
    Parent,
    /// It is not trusted; that is remembered.
    No,
    /// It is not trusted this time; the question comes again.
    NotNow,
    /// The editor trusts it: it is trusted this time, and nothing is remembered.
    ByEditor,
}

impl TrustQuestion {
    /// What the person's own settings say about the screen.
    pub fn ui(&self) -> parallax_config::UiSettings {
        self.ui.clone()
    }

    /// A companion whose editor may answer, if the user's own settings ask for one. Must run on a
    /// tokio runtime.
    pub fn start_companion(&self) -> Option<parallax_ide::Companion> {
        let LaunchOptions { directory, variables, version, .. } = &self.options;
        let start = || parallax_ide::Companion::start(directory, variables.clone(), version, true);
        self.wants_companion.then(start)
    }

    /// Remembers the answer and goes on with it. In a folder that is not trusted
    /// the session opens, and nothing of the folder counts.
    ///
    /// # Errors
    /// The file of trust cannot be written, or the settings cannot be used.
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

/// Rules of the project that are new, or others than last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyUpdate {
    /// Whether the project had none before.
    pub new: bool,
    /// The files.
    pub files: Vec<PathBuf>,
    /// The rules, one line each, as the files have them.
    pub rules: Vec<String>,
}

impl Launch {
    /// Reads settings as [`Launch::prepare`] does, for a face that can ask: a
    /// folder of which nothing is known is a question, and one that is not
    /// trusted opens without its files.
    ///
    /// # Errors
    /// Settings that cannot be used, and a mode that is forbidden.
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

    /// The settings of the project that do not count because they loosen what
    /// may happen and nobody accepted them.
    pub fn loose_settings(&self) -> &[LooseSettings] {
        &self.config.loose
    }

    /// Lets the project's settings, as they are now, loosen what may happen; they
    /// count in the next launch. Blocking.
    ///
    /// # Errors
    /// A file that cannot be used or written.
    pub fn accept_loose_settings(&self) -> Result<Vec<LooseSettings>, Failure> {
        let (homes, project) = (&self.config.homes, &self.config.project);
        parallax_config::accept_settings(homes, &self.config.outer, project)
            .map_err(|error| config(&error))
    }

    /// Remembers that they shall not count as they are now
    /// ([`Acceptance::Declined`]). Blocking.
    ///
    /// # Errors
    /// A file that cannot be used or written.
    pub fn decline_loose_settings(&self) -> Result<Vec<LooseSettings>, Failure> {
        let (homes, project) = (&self.config.homes, &self.config.project);
        parallax_config::decline_settings(homes, &self.config.outer, project)
            .map_err(|error| config(&error))
    }

    /// Rules of the project that a person should see, since they are new or have
    /// changed. They may only tighten until [`Launch::accept_project_rules`].
    /// Ask before [`Launch::open`], which takes note of them. Blocking.
    pub fn policy_update(&self) -> Option<PolicyUpdate> {
        let cwd = &self.config.project;
        let mut files = self.found_rule_files().files;
        files.retain(|file| file.tier == Tier::Workspace);
        let change = parallax_config::workspace_rules_changed(&self.config.homes, cwd, &files);
        let new = match change.ok()? {
            RulesChange::New => true,
            RulesChange::Changed => false,
            RulesChange::None | RulesChange::Same => return None,
        };
        let paths = files.iter().map(|file| file.path.clone()).collect();
        let policy = Policy::new(&PolicyOptions {
            home: self.home_folder(),
            workspace_may_allow: true,
            files,
            ..PolicyOptions::default()
        });
        let own = policy.list().into_iter().filter(|rule| rule.file.is_some());
        let rules = own.map(|rule| rule.rule).collect();
        Some(PolicyUpdate { new, files: paths, rules })
    }

    /// How a folder stands, reading nothing of it. Blocking.
    ///
    /// # Errors
    /// A file of trust or of settings that cannot be used.
    pub fn trust_of(&self, folder: &Path) -> Result<Trust, Failure> {
        Ok(self.standing(folder)?.trust)
    }

    /// The same of a folder that is not the session's: what is said for one run
    /// (`--skip-trust`, `GEMINI_CLI_TRUST_WORKSPACE`) is said of that one. Blocking.
    ///
    /// # Errors
    /// As [`Launch::trust_of`].
    pub(crate) fn trust_of_other(&self, folder: &Path) -> Result<Trust, Failure> {
        let mut variables = self.options.variables.clone();
        variables.retain(|(name, _)| name != TRUST_VARIABLE);
        let options = LoadOptions { variables, skip_trust: false, ..self.load_options() };
        trust::standing(&options, folder).map(|it| it.trust).map_err(|error| config(&error))
    }

    /// Says what is thought of a folder; `None` takes back what was said.
    /// Sessions that run are not touched. Blocking.
    ///
    /// # Errors
    /// A folder that is not there, a file that cannot be used or written.
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
