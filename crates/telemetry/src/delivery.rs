//! Counts the records that the collector did not receive, for one notice at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The records on their way to the collector, and those that were lost.
#[derive(Debug, Default)]
pub(crate) struct DeliveryState {
    total: AtomicU64,
    waiting: AtomicU64,
    lost: AtomicU64,
    /// The host, and the first reason why it did not accept records.
    failure: Mutex<Option<(String, String)>>,
}

impl DeliveryState {
    /// Records wait to be sent.
    pub(crate) fn add(&self, records: u64) {
        self.total.fetch_add(records, Ordering::Relaxed);
        self.waiting.fetch_add(records, Ordering::Relaxed);
    }

    /// Records were sent.
    pub(crate) fn deliver(&self, records: u64) {
        self.waiting.fetch_sub(records, Ordering::Relaxed);
    }

    /// Records will not be sent.
    pub(crate) fn count_lost(&self, records: u64) {
        self.waiting.fetch_sub(records, Ordering::Relaxed);
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    /// Records a failed attempt. Only the first reason counts.
    pub(crate) fn fail(&self, host: &str, reason: &str) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| (host.to_owned(), reason.to_owned()));
    }

    /// Returns the notice about lost records, if any. `dropped` records were not even queued; if
    /// `is_late`, the time for sending is over.
    pub(crate) fn notice(&self, dropped: u64, is_late: bool) -> Option<String> {
        let waiting = if is_late { self.waiting.load(Ordering::Relaxed) } else { 0 };
        let lost = self.lost.load(Ordering::Relaxed) + waiting + dropped;
        let total = self.total.load(Ordering::Relaxed) + dropped;
        if lost == 0 {
            return is_late.then(|| "telemetry: not everything was written in time".to_owned());
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (target, reason) = match failure {
            Some((host, reason)) => (format!(" to `{host}`"), reason),
            None if is_late => (String::new(), "the collector did not respond in time".to_owned()),
            None => (String::new(), "there were too many at once".to_owned()),
        };
        Some(format!("telemetry: {lost} of {total} records were not sent{target}: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_records_are_counted_with_the_first_reason() {
        let state = DeliveryState::default();
        assert_eq!(state.notice(0, false), None);
        state.add(5);
        state.deliver(2);
        state.count_lost(1);
        state.fail("host:1", "it responded with status 503");
        state.fail("host:1", "later");
        let notice = |lost| {
            format!(
                "telemetry: {lost} of 5 records were not sent to `host:1`: it responded with status \
                 503"
            )
        };
        assert_eq!(state.notice(0, false), Some(notice(1)));
        assert_eq!(state.notice(0, true), Some(notice(3)), "two still wait");
    }
}
