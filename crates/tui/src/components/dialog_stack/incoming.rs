//! Protects against keys that were typed before a dialog opened by itself because of a request of
//! the engine or of an MCP server. The dialog waits for a pause in typing and accepts no answer for
//! a moment after it opens. Afterwards, while the composer contains text, the first answering key
//! only moves the focus to the dialog, because Enter may have been meant for the text. Likewise,
//! the text is not sent while the dialog is open, because Enter may have been meant for the dialog.

use std::sync::Arc;

use parallax_protocol::ids::ApprovalId;
use parallax_screen::Key;

use super::{DialogPurpose, DialogStack};
use crate::dialog::DialogKey;
use crate::keymap::{KeyCommand, Keymap, KeymapContext};

/// How long the user must not have typed, in milliseconds, before keys answer a dialog that opened
/// while they were typing.
const PAUSE_MS: u64 = 700;

/// How long an incoming dialog accepts no answer while the composer contains text, in
/// milliseconds, so that a user who is about to send the text sees it first.
const INCOMING_GUARD_MS: u64 = 600;
/// How long after an answer a new dialog is protected from further keys, in milliseconds. Users
/// press a digit and Enter, or Enter twice.
const AFTER_ANSWER_MS: u64 = 1_000;
/// How long a dialog that follows an answer accepts no answer, in milliseconds.
const SETTLING_MS: u64 = 500;

/// How long the startup dialogs ignore Enter after they are first drawn, in milliseconds. Users
/// press Enter to start the program, often twice.
const STARTED_MS: u64 = 150;
/// How long a dialog ignores keys, in milliseconds, if keys were typed before it was drawn.
const TYPE_AHEAD_GUARD_MS: u64 = 80;

/// A dialog that opened by itself and not because of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum IncomingDialog {
    /// A dialog, identified by its number.
    Dialog(u64),
    Question(ApprovalId),
}

/// What the dialogs need to know of their surroundings.
#[derive(Debug)]
pub(crate) struct DialogContext {
    pub(crate) now_ms: u64,
    /// Whether the composer contains text.
    pub(crate) has_draft: bool,
    /// Whether keys go to a command, which hides approval requests.
    pub(crate) shell_has_focus: bool,
    pub(crate) keymap: Arc<Keymap>,
}

/// Tracks the dialog that opened by itself and when it was first drawn.
#[derive(Debug, Default)]
pub(super) struct AutoOpenedDialogs {
    /// Number of dialogs opened so far.
    dialogs: u64,
    /// The number of the open dialog, or `None` if a key opened it.
    dialog: Option<u64>,
    /// The dialog in the last frame and the time of its first frame.
    last_drawn: Option<(IncomingDialog, u64)>,
    /// The newest dialog that was drawn, and whether the composer contained text then.
    last_seen: Option<IncomingDialog>,
    is_over_draft: bool,
    /// When the newest dialog was answered or closed.
    answered: Option<u64>,
    /// The dialog that the user moved the focus to although the composer contains text.
    focused_dialog: Option<IncomingDialog>,
    /// Whether keys were typed before the program took over the terminal.
    has_typed_ahead: bool,
    /// Whether a key is being handled, so that a dialog opened now was requested by the user.
    pub(super) by_key: bool,
    /// Until when dialogs wait because the user is typing, in milliseconds of the clock.
    writing_until: u64,
    /// When text was last typed.
    typed_at: u64,
}

/// The request that a key may answer.
#[derive(Debug)]
pub(crate) struct AnswerableRequest(Option<IncomingDialog>);

impl AutoOpenedDialogs {
    /// Records that an overlay opens. `was_requested` is whether the user opened it.
    pub(super) fn record_opened(&mut self, was_requested: bool) {
        self.dialogs += 1;
        self.dialog = (!was_requested).then_some(self.dialogs);
    }
}

impl DialogStack {
    /// Records whether a key is being handled.
    pub(crate) fn set_by_key(&mut self, by_key: bool) {
        self.incoming.by_key = by_key;
    }

