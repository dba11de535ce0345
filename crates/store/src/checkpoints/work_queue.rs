//! A work queue for a few threads whose items can add further items. The item added last is
//! processed first.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The items to process.
#[derive(Debug)]
pub(super) struct WorkQueue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

/// Marks an item as being processed. Until this is dropped, other threads wait for the items that
/// it may add.
pub(super) struct WorkGuard<'a, T> {
    queue: &'a WorkQueue<T>,
    new_items: Vec<T>,
}

impl<T> WorkGuard<'_, T> {
    /// Finishes the item and adds further items.
    pub fn done(mut self, new_items: Vec<T>) {
        self.new_items = new_items;
    }
}

impl<T> Drop for WorkGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.queued.append(&mut self.new_items);
        state.busy_threads -= 1;
        drop(state);
        self.queue.changed.notify_all();
    }
}

#[derive(Debug)]
struct QueueState<T> {
    queued: Vec<T>,
    /// Number of threads that process an item, which may add more.
    busy_threads: usize,
}

impl<T> WorkQueue<T> {
    pub fn new(first: T) -> Self {
        let state = Mutex::new(QueueState { queued: vec![first], busy_threads: 0 });
        Self { state, changed: Condvar::new() }
    }

    /// Returns the next item, waiting while other threads may add one, or `None` if all are done.
    pub fn next(&self) -> Option<(T, WorkGuard<'_, T>)> {
        let mut state = self.lock();
        loop {
            if let Some(piece) = state.queued.pop() {
                state.busy_threads += 1;
                return Some((piece, WorkGuard { queue: self, new_items: Vec::new() }));
            }
            if state.busy_threads == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn worker_threads_end_when_work_is_done() {
        let work = WorkQueue::new(12_u32);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some((depth, at_work)) = work.next() {
                        done.fetch_add(1, Ordering::Relaxed);
                        let less = depth.checked_sub(1);
                        at_work.done(less.into_iter().flat_map(|less| [less; 2]).collect());
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), (1 << 13) - 1);
    }
}
