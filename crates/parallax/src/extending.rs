//! Subcommands for what people add to the program: extensions, custom commands,
//! skills, sub-agents, hooks.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand, ValueEnum};
use parallax_headless::{ExitCode, OutputFormat, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::settings::SettingScope;
use parallax_sdk::{Launch, LaunchOptions};
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
    /// See, check and begin custom slash commands
    Commands {
        #[command(subcommand)]
        action: CommandsAction,
        #[command(flatten)]
        printing: Json,
    },
    /// See and manage skills
    #[command(alias = "skill")]
    Skills {
        #[command(subcommand)]
        action: SkillsAction,
        #[command(flatten)]
        printing: Json,
    },
    /// See the sub-agents, and agree to those of the project
    #[command(alias = "agent")]
    Agents {
        #[command(subcommand)]
        action: AgentsAction,
        #[command(flatten)]
        printing: Json,
    },
    /// See, accept and switch hooks
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

    /// Write what happens into a log below `~/.parallax/logs`
    #[arg(short = 'd', long, global = true)]
    debug: bool,
}

/// For which projects a change holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// All of yours
    User,
    /// This one
    #[value(alias = "project")]
    Workspace,
}

/// The option that says so.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct InScope {
    /// For which projects
    #[arg(long, value_enum, default_value_t = Scope::User)]
    scope: Scope,
}

/// The option of what is switched for one project, where nothing else is said.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct InProject {
    /// For which projects
    #[arg(short = 's', long, value_enum, default_value_t = Scope::Workspace)]
    pub(crate) scope: Scope,
}

/// The option of what is switched where it was switched before, else.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WhereItIs {
    /// For which projects; without it, wherever it is off
    #[arg(short = 's', long, value_enum)]
    pub(crate) scope: Option<Scope>,
}

impl From<InScope> for SettingScope {
    fn from(option: InScope) -> Self {
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

/// The same for people and for programs.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) json: Value,
    /// What failed, for people.
    pub(crate) errors: String,
    /// What people are told beside a document for programs, which has no place for it.
    pub(crate) beside: String,
    pub(crate) code: ExitCode,
    /// Whether the text is a document, printed as it is in any format.
    pub(crate) raw: bool,
}

impl Said {
    /// What went well.
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

/// What is said when something of a kind was switched on or off in a file.
pub(crate) fn switched(kind: &str, name: &str, on: bool, file: &Path) -> Said {
    let word = if on { "on" } else { "off" };
    let place = one_line(&file.display().to_string());
    let text = format!("The {kind} `{}` is {word} ({place})\n", one_line(name));
    Said::new(text, json!({"name": name, "enabled": on, "file": file.to_string_lossy()}))
}

impl Extending {
    /// Does it, prints it, and gives the exit code.
    ///
    /// # Errors
    /// Words that cannot be used, files that cannot be read or written.
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
            // As the same words end where extensions come and go.
            Self::Skills { action, .. } if action.moves() => extensions_command::code_of(failure),
            _ => ExitCode::of(failure),
        }
    }

    /// How it is printed, failures too.
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

    /// Whether what happens is written down.
    pub(crate) fn is_logged(&self) -> bool {
        self.printing().debug
    }

    /// `--list-extensions`.
    pub(crate) fn list_extensions(json: bool) -> Self {
        Self::Extensions { action: ExtensionsAction::list(), printing: Json { json, debug: false } }
    }
}

/// Prints what was said; a reader that has gone away is no failure.
pub(crate) fn say(said: &Said, format: OutputFormat) -> ExitCode {
    let mut stdout = io::stdout();
    // Programs read it in the document. Nobody is there when this fails.
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

/// Reads the settings. Of a folder that is not trusted nothing is read, and
/// nothing of it is shown.
pub(crate) fn launch() -> Result<Launch, Failure> {
    prepared(launch_options()?)
}

/// The same with these options; what is wrong with the settings is told.
pub(crate) fn prepared(options: LaunchOptions) -> Result<Launch, Failure> {
    let launch = Launch::prepare(options)?;
    if LOGS.swap(false, Ordering::Relaxed) {
        crate::log::begin(&launch);
    }
    warn(&launch.warnings);
    Ok(launch)
}

/// Whether `--skip-trust` stood before the subcommand.
static SKIPS_TRUST: AtomicBool = AtomicBool::new(false);

/// The folder is trusted for this run of a subcommand.
pub(crate) fn skip_trust() {
    SKIPS_TRUST.store(true, Ordering::Relaxed);
}

/// Whether `--debug` stood beside the subcommand, and no log was begun yet.
static LOGS: AtomicBool = AtomicBool::new(false);

/// What happens in this run of a subcommand is written down.
pub(crate) fn log_it() {
    LOGS.store(true, Ordering::Relaxed);
}

/// How subcommands read them: nothing is begun, and no session is kept.
pub(crate) fn launch_options() -> Result<LaunchOptions, Failure> {
    let directory = std::env::current_dir()
        .map_err(|error| refused(format!("the working folder cannot be used: {error}")))?;
    Ok(LaunchOptions {
        directory,
        variables: std::env::vars_os().collect(),
        look_only: true,
        ephemeral: true,
        skip_trust: SKIPS_TRUST.load(Ordering::Relaxed),
        version: env!("CARGO_PKG_VERSION"),
        colourist: Some(parallax_tui::highlight::code_pieces),
        ..LaunchOptions::default()
    })
}

/// Tells on standard error what the person should know of their settings.
pub(crate) fn warn(warnings: &[String]) {
    let mut stderr = io::stderr();
    for warning in warnings {
        // Nobody can be told when stderr is gone.
        let _ = writeln!(stderr, "parallax: {}", one_line(warning));
    }
}

/// A failure that the person can mend.
pub(crate) fn refused(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
