//! Commands, their limits, and their outcomes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::secret::Redact;
use parallax_sandbox::Plan;
use tokio::sync::mpsc;

use crate::ProcessExit;
use crate::capture::CaptureLimits;
use crate::output::Output;
use crate::terminal_size::TerminalSize;

/// What a command is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A pipe that receives stdout and stderr in order; stdin is empty.
    Pipe,
    /// A separate terminal. If none can be opened, the same as [`Mode::Pipe`].
    Terminal(TerminalSize),
}

/// Limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How much of the output is kept in memory.
    pub capture: CaptureLimits,
    /// Maximum number of bytes of the full copy on disk.
    pub copy_bytes: u64,
    /// Maximum time without output.
    pub inactivity: Option<Duration>,
    /// Maximum run time.
    pub runtime: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            capture: CaptureLimits::from_threshold(40_000),
            copy_bytes: 256 * 1024 * 1024,
            inactivity: Some(Duration::from_secs(300)),
            runtime: None,
        }
    }
}

/// A command to start.
#[derive(Debug, Clone)]
pub struct Command {
    /// The text for the shell.
    pub text: String,
    /// Text that the shell runs first, on the same line; never shown.
    pub before: Option<String>,
    /// The working directory.
    pub directory: PathBuf,
    /// All environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// What the command is connected to.
    pub mode: Mode,
    /// Where the full output is saved if it is not kept in memory.
    pub copy: Option<PathBuf>,
    /// Redacts secrets in that copy and in the log of a background process.
    pub redact: Option<Arc<dyn Redact>>,
    /// The limits.
    pub limits: Limits,
    /// Whether to show colors.
    pub color: bool,
    /// The sandbox, which also ensures that the command does not outlive this program. `None`
    /// starts the command without one. Its namespaces, parent, and session are filled in.
    pub sandbox: Option<Plan>,
}

/// Why a command was stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The command was cancelled.
    Cancelled,
    /// The command produced no output for too long.
    Inactive(Duration),
    /// The command ran for too long.
    Runtime(Duration),
}

/// A command that ended.
#[derive(Debug, Clone)]
pub struct FinishedCommand {
    /// How it ended.
    pub exit: ProcessExit,
    /// Why Parallax stopped the command, if it did.
    pub stop: Option<StopReason>,
    /// The output.
    pub output: Output,
    /// The process ID of the shell, which was the leader of the process group.
    pub pid: i32,
    /// Process IDs that it left running.
    pub remaining_processes: Vec<i32>,
}

/// A command that continues in the background.
#[derive(Debug, Clone)]
pub struct DetachedCommand {
    /// The process ID of the shell, which is also the process group ID.
    pub pid: i32,
    /// The output so far.
    pub output: Output,
    /// The log file with the whole output.
    pub log: PathBuf,
}

/// The result of following a command.
#[derive(Debug, Clone)]
pub enum CommandOutcome {
    /// The command ended.
    Finished(Box<FinishedCommand>),
    /// It continues in the background.
    Detached(Box<DetachedCommand>),
}

#[derive(Debug)]
pub(crate) enum ControlMessage {
    Resize(TerminalSize),
    Input(Vec<u8>),
    Detach,
    StopReason,
}

/// A handle that controls a running command. Cheap to clone; has no effect after the command ended.
#[derive(Debug, Clone)]
pub struct Control {
    messages: mpsc::Sender<ControlMessage>,
}

impl Control {
    pub(crate) fn new() -> (Self, mpsc::Receiver<ControlMessage>) {
        let (messages, receiver) = mpsc::channel(64);
        (Self { messages }, receiver)
    }
}

impl Control {
    /// Resizes the command's terminal.
    pub fn resize(&self, size: TerminalSize) {
        self.send(ControlMessage::Resize(size));
    }
    /// Writes to the command's terminal, if it has one.
    pub fn write_input(&self, bytes: Vec<u8>) {
        self.send(ControlMessage::Input(bytes));
    }
    /// Moves the command to the background.
    pub fn detach(&self) {
        self.send(ControlMessage::Detach);
    }
    /// Terminates the command and everything it started.
    pub fn stop(&self) {
        self.send(ControlMessage::StopReason);
    }

    fn send(&self, message: ControlMessage) {
        if let Err(error) = self.messages.try_send(message) {
            tracing::debug!(%error, "failed to send a control message to a command");
        }
    }
}