    /// Returns the visible dialog if it opened by itself.
    fn visible_incoming(&self, context: &DialogContext) -> Option<IncomingDialog> {
        if self.overlay.is_some() {
            return self.incoming.dialog.map(IncomingDialog::Dialog);
        }
        let hidden = context.shell_has_focus || self.is_writing(context.now_ms);
        let question = self.approval().filter(|_| !hidden);
        question.map(|question| IncomingDialog::Question(question.request.id.clone()))
    }

    /// Records that a frame is drawn, which makes the current dialog visible.
    pub(crate) fn record_drawn(&mut self, context: &DialogContext) {
        let current = self.visible_incoming(context);
        if self.incoming.last_drawn.as_ref().map(|(what, _)| what) != current.as_ref() {
            if current.is_some() && self.incoming.last_seen != current {
                self.incoming.last_seen.clone_from(&current);
                self.incoming.is_over_draft = true;
            }
            self.incoming.last_drawn = current.map(|what| (what, context.now_ms));
        }
        self.incoming.is_over_draft &= context.has_draft;
    }

    /// Whether this key would answer a dialog that was only just drawn.
    pub(crate) fn is_too_early(&self, key: Key, context: &DialogContext) -> bool {
        let Some(now) = self.visible_incoming(context) else { return false };
        let confirms = DialogKey::from_keymap(&context.keymap, key, false) == DialogKey::Confirm;
        let answers = key.character().is_some() || confirms;
        answers
            && match &self.incoming.last_drawn {
                Some((what, since)) if *what == now => {
                    let seen = context.now_ms.saturating_sub(*since);
                    let moment = match (context.has_draft, self.is_startup_dialog()) {
                        (true, _) => INCOMING_GUARD_MS,
                        (false, true) if confirms => STARTED_MS,
                        (false, true) if self.incoming.has_typed_ahead => TYPE_AHEAD_GUARD_MS,
                        (false, _) => 0,
                    };
                    seen < moment
                }
                _ => true,
            }
    }

    /// Whether the dialog is one of the startup dialogs.
    fn is_startup_dialog(&self) -> bool {
        let purpose = self.overlay.as_ref().map(|overlay| &overlay.purpose);
        let by_itself = self.incoming.dialog.is_some();
        by_itself && matches!(purpose, Some(DialogPurpose::Trust | DialogPurpose::Auth))
    }

    /// Records whether keys were typed before the program took over the terminal.
    pub(crate) fn set_typed_ahead(&mut self, was: bool) {
        self.incoming.has_typed_ahead = was;
    }

    /// Whether this key would answer a dialog that opened right after another answer, and so was
    /// probably meant for the previous one.
    pub(crate) fn repeats_answer(&self, key: Key, context: &DialogContext) -> bool {
        let (Some(now), Some(answered)) = (self.visible_incoming(context), self.incoming.answered)
        else {
            return false;
        };
        if self.first_question().as_ref() != Some(&now) {
            return false;
        }
        let answers = DialogKey::from_keymap(&context.keymap, key, false) == DialogKey::Confirm
            || matches!(key.character(), Some('0'..='9' | 'y' | 'n'));
        let soon = |at: u64| at.saturating_sub(answered) < AFTER_ANSWER_MS;
        answers
            && match &self.incoming.last_drawn {
                Some((what, since)) if *what == now => {
                    soon(*since) && context.now_ms.saturating_sub(*since) < SETTLING_MS
                }
                _ => soon(context.now_ms),
            }
    }

    /// Returns the first request of the engine or of an MCP server, drawn or not. Later dialogs of
    /// a command are part of what the user is doing.
    fn first_question(&self) -> Option<IncomingDialog> {
        match &self.overlay {
            Some(overlay) if overlay.purpose == DialogPurpose::ServerQuestion => {
                self.incoming.dialog.map(IncomingDialog::Dialog)
            }
            Some(_) => None,
            None => {
                let question = self.approval();
                question.map(|question| IncomingDialog::Question(question.request.id.clone()))
            }
        }
    }

    /// Returns the state before a key is passed to a dialog; see [`Self::note_answer`].
    pub(crate) fn state_before_answer(&self) -> AnswerableRequest {
        AnswerableRequest(self.first_question())
    }

    /// Records the time if a key answered a request.
    pub(crate) fn note_answer(&mut self, before: &AnswerableRequest, now_ms: u64) {
        if before.0.is_some() && self.first_question() != before.0 {
            self.incoming.answered = Some(now_ms);
        }
    }

