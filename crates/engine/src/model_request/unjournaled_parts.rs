//! The parts of a continuable answer that are not in the journal yet.

use std::time::{Duration, Instant};

use parallax_protocol::content::{Part, PartView};

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

impl UnjournaledParts {
    pub(super) fn new() -> Self {
        Self { parts: Vec::new(), bytes: 0, since: Instant::now() }
    }

    /// Adds the parts of a chunk.
    pub(super) fn add(&mut self, parts: &[Part]) {
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

    /// Whether the parts should be journaled now.
    pub(super) fn is_due(&self) -> bool {
        self.bytes >= PIECE_BYTES || self.since.elapsed() >= PIECE_TIME
    }

    /// Returns the parts.
    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }
}
