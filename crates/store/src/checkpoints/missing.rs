//! Files that an undo could not give back, and the names under which their bytes
//! went on: what is new in the workspace may hold the only copy.

use std::collections::HashSet;
use std::io;

use super::beneath::{Leaf, Place};
use super::state::{ObjectId, Stamp, State};

/// Files that did not come back: what has their bytes must stay.
#[derive(Default)]
pub(super) struct Missing {
    stamps: Vec<Stamp>,
    bytes: HashSet<ObjectId>,
}

impl Missing {
    /// The file stays away; its bytes are in the store, or it is seen nowhere.
    pub fn add(&mut self, before: &State) {
        if let State::File { stamp, .. } = before {
            self.stamps.push(*stamp);
        }
    }

    /// The same, and the store did not give its bytes.
    pub fn add_with_bytes(&mut self, before: &State) {
        self.add(before);
        if let State::File { content, .. } = before {
            self.bytes.extend(content.hash());
        }
    }

    pub fn has(&self, now: &State) -> bool {
        let State::File { content, stamp } = now else { return false };
        self.stamps.iter().any(|missing| is_moved(missing, stamp))
            || content.hash().is_some_and(|id| self.bytes.contains(&id))
    }
}

/// The facts of a file whose bytes are nowhere.
pub(super) fn is_lost_file(before: &State) -> Option<Stamp> {
    match before {
        State::File { stamp, .. } if before.lost().is_some() => Some(*stamp),
        _ => None,
    }
}

/// Whether the one is the other under a new name.
fn is_moved(old: &Stamp, new: &Stamp) -> bool {
    identity(old) == identity(new)
}

/// The facts that a file keeps when it gets another name.
pub(super) fn identity(stamp: &Stamp) -> (u64, u64, i64) {
    (stamp.inode, stamp.size, stamp.modified)
}

/// Gives a file its old name back.
pub(super) fn move_back(from: &Place, to: &Place) -> io::Result<()> {
    Leaf::open(from, false)?.move_to(&Leaf::open(to, true)?)
}
