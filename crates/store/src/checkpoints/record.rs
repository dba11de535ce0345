//! The records of changes to files.

use serde::{Deserialize, Serialize};

use super::ChangeOrigin;
use super::state::{EncodedPath, ObjectId, PathState};

/// A file in a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub path: EncodedPath,
    pub before: PathState,
    /// `None` if the change did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PathState>,
}

/// A record, stored as one line. Times are in nanoseconds since 1970 and order overlapping changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Record {
    /// A change began or ended.
    Changed { turn: u64, began: i64, ended: i64, by: ChangeOrigin, files: Vec<FileRecord> },
    /// The workspace directories of the following records.
    Roots { roots: Vec<EncodedPath> },
    /// Objects that a running command may need.
    #[serde(rename = "held")]
    InUse { objects: Vec<ObjectId> },
    /// Files were undone (`before`: the state before the undo; `after`: the state after it) or left
    /// alone.
    Undone { turn: u64, at: i64, files: Vec<FileRecord>, kept: Vec<EncodedPath> },
    /// Files that a program changed without permission were reverted (`before`: the state that the
    /// program or others left; `after`: the state after the reversal).
    #[serde(rename = "put_back")]
    RevertedFiles { turn: u64, began: i64, ended: i64, by: ChangeOrigin, files: Vec<FileRecord> },
    /// The last undo was reverted for these files. `skipped_paths`: files that only a forced redo would have
    /// included.
    #[serde(rename = "redone")]
    RedoneFiles {
        turn: u64,
        at: i64,
        files: Vec<FileRecord>,
        #[serde(rename = "left", default, skip_serializing_if = "Vec::is_empty")]
        skipped_paths: Vec<EncodedPath>,
    },
}
