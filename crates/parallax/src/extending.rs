//! Subcommands for what users add: extensions, custom commands, skills, subagents, and
//! hooks.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand, ValueEnum};
use parallax_headless::{ExitCode, OutputFormat, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::settings::SettingScope;
use parallax_sdk::{LaunchOptions, SessionConfig};
use serde_json::{Value, json};

use crate::agents_command::{self, AgentsAction};
use crate::commands_command::{self, CommandsAction};
use crate::extensions_command::{self, ExtensionsAction};
use crate::hooks_command::{self, HooksAction};
use crate::skills_command::{self, SkillsAction};

#[derive(Debug, Subcommand)]
pub(crate) enum Extending {
    /// Install and manage extensions
    #[command(alias = "extension")]
    Extensions {
        #[command(subcommand)]
        action: ExtensionsAction,
        #[command(flatten)]
        printing: Json,
    },
    /// List, check, and create custom slash commands
    Commands {
        #[command(subcommand)]
        action: CommandsAction,
        #[command(flatten)]
        printing: Json,
    },
    /// Manage skills
    #[command(alias = "skill")]
    Skills {
        #[command(subcommand)]
        action: SkillsAction,
        #[command(flatten)]
        printing: Json,
    },
    /// List subagents, and accept those of the project
    #[command(alias = "agent")]
    Agents {
        #[command(subcommand)]
        action: AgentsAction,
        #[command(flatten)]
        printing: Json,
    },
    /// Manage hooks
    #[command(alias = "hook")]
    Hooks {
        #[command(subcommand)]
        action: HooksAction,
        #[command(flatten)]
        printing: Json,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,

    /// Write a log to `~/.parallax/logs`
    #[arg(short = 'd', long, global = true)]
    debug: bool,
}

/// The projects that a change applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// All your projects
    User,
    /// This project
    #[value(alias = "project")]
    Workspace,
}

/// The `--scope` option, for all projects by default.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct UserScopeOption {
    /// Projects that the change applies to
    #[arg(long, value_enum, default_value_t = Scope::User)]
    scope: Scope,
}

/// The `--scope` option, for this project by default.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ProjectScopeOption {
    /// Projects that the change applies to
    #[arg(short = 's', long, value_enum, default_value_t = Scope::Workspace)]
    pub(crate) scope: Scope,
}

/// The `--scope` option of `enable`, which by default undoes every `disable`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OptionalScope {
    /// Projects that the change applies to [default: wherever it is disabled]
    #[arg(short = 's', long, value_enum)]
    pub(crate) scope: Option<Scope>,
}

impl From<UserScopeOption> for SettingScope {
    fn from(option: UserScopeOption) -> Self {
        option.scope.into()
    }
}

impl From<Scope> for SettingScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::User => Self::User,
            Scope::Workspace => Self::Workspace,
        }
    }
}

/// The result of a subcommand, as text and as JSON.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) json: Value,
    /// Errors for the text format.
    pub(crate) errors: String,
    /// A note on stderr beside a JSON document that has no field for it.
    pub(crate) beside: String,
    pub(crate) code: ExitCode,
    /// Whether the text is a document, which is printed unchanged in every format.
    pub(crate) raw: bool,
}

impl Said {
    /// The result of a success.
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self {
            text: text.into(),
            json,
            errors: String::new(),
            beside: String::new(),
            code: ExitCode::SUCCESS,
            raw: false,
        }
    }
}

/// The result of enabling or disabling something in a file.
pub(crate) fn switched(kind: &str, name: &str, on: bool, file: &Path) -> Said {
    let word = if on { "on" } else { "off" };
    let place = one_line(&file.display().to_string());
    let text = format!("The {kind} `{}` is {word} ({place}).\n", one_line(name));
    Said::new(text, json!({"name": name, "enabled": on, "file": file.to_string_lossy()}))
}

