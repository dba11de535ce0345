//! Child processes: shell commands with bounded output, pseudo-terminals, process trees that end
//! with their session, and background processes.
//!
//! Not included: deciding whether a command may run, reading settings, and formatting results for
//! the model.

pub mod agent_process;
pub mod background;
pub mod capture;
mod command;
pub mod container;
pub mod environment;
mod error;
mod output;
mod output_file;
mod piped_child;
mod piped_command;
mod process;
mod process_tree;
pub mod program;
pub mod program_sandbox;
mod pseudo_terminal;
mod redactor;
mod registry;
mod screen;
pub mod seatbelt;
mod shared_sandbox;
pub mod shell;
mod spawn_request;
mod start;
mod stdio_server;
mod terminal;
mod terminal_size;
pub mod text;
pub mod user_program;
mod waiter;

pub use command::{
    Command, CommandOutcome, Control, DetachedCommand, FinishedCommand, Limits, Mode, StopReason,
};
pub use error::StartError;
pub use output::Output;
pub use output_file::{LimitBehavior, OutputFile, create_private_folder};
pub use piped_child::{ChildOutput, PipedChild};
pub use piped_command::{MAX_PIPED_OUTPUT, PipedCommand, PipedOutput};
pub use process::RunningCommand;
pub use redactor::Redactor;
pub use registry::Processes;
pub use screen::LiveOutput;
pub use stdio_server::{StdioProgram, StdioServer, StdioStreams};
pub use terminal_size::TerminalSize;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExit {
    /// The process exited with this code.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// The process was terminated by a signal.
    Signalled {
        /// The signal number.
        signal: i32,
    },
}

impl From<std::process::ExitStatus> for ProcessExit {
    fn from(status: std::process::ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited { code },
            (None, Some(signal)) => Self::Signalled { signal },
            // A stopped child is never reported as ended.
            (None, None) => Self::Exited { code: -1 },
        }
    }
}
