//! Serializes git's changes to what the worktrees of a repository share, across all processes of a
//! batch.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use tokio::sync::{Mutex, MutexGuard};

use crate::blocking::blocking;
use crate::error::BatchError;

/// A lock within this process and between processes.
#[derive(Debug)]
pub struct ProcessLock {
    lock: Mutex<()>,
    file: PathBuf,
}

/// A held lock.
#[derive(Debug)]
pub(crate) struct ProcessLockGuard<'a> {
    _own: MutexGuard<'a, ()>,
    _file: File,
}

impl ProcessLock {
    /// Creates a lock that processes share through `file`.
    pub fn new(file: PathBuf) -> Self {
        Self { lock: Mutex::new(()), file }
    }

    pub(crate) async fn lock(&self) -> Result<ProcessLockGuard<'_>, BatchError> {
        let own = self.lock.lock().await;
        let path = self.file.clone();
        let file = blocking(move || {
            let failed = |source| BatchError::Write { file: path.clone(), source };
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
            let file = file.map_err(failed)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
            Ok(file)
        });
        Ok(ProcessLockGuard { _own: own, _file: file.await? })
    }
}
