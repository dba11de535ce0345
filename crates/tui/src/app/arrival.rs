//! Protects against keys that were typed before a dialog opened by itself: a request of the
//! engine or of a server. The dialog waits for a pause in typing and accepts no answer for
//! a moment after it opens. Afterwards, while the composer contains text, the first
//! answering key only moves the focus to the dialog, because Enter may have been meant for
//! the text. Likewise, the text is not sent while the dialog is open, because Enter may
//! have been meant for the dialog.

use parallax_protocol::ids::AskId;
use parallax_screen::Key;

use super::hint::Again;
use super::overlay::Purpose;
use super::{App, PAUSE_MS};
use crate::dialog::{DialogKey, QuestionDialog};
use crate::keymap::{Context, KeyCommand};

/// How long an incoming dialog accepts no answer while the composer contains text, in
/// milliseconds, so that a user who is about to send the text sees it first.
const MOMENT_MS: u64 = 600;
/// What comes up so soon after an answer is not what the next key is meant for, in
/// milliseconds: people press a digit and Enter, or Enter twice.
const AFTER_ANSWER_MS: u64 = 1_000;
/// For how long it takes no answer then, in milliseconds.
const SETTLING_MS: u64 = 500;

/// For how long after it is seen no Enter answers what comes up at the start, in
/// milliseconds: who starts the program presses Enter too, and not seldom twice.
const STARTED_MS: u64 = 150;
/// For how long it takes nothing, when keys were typed before it was seen.
const TYPED_AHEAD_MS: u64 = 80;

/// A dialog that no key of the user opened.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unasked {
    /// A dialog, by its number.
    Dialog(u64),
    Question(AskId),
}

/// What came up, and since when it is seen.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// Such dialogs so far.
    dialogs: u64,
    /// The number of the open dialog; `None`: a key opened it.
    dialog: Option<u64>,
    /// What was drawn last, and when first.
    drawn: Option<(Unasked, u64)>,
    /// The newest of them that was seen, and whether the composer held a text then.
    seen: Option<Unasked>,
    over_draft: bool,
    /// When the newest of them was answered or closed.
    answered: Option<u64>,
    /// The dialog that the user moved the focus to although the composer contains text.
    turned_to: Option<Unasked>,
    /// Whether keys were typed before the program had the terminal.
    typed_ahead: bool,
    /// Whether a key is being handled: what opens now was asked for.
    pub(super) by_key: bool,
}

impl App {
    /// A dialog opens. `asked`: the user opened it.
    pub(super) fn note_opening(&mut self, asked: bool) {
        self.arrival.dialogs += 1;
        self.arrival.dialog = (!asked).then_some(self.arrival.dialogs);
    }

    /// What is over the composer now and came by itself.
    fn unasked(&self) -> Option<Unasked> {
        if self.overlay.is_some() {
            return self.arrival.dialog.map(Unasked::Dialog);
        }
        let hidden = self.shell_focus || self.is_writing();
        let question = self.questions.front().filter(|_| !hidden);
        question.map(|question| Unasked::Question(question.ask.id.clone()))
    }

    /// A frame is drawn: what is over the composer is seen from now on.
    pub(super) fn note_drawn(&mut self) {
        self.tick();
        let now = self.unasked();
        if self.arrival.drawn.as_ref().map(|(what, _)| what) != now.as_ref() {
            if now.is_some() && self.arrival.seen != now {
                self.arrival.seen.clone_from(&now);
                self.arrival.over_draft = true;
            }
            self.arrival.drawn = now.map(|what| (what, self.now_ms));
        }
        self.arrival.over_draft &= !self.composer.is_empty();
    }

    /// Whether this key would answer what has hardly been seen.
    pub(super) fn is_too_early(&self, key: Key) -> bool {
        let Some(now) = self.unasked() else { return false };
        let confirms = self.dialog_key(key, false) == DialogKey::Confirm;
        let answers = key.typed().is_some() || confirms;
        answers
            && match &self.arrival.drawn {
                Some((what, since)) if *what == now => {
                    let seen = self.now_ms.saturating_sub(*since);
                    let moment = match (self.composer.is_empty(), self.is_of_start()) {
                        (false, _) => MOMENT_MS,
                        (true, true) if confirms => STARTED_MS,
                        (true, true) if self.arrival.typed_ahead => TYPED_AHEAD_MS,
                        (true, _) => 0,
                    };
                    seen < moment
                }
                _ => true,
            }
    }

    /// Whether it is the dialog in which the program asks what it needs to start.
    fn is_of_start(&self) -> bool {
        let purpose = self.overlay.as_ref().map(|overlay| &overlay.purpose);
        let by_itself = self.arrival.dialog.is_some();
        by_itself && matches!(purpose, Some(Purpose::Trust | Purpose::Auth))
    }

    /// Keys were typed before the program had the terminal.
    pub(crate) fn was_typed_ahead(&mut self, was: bool) {
        self.arrival.typed_ahead = was;
    }

