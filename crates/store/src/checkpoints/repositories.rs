//! Repositories that a command moved. Git objects are not saved, so the directory itself must be
//! moved back.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::confined_root::{ConfinedPath, EntryHandle};
use super::listing::{EntryKind, WalkResult};
use super::moved_folders::MovedFolders;
use super::state::Stamp;

/// A `.git` directory that is no longer at its original path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedRepository {
    /// The original path.
    pub path: PathBuf,
    /// The current path, if it is still in the workspace.
    pub moved_to: Option<PathBuf>,
    original_path: ConfinedPath,
    /// The inode of the directory, which identifies it under any name.
    inode: u64,
    current_path: Option<ConfinedPath>,
}

/// Returns the repositories of the first walk that are no longer at their path in the second.
pub(super) fn moved_repositories(before: &WalkResult, after: &WalkResult) -> Vec<MovedRepository> {
    // A repository may move together with its parent directory.
    let stays = |location: &ConfinedPath| {
        let relative = location.relative.parent().unwrap_or(Path::new("")).to_path_buf();
        relative.as_os_str().is_empty()
            || after
                .get(&ConfinedPath { root: location.root.clone(), relative })
                .is_some_and(|entry| matches!(entry.kind, EntryKind::Folder))
    };
    let now: HashSet<&(ConfinedPath, u64)> = after.repositories.iter().collect();
    let missing = before.repositories.iter().filter(|known| !now.contains(known));
    let missing: Vec<_> = missing.filter(|(location, _)| stays(location)).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    // The parent directory may have been replaced by another.
    let directories = MovedFolders::compare(before, after);
    let missing = missing.into_iter().filter(|(location, inode)| {
        directories.current_path(location).is_none_or(|moved| !now.contains(&(moved, *inode)))
    });
    missing
        .map(|(location, inode)| {
            let directories =
                after.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Folder));
            let current_path = directories
                .filter(|entry| entry.stamp.inode == *inode)
                .map(|entry| &entry.path)
                .chain(
                    after
                        .repositories
                        .iter()
                        .filter(|(_, other)| other == inode)
                        .map(|found| &found.0),
                )
                .next()
                .cloned();
            let moved_to = current_path.as_ref().map(ConfinedPath::path);
            MovedRepository {
                path: location.path(),
                moved_to,
                original_path: location.clone(),
                inode: *inode,
                current_path,
            }
        })
        .collect()
}

impl MovedRepository {
    /// Moves the repository back to its original path. A link or file at that path is removed.
    ///
    /// # Errors
    /// Returns why the repository was not moved back, for display.
    pub fn move_back(&self) -> Result<(), String> {
        let Some(found) = &self.current_path else {
            return Err("it is no longer in the workspace".to_owned());
        };
        let text = |error: io::Error| error.to_string();
        let from = EntryHandle::open(found, false).map_err(text)?;
        let to = EntryHandle::open(&self.original_path, true).map_err(text)?;
        let kind = |leaf: &EntryHandle| -> Result<Option<(rustix::fs::FileType, u64)>, String> {
            let stat = leaf.stat().map_err(text)?;
            Ok(stat.map(|stat| {
                let stamp = Stamp::from_stat(&stat);
                (rustix::fs::FileType::from_raw_mode(stat.st_mode), stamp.inode)
            }))
        };
        if kind(&from)? != Some((rustix::fs::FileType::Directory, self.inode)) {
            return Err("it was moved again".to_owned());
        }
        match kind(&to)? {
            None => {}
            // Only an empty directory is removed; others may contain files of the user.
            Some((rustix::fs::FileType::Directory, _)) => {
                to.remove_folder().map_err(|_| "it was replaced by another directory".to_owned())?
            }
            Some(_) => to.remove().map_err(text)?,
        }
        from.move_to(&to).map_err(text)
    }
}
