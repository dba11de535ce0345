//! The state of a file before a write and after it.

use crate::seen_files::{Hash, Snapshot};

/// The required state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedState {
    /// Any state.
    Anything,
    /// The file does not exist.
    Absent,
    /// The file has this content.
    Content(Hash),
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteResult {
    /// Whether the file is new.
    pub created: bool,
    /// Whether it was rewritten in place (hard links, foreign owner) instead of being replaced by a
    /// rename.
    pub rewritten_in_place: bool,
    /// The state of the file now.
    pub snapshot: Snapshot,
}
