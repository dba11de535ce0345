//! Open handles of files, which show where a file was moved or that it was deleted.

use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::file_identity::FileIdentity;

/// Where a file is now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileLocation {
    /// At this path, which holds exactly this file.
    At(PathBuf),
    /// It no longer has a name.
    Deleted,
    /// Without a handle, or with a handle whose path is gone although the file has other names.
    Unknown,
}

/// A session uses few other descriptors; the usual limit of a process is 1024.
const MAX_HANDLES: usize = 256;

/// Handles of files by identity. They do not permit reading.
#[derive(Debug, Default)]
pub(crate) struct FileHandles(HashMap<FileIdentity, OwnedFd>);

impl FileHandles {
    /// Opens the files that have no handle yet, up to a limit, and closes all others.
    pub(crate) fn track<'a>(&mut self, files: impl Iterator<Item = (FileIdentity, &'a Path)>) {
        let mut before = std::mem::take(&mut self.0);
        for (id, path) in files.take(MAX_HANDLES) {
            if let Some(handle) = before.remove(&id).or_else(|| open(id, path)) {
                self.0.insert(id, handle);
            }
        }
    }

    /// Returns where the file is now.
    pub(crate) fn locate(&self, id: FileIdentity) -> FileLocation {
        let Some(handle) = self.0.get(&id) else { return FileLocation::Unknown };
        let Ok(state) = rustix::fs::fstat(handle) else { return FileLocation::Unknown };
        let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
        let Ok(path) = std::fs::read_link(link) else { return FileLocation::Unknown };
        if FileIdentity::of(&path) == Some(id) {
            return FileLocation::At(path);
        }
        // A directory has one name.
        let is_directory = FileType::from_raw_mode(state.st_mode).is_dir();
        let has_ended = path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
        match state.st_nlink == 0 || is_directory && has_ended {
            true => FileLocation::Deleted,
            false => FileLocation::Unknown,
        }
    }
}

#[cfg(target_os = "linux")]
fn open(id: FileIdentity, path: &Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let state = rustix::fs::fstat(&handle).ok()?;
    (state.st_ino == id.inode).then_some(handle)
}

/// Returns `None`: other systems have no handles without permission to read.
#[cfg(not(target_os = "linux"))]
fn open(_id: FileIdentity, _path: &Path) -> Option<OwnedFd> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn handle_locates_moved_and_deleted_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (file, sub, other) = (root.join("sub/a"), root.join("sub"), root.join("b (deleted)"));
        std::fs::create_dir(&sub).unwrap();
        std::fs::write(&file, "s").unwrap();
        let ids = [&file, &sub].map(|path| FileIdentity::of(path).unwrap());
        let mut handles = FileHandles::default();
        handles.track(ids.into_iter().zip([file.as_path(), &sub]));
        std::fs::rename(&sub, root.join("moved")).unwrap();
        assert_eq!(handles.locate(ids[0]), FileLocation::At(root.join("moved/a")));
        std::fs::rename(root.join("moved/a"), &other).unwrap();
        assert_eq!(handles.locate(ids[0]), FileLocation::At(other.clone()));
        // A further name of the file is found by a search.
        std::fs::hard_link(&other, root.join("c")).unwrap();
        std::fs::remove_file(&other).unwrap();
        assert_eq!(handles.locate(ids[0]), FileLocation::Unknown);
        std::fs::remove_file(root.join("c")).unwrap();
        std::fs::remove_dir(root.join("moved")).unwrap();
        assert_eq!(
            ids.map(|id| handles.locate(id)),
            [FileLocation::Deleted, FileLocation::Deleted]
        );
        handles.track(std::iter::empty());
        assert_eq!(handles.locate(ids[0]), FileLocation::Unknown);
    }
}
