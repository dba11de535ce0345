//! Keeps the lock of a journal while this process closes its session and opens it again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::is_file_at;
use crate::locked_file::LockedFile;

/// The handovers of this process that have not ended.
static HANDOVERS: Mutex<Vec<Weak<Handover>>> = Mutex::new(Vec::new());

/// While this exists, closing the journal does not unlock its file, so that no other process can
/// open it. The next [`Journal::open_append`](super::Journal::open_append) of this process takes
/// the locked file over. When this is dropped, a file that is not open is unlocked.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct JournalLockHandover {
    _handover: Arc<Handover>,
}

#[derive(Debug)]
struct Handover {
    path: PathBuf,
    /// The journal file between the two sessions.
    closed: Mutex<Option<LockedFile>>,
}

impl JournalLockHandover {
    /// Begins a handover. It has no effect if this process does not have the journal open.
    pub fn begin(journal: impl Into<PathBuf>) -> Self {
        let handover = Arc::new(Handover { path: journal.into(), closed: Mutex::default() });
        let mut handovers = HANDOVERS.lock().unwrap_or_else(PoisonError::into_inner);
        handovers.retain(|other| other.strong_count() > 0);
        handovers.push(Arc::downgrade(&handover));
        Self { _handover: handover }
    }
}

/// Keeps the file of a closed journal locked if a handover waits for it; otherwise unlocks it.
pub(super) fn hand_over_lock(file: LockedFile) {
    if let Some(handover) = find(|handover| is_file_at(&file, &handover.path)) {
        let mut closed = handover.closed.lock().unwrap_or_else(PoisonError::into_inner);
        *closed = Some(file);
    }
}

/// Returns the file at a path, locked, if a handover keeps it.
pub(super) fn take(path: &Path) -> Option<LockedFile> {
    let is_at_path = |handover: &Handover| {
        let closed = handover.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.as_ref().is_some_and(|file| is_file_at(file, path))
    };
    find(is_at_path)?.closed.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn find(is_wanted: impl Fn(&Handover) -> bool) -> Option<Arc<Handover>> {
    let handovers = HANDOVERS.lock().unwrap_or_else(PoisonError::into_inner);
    handovers.iter().filter_map(Weak::upgrade).find(|handover| is_wanted(handover))
}
