//! Shell commands of the user, and the screens, input, and background state of processes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tool::RunContext;
use crate::{BoxFuture, BoxStream};

pub use crate::process::{
    BackgroundProcess, BackgroundState, ProcessControl, Screen, TerminalSize,
};

/// A shell command that the user entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellCommand {
    /// The command line as typed.
    pub command: String,
    /// Whether it starts in the background.
    pub background: bool,
    /// The size of its terminal; `None`: the default size.
    pub size: Option<TerminalSize>,
}

/// How a shell command of the user ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ShellEnding {
    /// The process exited.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// A signal that Parallax did not send terminated the process.
    Signalled {
        /// The signal number.
        signal: i32,
    },
    /// The user cancelled it.
    Cancelled,
    /// It continues in the background.
    Background {
        /// The process id; see [`BackgroundProcess::pid`].
        pid: i32,
    },
    /// It could not be started.
    Failed {
        /// The reason.
        message: String,
    },
}

/// The result of a shell command of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellOutcome {
    /// How it ended.
    pub ending: ShellEnding,
    /// The output as plain text, limited in size.
    pub output: String,
    /// The end of the output with its colors, for the user; limited in size.
    pub display: String,
    /// The final working directory of the shell if it differs from the first. The next command
    /// starts in the project directory again.
    pub directory: Option<PathBuf>,
}

/// What happens when a background process ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackgroundCompletion {
    /// Nothing is reported.
    #[default]
    Silent,
    /// The user and the model are notified, with the path of the log.
    Notify,
    /// Like [`Self::Notify`], and the model also receives the end of the output.
    Inject,
}

/// The user's shell and the processes of the session.
pub trait Shell: Send + Sync {
    /// Runs a shell command of the user, without policy evaluation and without the sandbox.
    /// Cancelling it kills the process and all its descendants.
    fn run(&self, command: ShellCommand, run: RunContext) -> BoxFuture<'static, ShellOutcome>;
    /// Returns the background processes, oldest first, each with the last lines of its log.
    /// Blocking.
    fn background(&self, lines: usize) -> Vec<BackgroundProcess>;
    /// Kills a background process and all its descendants. Returns `false` if no such process is
    /// running. Blocking, for at most half a second.
    fn terminate_background(&self, pid: i32) -> bool;
    /// Yields whenever a background process starts or ends. Several changes may be merged into one.
    fn changes(&self) -> BoxStream<'static, ()>;
    /// Returns what happens when a background process ends.
    fn completion(&self) -> BackgroundCompletion {
        BackgroundCompletion::Silent
    }
}
