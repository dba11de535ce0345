//! Reads lines from an untrusted stream, limited in length and rate.

use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::time::Instant;

/// Maximum length of a line in bytes, far longer than any real message.
pub(crate) const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Maximum messages per second; a faster server is read more slowly.
const PER_SECOND: u32 = 2_000;

/// The line is too long to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineTooLong;

/// Splits a stream into lines. Cancel-safe.
#[derive(Debug)]
pub(crate) struct LineSplitter<R> {
    reader: R,
    line: Vec<u8>,
    longest: usize,
}

impl<R: AsyncBufRead + Unpin> LineSplitter<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), longest: MAX_BYTES }
    }

    /// Returns the next line without its terminator; `None` at the end of the stream. An
    /// unterminated last line counts.
    ///
    /// # Errors
    /// Returns an error if the line is too long. The stream cannot be read any further.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, LineTooLong> {
        loop {
            // A read error is treated as the end of the stream.
            let Ok(bytes) = self.reader.fill_buf().await else { return Ok(self.remaining_bytes()) };
            if bytes.is_empty() {
                return Ok(self.remaining_bytes());
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(bytes.len());
            if self.line.len() + length > self.longest {
                return Err(LineTooLong);
            }
            self.line.extend_from_slice(bytes.get(..length).unwrap_or_default());
            self.reader.consume(end.map_or(length, |end| end + 1));
            if end.is_some() {
                let mut line = std::mem::take(&mut self.line);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(line));
            }
        }
    }

    fn remaining_bytes(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.line);
        (!rest.is_empty()).then_some(rest)
    }
}

/// Slows down reading when a server sends too many messages: the pipe fills, and the server blocks.
#[derive(Debug)]
pub(crate) struct ReadRateLimit {
    started: Instant,
    count: u32,
}

impl ReadRateLimit {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), count: 0 }
    }

    /// Whether messages arrive faster than the limit.
    pub(crate) fn is_flooded(&self) -> bool {
        self.count >= PER_SECOND && self.started.elapsed() < Duration::from_secs(1)
    }

    /// Waits until one more message may be read. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        let second = Duration::from_secs(1);
        if self.started.elapsed() >= second {
            *self = Self::new();
        }
        if self.count >= PER_SECOND {
            tokio::time::sleep_until(self.started + second).await;
            *self = Self::new();
        }
        self.count += 1;
    }
}

/// Distinguishes a flood of lines that are not messages from a server that logs to standard output.
#[derive(Debug)]
pub(crate) struct FloodDetector {
    second: Instant,
    lines: u32,
    minute: Instant,
    bytes: usize,
}

impl FloodDetector {
    /// Number of lines per second that counts as a flood.
    const LINES: u32 = 1_000;
    /// Number of bytes per minute above which lines count as a flood.
    const BYTES: usize = 1_000_000;

    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { second: now, lines: 0, minute: now, bytes: 0 }
    }

    /// Counts a skipped line. Returns whether it completes a flood.
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
    async fn lines_are_split_and_bounded() {
        let mut lines = LineSplitter::new(&b"a\r\n\nbc"[..]);
        for expected in [Some(&b"a"[..]), Some(b""), Some(b"bc"), None] {
            assert_eq!(lines.next().await.expect("short").as_deref(), expected);
        }
        let mut lines = LineSplitter { longest: 3, ..LineSplitter::new(&b"abc\nabcd\n"[..]) };
        assert_eq!(lines.next().await.expect("short").as_deref(), Some(&b"abc"[..]));
        assert_eq!(lines.next().await, Err(LineTooLong));
    }

    #[tokio::test(start_paused = true)]
    async fn skipped_lines_count_as_a_flood_by_number_or_size() {
        let mut meter = FloodDetector::new();
        assert!((1..FloodDetector::LINES).all(|_| !meter.is_flood(10)));
        assert!(meter.is_flood(10), "too many in a second");
        tokio::time::advance(Duration::from_secs(61)).await;
        let mut meter = FloodDetector::new();
        for _ in 0..100 {
            assert!(!meter.is_flood(10_000));
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!(meter.is_flood(1), "too large within a minute");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!meter.is_flood(1_000_000), "a minute later");
    }

    #[tokio::test(start_paused = true)]
    async fn flood_is_throttled() {
        let started_at = Instant::now();
        let mut pace = ReadRateLimit::new();
        for _ in 0..PER_SECOND * 3 + 1 {
            pace.wait().await;
        }
        assert_eq!(started_at.elapsed(), Duration::from_secs(3));
    }
}
