//! Directories that a command moved with everything in them. A protected file may move with its
//! directory, but its contents must not change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::command_snapshot::CommandSnapshot;
use super::confined_root::{ConfinedPath, read_state};
use super::listing::{EntryKind, WalkResult};
use super::protected::is_protected;
use super::state::PathState;

/// Directories that have another path after a command, identified by inode. Directories that are
/// protected themselves are not included.
pub(super) struct MovedFolders {
    old: HashMap<ConfinedPath, ConfinedPath>,
    new: HashMap<ConfinedPath, ConfinedPath>,
}

impl MovedFolders {
    pub fn compare(before: &WalkResult, after: &WalkResult) -> Self {
        let directories = |walked: &WalkResult| -> HashMap<u64, ConfinedPath> {
            let entries = walked.entries.iter();
            let free = entries.filter(|entry| {
                matches!(entry.kind, EntryKind::Folder) && !is_protected(&entry.path.relative)
            });
            free.map(|entry| (entry.stamp.inode, entry.path.clone())).collect()
        };
        let (before, after) = (directories(before), directories(after));
        let mut moved = Self { old: HashMap::new(), new: HashMap::new() };
        for (inode, old) in before {
            if let Some(new) = after.get(&inode).filter(|new| **new != old) {
                moved.old.insert(new.clone(), old.clone());
                moved.new.insert(old, new.clone());
            }
        }
        moved
    }

    /// Returns the path before the move, if this is in a moved directory.
    pub fn former_path(&self, location: &ConfinedPath) -> Option<ConfinedPath> {
        map_through(&self.old, location)
    }

    /// Returns the path after the move, if this was in a moved directory.
    pub fn current_path(&self, location: &ConfinedPath) -> Option<ConfinedPath> {
        map_through(&self.new, location)
    }
}

fn map_through(
    directories: &HashMap<ConfinedPath, ConfinedPath>,
    location: &ConfinedPath,
) -> Option<ConfinedPath> {
    let ancestors =
        location.relative.ancestors().skip(1).filter(|directory| *directory != Path::new(""));
    ancestors.into_iter().find_map(|directory| {
        let here = ConfinedPath { root: location.root.clone(), relative: directory.to_path_buf() };
        let there = directories.get(&here)?;
        let rest = location.relative.strip_prefix(directory).ok()?;
        Some(ConfinedPath { root: there.root.clone(), relative: there.relative.join(rest) })
    })
}

/// Returns where the protected file of a change must be restored, if anywhere: in a moved
/// directory, an unchanged file may stay. Stores the previous state in `before`.
pub(super) fn restore_place(
    location: &ConfinedPath,
    after: &PathState,
    mark: &CommandSnapshot,
    moved: &MovedFolders,
    before: &mut HashMap<PathBuf, PathState>,
) -> Option<PathBuf> {
    let path = location.path();
    if after.is_absent() {
        let Some(now) = moved.current_path(location) else { return Some(path) };
        if read_state(&now).is_ok_and(|state| !state.is_absent()) {
            return None;
        }
        let current = now.path();
        before.insert(current.clone(), mark.state_at(location)?);
        return Some(current);
    }
    let Some(was) = moved.former_path(location).filter(|was| is_protected(&was.relative)) else {
        return Some(path);
    };
    let Some(state) = mark.state_at(&was) else { return Some(path) };
    if state.is_same(after) {
        return None;
    }
    before.insert(path.clone(), state);
    Some(path)
}
