//! Temporary hints above the composer, and keys that do more when pressed again. Such a key is
//! armed as long as its hint is shown; the next action clears both.

use super::App;

/// How long a hint is shown above the composer, in milliseconds.
const TOAST_MS: u64 = 3_000;
/// The maximum time between two presses of an armed key, in milliseconds.
const AGAIN_MS: u64 = 3_000;
/// The same for Escape, which has many other uses.
pub(super) const ESCAPE_MS: u64 = crate::composer::TWICE_MS;

/// A key that was pressed once and does more when pressed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Armed {
    Quit,
    Exit,
    Suspend,
}

/// What the second press announced by a hint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Quits or suspends the program.
    Leave,
    /// Escape clears the input or opens the rewind list.
    Escape,
    /// Answers the approval request.
    Answer,
}

/// A temporary hint.
#[derive(Debug)]
pub(super) struct Toast {
    pub(super) text: String,
    /// When the hint disappears, in milliseconds of the app's clock.
    until: u64,
    /// Set if the hint announces a second press.
    again: Option<Again>,
}

impl Toast {
    /// Returns the remaining time in milliseconds, at least one.
    pub(super) fn left_ms(&self, now_ms: u64) -> u64 {
        self.until.saturating_sub(now_ms).max(1)
    }
}

impl App {
    /// Shows a hint for a few seconds.
    pub(crate) fn toast(&mut self, text: impl Into<String>) {
        self.toast = Some(Toast { text: text.into(), until: self.now_ms + TOAST_MS, again: None });
    }

    /// Shows a hint that the key does more when pressed again.
    pub(super) fn hint_again(&mut self, again: Again, text: impl Into<String>) {
        let span = if again == Again::Escape { ESCAPE_MS } else { AGAIN_MS };
        let until = self.now_ms + span;
        self.toast = Some(Toast { text: text.into(), until, again: Some(again) });
    }

    /// Removes the hint if it has expired.
    pub(super) fn end_toast(&mut self) {
        if self.toast.as_ref().is_some_and(|toast| toast.until <= self.now_ms) {
            self.toast = None;
        }
    }

    /// Whether this is the second press of a key. Records the first press otherwise.
    pub(super) fn again(&mut self, what: Armed) -> bool {
        match self.armed.take() {
            Some((armed, at)) if armed == what && self.now_ms.saturating_sub(at) < AGAIN_MS => true,
            _ => {
                self.armed = Some((what, self.now_ms));
                false
            }
        }
    }

    /// Handles an input and clears the hint about a second press: either the input was that second
    /// press, or it was something else.
    pub(super) fn pass_hint(&mut self, input: impl FnOnce(&mut Self)) {
        let armed = self.armed;
        if self.toast.as_ref().is_some_and(|toast| toast.again.is_some()) {
            self.toast = None;
        }
        input(self);
        if self.armed == armed {
            self.armed = None;
        }
    }

    /// Clears pending second presses of Escape and of approval keys, because a dialog opened or
    /// closed by itself.
    pub(super) fn drop_hint(&mut self) {
        self.composer.forget_escape();
        let over = |toast: &Toast| matches!(toast.again, Some(Again::Escape | Again::Answer));
        if self.toast.as_ref().is_some_and(over) {
            self.toast = None;
        }
    }
}
