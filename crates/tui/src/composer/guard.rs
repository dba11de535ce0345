//! Enter in the middle of pasted text must not send it. Terminals that mark
//! pasted text need no guard; with others only the pace tells.

use std::time::{Duration, Instant};

/// Enter this soon behind a typed character belongs to pasted text, if that
/// character came as soon behind another: two keys may be hit at once by hand,
/// three are not.
const AFTER_TYPING: Duration = Duration::from_millis(30);
/// Enter this soon behind pasted text belongs to it.
const AFTER_PASTE: Duration = Duration::from_millis(40);

/// The pace of what came in.
#[derive(Debug, Clone, Default)]
pub struct PasteGuard {
    /// The terminal is known to mark pasted text.
    pub off: bool,
    typed: Option<Instant>,
    /// The newest character came this soon behind the one before it.
    runs: bool,
    pasted: Option<Instant>,
}

impl PasteGuard {
    /// A character, or a line's end inside the text, was typed.
    pub fn typed(&mut self, now: Instant) {
        self.runs = within(self.typed, now, AFTER_TYPING);
        self.typed = Some(now);
    }

    /// Text was pasted.
    pub fn pasted(&mut self, now: Instant) {
        self.pasted = Some(now);
    }

    /// Whether Enter is part of pasted text.
    pub fn is_pasted(&self, now: Instant) -> bool {
        let typed = self.runs && within(self.typed, now, AFTER_TYPING);
        !self.off && (typed || within(self.pasted, now, AFTER_PASTE))
    }
}

fn within(at: Option<Instant>, now: Instant, limit: Duration) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < limit)
}