    /// Whether this key would answer what came up right after another answer: it was
    /// meant for the one before.
    pub(super) fn follows_an_answer(&self, key: Key) -> bool {
        let (Some(now), Some(answered)) = (self.unasked(), self.arrival.answered) else {
            return false;
        };
        if self.first_question().as_ref() != Some(&now) {
            return false;
        }
        let answers = self.dialog_key(key, false) == DialogKey::Confirm
            || matches!(key.typed(), Some('0'..='9' | 'y' | 'n'));
        let soon = |at: u64| at.saturating_sub(answered) < AFTER_ANSWER_MS;
        answers
            && match &self.arrival.drawn {
                Some((what, since)) if *what == now => {
                    soon(*since) && self.now_ms.saturating_sub(*since) < SETTLING_MS
                }
                _ => soon(self.now_ms),
            }
    }

    /// The first request of the engine or of a server, seen or not. (Later dialogs of a
    /// command are part of what the user is doing.)
    fn first_question(&self) -> Option<Unasked> {
        match &self.overlay {
            Some(overlay) if overlay.purpose == Purpose::ServerQuestion => {
                self.arrival.dialog.map(Unasked::Dialog)
            }
            Some(_) => None,
            None => {
                let question = self.questions.front();
                question.map(|question| Unasked::Question(question.ask.id.clone()))
            }
        }
    }

    /// A key goes to what is over the composer; remembers when a question went by it.
    pub(super) fn answer(&mut self, key: Key, answer: impl FnOnce(&mut Self, Key)) {
        let before = self.first_question();
        answer(self, key);
        if before.is_some() && self.first_question() != before {
            self.arrival.answered = Some(self.now_ms);
        }
    }

    /// Whether a text in the composer is in the way of an answer.
    pub(super) fn text_is_in_the_way(&self) -> bool {
        let now = self.unasked();
        now.is_some() && !self.composer.is_empty() && self.arrival.turned_to != now
    }

    /// Turns to what came up, if this key says so; whether that was all that the key did.
    pub(super) fn turns_to_it(&mut self, key: Key) -> bool {
        if !self.text_is_in_the_way() {
            return false;
        }
        let typing = match (&self.overlay, self.questions.front()) {
            (Some(overlay), _) => overlay.is_typing(),
            (None, Some(question)) => question.is_typing(),
            (None, None) => false,
        };
        let answers = match self.dialog_key(key, typing) {
            DialogKey::Confirm => true,
            DialogKey::Cancel => return false,
            DialogKey::Other(key) if !typing => match key.typed() {
                Some(digit @ '0'..='9') => {
                    // Enter takes what was pressed, not what the cursor was on.
                    if let (None, Some(question)) = (&self.overlay, self.questions.front_mut()) {
                        question.stand_on(digit);
                    }
                    true
                }
                Some('j' | 'k') => false,
                // The cursor goes there, and Enter takes it.
                Some('y') if self.can_say_yes() => false,
                // Part of the text.
                _ => return false,
            },
            _ => false,
        };
        self.arrival.turned_to = self.unasked();
        if answers {
            self.hint_again(Again::Answer, "press it again to answer");
        }
        answers
    }

    /// Whether `y` means something to the question that is open.
    pub(super) fn can_say_yes(&self) -> bool {
        self.overlay.is_none() && self.questions.front().is_some_and(QuestionDialog::has_yes)
    }

    /// Whether this key would send a text that was there when the question came. The
    /// question is shown again in its place.
    pub(super) fn keeps_draft(&mut self, key: Key) -> bool {
        let kept = self.arrival.over_draft && !self.composer.is_empty() && self.is_asked();
        let sends = |it| matches!(it, KeyCommand::Submit | KeyCommand::QueueMessage);
        if !kept || !self.keymap.commands_for(key, Context::COMPOSER).any(sends) {
            return false;
        }
        self.writing_until = self.now_ms;
        true
    }

    /// Such a key belongs to the text: what came up waits until that rests.
    pub(super) fn write_on(&mut self, key: Key) {
        match self.overlay.as_ref().map(|overlay| &overlay.purpose) {
            Some(Purpose::ServerQuestion) => self.overlay = None,
            Some(_) => {
                // It cannot go away: its moment begins again.
                if let Some((_, since)) = &mut self.arrival.drawn {
                    *since = self.now_ms;
                }
                if key.typed().is_some() {
                    self.composer_key(key);
                }
                return;
            }
            None => {}
        }
        self.writes();
        if key.typed().is_some() {
            self.composer_key(key);
        }
    }

    /// Whether what wants an answer waits, since its keys would be meant for the
    /// text that is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_asked() && self.now_ms < self.writing_until
    }

    fn is_asked(&self) -> bool {
        !self.questions.is_empty() || !self.server_questions.is_empty()
    }

    /// The user types: incoming dialogs wait for a pause.
    pub(super) fn writes(&mut self) {
        self.wrote_at = self.now_ms;
        self.arrival.turned_to = None;
        self.arrival.answered = None;
        if self.is_asked() {
            self.writing_until = self.now_ms + PAUSE_MS;
        }
    }

    /// A request arrives, possibly while the user types.
    pub(super) fn note_question(&mut self) {
        let writes = self.now_ms.saturating_sub(self.wrote_at) < PAUSE_MS;
        if !self.is_asked() && writes && !self.composer.is_empty() {
            self.writing_until = self.now_ms + PAUSE_MS;
        }
    }
}
