//! Commands that run in a terminal of the editor instead of a process of Parallax.

use std::path::PathBuf;

use crate::ids::CallId;
use crate::{BoxFuture, CancellationToken};

/// A command for a terminal of the editor.
#[derive(Debug, Clone)]
pub struct TerminalCommand {
    /// The tool call that runs it; the editor shows the terminal there.
    pub call: CallId,
    /// The program.
    pub program: String,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The working directory.
    pub directory: PathBuf,
    /// Environment variables to add to those of the editor.
    pub variables: Vec<(String, String)>,
    /// Maximum bytes of output to keep; the end is kept.
    pub output_limit: u64,
    /// Kills the command.
    pub cancel: CancellationToken,
}

/// How a command in a terminal of the editor ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalExit {
    /// The output.
    pub output: String,
    /// Whether the beginning of the output is missing.
    pub truncated: bool,
    /// The exit code; `None` if a signal ended it or the command was cancelled.
    pub code: Option<u32>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// An editor that runs commands in its terminals, where its user sees them.
pub trait EditorTerminal: Send + Sync {
    /// Whether the editor is still there.
    fn is_connected(&self) -> bool {
        true
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// Returns the message from the editor if the command cannot run.
    fn run(&self, command: TerminalCommand) -> BoxFuture<'static, Result<TerminalExit, String>>;
}
