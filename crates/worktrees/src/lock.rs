//! The lock of git on a worktree. Commands of a session in the main checkout cannot see the
//! directories of worktrees, so `git worktree prune` would take them for deleted ones, and remove
//! their index and `HEAD`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Name of the file in the directory of the worktree in the repository.
const FILE: &str = "locked";
/// What git prints about it.
pub(super) const REASON: &str = "Parallax manages it; remove it with `parallax worktrees remove`";

/// Locks a worktree, which may be locked already.
pub(super) fn lock(own: &Path) -> io::Result<()> {
    match File::create_new(own.join(FILE)) {
        Ok(mut file) => writeln!(file, "{REASON}"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Locks all existing worktrees below `project`. Earlier versions did not.
pub(super) fn lock_all(common: &Path, project: &Path) {
    for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
        let own = entry.path();
        let Ok(link) = fs::read_to_string(own.join("gitdir")) else { continue };
        let link = own.join(link.trim());
        if link.starts_with(project) && link.exists() {
            // Without the lock, it works as before.
            let _ = lock(&own);
        }
    }
}

/// Removes the lock, so that git removes what an interrupted removal leaves.
pub(super) fn unlock(own: &Path) -> io::Result<()> {
    match fs::remove_file(own.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
