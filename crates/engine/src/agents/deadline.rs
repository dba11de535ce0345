//! The time limit of a subagent. The clock stops while the user is asked.

use std::time::Duration;

use tokio::time::Instant;

pub(super) struct PausableDeadline {
    remaining: Duration,
    /// When the clock was started; `None` while it is paused.
    started: Option<Instant>,
}

impl PausableDeadline {
    /// Creates a running clock.
    pub(super) fn new(remaining: Duration) -> Self {
        Self { remaining, started: Some(Instant::now()) }
    }

    pub(super) fn pause(&mut self) {
        if let Some(since) = self.started.take() {
            self.remaining = self.remaining.saturating_sub(since.elapsed());
        }
    }

    pub(super) fn resume(&mut self) {
        self.started.get_or_insert_with(Instant::now);
    }

    /// Completes when the time is up; never while the clock is paused.
    pub(super) async fn wait_until_expired(&self) {
        match self.started {
            // A deadline beyond the range of the clock is never reached.
            Some(since) => match since.checked_add(self.remaining) {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn paused_clock_keeps_the_remaining_time() {
        let mut clock = PausableDeadline::new(Duration::from_secs(10));
        clock.pause();
        let remaining = clock.remaining;
        clock.pause();
        assert!(clock.remaining == remaining && remaining <= Duration::from_secs(10));
        let stands = tokio::time::timeout(Duration::ZERO, clock.wait_until_expired());
        assert!(stands.await.is_err());
        let mut up = PausableDeadline::new(Duration::ZERO);
        up.pause();
        up.resume();
        up.wait_until_expired().await;
    }
}
