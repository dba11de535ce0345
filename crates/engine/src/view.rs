//! The view of the history that is sent: the contents themselves, or the compacted form of the
//! first ones and what followed.

use parallax_protocol::content::SealedContent;
use parallax_protocol::store::{CompactedEntry, CompactionRecord};

use crate::invariants;
use crate::tokens;

/// Where an entry of the view comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryOrigin {
    /// The content at this index, unchanged.
    Original(usize),
    /// The content at this index, with shorter results.
    Edited(usize),
    /// A generated summary.
    Generated,
}

impl EntryOrigin {
    /// Returns the index among all contents.
    pub(crate) fn content_index(self) -> Option<usize> {
        match self {
            Self::Original(at) | Self::Edited(at) => Some(at),
            Self::Generated => None,
        }
    }
}

/// An entry of the view.
#[derive(Debug, Clone)]
pub(crate) struct ViewEntry {
    pub(crate) content: SealedContent,
    pub(crate) origin: EntryOrigin,
    /// The estimated tokens.
    pub(crate) tokens: u64,
}

impl ViewEntry {
    pub(crate) fn new(content: SealedContent, origin: EntryOrigin) -> Self {
        let tokens = tokens::estimate_content(content.json());
        Self { content, origin, tokens }
    }
}

/// Returns the tokens of entries.
pub(crate) fn tokens_of(entries: &[ViewEntry]) -> u64 {
    entries.iter().map(|entry| entry.tokens).sum()
}

/// Returns the contents of entries.
pub(crate) fn contents_of(entries: &[ViewEntry]) -> Vec<SealedContent> {
    entries.iter().map(|entry| entry.content.clone()).collect()
}

/// Returns the view of all contents under a compaction; `None` when it does not fit them (a damaged
/// journal).
pub(crate) fn compacted_view(
    compaction: &CompactionRecord,
    contents: &[SealedContent],
) -> Option<Vec<ViewEntry>> {
    let mut view = Vec::new();
    let mut next = 0;
    for piece in &compaction.pieces {
        match piece {
            CompactedEntry::Unchanged(from, to)
                if *from >= next && *to <= compaction.at && from < to =>
            {
                next = *to;
                let retained = contents.get(*from..*to)?.iter().cloned();
                view.extend(
                    retained
                        .zip(*from..)
                        .map(|(content, at)| ViewEntry::new(content, EntryOrigin::Original(at))),
                );
            }
            CompactedEntry::Changed { at, wire } if *at >= next && *at < compaction.at => {
                next = at + 1;
                view.push(ViewEntry::new(wire.clone(), EntryOrigin::Edited(*at)));
            }
            CompactedEntry::Created { wire } => {
                view.push(ViewEntry::new(wire.clone(), EntryOrigin::Generated))
            }
            CompactedEntry::Unchanged(..) | CompactedEntry::Changed { .. } => return None,
        }
    }
    let since = contents.get(compaction.at..)?.iter().cloned();
    view.extend(
        since
            .zip(compaction.at..)
            .map(|(content, at)| ViewEntry::new(content, EntryOrigin::Original(at))),
    );
    let fits = !view.is_empty() && invariants::structure_violation(&contents_of(&view)).is_none();
    fits.then_some(view)
}

/// Returns a view as the pieces of a record.
pub(crate) fn pieces_of(view: &[ViewEntry]) -> Vec<CompactedEntry> {
    let mut pieces = Vec::new();
    for entry in view {
        match (entry.origin, pieces.last_mut()) {
            (EntryOrigin::Original(at), Some(CompactedEntry::Unchanged(_, to))) if *to == at => {
                *to = at + 1
            }
            (EntryOrigin::Original(at), _) => pieces.push(CompactedEntry::Unchanged(at, at + 1)),
            (EntryOrigin::Edited(at), _) => {
                pieces.push(CompactedEntry::Changed { at, wire: entry.content.clone() });
            }
            (EntryOrigin::Generated, _) => {
                pieces.push(CompactedEntry::Created { wire: entry.content.clone() })
            }
        }
    }
    pieces
}