    /// Whether the dialog needs focus first because the composer contains text.
    pub(crate) fn is_blocked_by_draft(&self, context: &DialogContext) -> bool {
        let current = self.visible_incoming(context);
        current.is_some() && context.has_draft && self.incoming.focused_dialog != current
    }

    /// Moves the focus to the dialog if this key asks for it. Returns whether the key did only
    /// that, so that it must be pressed again to answer.
    pub(crate) fn moves_focus_to_dialog(&mut self, key: Key, context: &DialogContext) -> bool {
        if !self.is_blocked_by_draft(context) {
            return false;
        }
        let is_typing = match (&self.overlay, self.approval()) {
            (Some(overlay), _) => overlay.is_typing(),
            (None, Some(question)) => question.is_typing(),
            (None, None) => false,
        };
        let answers = match DialogKey::from_keymap(&context.keymap, key, is_typing) {
            DialogKey::Confirm => true,
            DialogKey::Cancel => return false,
            DialogKey::Other(key) if !is_typing => match key.character() {
                Some(digit @ '0'..='9') => {
                    // The digit moves the cursor, so that Enter takes that choice.
                    if let (true, Some(question)) = (self.overlay.is_none(), self.approval_mut()) {
                        question.select_number(digit);
                    }
                    true
                }
                Some('j' | 'k') => false,
                // Moves the cursor to the choice; Enter takes it.
                Some('y') if self.has_yes_choice() => false,
                // The key is part of the text.
                _ => return false,
            },
            _ => false,
        };
        self.incoming.focused_dialog = self.visible_incoming(context);
        answers
    }

    /// Whether this key would send text that was in the composer when the request arrived. If so,
    /// the dialog is shown again.
    pub(crate) fn protects_draft(&mut self, key: Key, context: &DialogContext) -> bool {
        let protects = self.incoming.is_over_draft && context.has_draft && self.is_user_opened();
        let sends = |it| matches!(it, KeyCommand::Submit | KeyCommand::QueueMessage);
        if !protects || !context.keymap.commands_for(key, KeymapContext::COMPOSER).any(sends) {
            return false;
        }
        self.incoming.writing_until = context.now_ms;
        true
    }

    /// Hides the dialog until a pause in typing, because a key is text. Returns whether it
    /// did; the program's own overlays cannot be hidden, so their delay starts again.
    pub(crate) fn hide_while_typing(&mut self, now_ms: u64) -> bool {
        match self.purpose() {
            Some(DialogPurpose::ServerQuestion) => self.overlay = None,
            Some(_) => {
                if let Some((_, since)) = &mut self.incoming.last_drawn {
                    *since = now_ms;
                }
                return false;
            }
            None => {}
        }
        self.note_typing(now_ms);
        true
    }

    /// Whether dialogs wait because their keys would be meant for the text being typed.
    pub(crate) fn is_writing(&self, now_ms: u64) -> bool {
        self.writing_left_ms(now_ms).is_some()
    }

    /// Returns how long dialogs still wait for a pause in typing, in milliseconds.
    pub(crate) fn writing_left_ms(&self, now_ms: u64) -> Option<u64> {
        let remaining = self.incoming.writing_until.saturating_sub(now_ms);
        (self.is_user_opened() && remaining > 0).then_some(remaining)
    }

    fn is_user_opened(&self) -> bool {
        self.has_approvals() || self.servers.is_waiting()
    }

    /// Records that the user is typing: incoming dialogs wait for a pause.
    pub(crate) fn note_typing(&mut self, now_ms: u64) {
        self.incoming.typed_at = now_ms;
        self.incoming.focused_dialog = None;
        self.incoming.answered = None;
        if self.is_user_opened() {
            self.incoming.writing_until = now_ms + PAUSE_MS;
        }
    }

    /// Records that a request arrives, possibly while the user is typing.
    pub(super) fn note_request(&mut self, context: &DialogContext) {
        let writes = context.now_ms.saturating_sub(self.incoming.typed_at) < PAUSE_MS;
        if !self.is_user_opened() && writes && context.has_draft {
            self.incoming.writing_until = context.now_ms + PAUSE_MS;
        }
    }
}
