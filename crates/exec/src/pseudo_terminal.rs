//! A pseudo-terminal and the command in it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

use std::io::{Read, Write};

#[cfg(target_os = "linux")]
pub(crate) use linux::{PtyController, start};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{PtyController, start};

use crate::waiter::Waiter;

/// Reads what the processes in the terminal write; blocking.
pub(crate) type OutputReader = Box<dyn Read + Send>;

/// Writes what they read; blocking.
pub(crate) type InputWriter = Box<dyn Write + Send>;

/// A command that was started in a pseudo-terminal, as the leader of its session.
pub(crate) struct TerminalChild {
    pub(crate) pid: i32,
    pub(crate) waiter: Waiter,
    pub(crate) controller: PtyController,
    pub(crate) reader: OutputReader,
}
