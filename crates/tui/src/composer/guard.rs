//! Enter in the middle of pasted text must not send it. Terminals that mark
//! pasted text need no guard; with others only the pace tells.

use std::time::{Duration, Instant};

/// Enter this soon behind a typed character belongs to pasted text.
const AFTER_TYPING: Duration = Duration::from_millis(30);
/// Enter this soon behind pasted text belongs to it.
const AFTER_PASTE: Duration = Duration::from_millis(40);

/// The pace of what came in.
#[derive(Debug, Clone, Default)]
pub struct PasteGuard {
    /// The terminal is known to mark pasted text.
    pub off: bool,
    typed: Option<Instant>,
    pasted: Option<Instant>,
}

impl PasteGuard {
    /// A character was typed.
    pub fn typed(&mut self, now: Instant) {
        self.typed = Some(now);
    }

    /// Text was pasted.
    pub fn pasted(&mut self, now: Instant) {
        self.pasted = Some(now);
    }

    /// Whether Enter is part of pasted text.
    pub fn is_pasted(&self, now: Instant) -> bool {
        let within = |at: Option<Instant>, limit| {
            at.is_some_and(|at| now.saturating_duration_since(at) < limit)
        };
        !self.off && (within(self.typed, AFTER_TYPING) || within(self.pasted, AFTER_PASTE))
    }
}
