//! Sessions that are being opened or closed. A stored session can be open only once, so clients
//! that want the same one wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The sessions, by id, with a signal for when the work on one is done. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct BusySessions(Arc<Mutex<HashMap<String, watch::Receiver<()>>>>);

/// Marks a session as busy until it is dropped.
pub(crate) struct BusySession {
    all: BusySessions,
    id: String,
    _done: watch::Sender<()>,
}

impl BusySessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a session as busy.
    ///
    /// # Errors
    /// Returns a signal for when the other task is done.
    pub(crate) fn begin(&self, id: &str) -> Result<BusySession, watch::Receiver<()>> {
        let mut all = self.lock();
        if let Some(other) = all.get(id) {
            return Err(other.clone());
        }
        let (done, waiting) = watch::channel(());
        all.insert(id.to_owned(), waiting);
        Ok(BusySession { all: self.clone(), id: id.to_owned(), _done: done })
    }

    /// Waits until no other task is at work on a session, and marks it as busy.
    pub(crate) async fn wait(&self, id: &str) -> BusySession {
        loop {
            match self.begin(id) {
                Ok(busy) => return busy,
                // Ends with an error when the other one is done.
                Err(mut other) => while other.changed().await.is_ok() {},
            }
        }
    }
}

impl Drop for BusySession {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn session_is_used_by_one_client_at_a_time() {
        let all = BusySessions::default();
        let first = all.wait("a").await;
        assert!(all.begin("a").is_err() && all.begin("b").is_ok());
        let waiting = tokio::spawn({
            let all = all.clone();
            async move { drop(all.wait("a").await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.expect("the other one");
        assert!(all.begin("a").is_ok());
    }
}
