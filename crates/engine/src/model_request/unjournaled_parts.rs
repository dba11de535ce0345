//! The parts of a continuable answer that are not in the journal yet.

use std::time::{Duration, Instant};

use parallax_protocol::content::{Part, PartView};

/// A piece is journaled at the first token after this many bytes or after [`PIECE_TIME`].
const PIECE_BYTES: usize = 4096;
/// See [`PIECE_BYTES`].
const PIECE_TIME: Duration = Duration::from_secs(2);

/// What was received since the newest journaled piece.
pub(super) struct UnjournaledParts {
    /// The parts up to the newest token.
    parts: Vec<Part>,
    /// The newest token; `None` if there was none since the piece.
    token: Option<String>,
    /// The parts after the newest token.
    after: Vec<Part>,
    bytes: usize,
    started: Instant,
}

impl UnjournaledParts {
    pub(super) fn new() -> Self {
        let (parts, after) = (Vec::new(), Vec::new());
        Self { parts, token: None, after, bytes: 0, started: Instant::now() }
    }

    /// Adds the parts of a chunk, which may end with a token.
    pub(super) fn add(&mut self, parts: &[Part], token: Option<&str>) {
        for part in parts {
            self.bytes += match part.view() {
                PartView::Text(text) | PartView::Thought(text) => text.len(),
                _ => PIECE_BYTES,
            };
        }
        join(&mut self.after, parts.to_vec());
        if let Some(token) = token {
            self.token = Some(token.to_owned());
            join(&mut self.parts, std::mem::take(&mut self.after));
        }
    }

    /// Whether the parts should be journaled now.
    pub(super) fn is_due(&self) -> bool {
        self.bytes >= PIECE_BYTES || self.started.elapsed() >= PIECE_TIME
    }

    /// Takes the parts up to the newest token, if there is one.
    pub(super) fn take(&mut self) -> Option<(String, Vec<Part>)> {
        let token = self.token.take()?;
        let after = std::mem::take(&mut self.after);
        let drained = std::mem::replace(self, Self { after, ..Self::new() });
        Some((token, drained.parts))
    }
}

/// Appends parts, joining those that the service split.
fn join(parts: &mut Vec<Part>, more: Vec<Part>) {
    for part in more {
        let apart = match parts.last_mut() {
            Some(last) => last.try_join(part),
            None => Err(part),
        };
        parts.extend(apart.err());
    }
}
