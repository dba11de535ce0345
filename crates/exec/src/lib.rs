//! Child processes: shell commands with bounded output, pseudo-terminals, process trees that
//! end with their session, and background processes.
//!
//! This crate does not decide whether a command may run, reads no settings, and formats nothing
//! for the model.

pub mod background;
pub mod capture;
mod command;
mod confined;
pub mod container;
pub mod environment;
mod error;
mod family;
mod fed;
mod output;
pub mod persons_program;
mod process;
pub mod program;
pub mod program_sandbox;
mod record;
mod redactor;
mod registry;
mod screen;
pub mod seatbelt;
mod served;
pub mod shell;
mod start;
mod terminal;
pub mod text;

pub use command::{Command, Control, Detached, Ended, Finished, Limits, Mode, Stop, TerminalSize};
pub use error::StartError;
pub use fed::{Fed, FedEnd, KEPT};
pub use output::Output;
pub use process::Running;
pub use record::{AtLimit, OutputFile, create_private_folder};
pub use redactor::Redactor;
pub use registry::Processes;
pub use screen::Live;
pub use served::{Served, ServedProgram, ServedStreams};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// By a signal.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
}

impl From<std::process::ExitStatus> for Ending {
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
