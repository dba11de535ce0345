//! A turn that its provider pauses: the next request continues it.

use parallax_protocol::content::Part;
use parallax_protocol::model::{Chunk, FinishReason, Usage};

/// How often a paused turn is continued.
pub(crate) const MAX_PAUSES: u32 = 8;

/// A turn that its provider may pause.
#[derive(Default)]
pub(crate) struct PausedTurn {
    /// How often it was continued.
    pub count: u32,
    pub is_paused: bool,
    /// What was received since.
    pub parts: Vec<Part>,
    /// The token counts of this request, and of those before the pauses.
    pub usage: Usage,
    pub previous_usage: Option<Usage>,
}

impl PausedTurn {
    pub fn total(&self, usage: Usage) -> Usage {
        self.previous_usage.map_or(usage, |earlier| earlier.with_continuation(&usage))
    }

    /// Keeps the parts of a chunk, which the next request repeats, and removes the finish
    /// reason of a pause.
    pub fn track(&mut self, chunk: &mut Chunk) {
        if let Some(usage) = &mut chunk.usage {
            self.usage = *usage;
            *usage = self.total(*usage);
        }
        if self.count >= MAX_PAUSES {
            return;
        }
        for part in chunk.parts.iter().cloned() {
            let apart = match self.parts.last_mut() {
                Some(last) => last.try_join(part),
                None => Err(part),
            };
            self.parts.extend(apart.err());
        }
        if chunk.finish.as_ref().is_some_and(|it| it.reason == FinishReason::Paused) {
            self.is_paused = true;
            chunk.finish = None;
        }
    }
}
