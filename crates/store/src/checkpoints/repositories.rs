//! Repositories that a command moved away: git's objects are not kept, so the
//! folder itself has to come back.

use std::io;
use std::path::{Path, PathBuf};

use super::Checkpoints;
use super::beneath::{Leaf, Place};
use super::moved_folders::MovedFolders;
use super::walk::{Found, Walked};

/// A folder `.git` that is not at its place any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedRepository {
    /// Where it was.
    pub path: PathBuf,
    /// Where it is now, if it is still in the workspace.
    pub now: Option<PathBuf>,
    place: Place,
    /// The number of the folder, by which it is known under each name.
    inode: u64,
    found: Option<Place>,
}

/// The repositories of the first walk that the second does not have there.
pub(super) fn moved(before: &Walked, after: &Walked) -> Vec<MovedRepository> {
    // With its folder it may go, as any folder.
    let stays = |place: &Place| {
        let relative = place.relative.parent().unwrap_or(Path::new("")).to_path_buf();
        relative.as_os_str().is_empty()
            || after
                .get(&Place { root: place.root.clone(), relative })
                .is_some_and(|entry| matches!(entry.found, Found::Folder))
    };
    let gone = before.repositories.iter().filter(|known| !after.repositories.contains(known));
    let gone: Vec<_> = gone.filter(|(place, _)| stays(place)).collect();
    if gone.is_empty() {
        return Vec::new();
    }
    // Another folder may stand in the place of its own.
    let folders = MovedFolders::between(before, after);
    let gone = gone.into_iter().filter(|(place, inode)| {
        folders.is_now(place).is_none_or(|now| !after.repositories.contains(&(now, *inode)))
    });
    gone.map(|(place, inode)| {
        let folders = after.entries.iter().filter(|entry| matches!(entry.found, Found::Folder));
        let found = folders
            .filter(|entry| entry.stamp.inode == *inode)
            .map(|entry| &entry.place)
            .chain(
                after.repositories.iter().filter(|(_, other)| other == inode).map(|found| &found.0),
            )
            .next()
            .cloned();
        let now = found.as_ref().map(Place::path);
        MovedRepository { path: place.path(), now, place: place.clone(), inode: *inode, found }
    })
    .collect()
}

impl Checkpoints {
    /// Puts a repository that was moved back to its place. A link or a file that
    /// stands there goes.
    ///
    /// # Errors
    /// Why it stays away, for people.
    pub fn bring_back(&self, moved: &MovedRepository) -> Result<(), String> {
        let Some(found) = &moved.found else {
            return Err("it is no longer in the workspace".to_owned());
        };
        let text = |error: io::Error| error.to_string();
        let from = Leaf::open(found, false).map_err(text)?;
        let to = Leaf::open(&moved.place, true).map_err(text)?;
        let kind = |leaf: &Leaf| -> Result<Option<(rustix::fs::FileType, u64)>, String> {
            let stat = leaf.stat().map_err(text)?;
            Ok(stat.map(|stat| {
                let stamp = super::state::Stamp::of(&stat);
                (rustix::fs::FileType::from_raw_mode(stat.st_mode), stamp.inode)
            }))
        };
        if kind(&from)? != Some((rustix::fs::FileType::Directory, moved.inode)) {
            return Err("it was moved again".to_owned());
        }
        match kind(&to)? {
            None => {}
            // What is in a folder may be somebody's; an empty one is nobody's.
            Some((rustix::fs::FileType::Directory, _)) => {
                to.remove_folder().map_err(|_| "another folder stands in its place".to_owned())?
            }
            Some(_) => to.remove().map_err(text)?,
        }
        from.move_to(&to).map_err(text)
    }
}
