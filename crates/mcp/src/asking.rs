//! What keeps the questions of one server to the person within bounds: they are
//! asked one at a time, they end with the calls during which they came, and none
//! comes after "no more". The protocol wants the same: what a server asks
//! belongs to a request of the client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The calls of a server that run, and its question.
pub(crate) struct Asking {
    running: watch::Sender<BTreeSet<u64>>,
    next: AtomicU64,
    place: Arc<Semaphore>,
    no_more: AtomicBool,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            running: watch::channel(BTreeSet::new()).0,
            next: AtomicU64::new(0),
            place: Arc::new(Semaphore::new(1)),
            no_more: AtomicBool::new(false),
        }
    }
}

/// A call that runs until this is dropped.
pub(crate) struct RunningCall {
    asking: Arc<Asking>,
    number: u64,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.asking.running.send_modify(|running| {
            running.remove(&self.number);
        });
    }
}

impl Asking {
    /// A call begins.
    pub(crate) fn call(self: &Arc<Self>) -> RunningCall {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.running.send_modify(|running| {
            running.insert(number);
        });
        RunningCall { asking: Arc::clone(self), number }
    }

    /// Waits until the calls that run now are over; at once when none runs.
    pub(crate) async fn calls_over(&self) {
        let mut told = self.running.subscribe();
        let now = told.borrow_and_update().clone();
        // The sender is ours: it is never gone.
        let _ = told.wait_for(|running| now.is_disjoint(running)).await;
    }

    /// The place for one question, as long as it is held; `None`: another one is
    /// open, or there are to be no more.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        if self.no_more.load(Ordering::Acquire) {
            return None;
        }
        Arc::clone(&self.place).try_acquire_owned().ok()
    }

    /// The person wants no more questions of this server in this session.
    pub(crate) fn stop(&self) {
        self.no_more.store(true, Ordering::Release);
    }
}
