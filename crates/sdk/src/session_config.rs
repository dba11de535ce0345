//! The configuration of a session before it opens: reading settings, checking trust, and applying
//! flags. Nothing here needs an async runtime or the network.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parallax_config::extensions::Extensions;
use parallax_config::{Config, OutputFormat};
use parallax_exec::program_sandbox::{ProgramSandbox, choose};
use parallax_files::SensitivePathIndex;
use parallax_hooks::RunningHook;
use parallax_mcp::{Sampling, UserRequestHandler};
use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::policy::ApprovalMode;
use parallax_sessions::SessionChoice;

use crate::options::LaunchOptions;

/// Prefix of model names that refer to a script.
const SCRIPT: &str = "script:";

/// Returns the script that a model name refers to.
pub(crate) fn script_name(model: &str) -> Option<&str> {
    model.strip_prefix(SCRIPT)
}

/// The configuration of a session, with settings read and trust checked. Opening a session consumes
/// it. A front end that switches sessions keeps the options and prepares a new one, so that changed
/// settings apply, and keeps a clone to answer questions about the project.
///
/// It is plain data. What lists, shows, or changes something is a service with its own type.
#[derive(Clone)]
pub struct SessionConfig {
    pub(crate) options: LaunchOptions,
    pub(crate) config: Arc<Config>,
    pub(crate) mode: ApprovalMode,
    pub(crate) extensions: Arc<OnceLock<Arc<Extensions>>>,
    /// The hooks of the session that was opened with it.
    pub(crate) running_hooks: Arc<OnceLock<Vec<RunningHook>>>,
    /// Answers elicitation requests from MCP servers.
    pub(crate) prompter: Option<Arc<dyn UserRequestHandler>>,
    /// Answers sampling requests from MCP servers. Set when a session opens.
    pub(crate) sampling: Option<Sampling>,
    /// The protected names of the workspace, and what protected links point to, for the policy, the
    /// sandbox, and checkpoints.
    pub(crate) closed_names: SensitivePathIndex,
    /// The requested sandbox. With `BuiltInProvider`, commands run in the sandbox or not at all;
    /// with `Off`, they run without one.
    pub sandbox: ProgramSandbox,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
    /// Ends running downloads of extensions.
    pub(crate) cancel: Option<CancellationToken>,
}

impl SessionConfig {
    /// Reads settings and checks that the directory is trusted.
    ///
    /// # Errors
    /// Returns an error if settings are invalid, the approval mode is disabled, or the directory is
    /// not trusted. [`SessionConfig::prepare_or_ask`] asks the user about trust instead.
    pub fn prepare(options: LaunchOptions) -> Result<Self, Failure> {
        let config = Self::load(&options)?;
        if !config.trust.trusted && !options.is_read_only {
            return Err(untrusted_failure(&options.directory, &config));
        }
        Self::from_config(options, config)
    }

