//! Removes or rejects what commands may plant in the directories of a repository that they can write, and that
//! is neither a file nor a directory: git writes through links, and waits for pipes.

use std::fs;
use std::path::Path;

use parallax_protocol::event::Failure;

use crate::failure;

/// Removes special files from a directory, which need not exist.
pub(super) fn remove(directory: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let kind = entry.file_type();
        if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
            let path = entry.path();
            fs::remove_file(&path).map_err(|error| {
                failure(format!("Failed to remove `{}`: {error}", path.display()))
            })?;
        }
    }
    Ok(())
}

/// Rejects symbolic links in a directory, which need not exist, and this many levels below it.
pub(super) fn reject_links(directory: &Path, levels: u32) -> Result<(), Failure> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => {
                let path = path.display();
                return Err(failure(format!("`{path}` is a symbolic link; remove it")));
            }
            Ok(kind) if kind.is_dir() && levels > 1 => reject_links(&path, levels - 1)?,
            _ => {}
        }
    }
    Ok(())
}

/// Removes special files from the git directory of a worktree.
pub(super) fn remove_of_worktree(own: &Path) -> Result<(), Failure> {
    remove(own)?;
    remove(&own.join("logs"))
}

/// Removes special files of all worktrees below `project`: some git commands read all of them.
pub(super) fn remove_of_project(common: &Path, project: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
        let own = entry.path();
        // Commands cannot change this file.
        let Ok(link) = fs::read_to_string(own.join("gitdir")) else { continue };
        if own.join(link.trim()).starts_with(project) {
            remove_of_worktree(&own)?;
        }
    }
    remove(&common.join("refs/heads/parallax"))
}
