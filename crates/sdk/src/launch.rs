//! The data of a session before it opens, and the first half of opening it: reading settings,
//! checking trust, and applying flags. Nothing here needs an async runtime or the network.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use parallax_agents::{AgentLibrary, SkillLibrary};
use parallax_config::extensions::Extensions;
use parallax_config::{Config, LoadOptions, OuterSettings, OutputFormat};
use parallax_context_files::ContextSources;
use parallax_exec::program_sandbox::{ProgramSandbox, choose};
use parallax_extensions::ExtensionManager;
use parallax_hooks::{HookLibrary, RunningHook};
use parallax_http::ClientOptions;
use parallax_mcp::{Asker, Sampling};
use parallax_policy_sources::PolicySources;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::ApprovalMode;
use parallax_providers::ProviderManager;
use parallax_sessions::SessionLibrary;

use crate::options::{Answers, LaunchOptions};

/// Prefix of model names that refer to a script.
const SCRIPT: &str = "script:";

/// Returns the script that a model name refers to.
pub(crate) fn script_name(model: &str) -> Option<&str> {
    model.strip_prefix(SCRIPT)
}

/// A launch with settings read and trust checked. Opening a session consumes it. A front end that
/// switches sessions keeps the options and prepares a new launch, so that changed settings apply,
/// and keeps a clone to answer questions about the project.
#[derive(Clone)]
pub struct Launch {
    pub(crate) options: LaunchOptions,
    pub(crate) config: Arc<Config>,
    pub(crate) mode: ApprovalMode,
    pub(crate) extensions: Arc<OnceLock<Arc<Extensions>>>,
    /// The hooks of the session that this launch opened.
    pub(crate) running_hooks: Arc<OnceLock<Vec<RunningHook>>>,
    /// Answers elicitation requests of MCP servers.
    pub(crate) asker: Option<Arc<dyn Asker>>,
    /// Answers sampling requests of MCP servers. Set when a session opens.
    pub(crate) sampling: Option<Sampling>,
    /// The requested sandbox. With `BuiltIn`, commands run in the sandbox or not at all; with
    /// `Off`, they run without one.
    pub sandbox: ProgramSandbox,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

impl Launch {
    /// Reads settings and checks that the directory is trusted.
    ///
    /// # Errors
    /// Returns an error if settings are invalid, the approval mode is disabled, or the directory is
    /// not trusted. [`Launch::prepare_or_ask`] asks the user about trust instead.
    pub fn prepare(options: LaunchOptions) -> Result<Self, Failure> {
        let config = Self::load(&options)?;
        if !config.trust.trusted && !options.look_only {
            return Err(untrusted(&options.directory, &config.outer));
        }
        Self::of(options, config)
    }

    /// Reads settings. Project settings are read only if the directory is trusted.
    pub(crate) fn load(options: &LaunchOptions) -> Result<Config, Failure> {
        parallax_config::load(LoadOptions {
            cwd: options.directory.clone(),
            variables: options.variables.clone(),
            skip_trust: options.skip_trust,
            ignore_env: options.ignore_env,
        })
        .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Builds a launch from loaded settings, whether the directory is trusted or not.
    pub(crate) fn of(options: LaunchOptions, config: Config) -> Result<Self, Failure> {
        let mut warnings = config.warnings.clone();
        let mode = approval_mode(&options, &config, &mut warnings)?;
        let sandbox = requested_sandbox(options.sandbox.as_deref(), &config)?;
        let extensions = Arc::default();
        Ok(Self {
            options,
            config: Arc::new(config),
            mode,
            extensions,
            running_hooks: Arc::default(),
            asker: None,
            sampling: None,
            sandbox,
            warnings,
        })
    }

    /// Returns the options of this launch, for preparing another one.
    pub fn options(&self) -> &LaunchOptions {
        &self.options
    }

    /// Returns the configuration of the user and the project.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the options of the HTTP client that connects to anything but a model.
    pub fn client_options(&self) -> ClientOptions {
        let env = |name: &str| self.config.environment.get(name).map(str::to_owned);
        ClientOptions {
            user_agent: format!("Parallax/{}", self.options.version),
            extra_roots: parallax_http::extra_roots_from_env(&env),
            ..ClientOptions::default()
        }
    }

    /// Returns what installs and lists extensions.
    pub fn extension_manager(&self) -> ExtensionManager<'_> {
        ExtensionManager {
            config: &self.config,
            only: &self.options.extensions,
            known: &self.extensions,
            client: self.client_options(),
            variables: &self.options.variables,
        }
    }

