//! Protects against keys that were typed before a dialog opened by itself because of a request of
//! the engine or of an MCP server. The dialog waits for a pause in typing and accepts no answer for
//! a moment after it opens. Afterwards, while the composer contains text, the first answering key
//! only moves the focus to the dialog, because Enter may have been meant for the text. Likewise,
//! the text is not sent while the dialog is open, because Enter may have been meant for the dialog.

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
/// How long after an answer a new dialog is protected from further keys, in milliseconds. Users
/// press a digit and Enter, or Enter twice.
const AFTER_ANSWER_MS: u64 = 1_000;
/// How long a dialog that follows an answer accepts no answer, in milliseconds.
const SETTLING_MS: u64 = 500;

/// How long the startup dialogs ignore Enter after they are first drawn, in milliseconds. Users
/// press Enter to start the program, often twice.
const STARTED_MS: u64 = 150;
/// How long a dialog ignores keys, in milliseconds, if keys were typed before it was drawn.
const TYPED_AHEAD_MS: u64 = 80;

/// A dialog that opened by itself and not because of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum IncomingDialog {
    /// A dialog, identified by its number.
    Dialog(u64),
    Question(AskId),
}

/// Tracks the dialog that opened by itself and when it was first drawn.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// Number of dialogs opened so far.
    dialogs: u64,
    /// The number of the open dialog, or `None` if a key opened it.
    dialog: Option<u64>,
    /// The dialog in the last frame and the time of its first frame.
    drawn: Option<(IncomingDialog, u64)>,
    /// The newest dialog that was drawn, and whether the composer contained text then.
    seen: Option<IncomingDialog>,
    over_draft: bool,
    /// When the newest dialog was answered or closed.
    answered: Option<u64>,
    /// The dialog that the user moved the focus to although the composer contains text.
    turned_to: Option<IncomingDialog>,
    /// Whether keys were typed before the program took over the terminal.
    typed_ahead: bool,
    /// Whether a key is being handled, so that a dialog opened now was requested by the user.
    pub(super) by_key: bool,
}

impl App {
    /// Records that a dialog opens. `asked` is whether the user opened it.
    pub(super) fn note_opening(&mut self, asked: bool) {
        self.arrival.dialogs += 1;
        self.arrival.dialog = (!asked).then_some(self.arrival.dialogs);
    }

    /// Returns the visible dialog if it opened by itself.
    fn unasked(&self) -> Option<IncomingDialog> {
        if self.overlay.is_some() {
            return self.arrival.dialog.map(IncomingDialog::Dialog);
        }
        let hidden = self.shell_focus || self.is_writing();
        let question = self.questions.front().filter(|_| !hidden);
        question.map(|question| IncomingDialog::Question(question.ask.id.clone()))
    }

    /// Records that a frame is drawn, which makes the current dialog visible.
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

    /// Whether this key would answer a dialog that was only just drawn.
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

    /// Whether the dialog is one of the startup dialogs.
    fn is_of_start(&self) -> bool {
        let purpose = self.overlay.as_ref().map(|overlay| &overlay.purpose);
        let by_itself = self.arrival.dialog.is_some();
        by_itself && matches!(purpose, Some(Purpose::Trust | Purpose::Auth))
    }

    /// Records whether keys were typed before the program took over the terminal.
    pub(crate) fn was_typed_ahead(&mut self, was: bool) {
        self.arrival.typed_ahead = was;
    }

    /// Whether this key would answer a dialog that opened right after another answer, and so was
    /// probably meant for the previous one.
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

    /// Returns the first request of the engine or of an MCP server, drawn or not. Later dialogs of
    /// a command are part of what the user is doing.
    fn first_question(&self) -> Option<IncomingDialog> {
        match &self.overlay {
            Some(overlay) if overlay.purpose == Purpose::ServerQuestion => {
                self.arrival.dialog.map(IncomingDialog::Dialog)
            }
            Some(_) => None,
            None => {
                let question = self.questions.front();
                question.map(|question| IncomingDialog::Question(question.ask.id.clone()))
            }
        }
    }

    /// Passes a key to the dialog and records the time if it answered a request.
    pub(super) fn answer(&mut self, key: Key, answer: impl FnOnce(&mut Self, Key)) {
        let before = self.first_question();
        answer(self, key);
        if before.is_some() && self.first_question() != before {
            self.arrival.answered = Some(self.now_ms);
        }
    }

    /// Whether the dialog needs focus first because the composer contains text.
    pub(super) fn text_is_in_the_way(&self) -> bool {
        let now = self.unasked();
        now.is_some() && !self.composer.is_empty() && self.arrival.turned_to != now
    }

    /// Moves the focus to the dialog if this key asks for it. Returns whether the key did only
    /// that.
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
                    // The digit moves the cursor, so that Enter takes that choice.
                    if let (None, Some(question)) = (&self.overlay, self.questions.front_mut()) {
                        question.stand_on(digit);
                    }
                    true
                }
                Some('j' | 'k') => false,
                // Moves the cursor to the choice; Enter takes it.
                Some('y') if self.can_say_yes() => false,
                // The key is part of the text.
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

    /// Whether `y` is a choice of the open approval dialog.
    pub(super) fn can_say_yes(&self) -> bool {
        self.overlay.is_none() && self.questions.front().is_some_and(QuestionDialog::has_yes)
    }

    /// Whether this key would send text that was in the composer when the request arrived. If so,
    /// the dialog is shown again.
    pub(super) fn keeps_draft(&mut self, key: Key) -> bool {
        let kept = self.arrival.over_draft && !self.composer.is_empty() && self.is_asked();
        let sends = |it| matches!(it, KeyCommand::Submit | KeyCommand::QueueMessage);
        if !kept || !self.keymap.commands_for(key, Context::COMPOSER).any(sends) {
            return false;
        }
        self.writing_until = self.now_ms;
        true
    }

    /// Gives the key to the composer; the dialog waits for a pause in typing.
    pub(super) fn write_on(&mut self, key: Key) {
        match self.overlay.as_ref().map(|overlay| &overlay.purpose) {
            Some(Purpose::ServerQuestion) => self.overlay = None,
            Some(_) => {
                // This dialog cannot be hidden, so its delay starts again.
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

    /// Whether dialogs wait because their keys would be meant for the text being typed.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_asked() && self.now_ms < self.writing_until
    }

    fn is_asked(&self) -> bool {
        !self.questions.is_empty() || !self.server_questions.is_empty()
    }

    /// Records that the user is typing: incoming dialogs wait for a pause.
    pub(super) fn writes(&mut self) {
        self.wrote_at = self.now_ms;
        self.arrival.turned_to = None;
        self.arrival.answered = None;
        if self.is_asked() {
            self.writing_until = self.now_ms + PAUSE_MS;
        }
    }

    /// Records that a request arrives, possibly while the user is typing.
    pub(super) fn note_question(&mut self) {
        let writes = self.now_ms.saturating_sub(self.wrote_at) < PAUSE_MS;
        if !self.is_asked() && writes && !self.composer.is_empty() {
            self.writing_until = self.now_ms + PAUSE_MS;
        }
    }
}
