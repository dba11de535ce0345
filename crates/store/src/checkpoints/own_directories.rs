//! Tells directories that contain only what the agent made from those with files of the user in
//! them: moved there, or put there meanwhile.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Limits for looking into created directories. One with more in it does not count as the agent's.
const MAX_ENTRIES: usize = 2_000;
const MAX_DEPTH: usize = 64;
const MAX_TIME: Duration = Duration::from_millis(10);
/// How much older than its creation the recorded time of a file can be.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// Removes the directories that contain anything that was not created since `start`.
/// `created`: paths that were created by the session. Blocking.
pub(super) fn retain_own(created: &mut BTreeSet<PathBuf>, start: SystemTime) {
    let start = start.checked_sub(CLOCK_TICK).unwrap_or(start);
    let mut search = OwnershipSearch { created, start, entries: 0, end: Instant::now() + MAX_TIME };
    let mut not_own = Vec::new();
    let mut top: Option<&Path> = None;
    for path in search.created {
        if top.is_none_or(|top| !path.starts_with(top)) {
            top = Some(path);
            search.visit(path, true, 0, &mut not_own);
        }
    }
    for path in not_own {
        created.remove(&path);
    }
}

struct OwnershipSearch<'c> {
    created: &'c BTreeSet<PathBuf>,
    start: SystemTime,
    entries: usize,
    end: Instant,
}

impl OwnershipSearch<'_> {
    /// Visits an entry. Returns whether it and everything in it is the agent's, and collects the
    /// directories that are not. `is_recorded`: whether the session recorded its directory, so that
    /// it would have recorded the entry, too. It does not record ignored directories.
    fn visit(
        &mut self,
        path: &Path,
        is_recorded: bool,
        depth: usize,
        not_own: &mut Vec<PathBuf>,
    ) -> bool {
        self.entries += 1;
        let is_over = self.entries > MAX_ENTRIES || depth > MAX_DEPTH || Instant::now() > self.end;
        let Ok(metadata) = path.symlink_metadata() else { return true };
        let is_directory = metadata.is_dir();
        let is_known = self.created.contains(path);
        let mut is_own = !is_over
            && since(&metadata).is_some_and(|time| time >= self.start)
            && (is_known || is_directory || !is_recorded);
        if is_directory && !is_over {
            match fs::read_dir(path) {
                Ok(entries) => {
                    for entry in entries.flatten() {
                        is_own &= self.visit(&entry.path(), is_known, depth + 1, not_own);
                    }
                }
                Err(_) => is_own = false,
            }
        }
        if is_directory && !is_own {
            not_own.push(path.to_path_buf());
        }
        is_own
    }
}

/// Returns when a file was created, which a move does not change.
fn since(metadata: &Metadata) -> Option<SystemTime> {
    metadata.created().or_else(|_| metadata.modified()).ok()
}
