//! The lock of git on a worktree. Commands of a session in the main checkout cannot see the
//! directories of worktrees, so `git worktree prune` would take them for deleted ones, and remove
//! their index and `HEAD`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Name of the file in the directory of the worktree in the repository.
const FILE: &str = "locked";
/// What git prints about it.
const REASON: &str = "Parallax manages it; remove it with `parallax worktrees remove`";

/// What git writes for `git worktree add --lock`; `--reason` needs git 2.34.
const REASON_OF_GIT: &str = "added with --lock";

/// Locks a worktree with a reason. Keeps the reason that it may have already.
pub(super) fn lock(own: &Path) -> io::Result<()> {
    let file = own.join(FILE);
    match File::create_new(&file) {
        Ok(mut file) => writeln!(file, "{REASON}"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::read_to_string(&file)?.trim() == REASON_OF_GIT {
                true => fs::write(file, format!("{REASON}\n")),
                false => Ok(()),
            }
        }
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
