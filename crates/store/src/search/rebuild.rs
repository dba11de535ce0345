//! Making the index anew while others use it, or make it anew too.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

use rusqlite::TransactionBehavior;

use super::{SearchError, SearchIndex, private, table_of_texts, wait};

/// How long a process waits for another that makes the index anew, or for those
/// that use it.
const MOST_WAIT: Duration = Duration::from_secs(120);

/// As long as this is held, nobody empties the index, or nobody else uses it.
#[derive(Debug)]
pub struct Held {
    /// Locks go with their files.
    _locks: Vec<File>,
}

impl SearchIndex {
    /// Keeps others from emptying the index while it is used; waits for one that
    /// makes it anew.
    ///
    /// # Errors
    /// When the disk refuses, or another process does not come to an end.
    pub fn hold(&self) -> Result<Held, SearchError> {
        let used = self.lock_file("used")?;
        wait(MOST_WAIT, || used.try_lock_shared()).map_err(|source| self.refused(source))?;
        Ok(Held { _locks: vec![used] })
    }

    /// Empties the index: the next [`SearchIndex::update`] reads all sessions. Let
    /// go of what is given only then: the others wait for it. `None`: another
    /// process did just that and was waited for.
    ///
    /// # Errors
    /// When the index cannot be written, or others use it for too long.
    pub fn rebuild(&mut self) -> Result<Option<Held>, SearchError> {
        let turn = self.lock_file("rebuild")?;
        match turn.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(self.refused(error)),
            Err(TryLockError::WouldBlock) => {
                wait(MOST_WAIT, || turn.try_lock()).map_err(|source| self.refused(source))?;
                return Ok(None);
            }
        }
        let used = self.lock_file("used")?;
        wait(MOST_WAIT, || used.try_lock()).map_err(|source| self.refused(source))?;
        self.empty().map_err(|error| self.wrong(error))?;
        Ok(Some(Held { _locks: vec![turn, used] }))
    }

    fn lock_file(&self, name: &str) -> Result<File, SearchError> {
        private(&self.path.with_file_name(name)).map_err(|source| self.refused(source))
    }

    fn refused(&self, source: io::Error) -> SearchError {
        SearchError::Io { path: self.path.clone(), source }
    }

    /// In its place: others have the file open. The numbers of sessions go on, so
    /// that nobody takes a new session for an old one.
    fn empty(&mut self) -> rusqlite::Result<()> {
        let writing = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        writing.execute_batch(&format!(
            "DELETE FROM sessions; DROP TABLE texts; {}",
            table_of_texts()
        ))?;
        writing.commit()
    }
}
