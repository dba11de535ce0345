//! The options of a session and the first half of opening it: reading settings, checking trust, and
//! applying flags. Nothing here needs an async runtime or the network.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parallax_agents::skills::of_the_program;
use parallax_agents::{AgentLibrary, SkillLibrary, rules};
use parallax_config::extensions::Extensions;
use parallax_config::{Config, LoadOptions, OuterSettings, OutputFormat};
use parallax_context_files::ContextSources;
use parallax_engine::EventReader;
use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_extensions::ExtensionManager;
use parallax_hooks::{HookLibrary, RunningHook};
use parallax_http::ClientOptions;
use parallax_mcp::{Asker, Sampling};
use parallax_policy::Policy;
use parallax_policy_sources::{ImplicitAllows, PolicySources, RuleRow, rule_rows};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;
use parallax_protocol::tool::Tool;
use parallax_providers::ProviderManager;
use parallax_sessions::export::SyntaxHighlighter;
use parallax_sessions::{SessionChoice, SessionLibrary};

use crate::budget::RunLimits;
use crate::mcp;
use crate::model::script_name;
use crate::open::{OpenSession, SessionBuilder};
use crate::plans;
use crate::program_sandbox;

/// Source of the model's responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Answers {
    /// A model provider.
    #[default]
    Service,
    /// `--fake-responses`: a file of recorded responses in Gemini CLI's format.
    Fake(PathBuf),
    /// `--fake-responses-non-strict`.
    FakeNonStrict(PathBuf),
    /// `--replay`: a recording made with `--record`.
    Replay {
        /// The recording.
        file: PathBuf,
        /// Whether requests must match the recorded ones.
        strict: bool,
    },
    /// A script that is built into the program.
    Embedded {
        /// Name of the script, for error messages.
        name: &'static str,
        /// Text of the script.
        text: &'static str,
    },
}

/// Where to record the model's responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// `--record`: everything that a replay needs.
    Ours(PathBuf),
    /// `--record-responses`: Gemini CLI's format.
    Reference(PathBuf),
}

/// Everything a front end configures before it opens a session.
#[derive(Debug, Clone, Default)]
pub struct LaunchOptions {
    /// The working directory.
    pub directory: PathBuf,
    /// The environment variables of the process.
    pub variables: Vec<(OsString, OsString)>,
    /// The authentication method to use instead of the selected one, as in
    /// `security.auth.selectedType`.
    pub auth_method: Option<String>,
    /// `--skip-trust`.
    pub skip_trust: bool,
    /// `--policy`. If empty, the setting `policyPaths` applies, then the user's policy directories.
    pub policy_paths: Vec<PathBuf>,
    /// `--admin-policy`. If empty, the setting `adminPolicyPaths` applies.
    pub admin_policy_paths: Vec<PathBuf>,
    /// `--sandbox`, as typed.
    pub sandbox: Option<String>,
    /// `--ignore-env`.
    pub ignore_env: bool,
    /// `-m`.
    pub model: Option<String>,
    /// `--approval-mode`, `-y`.
    pub approval_mode: Option<ApprovalMode>,
    /// `--plan-exit-mode`: the approval mode after a plan in a non-interactive session.
    pub plan_exit_mode: Option<ApprovalMode>,
    /// `--include-directories`.
    pub include_directories: Vec<PathBuf>,
    /// `--allowed-tools`.
    pub allowed_tools: Vec<String>,
    /// `--exclude-tools`.
    pub exclude_tools: Vec<String>,
    /// `--allowed-mcp-server-names`.
    pub allowed_mcp_servers: Vec<String>,
    /// MCP servers of the embedding program, as entries of `mcpServers`.
    pub mcp_servers: parallax_protocol::Object,
    /// `--skill-dir`: absolute paths of directories that contain skills.
    pub skill_directories: Vec<PathBuf>,
    /// `--append-system-prompt`.
    pub append_system_prompt: Option<String>,
    /// `-e`: the only extensions to load. `none` loads no extension; an empty list loads those that
    /// are enabled.
    pub extensions: Vec<String>,
    /// `--max-turns`.
    pub max_turns: Option<u32>,
    /// `--fallback`.
    pub fallback: Option<FallbackPolicy>,
    /// `--max-cost`, `--max-tokens`, `--timeout`.
    pub limits: RunLimits,
    /// Which session to open.
    pub session: SessionChoice,
    /// Whether to resume exactly the named session or none: the name is an id, and a session that
    /// another process uses is not continued in a copy.
    pub exact_session: bool,
    /// Whether the user can answer questions.
    pub interactive: bool,
    /// Whether the first prompt of an interactive session waits for MCP servers whose tools are not
    /// known yet. Set for clients that send a prompt right after opening the session.
    pub waits_for_servers: bool,
    /// Whether to ask the user when a budget is used up. Otherwise the turn ends.
    pub budget_questions: bool,
    /// Whether events carry whole file texts besides the diffs of edits, for editors.
    pub keeps_file_texts: bool,
    /// The editor that reads and writes the text files of the workspace.
    pub editor: parallax_protocol::editor_files::SessionEditor,
    /// The connection to the companion extension of an editor.
    pub companion: Option<parallax_ide::Companion>,
    /// Tools of the embedding program.
    pub tools: EmbeddedTools,
    /// Source of the model's responses.
    pub answers: Answers,
    /// Where to record the model's responses.
    pub recording: Option<Recording>,
    /// Version of the program, sent to the provider.
    pub version: &'static str,
    /// Whether the session writes no journal, as in the demo.
    pub ephemeral: bool,
    /// Whether the caller only inspects the configuration. The directory need not be trusted then,
    /// because nothing of an untrusted directory is read.
    pub look_only: bool,
    /// Whether the `main` function of this program calls `parallax_sandbox::main` first, so that
    /// the program can start itself again to confine and supervise commands.
    pub supervises: bool,
    /// Highlights code in exported sessions.
    pub colourist: Option<SyntaxHighlighter>,
}

/// Tools of the program that embeds the session ([`crate::agent`]).
#[derive(Clone, Default)]
pub struct EmbeddedTools(pub(crate) Vec<Arc<dyn Tool>>);

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
        let sandbox = program_sandbox::asked(options.sandbox.as_deref(), &config)?;
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

    /// Opens the session. Must be called on a tokio runtime.
    ///
    /// The returned reader emits all events from the beginning.
    ///
    /// # Errors
    /// Returns an error if credentials are missing, the session is not found, or a directory cannot
    /// be included.
    pub fn open(self) -> Result<(OpenSession, EventReader), Failure> {
        SessionBuilder::new(self).open()
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

    /// Returns the policy, with warnings about its files. Blocking.
    pub fn policy(&self) -> (Policy, Vec<String>) {
        let agents = self.agent_library().agents();
        let (trusted_servers, allowed_servers) = mcp::implicitly_allowed_servers(self);
        self.policy_sources().policy(ImplicitAllows {
            // Only an open session knows its default directory for plans.
            plans: plans::configured_folder(self).ok().flatten(),
            skills: of_the_program(&self.skill_library().skills()),
            trusted_servers,
            allowed_servers,
            agent_servers: parallax_agents::trusted_servers(&agents),
            agent_rules: rules(&agents),
        })
    }

    /// Returns the policy rules by mode, for lists ([`rule_rows`](crate::rule_rows)). Blocking.
    pub fn policy_rules(&self) -> Vec<(Option<ApprovalMode>, Vec<RuleRow>)> {
        rule_rows(&self.policy().0)
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
