//! What a face asks for when it starts a session, and the first half of the
//! way there: settings, trust, and what the flags make of them. Nothing here
//! needs a runtime or the network.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parallax_config::extensions::Extensions;
use parallax_config::{Config, LoadOptions, OuterSettings, OutputFormat};
use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_mcp::{Asker, Sampling};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;
use parallax_protocol::tool::Tool;

use crate::budget::RunLimits;
use crate::export::Colourist;
use crate::hooks::RunningHook;
use crate::program_sandbox;

/// Which session to continue, or how to begin one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new session with an id of ours.
    #[default]
    New,
    /// A new session in the place of the one that was open.
    Clear,
    /// A new session with this id.
    WithId(String),
    /// Continue: `latest`, an index, an id or the beginning of one.
    Resume(String),
    /// A new session from a file of ours or another tool's.
    Import(PathBuf),
    /// A new session that begins as another one did.
    Fork {
        /// The other one, as for [`SessionChoice::Resume`].
        from: String,
        /// How many of its contents are taken; `None`: all.
        keep: Option<usize>,
    },
    /// A new session that begins as another one did before a prompt.
    ForkBefore {
        /// The other one, as for [`SessionChoice::Resume`].
        from: String,
        /// The prompt, counted from 1.
        prompt: u64,
    },
    /// Continue a session as it was before: what came later is taken back.
    Rewind {
        /// Its id.
        id: String,
        /// How many of its contents stay.
        keep: usize,
    },
}

/// Where the model's words come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Answers {
    /// A service.
    #[default]
    Service,
    /// `--fake-responses`: the reference's recorded-response file.
    Fake(PathBuf),
    /// `--fake-responses-non-strict`.
    FakeNonStrict(PathBuf),
    /// `--replay`: a recording of ours, strict or not.
    Replay {
        /// The recording.
        file: PathBuf,
        /// Whether requests must be those of the recording.
        strict: bool,
    },
    /// A script that ships with the program, by name.
    Embedded {
        /// For error messages.
        name: &'static str,
        /// The script.
        text: &'static str,
    },
}

/// Where the model's side is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// `--record`: all that a replay needs.
    Ours(PathBuf),
    /// `--record-responses`: the reference's format.
    Reference(PathBuf),
}

/// Everything a face knows when it starts.
#[derive(Debug, Clone, Default)]
pub struct LaunchOptions {
    /// The working folder.
    pub directory: PathBuf,
    /// The variables of the process.
    pub variables: Vec<(OsString, OsString)>,
    /// `--skip-trust`.
    pub skip_trust: bool,
    /// `--policy`; empty: the setting `policyPaths`, else the user's folders.
    pub policy_paths: Vec<PathBuf>,
    /// `--admin-policy`; empty: the setting `adminPolicyPaths`.
    pub admin_policy_paths: Vec<PathBuf>,
    /// `--sandbox`, as typed.
    pub sandbox: Option<String>,
    /// `--ignore-env`.
    pub ignore_env: bool,
    /// `-m`.
    pub model: Option<String>,
    /// `--approval-mode`, `-y`.
    pub approval_mode: Option<ApprovalMode>,
    /// `--plan-exit-mode`: the mode of the work on a plan where nobody can be asked.
    pub plan_exit_mode: Option<ApprovalMode>,
    /// `--include-directories`.
    pub include_directories: Vec<PathBuf>,
    /// `--allowed-tools`.
    pub allowed_tools: Vec<String>,
    /// `--exclude-tools`.
    pub exclude_tools: Vec<String>,
    /// `--allowed-mcp-server-names`.
    pub allowed_mcp_servers: Vec<String>,
    /// MCP servers of the program that embeds the session, as entries of `mcpServers`.
    pub mcp_servers: parallax_protocol::Object,
    /// `--skill-dir`: directories that hold skills, absolute.
    pub skill_directories: Vec<PathBuf>,
    /// `--append-system-prompt`.
    pub append_system_prompt: Option<String>,
    /// `-e`: only these extensions; `none`: none; empty: as they are switched.
    pub extensions: Vec<String>,
    /// `--max-turns`.
    pub max_turns: Option<u32>,
    /// `--fallback`.
    pub fallback: Option<FallbackPolicy>,
    /// `--max-cost`, `--max-tokens`, `--timeout`.
    pub limits: RunLimits,
    /// Which session.
    pub session: SessionChoice,
    /// Whether questions can be answered.
    pub interactive: bool,
    /// Whether the first prompt waits for MCP servers that were never seen, although questions
    /// can be answered: a program sends its prompts without waiting itself.
    pub waits_for_servers: bool,
    /// Whether a person is there who is asked when a budget is spent; else the
    /// turn ends.
    pub budget_questions: bool,
    /// Whether events keep whole files beside the diffs of edits, for editors.
    pub keeps_file_texts: bool,
    /// The editor that reads and writes the text files of the workspace.
    pub editor: parallax_protocol::editor_files::SessionEditor,
    /// The connection to the companion extension of an editor.
    pub companion: Option<parallax_ide::Companion>,
    /// Tools of the program that embeds the session.
    pub tools: EmbeddedTools,
    /// Where answers come from.
    pub answers: Answers,
    /// Where the model's side is recorded.
    pub recording: Option<Recording>,
    /// The version of the program, for the service.
    pub version: &'static str,
    /// Whether the session leaves no journal (the demonstration).
    pub ephemeral: bool,
    /// Whether it is only looked at what holds: then a folder need not be
    /// trusted, for nothing of such a folder is read.
    pub look_only: bool,
    /// Whether `main` of this program calls `parallax_sandbox::main` first, so
    /// that it can start itself again to confine and watch commands.
    pub supervises: bool,
    /// Who knows the colours of code, for pages of sessions.
    pub colourist: Option<Colourist>,
}

