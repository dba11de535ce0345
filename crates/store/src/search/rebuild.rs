//! Rebuilds the index while other processes use or rebuild it.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

use rusqlite::TransactionBehavior;

use super::{SearchError, SearchIndex, create_text_table, open_private_file, wait};

/// How long a process waits for another process that rebuilds or uses the index.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// A lock on the index: either it cannot be emptied, or no other process can use it.
#[derive(Debug)]
pub struct IndexLock {
    /// The locks are released when the files are closed.
    _locks: Vec<File>,
}

impl SearchIndex {
    /// Prevents others from emptying the index while it is used. Waits for a process that rebuilds
    /// it.
    ///
    /// # Errors
    /// Returns an error if an I/O operation fails or another process does not finish in time.
    pub fn lock(&self) -> Result<IndexLock, SearchError> {
        let used = self.lock_file("used")?;
        wait(MAX_WAIT, || used.try_lock_shared()).map_err(|source| self.open_error(source))?;
        Ok(IndexLock { _locks: vec![used] })
    }

    /// Empties the index, so that the next [`SearchIndex::update`] reads all sessions. Keep the
    /// returned lock until then, because other processes wait for it. Returns `None` after waiting
    /// for another process that did the same.
    ///
    /// # Errors
    /// Returns an error if the index cannot be written or others use it for too long.
    pub fn rebuild(&mut self) -> Result<Option<IndexLock>, SearchError> {
        let turn = self.lock_file("rebuild")?;
        match turn.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(self.open_error(error)),
            Err(TryLockError::WouldBlock) => {
                wait(MAX_WAIT, || turn.try_lock()).map_err(|source| self.open_error(source))?;
                return Ok(None);
            }
        }
        let used = self.lock_file("used")?;
        wait(MAX_WAIT, || used.try_lock()).map_err(|source| self.open_error(source))?;
        self.empty().map_err(|error| self.database_error(error))?;
        Ok(Some(IndexLock { _locks: vec![turn, used] }))
    }

    fn lock_file(&self, name: &str) -> Result<File, SearchError> {
        open_private_file(&self.path.with_file_name(name)).map_err(|source| self.open_error(source))
    }

    fn open_error(&self, source: io::Error) -> SearchError {
        SearchError::Io { path: self.path.clone(), source }
    }

    /// Empties the tables in place, because other processes have the file open. Session numbers
    /// continue, so that a new session is never mistaken for an old one.
    fn empty(&mut self) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(&format!(
            "DELETE FROM sessions; DROP TABLE texts; {}",
            create_text_table()
        ))?;
        transaction.commit()
    }
}
