//! Commands that start no async runtime.

use std::path::PathBuf;

use parallax_headless::{ExitCode, OutputFormat};

use crate::arguments::{PolicyAction, SandboxAction, TrustAction, UndoArguments};
use crate::command_output::{LaunchFailure, print};
use crate::completion_shell::CompletionShell;
use crate::extension_commands::ExtensionCommand;
use crate::program_name::with_called_name;
use crate::sandbox_command::SandboxResult;
use crate::sessions_arguments::SessionsArguments;
use crate::stats_command::StatsArguments;
use crate::worktrees_command::WorktreesAction;
use crate::{
    completions, man_command, policy_command, sandbox_command, sessions_command, stats_command,
    trust_command, undo_command, worktrees_command,
};

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\n");

/// A command that starts no async runtime.
#[derive(Debug)]
pub(crate) enum BlockingCommand {
    /// Print this text.
    Help(String),
    /// Print the completion script for a shell.
    Completions(CompletionShell),
    /// Print the man page, or write all into this directory.
    Man(Option<PathBuf>),
    /// Print the version.
    Version,
    /// List or change trusted folders.
    Trust { action: TrustAction, json: bool },
    /// Undo the file changes of a turn.
    Undo(UndoArguments),
    /// Inspect or use the command sandbox.
    Sandbox(SandboxAction),
    /// List and check policy rules.
    Policy(PolicyAction),
    /// List and manage extensions, commands, skills, agents, and hooks.
    Extending(ExtensionCommand),
    /// List and manage sessions.
    Sessions(SessionsArguments),
    /// Show usage statistics of all sessions.
    Stats(StatsArguments),
    /// Manage worktrees of sessions.
    Worktrees(WorktreesAction),
}

impl BlockingCommand {
    /// Runs the command, reports a failure, and returns the exit code.
    pub(crate) fn run(self) -> ExitCode {
        let print = |text: String| print(&text);
        let json_or_text = |json| if json { OutputFormat::Json } else { OutputFormat::Text };
        let (result, format) = match self {
            Self::Help(text) => {
                (Ok(print(with_called_name(&text).into_owned())), OutputFormat::Text)
            }
            Self::Version => (Ok(print(VERSION.to_owned())), OutputFormat::Text),
            Self::Completions(shell) => (completions::script(shell).map(print), OutputFormat::Text),
            Self::Man(out) => (man_command::man(out.as_deref()).map(print), OutputFormat::Text),
            Self::Trust { action, json } => {
                (trust_command::run(action, json).map(print), json_or_text(json))
            }
            Self::Stats(arguments) => {
                (stats_command::run(&arguments).map(print), OutputFormat::Text)
            }
            Self::Undo(arguments) => (undo_command::run(&arguments), json_or_text(arguments.json)),
            Self::Sessions(arguments) => {
                (sessions_command::run(&arguments), sessions_command::format(&arguments))
            }
            Self::Policy(action) => (policy_command::run(&action), policy_command::format(&action)),
            Self::Worktrees(action) => {
                (worktrees_command::run(action).map(print), OutputFormat::Text)
            }
            Self::Sandbox(action) => {
                let result = sandbox_command::run(action).map(|result| match result {
                    SandboxResult::Text(text) => print(text),
                    SandboxResult::Exited(code) => code,
                });
                (result, OutputFormat::Text)
            }
            Self::Extending(action) => {
                return action.run().unwrap_or_else(|failure| {
                    let code = action.code_of(&failure);
                    LaunchFailure::new(failure, Some(action.format())).report();
                    code
                });
            }
        };
        result.unwrap_or_else(|failure| LaunchFailure::new(failure, Some(format)).report())
    }
}
