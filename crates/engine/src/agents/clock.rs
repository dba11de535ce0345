//! The time that a sub-agent has. It stands still while a person is asked.

use std::time::Duration;

use tokio::time::Instant;

pub(super) struct Clock {
    left: Duration,
    /// Since when it runs.
    since: Option<Instant>,
}

impl Clock {
    /// A clock that runs.
    pub(super) fn new(left: Duration) -> Self {
        Self { left, since: Some(Instant::now()) }
    }

    pub(super) fn pause(&mut self) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }

    pub(super) fn go_on(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Comes back when the time is up; never while the clock stands still.
    pub(super) async fn run_out(&self) {
        match self.since {
            // A time beyond what clocks hold never comes.
            Some(since) => match since.checked_add(self.left) {
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
    async fn a_clock_that_stands_still_keeps_what_is_left() {
        let mut clock = Clock::new(Duration::from_secs(10));
        clock.pause();
        let left = clock.left;
        clock.pause();
        assert!(clock.left == left && left <= Duration::from_secs(10));
        let stands = tokio::time::timeout(Duration::ZERO, clock.run_out());
        assert!(stands.await.is_err());
        let mut up = Clock::new(Duration::ZERO);
        up.pause();
        up.go_on();
        up.run_out().await;
    }
}
