//! The clock of the application: constant during an update, so that all parts agree on the time.

use std::time::Instant;

/// The time as seen by the application.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// When the current input event arrived.
    input_at: Instant,
    now_ms: u64,
}

impl Default for Clock {
    fn default() -> Self {
        let started = Instant::now();
        Self { started, input_at: started, now_ms: 0 }
    }
}

impl Clock {
    /// Reads the time.
    pub(crate) fn tick(&mut self) {
        self.now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    }

    /// Milliseconds since the start at the last tick.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Records when the current input event arrived.
    pub(crate) fn note_input(&mut self, at: Instant) {
        self.input_at = at;
    }

    /// Returns when the current input event arrived.
    pub(crate) fn input_at(&self) -> Instant {
        self.input_at
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(crate) fn advance(&mut self, by: std::time::Duration) {
        self.started -= by;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_changes_only_at_a_tick() {
        let mut clock = Clock::default();
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now_ms(), 0);
        clock.tick();
        assert!((3_000..60_000).contains(&clock.now_ms()), "{}", clock.now_ms());
    }
}
