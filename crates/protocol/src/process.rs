//! Processes that the session runs: their terminals, their controls, and their background state.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The size of a terminal, in characters. 0 is treated as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TerminalSize {
    /// The number of columns.
    pub columns: u16,
    /// The number of rows.
    pub rows: u16,
}

/// The screen of a command's terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
