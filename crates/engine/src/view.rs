//! What of the history goes out: the contents themselves, or the shorter form
//! that a compaction made of the first of them, and what came since.

use parallax_protocol::content::Sealed;
use parallax_protocol::store::{CompactionRecord, Piece};

use crate::invariants;
use crate::tokens;

/// Where a content of the view comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The content of that place, as it is.
    Whole(usize),
    /// The content of that place, with shorter results.
    Changed(usize),
    /// An account of what was there.
    Made,
}

impl Origin {
    /// The place among all contents.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Whole(at) | Self::Changed(at) => Some(at),
            Self::Made => None,
        }
    }
}

/// A content of the view.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) content: Sealed,
    pub(crate) origin: Origin,
    /// Its estimate.
    pub(crate) tokens: u64,
}

impl Entry {
    pub(crate) fn new(content: Sealed, origin: Origin) -> Self {
        let tokens = tokens::of_content(content.json());
        Self { content, origin, tokens }
    }
}

/// The tokens of some entries.
pub(crate) fn tokens_of(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.tokens).sum()
}

/// Their contents, to be sent.
pub(crate) fn contents_of(entries: &[Entry]) -> Vec<Sealed> {
    entries.iter().map(|entry| entry.content.clone()).collect()
}

/// The view of all contents under a compaction; `None` when it does not fit
/// them (a damaged journal).
pub(crate) fn under(compaction: &CompactionRecord, contents: &[Sealed]) -> Option<Vec<Entry>> {
    let mut view = Vec::new();
    let mut next = 0;
    for piece in &compaction.pieces {
        match piece {
            Piece::Kept(from, to) if *from >= next && *to <= compaction.at && from < to => {
                next = *to;
                let kept = contents.get(*from..*to)?.iter().cloned();
                view.extend(
                    kept.zip(*from..).map(|(content, at)| Entry::new(content, Origin::Whole(at))),
                );
            }
            Piece::Changed { at, wire } if *at >= next && *at < compaction.at => {
                next = at + 1;
                view.push(Entry::new(wire.clone(), Origin::Changed(*at)));
            }
            Piece::Made { wire } => view.push(Entry::new(wire.clone(), Origin::Made)),
            Piece::Kept(..) | Piece::Changed { .. } => return None,
        }
    }
    let since = contents.get(compaction.at..)?.iter().cloned();
    view.extend(
        since.zip(compaction.at..).map(|(content, at)| Entry::new(content, Origin::Whole(at))),
    );
    let fits = !view.is_empty() && invariants::structure(&contents_of(&view)).is_none();
    fits.then_some(view)
}

/// A view as the pieces of a record.
pub(crate) fn pieces_of(view: &[Entry]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for entry in view {
        match (entry.origin, pieces.last_mut()) {
            (Origin::Whole(at), Some(Piece::Kept(_, to))) if *to == at => *to = at + 1,
            (Origin::Whole(at), _) => pieces.push(Piece::Kept(at, at + 1)),
            (Origin::Changed(at), _) => {
                pieces.push(Piece::Changed { at, wire: entry.content.clone() });
            }
            (Origin::Made, _) => pieces.push(Piece::Made { wire: entry.content.clone() }),
        }
    }
    pieces
}
