//! Shell commands of the user, and the screens, input, and background state of processes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tool::Run;
use crate::{BoxFuture, BoxStream};

/// The size of a terminal, in characters. 0 is treated as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TerminalSize {
    /// The number of columns.
    pub columns: u16,
    /// The number of rows.
    pub rows: u16,
}

/// A shell command that the user entered.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A signal that Parallax did not send ended the process.
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

/// The screen of a command's terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Screen {
    /// The rows from the top, without empty rows at the end. They contain color sequences (`ESC [ …
    /// m`) and no other control sequences; each row ends with its colors reset.
    pub rows: Vec<String>,
    /// The number of rows that scrolled off the top.
    pub scrolled: u64,
    /// The row and column of the cursor from 0, if it is visible.
    pub cursor: Option<(u16, u16)>,
    /// Whether a full-screen program (an editor, a pager) draws the screen. Otherwise the last rows
    /// show the end of ordinary output.
    pub full_screen: bool,
    /// Whether the program expects cursor keys as `ESC O A` instead of `ESC [ A`.
    pub application_cursor: bool,
}

/// A running or ended background process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BackgroundProcess {
    /// The process id.
    pub pid: i32,
    /// The command that started it, as typed.
    pub command: String,
    /// Whether it is running or how it ended.
    pub state: BackgroundState,
    /// The log file; may not exist.
    #[serde(with = "crate::path_text::one")]
    #[schemars(with = "PathBuf")]
    pub log: PathBuf,
    /// The last lines of the log, as many as requested.
    pub last_lines: Vec<String>,
}

/// The state of a background process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BackgroundState {
    /// It is running.
    Running,
    /// It exited, or its end is unknown (`code` is `None`).
    Exited {
        /// The exit code, if known.
        code: Option<i32>,
    },
    /// A signal ended it.
    Signalled {
        /// The signal number.
        signal: i32,
    },
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

/// Controls the process of a running call. The methods never block, and do nothing after the
/// process ended.
pub trait ProcessControl: Send + Sync {
    /// Types bytes into the terminal. Does nothing without a terminal.
    fn input(&self, bytes: Vec<u8>);
    /// Changes the size of the terminal.
    fn resize(&self, size: TerminalSize);
    /// Moves the process to the background: the call ends with the results so far.
    fn to_background(&self);
}

/// The user's shell and the processes of the session.
pub trait Shell: Send + Sync {
    /// Runs a shell command of the user, without policy evaluation and without the sandbox.
    /// Cancelling it kills the process and all its descendants.
    fn run(&self, command: ShellCommand, run: Run) -> BoxFuture<'static, ShellOutcome>;
    /// Returns the background processes, oldest first, each with the last lines of its log.
    /// Blocking.
    fn background(&self, lines: usize) -> Vec<BackgroundProcess>;
    /// Kills a background process and all its descendants. Returns `false` if no such process is
    /// running. Blocking, for at most half a second.
    fn end_background(&self, pid: i32) -> bool;
    /// Yields whenever a background process starts or ends. Several changes may be merged into one.
    fn changes(&self) -> BoxStream<'static, ()>;
    /// Returns what happens when a background process ends.
    fn completion(&self) -> BackgroundCompletion {
        BackgroundCompletion::Silent
    }
}
