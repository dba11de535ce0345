//! The time of an event in output lines: ISO 8601, milliseconds, UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats the current time, at most once per millisecond.
#[derive(Debug, Default)]
pub(crate) struct TimestampFormatter {
    millisecond: i64,
    text: String,
}

impl TimestampFormatter {
    /// Returns the current time, such as `2026-01-31T12:00:00.000Z`.
    pub(crate) fn now(&mut self) -> &str {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millisecond = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        if self.text.is_empty() || millisecond != self.millisecond {
            self.millisecond = millisecond;
            let time = jiff::Timestamp::from_millisecond(millisecond).unwrap_or_default();
            self.text = format!("{time:.3}");
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_has_milliseconds_and_utc() {
        let mut clock = TimestampFormatter::default();
        let now = clock.now();
        assert_eq!(now.len(), "2026-01-31T12:00:00.000Z".len(), "{now}");
        assert!(now.ends_with('Z') && now.as_bytes()[19] == b'.', "{now}");
    }
}
