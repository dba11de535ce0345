//! An answer that the service can continue: its pieces are journaled at the service's tokens,
//! so that another process can receive the rest.

use std::time::Instant;

use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::Chunk;
use parallax_protocol::store::{Record, UnfinishedAnswer, UnfinishedRecord};

use super::ResponseReceiver;
use super::attempt::{Attempt, text_of};
use super::response_builder::StreamedText;
use super::unjournaled_parts::UnjournaledParts;
use crate::history::now;

impl ResponseReceiver<'_> {
    /// Begins an attempt with what was received before. `shown`: how many bytes of its text the front
    /// ends show already; they get the rest first.
    pub(crate) fn begin_resumed(
        &mut self,
        attempt: &mut Attempt,
        unfinished: &UnfinishedAnswer,
        shown: usize,
    ) {
        let parts = unfinished.parts.clone();
        attempt.answer.push(Chunk { parts, ..Chunk::default() });
        let text = attempt.answer.text();
        attempt.shown_before = shown.min(text.len());
        if let Some(rest) = text.get(attempt.shown_before..).filter(|rest| !rest.is_empty()) {
            self.show(attempt, StreamedText::Text(rest.to_owned()));
        }
        attempt.unjournaled = Some(UnjournaledParts::new());
        attempt.set_resumable(unfinished.clone());
    }

    /// Shows the text of an answer that this request does not continue, except for the first bytes,
    /// which the front ends show already.
    pub(crate) fn show_unfinished(&mut self, unfinished: &UnfinishedAnswer, shown: usize) {
        let text = text_of(unfinished.content());
        let Some(rest) = text.get(shown..).filter(|rest| !rest.is_empty()) else { return };
        let mut attempt = Attempt::new(Instant::now(), 0);
        self.show(&mut attempt, StreamedText::Text(rest.to_owned()));
        self.finish_text(&mut attempt, rest.to_owned());
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
        if self.hooks.holds_back_text() {
            return;
        }
        let (first, token, piece) = match &mut attempt.unjournaled {
            Some(unjournaled) => {
                unjournaled.add(parts, token);
                if token.is_none() || !unjournaled.is_due() {
                    return;
                }
                let Some((token, piece)) = unjournaled.take() else { return };
                (false, token, piece)
            }
            None => {
                // Most services send no tokens: nothing is copied for them.
                let Some(token) = token else { return };
                attempt.unjournaled = Some(UnjournaledParts::new());
                (true, token.to_owned(), attempt.answer.parts().to_vec())
            }
        };
        attempt.is_journaled = true;
        let piece = self.record_piece(model, Some(&token), first, piece);
        attempt.add_piece(&piece);
    }

    /// Journals the rest of an attempt that ended early, up to its newest token, and takes what
    /// another request can continue.
    pub(crate) fn take_resumable(
        &mut self,
        attempt: &mut Attempt,
        model: &str,
    ) -> Option<UnfinishedAnswer> {
        if let Some((token, parts)) = attempt.unjournaled.as_mut().and_then(UnjournaledParts::take)
        {
            let piece = self.record_piece(model, Some(&token), false, parts);
            attempt.add_piece(&piece);
        }
        attempt.take_resumable()
    }

    /// Invalidates the journaled pieces of a failed attempt. The answer of an earlier process
    /// remains valid.
    pub(crate) fn invalidate_pieces(
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
                drop(self.record_piece(&unfinished.model, Some(&unfinished.token), true, parts));
            }
            None => drop(self.record_piece(model, None, true, Vec::new())),
        }
    }

    fn record_piece(
        &mut self,
        model: &str,
        token: Option<&str>,
        first: bool,
        parts: Vec<Part>,
    ) -> UnfinishedRecord {
        let mut content = Content::model(parts);
        self.environment.redact_parts(&mut content);
        let piece = UnfinishedRecord {
            time: now(),
            model: model.to_owned(),
            token: token.map(str::to_owned),
            first,
            parts: content.parts,
        };
        self.conversation.history_mut().record(&Record::Unfinished(piece.clone()));
        piece
    }
}
