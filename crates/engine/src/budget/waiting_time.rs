//! How long requests waited because other processes had reserved the rest of a shared budget.

use std::time::{Duration, Instant};

/// The time in which at least one request waited.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct WaitingTime {
    count: usize,
    since: Option<Instant>,
    before: Duration,
}

impl WaitingTime {
    /// Records that another request waits.
    pub(super) fn start(&mut self) {
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Records that a request stopped waiting.
    pub(super) fn stop(&mut self) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.before = self.total();
            self.since = None;
        }
    }

    /// Returns the whole time, including that of requests that wait now.
    pub(super) fn total(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
