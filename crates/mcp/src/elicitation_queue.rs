//! Limits the elicitation requests of one server: one at a time, only during a call, and none after
//! the user declined all further ones. The protocol also requires that a server request belongs to
//! a client request.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The running calls of a server, and its open request.
pub(crate) struct ElicitationState {
    running: watch::Sender<BTreeSet<u64>>,
    next: AtomicU64,
    permit: Arc<Semaphore>,
    decline_all: AtomicBool,
}

impl Default for ElicitationState {
    fn default() -> Self {
        Self {
            running: watch::channel(BTreeSet::new()).0,
            next: AtomicU64::new(0),
            permit: Arc::new(Semaphore::new(1)),
            decline_all: AtomicBool::new(false),
        }
    }
}

/// A call, registered as running until this value is dropped.
pub(crate) struct RunningCall {
    requests: Arc<ElicitationState>,
    number: u64,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.requests.running.send_modify(|running| {
            running.remove(&self.number);
        });
    }
}

impl ElicitationState {
    /// Registers a call.
    pub(crate) fn call(self: &Arc<Self>) -> RunningCall {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.running.send_modify(|running| {
            running.insert(number);
        });
        RunningCall { requests: Arc::clone(self), number }
    }

    /// Waits until all calls that are running now have ended; returns immediately if there are
    /// none.
    pub(crate) async fn wait_for_calls(&self) {
        let mut changes = self.running.subscribe();
        let current = changes.borrow_and_update().clone();
        // This struct owns the sender, so the channel never closes.
        let _ = changes.wait_for(|running| current.is_disjoint(running)).await;
    }

    /// Returns the permit for one request, or `None` if another request is open or the user wants
    /// no more.
    pub(crate) fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if self.decline_all.load(Ordering::Acquire) {
            return None;
        }
        Arc::clone(&self.permit).try_acquire_owned().ok()
    }

    /// Rejects all further requests of this server in this session.
    pub(crate) fn stop(&self) {
        self.decline_all.store(true, Ordering::Release);
    }
}
