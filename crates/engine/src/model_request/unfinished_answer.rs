//! An answer that the service can continue: its pieces are journaled at the service's tokens,
//! so that another process can receive the rest.

use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::Chunk;
use parallax_protocol::store::{Record, UnfinishedAnswer, UnfinishedRecord};

use super::ResponseReceiver;
use super::attempt::Attempt;
use super::response_builder::StreamedText;
use super::unjournaled_parts::UnjournaledParts;
use crate::history::now;

impl ResponseReceiver<'_> {
    /// Begins an attempt with what was received before. Front ends that do not show the
    /// history get its text first.
    pub(crate) fn begin_with(&mut self, attempt: &mut Attempt, unfinished: &UnfinishedAnswer) {
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
    pub(crate) fn journal_piece(
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
                std::mem::replace(unjournaled, UnjournaledParts::new()).into_parts()
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
    pub(crate) fn forget_pieces(
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

    fn record_piece(&mut self, model: &str, token: Option<&str>, first: bool, parts: Vec<Part>) {
        let mut content = Content::model(parts);
        self.environment.redact_parts(&mut content);
        self.conversation.history_mut().record(&Record::Unfinished(UnfinishedRecord {
            time: now(),
            model: model.to_owned(),
            token: token.map(str::to_owned),
            first,
            parts: content.parts,
        }));
    }
}
