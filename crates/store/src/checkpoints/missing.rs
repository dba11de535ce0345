//! Files that an undo could not restore. A new file in the workspace may hold the only copy of
//! their contents under another name.

use std::collections::HashSet;
use std::io;

use super::confined_root::{ConfinedPath, EntryHandle};
use super::state::{ObjectId, PathState, Stamp};

/// Files that were not restored; a file with the same contents must not be removed.
#[derive(Default)]
pub(super) struct UnrestoredFiles {
    stamps: Vec<Stamp>,
    bytes: HashSet<ObjectId>,
}

impl UnrestoredFiles {
    /// Adds a file that was not restored.
    pub fn add(&mut self, before: &PathState) {
        if let PathState::File { stamp, .. } = before {
            self.stamps.push(*stamp);
        }
    }

    /// Adds a file that was not restored because the store could not provide its contents.
    pub fn add_without_contents(&mut self, before: &PathState) {
        self.add(before);
        if let PathState::File { content, .. } = before {
            self.bytes.extend(content.hash());
        }
    }

    pub fn has(&self, now: &PathState) -> bool {
        let PathState::File { content, stamp } = now else { return false };
        self.stamps.iter().any(|missing| is_moved(missing, stamp))
            || content.hash().is_some_and(|id| self.bytes.contains(&id))
    }
}

/// Returns the stamp of a file whose contents are not available.
pub(super) fn unavailable_contents(before: &PathState) -> Option<Stamp> {
    match before {
        PathState::File { stamp, .. } if before.restore_problem().is_some() => Some(*stamp),
        _ => None,
    }
}

/// Whether one file is the other under a new name.
fn is_moved(old: &Stamp, new: &Stamp) -> bool {
    identity(old) == identity(new)
}

/// Returns the metadata that a file keeps when it is renamed.
pub(super) fn identity(stamp: &Stamp) -> (u64, u64, i64) {
    (stamp.inode, stamp.size, stamp.modified)
}

/// Renames a file back to its old name.
pub(super) fn rename_back(from: &ConfinedPath, to: &ConfinedPath) -> io::Result<()> {
    EntryHandle::open(from, false)?.move_to(&EntryHandle::open(to, true)?)
}