impl Extending {
    /// Runs the subcommand, prints its result, and returns the exit code.
    ///
    /// # Errors
    /// Fails on arguments that cannot be used and files that cannot be read or written.
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let launch = launch()?;
        let said = match self {
            Self::Extensions { action, .. } => extensions_command::run(&launch, action),
            Self::Commands { action, .. } => commands_command::run(&launch, action),
            Self::Skills { action, .. } => skills_command::run(&launch, action),
            Self::Agents { action, .. } => agents_command::run(&launch, action),
            Self::Hooks { action, .. } => hooks_command::run(&launch, action),
        }?;
        Ok(say(&said, self.format()))
    }

    /// The exit code of a failure.
    pub(crate) fn code_of(&self, failure: &Failure) -> ExitCode {
        match self {
            Self::Extensions { .. } => extensions_command::code_of(failure),
            // `skills` shares its exit codes with `extensions` where it installs or
            // removes.
            Self::Skills { action, .. } if action.moves() => extensions_command::code_of(failure),
            _ => ExitCode::of(failure),
        }
    }

    /// The output format, also for failures.
    pub(crate) fn format(&self) -> OutputFormat {
        let asked = matches!(self, Self::Extensions { action, .. } if action.wants_json());
        if self.printing().json || asked { OutputFormat::Json } else { OutputFormat::Text }
    }

    fn printing(&self) -> &Json {
        let (Self::Extensions { printing, .. }
        | Self::Commands { printing, .. }
        | Self::Skills { printing, .. }
        | Self::Agents { printing, .. }
        | Self::Hooks { printing, .. }) = self;
        printing
    }

    /// Whether a log is written.
    pub(crate) fn is_logged(&self) -> bool {
        self.printing().debug
    }

    /// Creates the action of `--list-extensions`.
    pub(crate) fn list_extensions(json: bool) -> Self {
        Self::Extensions { action: ExtensionsAction::list(), printing: Json { json, debug: false } }
    }
}

/// Prints a result. A closed pipe is not a failure.
pub(crate) fn say(said: &Said, format: OutputFormat) -> ExitCode {
    let mut stdout = io::stdout();
    // In the other formats, the document contains the errors. A failed write cannot be reported.
    if format == OutputFormat::Text {
        let _ = io::stderr().write_all(said.errors.as_bytes());
    }
    let written = match format {
        OutputFormat::Json | OutputFormat::StreamJson if !said.raw => {
            let _ = io::stderr().write_all(said.beside.as_bytes());
            stdout.write_all(json_document(&said.json).as_bytes())
        }
        _ => stdout.write_all(said.text.as_bytes()),
    };
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::GENERAL,
        _ => said.code,
    }
}

/// Prepares the configuration of a session. Nothing in an untrusted folder is read or shown.
pub(crate) fn launch() -> Result<SessionConfig, Failure> {
    prepared(launch_options()?)
}

/// Prepares the configuration of a session with these options and prints warnings about the settings.
pub(crate) fn prepared(options: LaunchOptions) -> Result<SessionConfig, Failure> {
    let launch = SessionConfig::prepare(options)?;
    if LOGS.swap(false, Ordering::Relaxed) {
        crate::log::begin(&launch);
    }
    warn(&launch.warnings);
    Ok(launch)
}

/// Whether `--skip-trust` came before the subcommand.
static SKIPS_TRUST: AtomicBool = AtomicBool::new(false);

/// Trusts the folder for this run.
pub(crate) fn skip_trust() {
    SKIPS_TRUST.store(true, Ordering::Relaxed);
}

/// Whether `--debug` was given and the log has not started yet.
static LOGS: AtomicBool = AtomicBool::new(false);

/// Enables a log of this run.
pub(crate) fn log_it() {
    LOGS.store(true, Ordering::Relaxed);
}

/// The launch options of subcommands, which start nothing and save no session.
pub(crate) fn launch_options() -> Result<LaunchOptions, Failure> {
    let directory = std::env::current_dir()
        .map_err(|error| refused(format!("Failed to read the current directory: {error}")))?;
    Ok(LaunchOptions {
        directory,
        variables: std::env::vars_os().collect(),
        look_only: true,
        ephemeral: true,
        skip_trust: SKIPS_TRUST.load(Ordering::Relaxed),
        version: env!("CARGO_PKG_VERSION"),
        colourist: Some(parallax_tui::code_pieces),
        ..LaunchOptions::default()
    })
}

/// Prints warnings about the settings on stderr.
pub(crate) fn warn(warnings: &[String]) {
    let mut stderr = io::stderr();
    for warning in warnings {
        // A failed write to stderr cannot be reported.
        let _ = writeln!(stderr, "parallax: {}", one_line(warning));
    }
}

/// A failure that the user can fix.
pub(crate) fn refused(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
