//! The implementation for other systems.

use std::io;

use portable_pty::{CommandBuilder, MasterPty, PtySize};
use tokio::sync::oneshot;

use super::{InputWriter, StartedInTerminal};
use crate::Ending;
use crate::spawn_request::{SessionLeader, SpawnRequest};
use crate::terminal_size::TerminalSize;
use crate::waiter::Waiter;

/// The side of a pseudo-terminal that belongs to this process.
pub(crate) struct PtyController(Box<dyn MasterPty + Send>);

impl PtyController {
    /// Tells the processes in the terminal its new size.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        self.0.resize(pty_size(size)).map_err(io::Error::other)
    }

    /// Opens the input of the processes in the terminal.
    pub(crate) fn writer(&self) -> io::Result<InputWriter> {
        self.0.take_writer().map_err(io::Error::other)
    }
}

/// Opens a pseudo-terminal and starts the command in it. Blocking.
pub(crate) fn start(
    spawn: &SpawnRequest,
    _: &SessionLeader,
    size: TerminalSize,
) -> io::Result<StartedInTerminal> {
    let pair =
        portable_pty::native_pty_system().openpty(pty_size(size)).map_err(io::Error::other)?;
    let mut command = CommandBuilder::new(&spawn.program);
    command.args(&spawn.arguments);
    command.cwd(&spawn.directory);
    command.env_clear();
    for (name, value) in &spawn.environment {
        command.env(name, value);
    }
    let reader = pair.master.try_clone_reader().map_err(io::Error::other)?;
    let mut child = pair.slave.spawn_command(command).map_err(io::Error::other)?;
    drop(pair.slave);
    let pid = child.process_id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
    let (tell, end_receiver) = oneshot::channel();
    // Ends with the command.
    std::thread::Builder::new().name("terminal-waiter".into()).spawn(move || {
        let exit = match child.as_any_mut().downcast_mut::<std::process::Child>() {
            Some(child) => child.wait().ok().map(Ending::from),
            None => child.wait().ok().map(|status| Ending::Exited {
                code: i32::try_from(status.exit_code()).unwrap_or(i32::MAX),
            }),
        };
        let _ = tell.send(exit.unwrap_or(Ending::Exited { code: -1 }));
    })?;
    Ok(StartedInTerminal {
        pid,
        waiter: Waiter::Thread(end_receiver),
        controller: PtyController(pair.master),
        reader,
    })
}

fn pty_size(size: TerminalSize) -> PtySize {
    PtySize { rows: size.rows.get(), cols: size.columns.get(), pixel_width: 0, pixel_height: 0 }
}
