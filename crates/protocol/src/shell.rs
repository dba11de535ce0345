//! Commands that a person runs, and what every face needs of processes: their
//! screens, their input, and those that run on in the background.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tool::Run;
use crate::{BoxFuture, BoxStream};

/// The size of a terminal, in characters. 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TerminalSize {
    /// Characters in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// A command of the person's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// The text for the shell, as typed.
    pub command: String,
    /// Whether it goes to the background at once.
    pub background: bool,
    /// The size of its terminal; `None` = the usual one.
    pub size: Option<TerminalSize>,
}

/// How a command of the person's ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ShellEnding {
    /// By itself.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// By a signal that was not ours.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// The person ended it.
    Cancelled,
    /// It runs on in the background.
    Background {
        /// Its process, as [`BackgroundProcess::pid`].
        pid: i32,
    },
    /// It did not start.
    Failed {
        /// Why.
        message: String,
    },
}

/// What a command of the person's came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellOutcome {
    /// How it ended.
    pub ending: ShellEnding,
    /// Its output as plain text, bounded.
    pub output: String,
    /// The end of its output with its colours, for people, bounded.
    pub display: String,
    /// Where the shell stood in the end, when that is not where it began. The
    /// next command begins in the project's folder again.
    pub directory: Option<PathBuf>,
}

/// The rows of a command's terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Screen {
    /// From the top, without blank rows at the end. Text with colour sequences
    /// (`ESC [ … m`) and no others; a row ends with its colours reset.
    pub rows: Vec<String>,
    /// How many rows left it at the top.
    pub scrolled: u64,
    /// Row and column of the cursor from 0, when it is shown.
    pub cursor: Option<(u16, u16)>,
    /// Whether a full-screen program (an editor, a pager) draws it. Else the
    /// last rows are what a person would see of an ordinary output.
    pub full_screen: bool,
    /// Whether the program wants cursor keys as `ESC O A` and not `ESC [ A`.
    pub application_cursor: bool,
}

/// A process that runs, or ran, in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BackgroundProcess {
    /// The process.
    pub pid: i32,
    /// The command that started it, as typed.
    pub command: String,
    /// Whether it runs.
    pub state: BackgroundState,
    /// Its log; it need not be there.
    #[serde(with = "crate::path_text::one")]
    #[schemars(with = "PathBuf")]
    pub log: PathBuf,
    /// The last lines of the log, as many as asked for.
    pub last_lines: Vec<String>,
}

/// Whether a process in the background runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BackgroundState {
    /// It does.
    Running,
    /// It ended by itself, or nobody knows how (`code` is `None`).
    Exited {
        /// The exit code, where it is known.
        code: Option<i32>,
    },
    /// A signal ended it.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
}

/// What follows when a process in the background ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackgroundCompletion {
    /// Nothing: who wants to know looks.
    #[default]
    Silent,
    /// The person and the model are told, with the place of its log.
    Notify,
    /// The model gets the end of its output too.
    Inject,
}

/// Reaches the process of a running call from elsewhere. Never blocks; after
/// the end of the process nothing happens.
pub trait ProcessControl: Send + Sync {
    /// Types into its terminal. Without one nothing happens.
    fn input(&self, bytes: Vec<u8>);
    /// Its terminal has another size.
    fn resize(&self, size: TerminalSize);
    /// Lets it run on in the background: the call ends with what there is.
    fn to_background(&self);
}

/// The person's shell and the processes of the session.
pub trait Shell: Send + Sync {
    /// Runs a command as the person's own: nobody judges it, no sandbox
    /// confines it. Cancelled, it ends with all that it started.
    fn run(&self, command: ShellCommand, run: Run) -> BoxFuture<'static, ShellOutcome>;
    /// The processes in the background, oldest first, each with the last lines
    /// of its log. Blocking.
    fn background(&self, lines: usize) -> Vec<BackgroundProcess>;
    /// Ends one of them with all that it started; `false` when no such process
    /// runs. Blocking: half a second at most.
    fn end_background(&self, pid: i32) -> bool;
    /// Yields each time one was added or has ended. Several changes may be told
    /// as one.
    fn changes(&self) -> BoxStream<'static, ()>;
    /// What follows when one of them ends.
    fn completion(&self) -> BackgroundCompletion {
        BackgroundCompletion::Silent
    }
}
