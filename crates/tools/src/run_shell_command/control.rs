//! The engine's control of a running command.

use parallax_exec::{Control, LiveOutput, TerminalSize};
use parallax_protocol::shell::{ProcessControl, TerminalSize as Size};
use parallax_protocol::tool::Progress;

/// The process of a command.
pub(super) struct CommandControl(pub(super) Control);

impl ProcessControl for CommandControl {
    fn input(&self, bytes: Vec<u8>) {
        self.0.write_input(bytes);
    }

    fn resize(&self, size: Size) {
        self.0.resize(TerminalSize::new(size.columns, size.rows));
    }

    fn to_background(&self) {
        self.0.detach();
    }
}

/// Forwards live output.
pub(super) fn show(progress: &dyn Progress, piece: LiveOutput<'_>) {
    match piece {
        LiveOutput::Text(text) => progress.output(text),
        LiveOutput::Screen(screen) => progress.screen(screen),
    }
}
