//! Decides which part of the history a summary replaces.

use parallax_protocol::content::Role;

use crate::view::{ViewEntry, tokens_of};

/// A split of the view. It is always before a message from the model, so that calls stay with
/// their results, even inside one long turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistorySplit {
    /// The active prompt, if it is before the tail.
    pub(crate) active: Option<usize>,
    /// The first entry of the tail.
    pub(crate) tail: usize,
}

impl HistorySplit {
    /// Whether an entry is dropped.
    pub(crate) fn is_dropped(self, at: usize) -> bool {
        at < self.tail && self.active != Some(at)
    }

    /// Splits so that the tail has about `budget` tokens, but at least this many model messages
    /// with their results. `None`: nothing would be dropped.
    pub(crate) fn with_tail_budget(
        view: &[ViewEntry],
        active: Option<usize>,
        budget: u64,
        answers: usize,
    ) -> Option<Self> {
        let (mut tail, mut kept, mut size) = (None, 0, 0);
        for (index, entry) in view.iter().enumerate().skip(1).rev() {
            size += entry.tokens;
            if entry.content.role() != Role::Model {
                continue;
            }
            if kept >= answers && size > budget {
                break;
            }
            kept += 1;
            tail = Some(index);
        }
        Self::at(view, active, tail?)
    }

    /// Splits before the first content at or after an index.
    pub(crate) fn before_index(
        view: &[ViewEntry],
        active: Option<usize>,
        index: usize,
    ) -> Option<Self> {
        let from = |entry: &ViewEntry| entry.origin.content_index().is_some_and(|at| at >= index);
        let tail = view.iter().position(from)?;
        let cut = view.get(tail).is_some_and(|entry| entry.content.role() == Role::Model);
        if cut { Self::at(view, active, tail) } else { None }
    }

    fn at(view: &[ViewEntry], active: Option<usize>, tail: usize) -> Option<Self> {
        let split = Self { active: active.filter(|at| *at < tail), tail };
        let mut dropped = view.iter().enumerate().filter(|(index, _)| split.is_dropped(*index));
        // A summary alone is not worth another summary.
        dropped.any(|(_, entry)| entry.origin.content_index().is_some()).then_some(split)
    }

    /// Returns the tokens of the dropped entries.
    pub(crate) fn dropped_tokens(self, view: &[ViewEntry]) -> u64 {
        let before = tokens_of(view.get(..self.tail).unwrap_or_default());
        let active = self.active.and_then(|at| view.get(at)).map_or(0, |entry| entry.tokens);
        before.saturating_sub(active)
    }
}
