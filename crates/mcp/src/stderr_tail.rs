//! The end of what a server writes to standard error.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parallax_exec::ProcessExit;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum bytes that are kept.
const MAX_KEPT: usize = 64 * 1024;
const READ: usize = 16 * 1024;

/// The last 64 KB of a stream. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    /// Whether messages arrive faster than they are read.
    is_flooded: Arc<AtomicBool>,
    skipped: Arc<Mutex<SkippedLines>>,
    /// How the server ended before its first message.
    exit: Arc<Mutex<Option<ProcessExit>>>,
}

/// Lines on standard output that are not messages.
#[derive(Debug, Default)]
struct SkippedLines {
    count: u64,
    first: String,
}

impl StderrTail {
    /// Appends bytes and drops the oldest ones.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut tail = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = bytes.get(bytes.len().saturating_sub(MAX_KEPT)..).unwrap_or_default();
        let over = (tail.len() + fresh.len()).saturating_sub(MAX_KEPT);
        let over = over.min(tail.len());
        tail.drain(..over);
        tail.extend(fresh);
    }

    /// Records that messages arrive faster than they are read.
    pub(crate) fn record_flood(&self) {
        self.is_flooded.store(true, Ordering::Relaxed);
    }

    /// Returns whether there was a flood that was not reported yet, and marks it as reported.
    pub(crate) fn take_flood_notice(&self) -> bool {
        self.is_flooded.swap(false, Ordering::Relaxed)
    }

    /// Counts a line on standard output that is not a message.
    pub(crate) fn count_skipped(&self, line: &[u8]) {
        let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        if skipped.count == 0 {
            skipped.first = String::from_utf8_lossy(line).trim().chars().take(80).collect();
        }
        skipped.count += 1;
    }

    /// Returns a message for the user about such lines; `None` if there were none.
    pub(crate) fn skipped_note(&self) -> Option<String> {
        let skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = match skipped.count {
            0 => return None,
            1 => "1 line on stdout is not an MCP message and was skipped".to_owned(),
            count => {
                format!("{count} lines on stdout are not MCP messages and were skipped")
            }
        };
        Some(format!("{lines} (first: {:?}); logs belong on stderr", skipped.first))
    }

    /// Records how the server ended before its first message; `None` at each start.
    pub(crate) fn record_exit(&self, exit: Option<ProcessExit>) {
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = exit;
    }

    /// Describes a server that ended before its first message.
    pub(crate) fn describe_early_end(&self) -> String {
        let exit = *self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = match exit {
            Some(ProcessExit::Exited { code }) => {
                format!("it ended immediately with exit code {code}")
            }
            Some(ProcessExit::Signalled { signal }) => {
                format!("it was terminated immediately by signal {signal}")
            }
            None => "it ended immediately".to_owned(),
        };
        match self.last_line() {
            Some(line) => format!("{ended}; last output: {line}"),
            None => format!("{ended}, without output"),
        }
    }

    /// Returns the kept bytes as text.
    pub(crate) fn text(&self) -> String {
        let mut tail = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(tail.make_contiguous()).into_owned()
    }

    /// Returns the last line that is not empty.
    pub(crate) fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(300).collect())
    }

    /// Reads a stream to its end, so that the writer never blocks.
    pub(crate) async fn drain(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; READ];
        while let Ok(length) = stream.read(&mut buffer).await {
            match buffer.get(..length) {
                Some(bytes) if length > 0 => self.push(bytes),
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_tail_of_stderr_is_kept() {
        let tail = StderrTail::default();
        let mut flood = vec![b'x'; 3 * MAX_KEPT];
        flood.extend(b"\nthe reason\n\n");
        tail.clone().drain(flood.as_slice()).await;
        assert_eq!(tail.text().len(), MAX_KEPT);
        assert_eq!(tail.last_line().as_deref(), Some("the reason"));
    }
}
