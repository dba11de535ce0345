//! Input that the terminal does not show.

use std::io;

use parallax_headless::ExitCode;

/// While it lives, the terminal does not show what is typed. Ctrl-C ends the program.
pub(crate) struct Silence {
    before: Option<rustix::termios::Termios>,
}

impl Silence {
    pub(crate) fn begin() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            // A terminal that cannot hide it shows it.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &silent);
            restore_on_interrupt(before.clone());
        }
        Self { before }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// The thread that reads a line is blocked, so that another one waits for the signal.
fn restore_on_interrupt(before: rustix::termios::Termios) {
    use rustix::termios::{OptionalActions, tcsetattr};
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    std::thread::spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
            let _ = io::Write::write_all(&mut io::stderr(), b"\n");
            std::process::exit(i32::from(ExitCode::CANCELLED.0));
        }
    });
}
