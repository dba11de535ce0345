//! Hints above the composer that go by themselves, and keys that mean more when they
//! are pressed again: such a key counts as long as its hint is seen, and both are over
//! with whatever is done next.

use super::App;

/// How long a hint stands above the composer, in milliseconds.
const TOAST_MS: u64 = 3_000;
/// Within how long a second press counts as one, in milliseconds.
const AGAIN_MS: u64 = 3_000;
/// The same for Escape, which is pressed for many things.
pub(super) const ESCAPE_MS: u64 = crate::composer::TWICE_MS;

/// A key that was pressed once and means more when pressed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Armed {
    Quit,
    Exit,
    Suspend,
}

/// What a hint says of a second press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Leaves or suspends the program.
    Leave,
    /// Escape clears, or goes back.
    Escape,
    /// Answers the question.
    Answer,
}

/// A hint that goes by itself.
#[derive(Debug)]
pub(super) struct Toast {
    pub(super) text: String,
    /// When it goes, in milliseconds of the app's clock.
    until: u64,
    /// It tells of a second press.
    again: Option<Again>,
}

impl Toast {
    /// How long it stays, in milliseconds; at least one.
    pub(super) fn left_ms(&self, now_ms: u64) -> u64 {
        self.until.saturating_sub(now_ms).max(1)
    }
}

impl App {
    /// A hint for a few seconds.
    pub(crate) fn toast(&mut self, text: impl Into<String>) {
        self.toast = Some(Toast { text: text.into(), until: self.now_ms + TOAST_MS, again: None });
    }

    /// A hint that the key means more when it is pressed again.
    pub(super) fn hint_again(&mut self, again: Again, text: impl Into<String>) {
        let span = if again == Again::Escape { ESCAPE_MS } else { AGAIN_MS };
        let until = self.now_ms + span;
        self.toast = Some(Toast { text: text.into(), until, again: Some(again) });
    }

    /// The hint that has had its time is gone.
    pub(super) fn end_toast(&mut self) {
        if self.toast.as_ref().is_some_and(|toast| toast.until <= self.now_ms) {
            self.toast = None;
        }
    }

    /// Whether this is the second press of a key; else the first is noted.
    pub(super) fn again(&mut self, what: Armed) -> bool {
        match self.armed.take() {
            Some((armed, at)) if armed == what && self.now_ms.saturating_sub(at) < AGAIN_MS => true,
            _ => {
                self.armed = Some((what, self.now_ms));
                false
            }
        }
    }

    /// Does what an input says. It is the second press that a hint spoke of, or
    /// something else that came of it: in both cases the hint is over.
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

    /// What Escape or a key of a question would have done when pressed again is over:
    /// something came up or went by itself.
    pub(super) fn drop_hint(&mut self) {
        self.composer.forget_escape();
        let over = |toast: &Toast| matches!(toast.again, Some(Again::Escape | Again::Answer));
        if self.toast.as_ref().is_some_and(over) {
            self.toast = None;
        }
    }
}
