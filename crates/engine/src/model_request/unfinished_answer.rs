//! An answer that the service can continue: its pieces are journaled at the service's tokens,
//! so that another process can receive the rest.

use std::time::{Duration, Instant};

use parallax_protocol::content::{Content, Part, PartView, Role};
use parallax_protocol::model::Chunk;
use parallax_protocol::store::{Record, UnfinishedAnswer, UnfinishedRecord};

use super::stream::Attempt;
use crate::conversation::Conversation;
use crate::history::{ContentMetadata, now};
use crate::response_builder::StreamedText;
use crate::resume_turn::PARTIAL_NOTE;
use crate::session::Session;

/// A piece is journaled at the first token after this many bytes or after [`PIECE_TIME`].
const PIECE_BYTES: usize = 4096;
/// See [`PIECE_BYTES`].
const PIECE_TIME: Duration = Duration::from_secs(2);

/// What was received since the newest journaled piece.
pub(super) struct UnjournaledParts {
    parts: Vec<Part>,
    bytes: usize,
    since: Instant,
}

impl Session {
    /// Takes the answer of an earlier process that the next request to the model continues.
    /// With another model, a note asks for the rest instead.
    pub(super) fn take_unfinished(&mut self, model: &str) -> Option<UnfinishedAnswer> {
        let unfinished = self.client.unfinished.take()?;
        let has_content = self.conversation.history.last_role() == Some(Role::Model);
        if unfinished.model == model {
            if has_content {
                self.conversation.history.take_last();
            }
            return Some(unfinished);
        }
        if has_content {
            self.conversation.history.push_note(PARTIAL_NOTE);
        }
        None
    }

    /// Begins an attempt with what was received before. Front ends that do not show the
    /// history get its text first.
    pub(super) fn begin_with(&mut self, attempt: &mut Attempt, unfinished: &UnfinishedAnswer) {
        let parts = unfinished.parts.clone();
        attempt.answer.push(Chunk { parts, ..Chunk::default() });
        let text = attempt.answer.text();
        if self.environment.interactive {
            attempt.shown_before = text.len();
        } else if !text.is_empty() {
            self.show(attempt, StreamedText::Text(text));
        }
        attempt.unjournaled = Some(UnjournaledParts::new());
    }

    /// Buffers the parts of a chunk, which may carry a token, and journals a piece when one is due.
    pub(super) fn journal_piece(
        &mut self,
        attempt: &mut Attempt,
        parts: &[Part],
        token: Option<&str>,
        model: &str,
    ) {
        // A hook may still replace the text.
        if self.hooks.delays_text() {
            return;
        }
        let first = attempt.unjournaled.is_none();
        let piece = match &mut attempt.unjournaled {
            Some(unjournaled) => {
                unjournaled.add(parts);
                if token.is_none() || !unjournaled.is_due() {
                    return;
                }
                std::mem::replace(unjournaled, UnjournaledParts::new()).parts
            }
            // Most services send no tokens: nothing is copied for them.
            None if token.is_none() => return,
            None => {
                attempt.unjournaled = Some(UnjournaledParts::new());
                attempt.answer.parts().to_vec()
            }
        };
        attempt.is_journaled = true;
        self.record_piece(model, token, first, piece);
    }

    /// Invalidates the journaled pieces of a failed attempt. The answer of an earlier process
    /// remains valid.
    pub(super) fn forget_pieces(
        &mut self,
        attempt: &mut Attempt,
        model: &str,
        resumed: Option<&UnfinishedAnswer>,
    ) {
        if !std::mem::take(&mut attempt.is_journaled) {
            return;
        }
        match resumed {
            Some(unfinished) => {
                let parts = unfinished.parts.clone();
                self.record_piece(&unfinished.model, Some(&unfinished.token), true, parts);
            }
            None => self.record_piece(model, None, true, Vec::new()),
        }
    }

    /// Restores the unfinished answer after a failed turn, so that it can be continued later.
    pub(super) fn put_back(&mut self, unfinished: UnfinishedAnswer) {
        let content = unfinished.content();
        if !content.parts.is_empty() {
            self.conversation.history.keep(content.seal_for(&unfinished.model));
        }
        self.conversation.is_last_answer_partial = true;
        self.client.unfinished = Some(unfinished);
    }

    fn record_piece(&mut self, model: &str, token: Option<&str>, first: bool, parts: Vec<Part>) {
        let mut content = Content::model(parts);
        self.environment.redact_parts(&mut content);
        self.conversation.history.record(&Record::Unfinished(UnfinishedRecord {
            time: now(),
            model: model.to_owned(),
            token: token.map(str::to_owned),
            first,
            parts: content.parts,
        }));
    }
}

impl Conversation {
    /// Gives up on an answer that the service does not continue: the received text becomes a
    /// content, and a note asks for the rest.
    pub(crate) fn give_up_continuation(&mut self, unfinished: &UnfinishedAnswer) {
        let content = unfinished.content();
        if !content.parts.is_empty() {
            let model = Some(unfinished.model.clone());
            let metadata = ContentMetadata { model, partial: true, ..ContentMetadata::default() };
            self.history.push(&content, metadata);
            self.history.push_note(PARTIAL_NOTE);
        }
    }
}

impl UnjournaledParts {
    fn new() -> Self {
        Self { parts: Vec::new(), bytes: 0, since: Instant::now() }
    }

    fn add(&mut self, parts: &[Part]) {
        for part in parts.iter().cloned() {
            self.bytes += match part.view() {
                PartView::Text(text) | PartView::Thought(text) => text.len(),
                _ => PIECE_BYTES,
            };
            let apart = match self.parts.last_mut() {
                Some(last) => last.try_join(part),
                None => Err(part),
            };
            self.parts.extend(apart.err());
        }
    }

    fn is_due(&self) -> bool {
        self.bytes >= PIECE_BYTES || self.since.elapsed() >= PIECE_TIME
    }
}
