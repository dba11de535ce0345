//! Lines of a stream that somebody else writes: bounded in length and in pace.

use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::time::Instant;

/// No message of a server comes near.
pub(crate) const LONGEST: usize = 32 * 1024 * 1024;
/// A server that sends more messages in a second is read more slowly.
const PER_SECOND: u32 = 2_000;

/// A line that is too long to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts a stream into lines. Losing a future loses nothing.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    longest: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), longest: LONGEST }
    }

    /// The next line without its end; `None` at the end of the stream. A last
    /// line without an end counts.
    ///
    /// # Errors
    /// The line is too long. The stream cannot be read on then.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        loop {
            // A broken pipe is an end.
            let Ok(bytes) = self.reader.fill_buf().await else { return Ok(self.rest()) };
            if bytes.is_empty() {
                return Ok(self.rest());
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(bytes.len());
            if self.line.len() + taken > self.longest {
                return Err(TooLong);
            }
            self.line.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            self.reader.consume(end.map_or(taken, |end| end + 1));
            if end.is_some() {
                let mut line = std::mem::take(&mut self.line);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(line));
            }
        }
    }

    fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.line);
        (!rest.is_empty()).then_some(rest)
    }
}

/// Slows a reader down that is flooded: the pipe fills, and the flood stops.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    count: u32,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Whether there are more messages than are read.
    pub(crate) fn is_flooded(&self) -> bool {
        self.count >= PER_SECOND && self.since.elapsed() < Duration::from_secs(1)
    }

    /// Waits until one more message may be read. Losing the future loses nothing.
    pub(crate) async fn wait(&mut self) {
        let second = Duration::from_secs(1);
        if self.since.elapsed() >= second {
            *self = Self::new();
        }
        if self.count >= PER_SECOND {
            tokio::time::sleep_until(self.since + second).await;
            *self = Self::new();
        }
        self.count += 1;
    }
}

/// Tells a flood of lines that are not messages from a server that logs to the wrong
/// stream.
#[derive(Debug)]
pub(crate) struct SkipMeter {
    second: Instant,
    lines: u32,
    minute: Instant,
    bytes: usize,
}

impl SkipMeter {
    /// Lines within a second that are a flood.
    const LINES: u32 = 1_000;
    /// Bytes within a minute, above which they are one.
    const BYTES: usize = 1_000_000;

    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { second: now, lines: 0, minute: now, bytes: 0 }
    }

    /// Counts a skipped line. `true` when it is one too many.
    pub(crate) fn is_flood(&mut self, length: usize) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.lines) = (Instant::now(), 0);
        }
        if self.minute.elapsed() >= Duration::from_secs(60) {
            (self.minute, self.bytes) = (Instant::now(), 0);
        }
        self.lines += 1;
        self.bytes = self.bytes.saturating_add(length);
        self.lines >= Self::LINES || self.bytes > Self::BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_and_bounded() {
        let mut lines = Lines::new(&b"a\r\n\nbc"[..]);
        for wanted in [Some(&b"a"[..]), Some(b""), Some(b"bc"), None] {
            assert_eq!(lines.next().await.expect("short").as_deref(), wanted);
        }
        let mut lines = Lines { longest: 3, ..Lines::new(&b"abc\nabcd\n"[..]) };
        assert_eq!(lines.next().await.expect("short").as_deref(), Some(&b"abc"[..]));
        assert_eq!(lines.next().await, Err(TooLong));
    }

    #[tokio::test(start_paused = true)]
    async fn skipped_lines_are_a_flood_by_number_or_size() {
        let mut meter = SkipMeter::new();
        assert!((1..SkipMeter::LINES).all(|_| !meter.is_flood(10)));
        assert!(meter.is_flood(10), "too many in a second");
        tokio::time::advance(Duration::from_secs(61)).await;
        let mut meter = SkipMeter::new();
        for _ in 0..100 {
            assert!(!meter.is_flood(10_000));
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!(meter.is_flood(1), "too large within a minute");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!meter.is_flood(1_000_000), "a minute later");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_slowly() {
        let begun = Instant::now();
        let mut pace = Pace::new();
        for _ in 0..PER_SECOND * 3 + 1 {
            pace.wait().await;
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
}
