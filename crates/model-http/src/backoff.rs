//! The backoff between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

/// Maximum attempts of any request.
pub const MAX_ATTEMPTS: u32 = 10;
/// Maximum number of attempts of a utility request.
pub const UTILITY_ATTEMPTS: u32 = 5;

/// Maximum number of attempts for a model without capacity that has a fallback.
pub(crate) const CAPACITY_ATTEMPTS: u32 = 3;

/// The number of short waits when the pace of requests is shared.
const SHORT_PACED_WAITS: u32 = 3;

/// The first wait; `PARALLAX_RETRY_BASE_MS` may shorten it (see [`Backoff::from_env`]).
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Doubling waits: 5 s, 10 s, 20 s, 30 s, 30 s …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    start: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { start: FIRST_WAIT }
    }
}

impl Backoff {
    /// For tests against scripted servers, `PARALLAX_RETRY_BASE_MS` scales *our* waits down (never
    /// up): it is the first wait in milliseconds instead of 5000. Waits that a server asks for are
    /// kept.
    pub fn from_env(value: Option<&str>) -> Self {
        let start = value.and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
        Self { start: start.unwrap_or(FIRST_WAIT).min(FIRST_WAIT) }
    }

    /// Returns the first wait.
    pub(crate) fn first(self) -> Duration {
        self.start
    }

    /// Returns the wait after a failed attempt (from 1). `server_delay` is the server's delay,
    /// which is a minimum. `guessed` delays are chosen by Parallax.
    pub fn wait(self, attempt: u32, server_delay: Option<Duration>, guessed: bool) -> Duration {
        let doubled = self.start.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        let current = doubled.min(self.start * 6);
        match server_delay {
            Some(server_delay) => {
                let server_delay = if guessed { self.scale(server_delay) } else { server_delay };
                current.max(server_delay).mul_f64(1.0 + 0.2 * random())
            }
            None => current.mul_f64(0.7 + 0.6 * random()),
        }
    }

    /// Returns the wait after a rate limit without a stated time when the pace of requests is
    /// shared: the first three are short, because the pace holds the request back as well.
    pub(crate) fn paced_wait(self, attempt: u32) -> Duration {
        let wait = self.wait(attempt, None, false);
        if attempt <= SHORT_PACED_WAITS { wait / 5 } else { wait }
    }

    /// Returns the wait when there is a fallback: one second, then three, or what the server asks
    /// for.
    pub fn short_wait(self, attempt: u32, server_delay: Option<Duration>) -> Duration {
        let ours = Duration::from_secs(if attempt == 1 { 1 } else { 3 });
        server_delay.unwrap_or_else(|| self.scale(ours))
    }

    fn scale(self, delay: Duration) -> Duration {
        delay.mul_f64(self.start.as_secs_f64() / FIRST_WAIT.as_secs_f64())
    }
}

/// Returns a number in 0..1, good enough to spread retries.
fn random() -> f64 {
    let bits = RandomState::new().hash_one(std::process::id());
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Parses a `Retry-After` header: seconds, or a date.
pub fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_waits_are_short_when_the_pace_is_shared() {
        let backoff = Backoff::default();
        let near = |attempt: u32, seconds: f64| {
            let wait = backoff.paced_wait(attempt).as_secs_f64();
            assert!(wait >= seconds * 0.69 && wait <= seconds * 1.31, "{attempt}: {wait}");
        };
        for (attempt, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 30.0)] {
            near(attempt, seconds);
        }
    }

    #[test]
    fn backoff_doubles_up_to_the_cap_with_jitter() {
        let backoff = Backoff::default();
        for (attempt, seconds) in [(1, 5.0), (2, 10.0), (3, 20.0), (4, 30.0), (9, 30.0), (99, 30.0)]
        {
            for _ in 0..20 {
                let wait = backoff.wait(attempt, None, false).as_secs_f64();
                assert!((seconds * 0.7..=seconds * 1.3).contains(&wait), "{attempt}: {wait}");
            }
        }
    }

    #[test]
    fn delay_is_never_shorter_than_the_server_requests() {
        for _ in 0..20 {
            let wait =
                Backoff::default().wait(1, Some(Duration::from_secs(34)), false).as_secs_f64();
            assert!((34.0..=34.0 * 1.2).contains(&wait));
            let wait =
                Backoff::default().wait(3, Some(Duration::from_secs(1)), false).as_secs_f64();
            assert!((20.0..=24.0).contains(&wait));
        }
    }

    #[test]
    fn environment_variable_only_shortens_delays() {
        assert_eq!(Backoff::from_env(Some("9000")), Backoff::default());
        assert_eq!(Backoff::from_env(Some("x")), Backoff::default());
        let short = Backoff::from_env(Some("5"));
        assert!(short.wait(9, None, false) < Duration::from_millis(40));
        assert!(short.wait(1, Some(Duration::from_secs(60)), true) < Duration::from_millis(80));
        assert!(short.wait(1, Some(Duration::from_millis(80)), false) >= Duration::from_millis(80));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let parse = |text: &str| parse_retry_after(text, now);
        assert_eq!(parse(" 12 "), Some(Duration::from_secs(12)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(parse("Sat, 06 Nov 1993 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!((parse("-1"), parse("soon"), parse("1e400")), (None, None, None));
    }
}
