//! Input that the terminal does not show.

use std::io;

/// While it lives, the terminal does not show what is typed.
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
