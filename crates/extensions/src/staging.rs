//! Staging directories for installations, next to the extensions. A killed process leaves its
//! directory behind; a later installation removes it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::temporary_tree::TemporaryTree;
use parallax_exec::create_private_folder;

/// Name prefixes of the directories of new and of removed extensions.
pub(crate) const STAGING_PREFIX: &str = ".staging-";
pub(crate) const REMOVED_PREFIX: &str = ".removed-";
/// Name prefix of directories with fetched files.
pub(crate) const FETCHED: &str = "parallax-extension-";
/// Lock file next to the extensions, held while they are changed.
const LOCK: &str = ".lock";
/// Lock file in a staging directory, held while its process is running.
const HELD: &str = ".held";
/// Age after which a directory without a lock file is removed.
const LEFT: Duration = Duration::from_secs(3600);
/// Name prefix of a directory that is not locked yet.
const UNLOCKED: &str = ".unlocked-";

/// A staging directory, removed on drop.
#[derive(Debug)]
pub(crate) struct StagingDirectory {
    directory: TemporaryTree,
    _held: File,
}

impl StagingDirectory {
    /// Creates a staging directory. It gets its name when it is locked, so that a directory of this
    /// name that is not locked belongs to a process that has ended.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created or locked.
    pub(crate) fn new(home: &Path, prefix: &str) -> io::Result<Self> {
        let unlocked = tempfile::Builder::new().prefix(UNLOCKED).tempdir_in(home)?;
        let held = File::create(unlocked.path().join(HELD))?;
        held.lock()?;
        let name = unlocked.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = home.join(name.replacen(UNLOCKED, prefix, 1));
        std::fs::rename(unlocked.path(), &path)?;
        // It has another name now.
        let _ = unlocked.keep();
        Ok(Self { directory: TemporaryTree::at(path), _held: held })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Exclusive access to the installed extensions of a home directory. Released when the process
/// ends.
pub(crate) struct InstallLock {
    _held: File,
}

impl InstallLock {
    /// Waits for access, blocking for at most a minute.
    ///
    /// # Errors
    /// Returns an error if the lock file cannot be created or another process does not release it.
    pub(crate) fn wait(home: &Path) -> io::Result<Self> {
        const TIMEOUT: Duration = Duration::from_secs(60);
        const STEP: Duration = Duration::from_millis(20);
        create_private_folder(home)?;
        let held = File::create(home.join(LOCK))?;
        let end = Instant::now() + TIMEOUT;
        loop {
            match held.try_lock() {
                Ok(()) => return Ok(Self { _held: held }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                    let reason = "another installation is still running";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, reason));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
            }
        }
    }
}

/// Removes the staging directories of processes that have ended. Blocking.
pub(crate) fn remove_stale(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if ![STAGING_PREFIX, REMOVED_PREFIX, FETCHED, UNLOCKED]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            continue;
        }
        let path = entry.path();
        let changed = entry.metadata().and_then(|it| it.modified());
        let age = changed.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        let is_stale = match is_locked(&path) {
            Some(is_locked) => !is_locked && !name.starts_with(UNLOCKED),
            None => age > LEFT,
        };
        if is_stale && let Err(error) = parallax_files::remove_tree(&path) {
            tracing::debug!(%error, %name, "failed to remove leftover files of an installation");
        }
    }
}

/// Returns whether a process holds the lock of a directory; `None` if it has no readable lock file.
fn is_locked(directory: &Path) -> Option<bool> {
    let held = File::open(directory.join(HELD)).ok()?;
    Some(matches!(held.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn leftovers_of_dead_processes_are_removed_and_live_ones_kept() {
        let home = tempfile::tempdir().expect("a directory");
        let aged = |path: &Path, age: Duration| {
            let file = File::open(path).expect("a directory");
            file.set_modified(SystemTime::now() - age).expect("a time");
        };
        let living = StagingDirectory::new(home.path(), STAGING_PREFIX).expect("made");
        aged(living.path(), LEFT * 2);
        let fetched = home.path().join("parallax-extension-dead");
        fs::create_dir(&fetched).expect("made");
        File::create(fetched.join(HELD)).expect("made");
        let dead = home.path().join(".staging-dead");
        let old = home.path().join(".removed-old");
        let new = home.path().join(".removed-new");
        for directory in [&dead, &old, &new] {
            fs::create_dir(directory).expect("made");
        }
        File::create(dead.join(HELD)).expect("made");
        aged(&old, LEFT * 2);
        remove_stale(home.path());
        assert!(living.path().exists() && new.exists());
        assert!(!dead.exists() && !old.exists() && !fetched.exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
