//! Reads input without terminal echo.

use std::io;

use parallax_headless::ExitCode;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

/// Disables terminal echo until it is dropped. Ctrl-C terminates the program.
pub(crate) struct HiddenInput {
    before: Option<rustix::termios::Termios>,
}

impl HiddenInput {
    pub(crate) fn begin() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            restore_on_interrupt(before.clone());
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            // If echo cannot be disabled, the input is visible.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &silent);
        }
        Self { before }
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Restores the terminal on Ctrl-C. The thread that reads a line is blocked, so another one waits
/// for the signal. The signal is handled when this returns.
fn restore_on_interrupt(before: rustix::termios::Termios) {
    let (ready, is_ready) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if runtime.is_ok_and(|runtime| runtime.block_on(wait_for_interrupt(ready))) {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
            let _ = io::Write::write_all(&mut io::stderr(), b"\n");
            std::process::exit(i32::from(ExitCode::CANCELLED.0));
        }
    });
    // Also continues if the signal cannot be handled.
    let _ = is_ready.recv();
}

/// Waits for Ctrl-C; returns `false` if it cannot be handled. Sends a message to `ready` when the
/// handler is installed.
async fn wait_for_interrupt(ready: std::sync::mpsc::Sender<()>) -> bool {
    let Ok(mut interrupts) = signal(SignalKind::interrupt()) else { return false };
    // The other end is waiting.
    let _ = ready.send(());
    interrupts.recv().await.is_some()
}
