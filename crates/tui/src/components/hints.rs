//! Temporary hints above the composer, and keys that do more when pressed again. Such a key is
//! armed as long as its hint is shown; the next action clears both.

use std::collections::HashSet;

/// How long a hint is shown above the composer, in milliseconds.
const TOAST_MS: u64 = 3_000;
/// The maximum time between two presses of an armed key, in milliseconds.
const AGAIN_MS: u64 = 3_000;
/// The same for Escape, which has many other uses.
const ESCAPE_MS: u64 = crate::composer::TWICE_MS;

/// A key that was pressed once and does more when pressed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingSecondPress {
    Quit,
    Exit,
    Suspend,
}

/// What the second press announced by a hint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondPressAction {
    /// Quits or suspends the program.
    Leave,
    /// Escape clears the input or opens the rewind list.
    Escape,
    /// Answers the approval request.
    Answer,
}

/// A temporary hint.
#[derive(Debug)]
struct Toast {
    text: String,
    /// When the hint disappears, in milliseconds of the clock.
    expires_ms: u64,
    /// Set if the hint announces a second press.
    second_press: Option<SecondPressAction>,
}

/// The armed key before an input; see [`Hints::after_input`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreviousPress(Option<(PendingSecondPress, u64)>);

/// The hint above the composer, the armed key, and which explanations were already shown.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    toast: Option<Toast>,
    pending_press: Option<(PendingSecondPress, u64)>,
    /// Whether the key that is armed to suspend has undone an edit of the text.
    has_undone_edit: bool,
    /// The action that runs if it is requested again.
    confirm: Option<String>,
    /// Warnings that were already shown.
    shown_warnings: HashSet<String>,
    /// Whether it was explained that the YOLO key inserts deleted text.
    has_explained_yank: bool,
    /// Whether the list of keys is shown below the composer.
    shortcuts: bool,
}

impl Hints {
    /// Shows a hint for a few seconds.
    pub(crate) fn show(&mut self, text: impl Into<String>, now_ms: u64) {
        self.toast =
            Some(Toast { text: text.into(), expires_ms: now_ms + TOAST_MS, second_press: None });
    }

    /// Shows a hint that the key does more when pressed again.
    pub(crate) fn show_repeat_hint(
        &mut self,
        again: SecondPressAction,
        text: impl Into<String>,
        now_ms: u64,
    ) {
        let span = if again == SecondPressAction::Escape { ESCAPE_MS } else { AGAIN_MS };
        self.toast =
            Some(Toast { text: text.into(), expires_ms: now_ms + span, second_press: Some(again) });
    }

    /// Returns the text of the hint.
    pub(crate) fn text(&self) -> Option<&str> {
        self.toast.as_ref().map(|toast| toast.text.as_str())
    }

    /// Returns the time until the hint disappears, in milliseconds, at least one.
    pub(crate) fn remaining_ms(&self, now_ms: u64) -> Option<u64> {
        self.toast.as_ref().map(|toast| toast.expires_ms.saturating_sub(now_ms).max(1))
    }

    /// Removes the hint if it has expired.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        if self.toast.as_ref().is_some_and(|toast| toast.expires_ms <= now_ms) {
            self.toast = None;
        }
    }

    /// Removes the hint.
    pub(crate) fn clear(&mut self) {
        self.toast = None;
    }

    /// Whether this is the second press of a key. Records the first press otherwise.
    pub(crate) fn is_second(&mut self, what: PendingSecondPress, now_ms: u64) -> bool {
        match self.pending_press.take() {
            Some((armed, at)) if armed == what && now_ms.saturating_sub(at) < AGAIN_MS => true,
            _ => {
                self.pending_press = Some((what, now_ms));
                false
            }
        }
    }

    /// Disarms the armed key.
    pub(crate) fn disarm(&mut self) {
        self.pending_press = None;
    }

    /// Clears the hint about a second press, because an input arrives: either it is that second
    /// press, or it is something else.
    pub(crate) fn before_input(&mut self) -> PreviousPress {
        if self.toast.as_ref().is_some_and(|toast| toast.second_press.is_some()) {
            self.toast = None;
        }
        PreviousPress(self.pending_press)
    }

    /// Disarms the armed key if the input was a different one.
    pub(crate) fn after_input(&mut self, before: &PreviousPress) {
        if self.pending_press == before.0 {
            self.pending_press = None;
        }
    }

    /// Clears pending second presses of Escape and of approval keys, because a dialog opened or
    /// closed by itself.
    pub(crate) fn clear_second_press(&mut self) {
        let over = |toast: &Toast| {
            matches!(
                toast.second_press,
                Some(SecondPressAction::Escape | SecondPressAction::Answer)
            )
        };
        if self.toast.as_ref().is_some_and(over) {
            self.toast = None;
        }
    }

    /// Records whether the first press of the suspend key has undone an edit.
    pub(crate) fn note_undone(&mut self, undone: bool) {
        self.has_undone_edit = undone;
    }

    /// Whether the first press of the suspend key has undone an edit, which the second press
    /// reverts.
    pub(crate) fn take_undo(&mut self) -> bool {
        std::mem::take(&mut self.has_undone_edit)
    }

    /// Asks the user to request an action again.
    pub(crate) fn ask_to_repeat(&mut self, action: String) {
        self.confirm = Some(action);
    }

    /// Whether the same action was requested just before.
    pub(crate) fn is_repeated(&mut self, action: &str) -> bool {
        self.confirm.take().is_some_and(|pending| pending == action)
    }

    /// Whether this warning is new.
    pub(crate) fn is_new_warning(&mut self, text: &str) -> bool {
        self.shown_warnings.insert(text.to_owned())
    }

    /// Whether it was explained what the YOLO key inserts.
    pub(crate) fn has_explained_yank(&self) -> bool {
        self.has_explained_yank
    }

    /// Records that it was explained what the YOLO key inserts.
    pub(crate) fn record_yank_hint(&mut self) {
        self.has_explained_yank = true;
    }

    /// Whether the list of keys is shown.
    pub(crate) fn shows_shortcuts(&self) -> bool {
        self.shortcuts
    }

    /// Shows or hides the list of keys.
    pub(crate) fn toggle_shortcuts(&mut self) {
        self.shortcuts = !self.shortcuts;
    }

    /// Hides the list of keys. Returns whether it was shown.
    pub(crate) fn hide_shortcuts(&mut self) -> bool {
        std::mem::take(&mut self.shortcuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_press_counts_only_directly_after_the_first() {
        let mut hints = Hints::default();
        let press = |hints: &mut Hints, now| {
            let before = hints.before_input();
            let second = hints.is_second(PendingSecondPress::Quit, now);
            hints.after_input(&before);
            second
        };
        assert!(!press(&mut hints, 0) && press(&mut hints, 2_999));
        assert!(!press(&mut hints, 5_000) && !press(&mut hints, 8_000));
        let before = hints.before_input();
        hints.after_input(&before);
        assert!(!press(&mut hints, 8_001));
    }

    #[test]
    fn hint_of_a_second_press_disappears_with_the_next_input() {
        let mut hints = Hints::default();
        hints.show("saved", 0);
        hints.before_input();
        assert_eq!(hints.text(), Some("saved"));
        assert_eq!(hints.remaining_ms(1_000), Some(2_000));
        hints.show_repeat_hint(SecondPressAction::Escape, "again", 0);
        hints.expire(ESCAPE_MS - 1);
        assert_eq!(hints.text(), Some("again"));
        hints.before_input();
        assert_eq!(hints.text(), None);
    }
}
