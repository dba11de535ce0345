//! Subcommands for what users add: extensions, custom commands, skills, subagents, and
//! hooks.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use parallax_headless::{ExitCode, OutputFormat, one_line};
use parallax_protocol::event::Failure;
use parallax_sdk::{LaunchOptions, SessionConfig};

use crate::agents_command::{self, AgentsAction};
use crate::command_result::{input_failure, print_result};
use crate::commands_command::{self, CommandsAction};
use crate::extensions_command::{self, ExtensionsAction};
use crate::hooks_command::{self, HooksAction};
use crate::skills_command::{self, SkillsAction};

#[derive(Debug, Subcommand)]
pub(crate) enum ExtensionCommand {
    /// Install and manage extensions
    #[command(alias = "extension")]
    Extensions {
        #[command(subcommand)]
        action: ExtensionsAction,
        #[command(flatten)]
        printing: CommonOptions,
    },
    /// List, check, and create custom slash commands
    Commands {
        #[command(subcommand)]
        action: CommandsAction,
        #[command(flatten)]
        printing: CommonOptions,
    },
    /// Manage skills
    #[command(alias = "skill")]
    Skills {
        #[command(subcommand)]
        action: SkillsAction,
        #[command(flatten)]
        printing: CommonOptions,
    },
    /// List subagents, and accept those of the project
    #[command(alias = "agent")]
    Agents {
        #[command(subcommand)]
        action: AgentsAction,
        #[command(flatten)]
        printing: CommonOptions,
    },
    /// Manage hooks
    #[command(alias = "hook")]
    Hooks {
        #[command(subcommand)]
        action: HooksAction,
        #[command(flatten)]
        printing: CommonOptions,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CommonOptions {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,

    /// Write a log to `~/.parallax/logs`
    #[arg(short = 'd', long, global = true)]
    debug: bool,
}

impl ExtensionCommand {
    /// Runs the subcommand, prints its result, and returns the exit code.
    ///
    /// # Errors
    /// Fails on arguments that cannot be used and files that cannot be read or written.
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let launch = launch()?;
        let output = match self {
            Self::Extensions { action, .. } => extensions_command::run(&launch, action),
            Self::Commands { action, .. } => commands_command::run(&launch, action),
            Self::Skills { action, .. } => skills_command::run(&launch, action),
            Self::Agents { action, .. } => agents_command::run(&launch, action),
            Self::Hooks { action, .. } => hooks_command::run(&launch, action),
        }?;
        Ok(print_result(&output, self.format()))
    }

    /// Returns the exit code of a failure.
    pub(crate) fn code_of(&self, failure: &Failure) -> ExitCode {
        match self {
            Self::Extensions { .. } => extensions_command::code_of(failure),
            // `skills` shares its exit codes with `extensions` where it installs or
            // removes.
            Self::Skills { action, .. } if action.changes_skills() => {
                extensions_command::code_of(failure)
            }
            _ => ExitCode::for_failure(failure),
        }
    }

    /// Returns the output format, which applies to failures, too.
    pub(crate) fn format(&self) -> OutputFormat {
        let wants_json = matches!(self, Self::Extensions { action, .. } if action.wants_json());
        if self.printing().json || wants_json { OutputFormat::Json } else { OutputFormat::Text }
    }

    fn printing(&self) -> &CommonOptions {
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
        Self::Extensions {
            action: ExtensionsAction::list(),
            printing: CommonOptions { json, debug: false },
        }
    }
}

/// Prepares the configuration of a session. Nothing in an untrusted folder is read or shown.
pub(crate) fn launch() -> Result<SessionConfig, Failure> {
    prepare(launch_options()?)
}

/// Prepares the configuration of a session with these options and prints warnings about the
/// settings.
pub(crate) fn prepare(options: LaunchOptions) -> Result<SessionConfig, Failure> {
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

/// Whether the folder is trusted for this run.
pub(crate) fn skips_trust() -> bool {
    SKIPS_TRUST.load(Ordering::Relaxed)
}

/// Whether `--debug` was given and the log has not started yet.
static LOGS: AtomicBool = AtomicBool::new(false);

/// Enables a log of this run.
pub(crate) fn enable_log() {
    LOGS.store(true, Ordering::Relaxed);
}

/// Returns the launch options of subcommands, which start nothing and save no session.
pub(crate) fn launch_options() -> Result<LaunchOptions, Failure> {
    let directory = std::env::current_dir()
        .map_err(|error| input_failure(format!("Failed to read the current directory: {error}")))?;
    Ok(LaunchOptions {
        directory,
        variables: std::env::vars_os().collect(),
        is_read_only: true,
        ephemeral: true,
        skip_trust: skips_trust(),
        version: env!("CARGO_PKG_VERSION"),
        highlighter: Some(parallax_tui::code_pieces),
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
