//! What a command is, what bounds it, and what comes of it.

use std::ffi::OsString;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::secret::Redact;
use parallax_sandbox::Plan;
use tokio::sync::mpsc;

use crate::Ending;
use crate::capture::CaptureLimits;
use crate::output::Output;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a row.
    pub columns: NonZeroU16,
    /// Rows.
    pub rows: NonZeroU16,
}

impl TerminalSize {
    /// A size; 0 counts as 1.
    pub fn new(columns: u16, rows: u16) -> Self {
        let at_least_one = |size| NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN);
        Self { columns: at_least_one(columns), rows: at_least_one(rows) }
    }
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self::new(80, 30)
    }
}

/// What a command is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A pipe takes stdout and stderr in order; stdin is empty.
    Pipe,
    /// A terminal of its own. When none can be opened: as [`Mode::Pipe`].
    Terminal(TerminalSize),
}

/// Bounds of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How much of the output is kept in memory.
    pub capture: CaptureLimits,
    /// How large the complete copy on disk may get, in bytes.
    pub copy_bytes: u64,
    /// How long it may be silent.
    pub inactivity: Option<Duration>,
    /// How long it may run.
    pub runtime: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            capture: CaptureLimits::of_threshold(40_000),
            copy_bytes: 256 * 1024 * 1024,
            inactivity: Some(Duration::from_secs(300)),
            runtime: None,
        }
    }
}

/// A command to be started.
#[derive(Debug, Clone)]
pub struct Command {
    /// The text for the shell.
    pub text: String,
    /// What the shell runs before it, in the same line; nobody is shown it.
    pub before: Option<String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// All variables it gets.
    pub environment: Vec<(OsString, OsString)>,
    /// What it is connected to.
    pub mode: Mode,
    /// Where the complete copy of an output goes that is not kept whole.
    pub copy: Option<PathBuf>,
    /// What takes secrets out of that copy, and of the log of a process in the
    /// background.
    pub redact: Option<Arc<dyn Redact>>,
    /// Its bounds.
    pub limits: Limits,
    /// Whether people see its colours.
    pub colour: bool,
    /// What it may see, write and reach; also watched, so that it does not
    /// outlive this program. `None` starts it as it is. Which cell it joins,
    /// whom it outlives and whose session it leads is filled in.
    pub sandbox: Option<Plan>,
}

/// Why a command was ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Someone wanted it.
    Cancelled,
    /// It was silent for too long.
    Inactive(Duration),
    /// It ran for too long.
    Runtime(Duration),
}

/// What is known of a command that ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Set when we ended it.
    pub stop: Option<Stop>,
    /// Its output.
    pub output: Output,
    /// The shell's process, which was the leader of the process group.
    pub pid: i32,
    /// Processes that it left running.
    pub left_running: Vec<i32>,
}

/// A command that runs on in the background.
#[derive(Debug, Clone)]
pub struct Detached {
    /// The shell's process and process group.
    pub pid: i32,
    /// The output so far.
    pub output: Output,
    /// Where the output goes, from its beginning.
    pub log: PathBuf,
}

/// How following a command came to its end.
#[derive(Debug, Clone)]
pub enum Ended {
    /// The command ended.
    Finished(Box<Finished>),
    /// It runs on.
    Detached(Box<Detached>),
}

#[derive(Debug)]
pub(crate) enum Message {
    Resize(TerminalSize),
    Input(Vec<u8>),
    Detach,
    Stop,
}

/// Reaches a running command from elsewhere. Cheap to clone; after the end of
/// the command nothing happens.
#[derive(Debug, Clone)]
pub struct Control {
    messages: mpsc::Sender<Message>,
}

impl Control {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Message>) {
        let (messages, receiver) = mpsc::channel(64);
        (Self { messages }, receiver)
    }
}

impl Control {
    /// Tells the command that its terminal has another size.
    pub fn resize(&self, size: TerminalSize) {
        self.send(Message::Resize(size));
    }
    /// Types into the command's terminal. Without one nothing happens.
    pub fn write_input(&self, bytes: Vec<u8>) {
        self.send(Message::Input(bytes));
    }
    /// Sends it to the background.
    pub fn detach(&self) {
        self.send(Message::Detach);
    }
    /// Ends it and all that it started.
    pub fn stop(&self) {
        self.send(Message::Stop);
    }

    fn send(&self, message: Message) {
        if let Err(error) = self.messages.try_send(message) {
            tracing::debug!(%error, "a command was not reached");
        }
    }
}
