//! Submodules and other repositories in a worktree. Commits of the worktree contain only their
//! commit, not their files, and git must not run in them, because commands can change their
//! configuration.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parallax_files::git_files::git_directory;

use crate::regular_file::open_regular;

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
/// Larger files are not read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Finds the repositories in these files and directories, which are relative to `top`. What is in a
/// repository belongs to it.
pub(super) fn find(top: &Path, paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = paths;
    let mut entries = 0;
    while let Some(path) = pending.pop().filter(|_| entries < MAX_ENTRIES) {
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
        pending.extend(directories.map(|entry| path.join(entry.file_name())));
    }
    found.sort();
    found
}

/// Finds the git directories of submodules in `modules` of a git directory, by their paths from it.
/// Those of nested submodules belong to the outer ones. Any other directory counts as one if it
/// contains files.
pub(super) fn submodule_git_directories(git: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from("modules")];
    let mut entries = 0;
    while let Some(path) = pending.pop().filter(|_| entries < MAX_ENTRIES) {
        entries += 1;
        let full = git.join(&path);
        if !full.symlink_metadata().is_ok_and(|data| data.is_dir()) {
            continue;
        }
        let listed: Vec<_> = std::fs::read_dir(&full).into_iter().flatten().flatten().collect();
        let is_directory =
            |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        // The name of a submodule may contain slashes.
        if listed.iter().all(is_directory) {
            pending.extend(listed.iter().map(|entry| path.join(entry.file_name())));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns a hash of the files of a repository and of its git directory. It contains no times:
/// those of a file change with its hard links, and git links the objects of local clones. Another
/// binary may compute another hash for the same files.
pub(super) fn state(repository: &Path) -> io::Result<u64> {
    let mut hash = DefaultHasher::new();
    let repository = repository.canonicalize()?;
    let mut directories = vec![(repository.clone(), false)];
    // That of a submodule is elsewhere; its `.git` names it by a path from the submodule.
    let git = git_directory(&repository).map(|git| git.canonicalize()).transpose()?;
    let elsewhere = git.filter(|git| !git.starts_with(&repository));
    directories.extend(elsewhere.map(|git| (git, false)));
    let mut files = 0;
    while let Some((directory, has_objects)) = directories.pop() {
        let entries: Result<Vec<_>, _> = std::fs::read_dir(&directory)?.collect();
        let mut paths: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        files += paths.len();
        if files > MAX_ENTRIES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // `git status` updates the index.
        let is_git = directory.join("HEAD").is_file() && directory.join("objects").is_dir();
        for path in paths {
            let data = path.symlink_metadata()?;
            path.hash(&mut hash);
            if data.is_dir() {
                let has_objects = has_objects || (is_git && path.ends_with("objects"));
                directories.push((path, has_objects));
            } else if has_objects {
                // The name of an object depends on its contents.
                data.size().hash(&mut hash);
            } else if !(is_git && path.ends_with("index")) {
                (data.size(), data.mode()).hash(&mut hash);
                hash_contents(&path, &data, &mut hash)?;
            }
        }
    }
    Ok(hash.finish())
}

/// Hashes the target of a link, the bytes of a file, or, if it is too large or unreadable, its
/// inode and the time of its change, which commands cannot set.
fn hash_contents(path: &Path, data: &Metadata, hash: &mut DefaultHasher) -> io::Result<()> {
    if data.is_symlink() {
        std::fs::read_link(path)?.hash(hash);
        return Ok(());
    }
    let opened = match data.is_file() && data.size() <= MAX_FILE_BYTES {
        true => open_regular(path).ok(),
        false => None,
    };
    let Some(file) = opened else {
        (data.ino(), data.ctime(), data.ctime_nsec()).hash(hash);
        return Ok(());
    };
    let mut reader = io::BufReader::new(file.take(MAX_FILE_BYTES));
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        hash.write(bytes);
        let count = bytes.len();
        reader.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_depends_on_contents_and_not_on_hard_links() {
        let id = uuid::Uuid::new_v4().simple();
        let top = std::env::temp_dir().join(format!("parallax-nested-{id}"));
        let git = top.join("dep/.git");
        std::fs::create_dir_all(git.join("objects/31")).expect("directories");
        for name in ["HEAD", "index", "objects/31/cf4d", "../it.c"] {
            std::fs::write(git.join(name), "one").expect("a file");
        }
        let state = || state(&top.join("dep")).expect("a state");
        let first = state();
        for name in ["objects/31/cf4d", "../it.c"] {
            std::fs::hard_link(git.join(name), top.join(uuid::Uuid::new_v4().to_string()))
                .expect("a link");
        }
        std::fs::write(git.join("index"), "updated").expect("a file");
        assert_eq!(state(), first);
        std::fs::write(git.join("../it.c"), "two").expect("a file");
        let second = state();
        std::fs::write(git.join("objects/31/d0d0"), "new").expect("a file");
        let third = state();
        // It may be gone already.
        let _ = std::fs::remove_dir_all(&top);
        assert!(first != second && second != third);
    }
}