    /// Returns what lists the models of providers and manages their keys.
    pub fn provider_manager(&self) -> ProviderManager {
        let model = self.model_name();
        ProviderManager {
            config: Arc::clone(&self.config),
            auth_method: self.options.auth_method.clone(),
            version: self.options.version,
            is_scripted: script_name(&model).is_some() || self.options.answers != Answers::Service,
            model,
        }
    }

    /// Returns what lists agents and changes their settings. Blocking: reads extensions.
    pub fn agent_library(&self) -> AgentLibrary {
        let launch = self.clone();
        AgentLibrary {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            main_model: self.provider_manager().resolved_model(),
            reread: Arc::new(move || Ok(launch.reread()?.agent_library())),
        }
    }

    /// Returns what lists hooks and switches them. Blocking: reads extensions.
    pub fn hook_library(&self) -> HookLibrary {
        let launch = self.clone();
        HookLibrary {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            running: Arc::clone(&self.running_hooks),
            reread: Arc::new(move || Ok(launch.reread()?.hook_library())),
        }
    }

    /// Returns where policy rules come from. Blocking: reads extensions.
    pub fn policy_sources(&self) -> PolicySources {
        let options = &self.options;
        PolicySources {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            directory: options.directory.clone(),
            interactive: options.interactive,
            policy_paths: options.policy_paths.clone(),
            admin_policy_paths: options.admin_policy_paths.clone(),
            allowed_tools: options.allowed_tools.clone(),
            exclude_tools: options.exclude_tools.clone(),
        }
    }

    /// Returns where context files come from. Blocking: reads extensions.
    pub fn context_sources(&self) -> ContextSources {
        ContextSources {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            homes: self.homes(),
            directory: self.options.directory.clone(),
            ephemeral: self.options.ephemeral,
            count_tokens: parallax_engine::tokens::of_text,
        }
    }

    /// Returns this launch with someone who answers elicitation requests of MCP servers.
    #[must_use]
    pub fn asked_by(mut self, asker: Arc<dyn Asker>) -> Self {
        self.asker = Some(asker);
        self
    }

    /// Returns what lists skills and switches them. Blocking: reads extensions.
    pub fn skill_library(&self) -> SkillLibrary {
        let launch = self.clone();
        SkillLibrary {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            directories: self.options.skill_directories.clone(),
            reread: Arc::new(move || Ok(launch.reread()?.skill_library())),
        }
    }

    /// Returns all extensions, including inactive ones. The first call reads them and blocks.
    pub fn extensions(&self) -> Arc<Extensions> {
        self.extension_manager().extensions()
    }

    /// Returns what lists, searches, and changes stored sessions.
    pub fn session_library(&self) -> SessionLibrary<'_> {
        SessionLibrary {
            is_exact: self.options.exact_session,
            config: &self.config,
            directory: &self.options.directory,
            highlighter: self.options.colourist,
            interactive: self.options.interactive,
            ephemeral: self.options.ephemeral,
        }
    }

    /// Returns where sessions are stored and with which keys.
    pub fn homes(&self) -> parallax_store::Homes {
        parallax_sessions::encrypted_sessions::homes(&self.config)
    }

    /// Returns the approval mode at the start of the session.
    pub fn mode(&self) -> ApprovalMode {
        self.mode
    }

    /// Returns the output format of the settings (`output.format`).
    pub fn output_format(&self) -> OutputFormat {
        self.config.settings.output_format()
    }

    /// Returns the directory of Parallax's own files (`~/.parallax`).
    pub fn home(&self) -> &std::path::Path {
        &self.config.homes.parallax
    }

    /// Returns the requested model: the flag, the environment variable, or the setting, in this
    /// order, or `auto`.
    pub fn model_name(&self) -> String {
        let set = |name: &String| !name.trim().is_empty();
        let variable = || self.config.environment.get("GEMINI_MODEL").map(str::to_owned);
        let options = self.options.model.clone().filter(set).or_else(variable);
        let name = options.filter(set).or_else(|| self.config.settings.model_name());
        name.filter(set).unwrap_or_else(|| "auto".to_owned())
    }