/// Tools of the program that embeds the session ([`crate::agent`]).
#[derive(Clone, Default)]
pub struct EmbeddedTools(pub(crate) Vec<Arc<dyn Tool>>);

/// A launch whose settings are read and whose folder is known to be trusted or
/// not. Opening consumes one; a face that switches between sessions keeps the
/// options and prepares anew, so that changed settings count, and a clone for
/// questions about the project.
#[derive(Clone)]
pub struct Launch {
    pub(crate) options: LaunchOptions,
    pub(crate) config: Config,
    pub(crate) mode: ApprovalMode,
    pub(crate) extensions: Arc<OnceLock<Arc<Extensions>>>,
    /// The hooks that the session runs which this launch opened.
    pub(crate) running_hooks: Arc<OnceLock<Vec<RunningHook>>>,
    /// Whom MCP servers can ask.
    pub(crate) asker: Option<Arc<dyn Asker>>,
    /// What answers for MCP servers; a session sets it.
    pub(crate) sampling: Option<Sampling>,
    /// The sandbox that is asked for: `BuiltIn` means that commands run in one
    /// or not at all, `Off` that they run in none.
    pub sandbox: ProgramSandbox,
    /// What the person should know, one line each.
    pub warnings: Vec<String>,
}

impl Launch {
    /// Reads settings and decides on trust.
    ///
    /// # Errors
    /// Settings that cannot be used, a mode that is forbidden, and a folder
    /// that is not trusted while nobody can be asked
    /// ([`Launch::prepare_or_ask`] asks).
    pub fn prepare(options: LaunchOptions) -> Result<Self, Failure> {
        let config = Self::load(&options)?;
        if !config.trust.trusted && !options.look_only {
            return Err(untrusted(&options.directory, &config.outer));
        }
        Self::of(options, config)
    }

    /// Reads settings, and of the project only what is trusted.
    pub(crate) fn load(options: &LaunchOptions) -> Result<Config, Failure> {
        parallax_config::load(LoadOptions {
            cwd: options.directory.clone(),
            variables: options.variables.clone(),
            skip_trust: options.skip_trust,
            ignore_env: options.ignore_env,
        })
        .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// The launch, trusted or not.
    pub(crate) fn of(options: LaunchOptions, config: Config) -> Result<Self, Failure> {
        let mut warnings = config.warnings.clone();
        let mode = approval_mode(&options, &config, &mut warnings)?;
        let sandbox = program_sandbox::asked(options.sandbox.as_deref(), &config)?;
        let extensions = Arc::default();
        Ok(Self {
            options,
            config,
            mode,
            extensions,
            running_hooks: Arc::default(),
            asker: None,
            sampling: None,
            sandbox,
            warnings,
        })
    }

    /// What it was prepared from, to prepare another.
    pub fn options(&self) -> &LaunchOptions {
        &self.options
    }

    /// The approval mode of the session at its start.
    pub fn mode(&self) -> ApprovalMode {
        self.mode
    }

    /// The format that the settings ask for (`output.format`).
    pub fn output_format(&self) -> OutputFormat {
        self.config.settings.output_format()
    }

    /// The folder of the program's own files (`~/.parallax`).
    pub fn home(&self) -> &std::path::Path {
        &self.config.homes.parallax
    }

    /// The model as it will be asked for: flag, variable, setting, `auto`.
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
    // Yolo is never taken from a file: a project could bring it.
    let set = config.settings.default_approval_mode().min(ApprovalMode::AutoEdit);
    let mode = options.approval_mode.unwrap_or(set);
    if mode == ApprovalMode::Yolo && config.settings.disable_yolo_mode() {
        return Err(failure(
            FailureKind::Config,
            "yolo mode is switched off by the setting `security.disableYoloMode`".to_owned(),
        ));
    }
    if mode == ApprovalMode::Plan && !config.settings.flag("general.plan.enabled") {
        warnings.push(
            "plan mode is switched off (`general.plan.enabled`): the approval mode is `default`"
                .to_owned(),
        );
        return Ok(ApprovalMode::Default);
    }
    if !config.trust.trusted && mode > ApprovalMode::Default {
        warnings.push(format!(
            "the folder is not trusted: approval mode `{}` is not used",
            mode.as_str()
        ));
        return Ok(ApprovalMode::Default);
    }
    Ok(mode)
}

/// Why nothing is read of a folder, and what to do, where nobody can be asked.
fn untrusted(directory: &Path, outer: &OuterSettings) -> Failure {
    // Names only: nothing of the folder is expanded, followed or run.
    let brings = match parallax_config::survey(directory, outer).summary() {
        Some(summary) => format!("it would bring {summary} (see `parallax trust show`)"),
        None => "it would bring no settings or commands".to_owned(),
    };
    failure(
        FailureKind::Untrusted,
        format!(
            "the folder `{}` is not trusted, so nothing of it counts; {brings}; trust it with \
             `parallax trust add`, or for one run with `--skip-trust` or \
             `GEMINI_CLI_TRUST_WORKSPACE=true`",
            directory.display()
        ),
    )
}

/// A failure before the session runs.
pub(crate) fn failure(kind: FailureKind, message: String) -> Failure {
    Failure { kind, message, status: None }
}
