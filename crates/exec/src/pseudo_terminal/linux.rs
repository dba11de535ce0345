//! The implementation for Linux. The command itself, or the program that starts it, creates the
//! session and takes the terminal: without our own code between `fork` and `exec`, the kernel does
//! not have to copy the tables of this process's memory, which delays all its threads.

use std::fs::File;
use std::io;
use std::process::Stdio;

use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};

use super::{InputWriter, TerminalChild};
use crate::spawn_request::{SessionLeader, SpawnRequest};
use crate::terminal_size::TerminalSize;
use crate::waiter::Waiter;

/// The side of a pseudo-terminal that belongs to this process.
pub(crate) struct PtyController(File);

impl PtyController {
    /// Reports the terminal's new size to the processes in it.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(tcsetwinsize(&self.0, window_size(size))?)
    }

    /// Opens the input of the processes in the terminal.
    pub(crate) fn writer(&self) -> io::Result<InputWriter> {
        Ok(Box::new(self.0.try_clone()?))
    }
}

/// Opens a pseudo-terminal and starts the command in it. Blocks until its program is loaded; the
/// thread must belong to a runtime.
pub(crate) fn start(
    spawn: &SpawnRequest,
    leader: &SessionLeader,
    size: TerminalSize,
) -> io::Result<TerminalChild> {
    // Other threads start processes at any time, which must not inherit either side.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let side = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&side)?;
    rustix::pty::unlockpt(&side)?;
    tcsetwinsize(&side, window_size(size))?;
    let terminal = rustix::pty::ioctl_tiocgptpeer(&side, flags)?;
    let side = File::from(side);
    let reader = Box::new(side.try_clone()?);
    let mut command = leader.command_in_terminal(spawn)?;
    command
        .stdin(Stdio::from(terminal.try_clone()?))
        .stdout(Stdio::from(terminal.try_clone()?))
        .stderr(Stdio::from(terminal));
    let child = command.spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
    Ok(TerminalChild { pid, waiter: Waiter::Child(child), controller: PtyController(side), reader })
}

fn window_size(size: TerminalSize) -> Winsize {
    Winsize { ws_row: size.rows.get(), ws_col: size.columns.get(), ws_xpixel: 0, ws_ypixel: 0 }
}