    /// Returns whether plan mode is enabled (`general.plan.enabled`).
    pub fn has_plan_mode(&self) -> bool {
        self.config.settings.flag("general.plan.enabled")
    }

    /// Returns why yolo mode is not allowed here, if so.
    pub fn yolo_refusal(&self) -> Option<String> {
        if self.config.settings.disable_yolo_mode() {
            let why = "yolo mode is disabled by the setting `security.disableYoloMode`";
            return Some(why.to_owned());
        }
        (!self.config.trust.trusted)
            .then(|| "yolo mode requires a trusted folder; see /permissions".to_owned())
    }

    /// Returns why a session here cannot switch to a mode, if so.
    pub fn mode_refusal(&self, mode: ApprovalMode) -> Option<String> {
        match mode {
            ApprovalMode::Yolo => self.yolo_refusal(),
            ApprovalMode::Plan if !self.has_plan_mode() => {
                Some("plan mode is disabled by the setting `general.plan.enabled`".to_owned())
            }
            ApprovalMode::AutoEdit if !self.config.trust.trusted => {
                Some("auto_edit mode requires a trusted folder".to_owned())
            }
            _ => None,
        }
    }

    /// Returns whether the directory is the root or the home directory, where nothing should be
    /// changed without approval.
    pub fn is_everything(&self) -> bool {
        let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let here = real(&self.options.directory);
        let home = self.config.environment.get("HOME").map(std::path::Path::new);
        here.parent().is_none() || home.is_some_and(|home| real(home) == here)
    }

    /// Replaces yolo mode by the default mode if the directory is the root or the home directory,
    /// for sessions whose user can confirm actions. Returns whether it did.
    pub fn begin_careful(&mut self) -> bool {
        let careful = self.mode == ApprovalMode::Yolo && self.is_everything();
        if careful {
            self.mode = ApprovalMode::Default;
        }
        careful
    }

    /// Returns whether the working directory is the user's home directory.
    pub fn is_in_home(&self) -> bool {
        self.is_everything() && self.options.directory.parent().is_some()
    }
}

/// Returns the sandbox that the variable, the flag, or the setting requests, in this order.
fn requested_sandbox(flag: Option<&str>, config: &Config) -> Result<ProgramSandbox, Failure> {
    let setting = config.settings.program_sandbox().word;
    let word = config.user_variable("GEMINI_SANDBOX").or(flag).or(setting.as_deref());
    // A project's `.env` must not claim that the program is in a sandbox already.
    let inside = config.environment.of_process("SANDBOX").is_some();
    choose(word, inside).map_err(|error| failure(FailureKind::Sandbox, error.to_string()))
}

fn approval_mode(
    options: &LaunchOptions,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<ApprovalMode, Failure> {
    // Yolo mode is never taken from a settings file, because a project could contain one.
    let set = config.settings.default_approval_mode().min(ApprovalMode::AutoEdit);
    let mode = options.approval_mode.unwrap_or(set);
    if mode == ApprovalMode::Yolo && config.settings.disable_yolo_mode() {
        return Err(failure(
            FailureKind::Config,
            "yolo mode is disabled by the setting `security.disableYoloMode`".to_owned(),
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

/// Reports that the directory is untrusted and what it would bring, when the user cannot be asked.
fn untrusted(directory: &Path, outer: &OuterSettings) -> Failure {
    // The preview lists names only. Nothing of the directory is expanded, followed, or run.
    let brings = match parallax_config::survey(directory, outer).summary() {
        Some(summary) => format!("it contains {summary} (see `parallax trust show`)"),
        None => "it contains no settings or commands".to_owned(),
    };
    failure(
        FailureKind::Untrusted,
        format!(
            "the folder `{}` is not trusted, so its configuration is ignored; {brings}; trust it \
             with `parallax trust add`, or for one run with `--skip-trust` or \
             `GEMINI_CLI_TRUST_WORKSPACE=true`",
            directory.display()
        ),
    )
}

/// Creates a failure that occurs before the session runs.
pub(crate) fn failure(kind: FailureKind, message: String) -> Failure {
    Failure { kind, message, status: None }
}
