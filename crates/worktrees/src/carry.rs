//! Copies additional files to a new worktree: uncommitted changes, and ignored files that the
//! project lists.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use parallax_config::worktrees::WorktreeRecord;
use parallax_protocol::event::Failure;
use parallax_protocol::excerpt::one_line;

use crate::git::Git;
use crate::{Worktree, failure};

/// Files in which a project lists ignored files to copy, in `.gitignore` syntax.
const LISTS: [&str; 2] = [".parallax/worktree-include", ".worktreeinclude"];
/// Maximum number of files to copy.
const MAX_FILES: usize = 20_000;
/// Maximum number of directories that a message names.
const MAX_NAMES: usize = 20;

impl Worktree {
    /// Returns a warning for the user if untracked directories of the main checkout were not copied
    /// with its uncommitted changes: git does not list the files of other repositories. Blocking.
    pub fn uncopied_warning(&self) -> Option<String> {
        let git = Git::at(&self.record.main).ok()?;
        let names: Vec<String> = untracked_files(&git)
            .ok()?
            .iter()
            .filter(|path| path.as_os_str().as_encoded_bytes().ends_with(b"/"))
            .map(|path| format!("`{}`", one_line(&path.to_string_lossy())))
            .collect();
        let more = names.len().saturating_sub(MAX_NAMES);
        let mut list = names.get(..MAX_NAMES).unwrap_or(&names).join(", ");
        if more > 0 {
            list.push_str(&format!(", and {more} more"));
        }
        (!names.is_empty())
            .then(|| format!("Untracked repositories were not copied into the worktree: {list}"))
    }
}

fn untracked_files(git: &Git) -> Result<Vec<PathBuf>, Failure> {
    git.paths(&["ls-files", "-z", "--others", "--exclude-standard"])
}

/// Copies the uncommitted changes of tracked files and the untracked files from the main checkout.
pub(super) fn changes(git: &Git, record: &WorktreeRecord) -> Result<(), Failure> {
    let patch = git.bytes(&["diff", "--binary", "--no-ext-diff", "--no-textconv", "HEAD"])?;
    if !patch.is_empty() {
        let file = record.path.with_extension("carry.json");
        let written = fs::write(&file, patch);
        let applied = written
            .map_err(|error| failure(format!("Failed to write `{}`: {error}", file.display())))
            .and_then(|()| {
                let worktree_git = Git::at(&record.path)?;
                let options = ["apply", "--3way", "--whitespace=nowarn"].map(OsString::from);
                worktree_git.run(&[options.as_slice(), &[file.clone().into()]].concat())
            });
        // A leftover file is in the user's own directory and is overwritten next time.
        let _ = fs::remove_file(&file);
        applied?;
    }
    copy(&untracked_files(git)?, record)
}

/// Copies the ignored files that the project lists.
pub(super) fn copy_included(record: &WorktreeRecord) -> Result<(), Failure> {
    let files: Vec<PathBuf> = included_files(&record.main)?.into_iter().collect();
    copy(&files, record)
}

/// Returns the ignored files that the project lists, relative to the main checkout.
pub(super) fn included_files(main: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut files = BTreeSet::new();
    for list in LISTS.iter().filter(|list| main.join(list).is_file()) {
        let from = format!("--exclude-from={list}");
        let git = Git::at(main)?;
        files.extend(git.paths(&["ls-files", "-z", "--others", "--ignored", &from])?);
    }
    Ok(files)
}

fn copy(files: &[PathBuf], record: &WorktreeRecord) -> Result<(), Failure> {
    if files.len() > MAX_FILES {
        return Err(failure(format!(
            "{} files would be copied into the worktree; at most {MAX_FILES} are",
            files.len()
        )));
    }
    for file in files {
        copy_one(file, record).map_err(|error| {
            failure(format!("Failed to copy `{}` into the worktree: {error}", file.display()))
        })?;
    }
    Ok(())
}

fn copy_one(file: &Path, record: &WorktreeRecord) -> std::io::Result<()> {
    if !file.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(());
    }
    let (from, to) = (record.main.join(file), record.path.join(file));
    let data = from.symlink_metadata()?;
    if !(data.is_file() || data.is_symlink()) || to.symlink_metadata().is_ok() {
        return Ok(());
    }
    // A symbolic link in the commit must not lead the copy out of the worktree.
    let mut directory = record.path.clone();
    for part in file.parent().into_iter().flat_map(Path::components) {
        directory.push(part);
        match directory.symlink_metadata() {
            Ok(data) if data.is_dir() => {}
            Ok(_) => return Ok(()),
            Err(_) => fs::create_dir(&directory)?,
        }
    }
    if data.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(&from)?, &to);
    }
    fs::copy(&from, &to).map(drop)
}
