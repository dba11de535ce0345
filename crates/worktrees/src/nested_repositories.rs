//! Submodules and other repositories in a worktree. Commits of the worktree contain only their
//! commit, not their files, and git must not run in them, because commands can change their
//! configuration.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parallax_files::git_files::git_directory;

/// A state of each repository in a worktree, by its relative path.
pub type NestedRepositories = BTreeMap<PathBuf, u64>;

/// Whether a directory that a gitlink names contains anything.
pub(super) fn has_files(directory: &Path) -> bool {
    let is_directory = directory.symlink_metadata().is_ok_and(|data| data.is_dir());
    // An unreadable directory may contain something.
    is_directory
        && std::fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_some())
}

/// Larger trees are not searched to the end.
const MAX_ENTRIES: usize = 1_000_000;

/// Finds the repositories in these files and directories, which are relative to `top`. What is in a
/// repository belongs to it.
pub(super) fn find(top: &Path, paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = paths;
    let mut entries = 0;
    while let Some(path) = open.pop().filter(|_| entries < MAX_ENTRIES) {
        entries += 1;
        let full = top.join(&path);
        if !full.symlink_metadata().is_ok_and(|data| data.is_dir()) {
            continue;
        }
        if full.join(".git").symlink_metadata().is_ok() {
            // Git ends the names of directories with a slash.
            found.push(path.components().collect());
            continue;
        }
        let directories = std::fs::read_dir(&full).into_iter().flatten().flatten();
        let directories =
            directories.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(directories.map(|entry| path.join(entry.file_name())));
    }
    found.sort();
    found
}

/// Returns a hash of the files of a repository and of its git directory by inode, size, and time of
/// change, which commands cannot set. Another binary may compute another one for the same files.
pub(super) fn state(repository: &Path) -> io::Result<u64> {
    let mut hash = DefaultHasher::new();
    let mut directories = vec![repository.to_owned()];
    // That of a submodule is elsewhere.
    directories.extend(git_directory(repository).filter(|git| !git.starts_with(repository)));
    while let Some(directory) = directories.pop() {
        let entries: Result<Vec<_>, _> = std::fs::read_dir(&directory)?.collect();
        let mut paths: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        // `git status` updates the index.
        let is_git = directory.join("HEAD").is_file() && directory.join("objects").is_dir();
        for path in paths {
            let data = path.symlink_metadata()?;
            path.hash(&mut hash);
            if data.is_dir() {
                directories.push(path);
            } else if !(is_git && path.ends_with("index")) {
                (data.ino(), data.size(), data.mode()).hash(&mut hash);
                (data.ctime(), data.ctime_nsec()).hash(&mut hash);
            }
        }
    }
    Ok(hash.finish())
}
