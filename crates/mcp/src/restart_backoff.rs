//! Limits restarts of a server whose connection was lost: with increasing delays, and not
//! indefinitely.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::McpError;

/// The delays before a lost server is restarted.
pub(crate) const WAITS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// Maximum number of starts within [`PERIOD`].
const MAX_COUNT: usize = 6;
const PERIOD: Duration = Duration::from_secs(600);

/// The recent starts of a server.
#[derive(Debug, Default)]
pub(crate) struct RestartBackoff {
    times: VecDeque<Instant>,
}

impl RestartBackoff {
    /// Checks whether another start is permitted.
    ///
    /// # Errors
    /// Returns an error if the server was started too often.
    pub(crate) fn check(&mut self) -> Result<(), McpError> {
        while self.times.front().is_some_and(|start| start.elapsed() > PERIOD) {
            self.times.pop_front();
        }
        if self.times.len() < MAX_COUNT {
            return Ok(());
        }
        let reason = format!(
            "it was started {MAX_COUNT} times within ten minutes and ended each time; see `/mcp`, then \
             run `/mcp reload`"
        );
        Err(McpError::Closed { reason })
    }

    /// Returns the remaining delay before the next start.
    pub(crate) fn remaining(&self) -> Duration {
        let Some(last) = self.times.back() else { return Duration::ZERO };
        let wait = WAITS.get(self.times.len() - 1).or(WAITS.last()).copied().unwrap_or_default();
        wait.saturating_sub(last.elapsed())
    }

    /// Records a start.
    pub(crate) fn record_start(&mut self) {
        self.times.push_back(Instant::now());
    }

    /// Resets the delays.
    pub(crate) fn reset(&mut self) {
        self.times.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delays_grow_and_restarts_stop() {
        let mut starts = RestartBackoff::default();
        assert_eq!(starts.remaining(), Duration::ZERO);
        for wait in WAITS.into_iter().chain([WAITS[3]; 2]) {
            assert!(starts.check().is_ok());
            starts.record_start();
            let rest = starts.remaining();
            assert!(rest <= wait && rest + Duration::from_millis(200) > wait, "{rest:?} {wait:?}");
        }
        assert!(starts.check().is_err_and(|error| error.to_string().contains("6 times")));
        starts.reset();
        assert!(starts.check().is_ok() && starts.remaining().is_zero());
    }
}