    /// Reads settings. Project settings are read only if the directory is trusted.
    pub(crate) fn load(options: &LaunchOptions) -> Result<Config, Failure> {
        parallax_config::load(options.load_options())
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Builds the configuration from loaded settings, whether the directory is trusted or not.
    pub(crate) fn from_config(options: LaunchOptions, config: Config) -> Result<Self, Failure> {
        let mut warnings = config.warnings.clone();
        let mode = approval_mode(&options, &config, &mut warnings)?;
        let sandbox = requested_sandbox(options.sandbox.as_deref(), &config)?;
        let extensions = Arc::default();
        let closed_names = crate::home_directories::build_path_index(&config, &options.directory);
        Ok(Self {
            closed_names,
            options,
            config: Arc::new(config),
            mode,
            extensions,
            running_hooks: Arc::default(),
            prompter: None,
            cancel: None,
            sampling: None,
            sandbox,
            warnings,
        })
    }

    /// Returns this configuration with settings read again, for everything that does not need a new
    /// session, such as the user interface and dialogs. Blocking.
    ///
    /// # Errors
    /// Returns the errors of [`SessionConfig::prepare`], except for an untrusted directory.
    pub fn reload(&self) -> Result<Self, Failure> {
        let mut config = Self::load(&self.options)?;
        config.share_secrets(&self.config);
        Self::from_config(self.options.clone(), config)
    }

    /// Prepares another session of the same process. Settings are read again.
    /// Blocking.
    ///
    /// # Errors
    /// Returns the errors of [`SessionConfig::prepare`], except for an untrusted directory.
    pub fn prepare_again(&self, options: LaunchOptions) -> Result<Self, Failure> {
        let config = Self::load(&options)?;
        let prompter = self.prompter.clone();
        Ok(Self { prompter, ..Self::from_config(options, config)? })
    }

    /// Returns the options of the front end, for preparing another session.
    pub fn options(&self) -> &LaunchOptions {
        &self.options
    }

    /// Returns the configuration of the user and the project.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns this configuration with a handler for elicitation requests from MCP servers.
    #[must_use]
    pub fn with_user_prompter(mut self, asker: Arc<dyn UserRequestHandler>) -> Self {
        self.prompter = Some(asker);
        self
    }

    /// Returns this configuration for opening a session, without reading the settings again.
    #[must_use]
    pub fn with_session(mut self, session: SessionChoice) -> Self {
        self.options.session = session;
        self
    }

    /// Returns this configuration with a token that ends running downloads of extensions.
    #[must_use]
    pub fn with_cancellation(mut self, cancel: CancellationToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Returns the working directory.
    pub fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// Returns whether the directory is trusted.
    pub fn is_trusted(&self) -> bool {
        self.config.trust.trusted
    }

    /// Returns whether a session of the project is stored on disk and can be resumed. A session
    /// without a prompt is not.
    pub fn is_resumable(&self, id: &SessionId) -> bool {
        self.dirs().journal(&self.options.directory, id).is_file()
    }

    /// Returns the approval mode at the start of the session.
    pub fn mode(&self) -> ApprovalMode {
        self.mode
    }

    /// Returns the user's home directory.
    pub fn user_home(&self) -> Option<&Path> {
        self.config.environment.get("HOME").map(Path::new)
    }

    /// Returns the output format of the settings (`output.format`).
    pub fn output_format(&self) -> OutputFormat {
        self.config.settings.output_format()
    }

    /// Returns the directory of Parallax's own files (`~/.parallax`).
    pub fn home(&self) -> &Path {
        &self.config.dirs.parallax
    }

    /// Returns the requested model: the flag, the environment variable, or the setting, in this
    /// order, or `auto`.
    pub fn model_name(&self) -> String {
        let set = |name: &String| !name.trim().is_empty();
        let variable = || self.config.environment.get("GEMINI_MODEL").map(str::to_owned);
        let options = self.options.model.clone().filter(set).or_else(variable);
        let name = options.filter(set).or_else(|| self.config.settings.model_name());
        name.filter(set).map_or_else(|| "auto".to_owned(), |name| name.trim().to_owned())
    }

    /// Whether a variable or a setting names the model of new sessions.
    pub(crate) fn has_configured_model(&self) -> bool {
        let variable = self.config.environment.get("GEMINI_MODEL").map(str::to_owned);
        let mut names = variable.into_iter().chain(self.config.settings.model_name());
        names.any(|name| !name.trim().is_empty())
    }

    /// Returns whether plan mode is enabled (`general.plan.enabled`).
    pub fn has_plan_mode(&self) -> bool {
        self.config.settings.flag("general.plan.enabled")
    }

    /// Returns why YOLO mode is not allowed here, if so.
    pub fn yolo_unavailable_reason(&self) -> Option<String> {
        if self.config.settings.disable_yolo_mode() {
            let reason = "YOLO mode is disabled by the setting `security.disableYoloMode`";
            return Some(reason.to_owned());
        }
        (!self.config.trust.trusted)
            .then(|| "YOLO mode requires a trusted folder; see /permissions".to_owned())
    }

    /// Returns why a session here cannot switch to a mode, if so.
    pub fn mode_unavailable_reason(&self, mode: ApprovalMode) -> Option<String> {
        match mode {
            ApprovalMode::Yolo => self.yolo_unavailable_reason(),
            ApprovalMode::Plan if !self.has_plan_mode() => {
                Some("plan mode is disabled by the setting `general.plan.enabled`".to_owned())
            }
            ApprovalMode::AutoEdit if !self.config.trust.trusted => {
                Some("auto-edit mode requires a trusted folder".to_owned())
            }
            _ => None,
        }
    }

    /// Returns whether the directory is the root or the home directory, where nothing should be
    /// changed without approval.
    pub fn is_home_or_root(&self) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let here = real(&self.options.directory);
        let home = self.user_home();
        here.parent().is_none() || home.is_some_and(|home| real(home) == here)
    }

    /// Replaces YOLO mode by the default mode if the directory is the root or the home directory,
    /// for sessions whose user can confirm actions. Returns whether it did.
    pub fn restrict_yolo(&mut self) -> bool {
        let careful = self.mode == ApprovalMode::Yolo && self.is_home_or_root();
        if careful {
            self.mode = ApprovalMode::Default;
        }
        careful
    }

    /// Returns whether the working directory is the user's home directory.
    pub fn is_in_home(&self) -> bool {
        self.is_home_or_root() && self.options.directory.parent().is_some()
    }
}

/// Returns the sandbox that the variable, the flag, or the setting requests, in this order.
fn requested_sandbox(flag: Option<&str>, config: &Config) -> Result<ProgramSandbox, Failure> {
    let setting = config.settings.program_sandbox().word;
    let word = config.user_variable("GEMINI_SANDBOX").or(flag).or(setting.as_deref());
    // A project's `.env` must not claim that the program is in a sandbox already.
    let inside = config.environment.process_variable("SANDBOX").is_some();
    choose(word, inside).map_err(|error| failure(FailureKind::Sandbox, error.to_string()))
}

fn approval_mode(
    options: &LaunchOptions,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<ApprovalMode, Failure> {
    // YOLO mode is never taken from a settings file, because a project could contain one.
    let set = config.settings.default_approval_mode().min(ApprovalMode::AutoEdit);
    let mode = options.approval_mode.unwrap_or(set);
    if mode == ApprovalMode::Yolo && config.settings.disable_yolo_mode() {
        return Err(failure(
            FailureKind::Config,
            "YOLO mode is disabled by the setting `security.disableYoloMode`".to_owned(),
        ));
    }
    if mode == ApprovalMode::Plan && !config.settings.flag("general.plan.enabled") {
        warnings.push(
            "plan mode is disabled (`general.plan.enabled`): the approval mode is `default`"
                .to_owned(),
        );
        return Ok(ApprovalMode::Default);
    }
    if !config.trust.trusted && mode > ApprovalMode::Default {
        warnings.push(format!(
            "the folder is not trusted: approval mode `{}` is not available",
            mode.as_str()
        ));
        return Ok(ApprovalMode::Default);
    }
    Ok(mode)
}

/// Reports that the directory is untrusted and what it would add, when the user cannot be asked. A
/// worktree is trusted as its main checkout is.
fn untrusted_failure(directory: &Path, config: &Config) -> Failure {
    // The preview lists names only. Nothing from the directory is expanded, followed, or run.
    let brings = match parallax_config::inspect(directory, &config.outer).summary() {
        Some(summary) => format!("it contains {summary} (see `parallax trust show`)"),
        None => "it contains no settings or commands".to_owned(),
    };
    let project = parallax_config::worktrees::project_of(&config.dirs, directory);
    // Without a slash at the end.
    let project: PathBuf = project.components().collect();
    let folder = match project == directory {
        true => String::new(),
        false => format!(" {}", project.display()),
    };
    failure(
        FailureKind::Untrusted,
        format!(
            "the folder `{}` is not trusted, so its configuration is ignored; {brings}; trust it \
             with `parallax trust add{folder}`, or for one run with `--skip-trust` or \
             `GEMINI_CLI_TRUST_WORKSPACE=true`",
            project.display()
        ),
    )
}

/// Creates a failure that occurs before the session runs.
pub(crate) fn failure(kind: FailureKind, message: String) -> Failure {
    Failure { kind, message, status: None }
}
