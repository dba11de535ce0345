//! The lines that wait for one viewer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Maximum number of bytes that wait for a viewer.
const LIMIT: usize = 8 << 20;
/// Maximum number of bytes per write.
const BATCH: usize = 256 << 10;

/// A bounded queue: the oldest lines are dropped for new ones.
#[derive(Debug, Default)]
pub(super) struct ViewerQueue {
    queued_lines: Mutex<QueuedLines>,
    /// Notified of new lines.
    pub(super) ready: Notify,
}

#[derive(Debug, Default)]
struct QueuedLines {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    dropped_lines: u64,
}

impl ViewerQueue {
    /// Adds a line. Returns whether any was dropped. Never waits.
    pub(super) fn push(&self, line: Arc<str>) -> bool {
        let mut waiting = self.queued_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.dropped_lines;
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        while waiting.bytes > LIMIT {
            let Some(oldest) = waiting.lines.pop_front() else { break };
            waiting.bytes -= oldest.len();
            waiting.dropped_lines += 1;
        }
        let has_dropped = waiting.dropped_lines != before;
        drop(waiting);
        self.ready.notify_one();
        has_dropped
    }

    /// Returns the next lines, and how many were dropped before them.
    pub(super) fn take(&self) -> Option<(String, u64)> {
        let mut waiting = self.queued_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = String::new();
        while batch.len() < BATCH
            && let Some(line) = waiting.lines.pop_front()
        {
            waiting.bytes -= line.len();
            batch.push_str(&line);
        }
        let dropped = std::mem::take(&mut waiting.dropped_lines);
        (dropped > 0 || !batch.is_empty()).then_some((batch, dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_lines_are_dropped_and_counted() {
        let queue = ViewerQueue::default();
        let line = |at: usize| -> Arc<str> { format!("{at}{}\n", "x".repeat(1 << 20)).into() };
        let dropped = (0..20).filter(|at| queue.push(line(*at))).count();
        assert!((12..=14).contains(&dropped), "{dropped}");
        let (first, lost) = queue.take().expect("lines");
        assert_eq!(lost, dropped as u64);
        assert!(first.starts_with(&format!("{dropped}x")), "{}", &first[..20]);
        let mut rest = 1;
        while queue.take().is_some() {
            rest += 1;
        }
        assert_eq!(rest + dropped, 20);
    }
}
