//! New files and directories at protected paths, if there are too many of them or they are nested
//! too deep to save and remove each one before the result of a command is reported. They are moved
//! away, which takes one step for a whole directory, and are removed at the next start.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::command::Changes;
use super::confined_root::{
    ConfinedPath, EntryHandle, folder_at, is_missing, read_state, set_folder_mode, temporary_name,
};
use super::protected::{MAX_REMOVED, NESTED, is_nested_too_deep};
use super::state::PathState;
use super::undo::open_parent;
use super::{Checkpoints, lock};
use crate::private_files::create_private_dir;

/// The directory for them, in the checkpoint directory.
const FOLDER: &str = "removed";
/// The start of its name in a workspace directory that is on another file system.
const PREFIX: &str = ".parallax-removed-";

/// What was moved away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuarantinedFiles {
    /// The original paths; of a directory, only its own.
    pub paths: Vec<PathBuf>,
    /// The directories that they were moved to.
    pub folders: Vec<PathBuf>,
}

/// The directories of one restore, created when they are needed.
#[derive(Default)]
struct Destinations {
    /// The workspace directory for which it was created, or `None` for all.
    open: Vec<(Option<Arc<Path>>, PathBuf, std::os::fd::OwnedFd)>,
    count: usize,
}

impl Checkpoints {
    /// Moves new files and directories away if they are too many to be removed one by one. Returns
    /// what was moved and the paths that remain, for [`restore`](Self::restore).
    pub fn quarantine(
        &self,
        changes: &Changes,
        paths: Vec<PathBuf>,
    ) -> (QuarantinedFiles, Vec<PathBuf>) {
        let mut done = QuarantinedFiles::default();
        let Some((roots, _)) = self.roots_and_workspace() else { return (done, paths) };
        let is_new = |path: &Path| changes.before.get(path).is_some_and(PathState::is_absent);
        let is_deep = |path: &Path| {
            path.components().count() > NESTED
                && roots.locate(path).is_some_and(|location| is_nested_too_deep(&location.relative))
        };
        let new: BTreeSet<&Path> =
            paths.iter().map(PathBuf::as_path).filter(|path| is_new(path)).collect();
        let deep: BTreeSet<&Path> = new.iter().copied().filter(|path| is_deep(path)).collect();
        let all = new.len() > MAX_REMOVED;
        if !all && deep.is_empty() {
            return (done, paths);
        }
        let created = changes.created.iter().map(PathBuf::as_path);
        let permitted: BTreeSet<&Path> = created.filter(|path| !new.contains(path)).collect();
        let has_below = |set: &BTreeSet<&Path>, directory: &Path| {
            set.range(directory..).next().is_some_and(|path| path.starts_with(directory))
        };
        let mut destinations = Destinations::default();
        let mut moved = BTreeSet::new();
        let mut last: Option<&Path> = None;
        for path in &new {
            if last.is_some_and(|last| path.starts_with(last)) {
                moved.insert(path.to_path_buf());
                continue;
            }
            let Some(place) = roots.locate(path) else { continue };
            let is_whole = match read_state(&place) {
                Ok(PathState::Folder { .. }) => !has_below(&permitted, path),
                Ok(PathState::File { .. } | PathState::Link { .. }) => true,
                _ => false,
            };
            if !is_whole || !(all || has_below(&deep, path)) {
                continue;
            }
            open_parent(path, &roots);
            if self.move_away(&place, &mut destinations).is_ok() {
                last = Some(path);
                done.paths.push(path.to_path_buf());
                moved.insert(path.to_path_buf());
            }
        }
        done.folders = destinations.open.into_iter().map(|(_, path, _)| path).collect();
        let remaining = paths.into_iter().filter(|path| !moved.contains(path)).collect();
        (done, remaining)
    }

    fn move_away(
        &self,
        location: &ConfinedPath,
        destinations: &mut Destinations,
    ) -> io::Result<()> {
        let entry = EntryHandle::open(location, false)?;
        let mut failure = io::Error::from(Errno::XDEV);
        for root in [None, Some(&location.root)] {
            let name = destinations.next_name(&entry.name);
            let directory = destinations.get(self, root)?;
            let to = EntryHandle { folder: directory.try_clone()?, name };
            let mut result = entry.move_to(&to);
            if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
                // A directory can be moved only by a user who may write it.
                set_folder_mode(&entry.folder, &entry.name, 0o700)?;
                result = entry.move_to(&to);
            }
            match result {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::XDEV) => failure = error,
                Err(error) if is_missing(&error) => return Ok(()),
                result => return result,
            }
        }
        Err(failure)
    }

    /// Removes what earlier sessions moved away, in the background.
    pub(super) fn empty_quarantine(&self) {
        let mut directories = vec![self.options.folder.join(FOLDER)];
        for root in self.root_paths() {
            let entries = fs::read_dir(&root).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name());
            let names = names.filter(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
            directories.extend(names.map(|name| root.join(name)));
        }
        directories
            .retain(|directory| directory.symlink_metadata().is_ok_and(|data| data.is_dir()));
        if directories.is_empty() {
            return;
        }
        lock(&self.caches).quarantine.extend(directories.iter().cloned());
        let remove = move || {
            for directory in directories {
                // What cannot be removed is tried again at the next start.
                let _ = parallax_files::remove_tree(&directory);
            }
        };
        let _ = std::thread::Builder::new().name("quarantine".into()).spawn(remove);
    }
}

impl Destinations {
    /// Returns a name that no program looks up.
    fn next_name(&mut self, name: &OsStr) -> OsString {
        self.count += 1;
        let mut unique = OsString::from(format!("{}-", self.count));
        unique.push(name);
        match unique.len() <= 255 {
            true => unique,
            false => self.count.to_string().into(),
        }
    }

    /// Returns the directory in the checkpoint directory, or in a workspace directory.
    fn get(
        &mut self,
        checkpoints: &Checkpoints,
        root: Option<&Arc<Path>>,
    ) -> io::Result<&std::os::fd::OwnedFd> {
        let known = self.open.iter().position(|(of, ..)| of.as_ref() == root);
        let index = match known {
            Some(index) => index,
            None => {
                let path = match root {
                    None => checkpoints.options.folder.join(FOLDER).join(temporary_name()),
                    Some(root) => {
                        let name = temporary_name();
                        root.join(format!("{PREFIX}{}", name.trim_start_matches('.')))
                    }
                };
                create_private_dir(&path)?;
                lock(&checkpoints.caches).quarantine.insert(path.clone());
                let directory = folder_at(&path, Path::new(""), false)?;
                self.open.push((root.cloned(), path, directory));
                self.open.len() - 1
            }
        };
        let found = self.open.get(index).map(|(.., folder)| folder);
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
