//! One attempt at a response: what was received and what is already shown.

use std::time::Instant;

use parallax_protocol::content::{Content, PartView};
use parallax_protocol::ids::ItemId;
use parallax_protocol::store::{UnfinishedAnswer, UnfinishedRecord};

use crate::budget::Reservation;

use super::response_builder::ResponseBuilder;
use super::unjournaled_parts::UnjournaledParts;

/// One attempt: what was received and what is already shown.
pub(crate) struct Attempt {
    pub(crate) answer: ResponseBuilder,
    pub(super) text: Option<ItemId>,
    pub(super) thought: Option<ItemId>,
    pub(super) thought_text: String,
    /// Length in bytes of the text that front ends already show as part of the history.
    pub(super) shown_before: usize,
    /// The parts of a continuable answer that are not in the journal yet.
    pub(super) unjournaled: Option<UnjournaledParts>,
    /// Whether pieces are in the journal.
    pub(super) is_journaled: bool,
    /// How many requests of the answer ended with a token.
    pub(super) hops: u32,
    /// How many tokens the service accepted.
    pub(crate) accepted_tokens: u32,
    /// What is in the journal: another request can continue it.
    resumable: Option<UnfinishedAnswer>,
    /// When the current request was sent.
    pub(super) sent_at: Instant,
    /// The size in bytes.
    pub(super) request_bytes: u64,
    /// The number for observers.
    pub(super) observed: u64,
    /// Milliseconds until its first chunk.
    pub(super) first_chunk_ms: Option<u64>,
    /// Whether it goes to the service, and not to a hook.
    pub(super) is_sent: bool,
    /// What it may cost, while it is running.
    pub(crate) reservation: Option<Reservation>,
}

impl Attempt {
    /// Creates an attempt for a request with its send time and size.
    pub(crate) fn new(sent_at: Instant, request_bytes: u64) -> Self {
        Self {
            answer: ResponseBuilder::default(),
            text: None,
            thought: None,
            thought_text: String::new(),
            shown_before: 0,
            unjournaled: None,
            is_journaled: false,
            hops: 0,
            accepted_tokens: 0,
            resumable: None,
            sent_at,
            request_bytes,
            observed: 0,
            first_chunk_ms: None,
            is_sent: false,
            reservation: None,
        }
    }

    /// Takes what another request can continue.
    pub(super) fn take_resumable(&mut self) -> Option<UnfinishedAnswer> {
        self.resumable.take()
    }

    /// Begins with what was received before.
    pub(super) fn set_resumable(&mut self, unfinished: UnfinishedAnswer) {
        self.resumable = Some(unfinished);
    }

    /// Adds a journaled piece.
    pub(super) fn add_piece(&mut self, piece: &UnfinishedRecord) {
        self.resumable = UnfinishedAnswer::add(self.resumable.take(), piece);
    }

    /// Returns the text without what front ends showed before the attempt.
    pub(super) fn strip_shown(&self, mut text: String) -> String {
        if text.is_char_boundary(self.shown_before) {
            text.drain(..self.shown_before);
        }
        text
    }
}

/// Returns the visible text, without copying a single part.
pub(super) fn text_of(content: Content) -> String {
    let mut text = String::new();
    for part in content.parts {
        if !matches!(part.view(), PartView::Text(_)) {
            continue;
        }
        let piece = part.into_text().unwrap_or_default();
        if text.is_empty() {
            text = piece;
        } else {
            text.push_str(&piece);
        }
    }
    text
}
