//! State shared by the reading thread, the input end, and the screen: the terminal, and what is
//! painted on it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::canvas::Canvas;
use crate::decode::DecodedInput;
use crate::terminal_state::TerminalState;

#[derive(Debug)]
pub(crate) struct SharedScreen {
    pub terminal: TerminalState,
    canvas: Mutex<Canvas>,
}

impl SharedScreen {
    pub fn new(terminal: TerminalState, canvas: Canvas) -> Self {
        Self { terminal, canvas: Mutex::new(canvas) }
    }

    /// Locks the canvas. Lock it before the state of the terminal, never while that is locked.
    pub fn canvas(&self) -> MutexGuard<'_, Canvas> {
        self.canvas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles decoded input, and paints what waited for the positions in it.
    pub fn deliver(&self, decoded: &mut Vec<DecodedInput>) {
        if decoded.is_empty() {
            return;
        }
        let replies = self.terminal.record(decoded);
        if !replies.is_empty() {
            let mut canvas = self.canvas();
            canvas.handle_cursor_replies(&self.terminal, &replies);
            // If the terminal is gone, the next frame reports it.
            let _ = canvas.flush(&self.terminal);
        }
        self.terminal.wake_waiters();
    }

    /// Whether answers about positions are pending.
    pub fn awaits_answers(&self) -> bool {
        let awaits = self.canvas().awaits_answer();
        awaits || self.terminal.is_awaiting_size()
    }
}
