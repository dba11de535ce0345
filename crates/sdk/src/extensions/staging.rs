//! Folders in which installations are made ready, beside the extensions. Who is
//! killed there leaves one: the next that looks takes it away.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::temporary_tree::TemporaryTree;
use parallax_exec::create_private_folder;

/// What the names of such folders begin with: of one that comes, and of one that goes.
pub(super) const COMES: &str = ".staging-";
pub(super) const GOES: &str = ".removed-";
/// A file beside the extensions, locked by who changes them.
const LOCK: &str = ".lock";
/// A file in it, locked as long as its process lives.
const HELD: &str = ".held";
/// Folders whose processes nobody knows are nobody's when they are older.
const LEFT: Duration = Duration::from_secs(3600);
/// Nobody has made a folder and not locked it yet for so long.
const YOUNG: Duration = Duration::from_secs(10);

/// A folder of ours; it goes with this value.
pub(super) struct Staging {
    folder: TemporaryTree,
    _held: File,
}

impl Staging {
    /// Makes one.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn new(home: &Path, prefix: &str) -> io::Result<Self> {
        let folder = TemporaryTree::new(tempfile::Builder::new().prefix(prefix).tempdir_in(home)?);
        let held = File::create(folder.path().join(HELD))?;
        held.lock()?;
        Ok(Self { folder, _held: held })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The right to change what is installed in a home: one process has it at a time.
/// Who is killed with it has it no longer.
pub(super) struct Alone {
    _held: File,
}

impl Alone {
    /// Waits for it. Blocking, for a minute at most.
    ///
    /// # Errors
    /// The disk refuses, or another process does not end.
    pub(super) fn wait(home: &Path) -> io::Result<Self> {
        const PATIENCE: Duration = Duration::from_secs(60);
        const STEP: Duration = Duration::from_millis(20);
        create_private_folder(home)?;
        let held = File::create(home.join(LOCK))?;
        let end = Instant::now() + PATIENCE;
        loop {
            match held.try_lock() {
                Ok(()) => return Ok(Self { _held: held }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                    let why = "another installation is under way, and does not end";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
            }
        }
    }
}

/// Removes what processes left that are gone. Blocking.
pub(super) fn sweep(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if ![COMES, GOES].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let path = entry.path();
        let changed = entry.metadata().and_then(|it| it.modified());
        let age = changed.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        let limit = if is_let_go(&path) { YOUNG } else { LEFT };
        if age > limit
            && let Err(error) = parallax_files::remove_tree(&path)
        {
            tracing::debug!(%error, %name, "what an installation left stays");
        }
    }
}

/// Whether the one that made it is known to be gone.
fn is_let_go(folder: &Path) -> bool {
    File::open(folder.join(HELD)).is_ok_and(|held| held.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_the_dead_left_goes_and_what_the_living_hold_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let aged = |path: &Path, age: Duration| {
            let file = File::open(path).expect("a folder");
            file.set_modified(SystemTime::now() - age).expect("a time");
        };
        let living = Staging::new(home.path(), COMES).expect("made");
        aged(living.path(), YOUNG * 2);
        let dead = home.path().join(".staging-dead");
        let old = home.path().join(".removed-old");
        let new = home.path().join(".removed-new");
        for folder in [&dead, &old, &new] {
            fs::create_dir(folder).expect("made");
        }
        File::create(dead.join(HELD)).expect("made");
        aged(&dead, YOUNG * 2);
        aged(&old, LEFT * 2);
        aged(&new, YOUNG * 2);
        sweep(home.path());
        assert!(living.path().exists() && new.exists());
        assert!(!dead.exists() && !old.exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
