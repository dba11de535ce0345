//! The end of what a server complains on its standard error.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are kept.
const KEPT: usize = 64 * 1024;
const READ: usize = 16 * 1024;

/// The last 64 KB of a stream. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    /// How much there was in all.
    total: Arc<AtomicU64>,
    /// More messages come than are read.
    flood: Arc<AtomicBool>,
}

impl Tail {
    /// Adds bytes; what is too old goes.
    pub(crate) fn push(&self, bytes: &[u8]) {
        self.total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = bytes.get(bytes.len().saturating_sub(KEPT)..).unwrap_or_default();
        let over = (kept.len() + fresh.len()).saturating_sub(KEPT);
        let over = over.min(kept.len());
        kept.drain(..over);
        kept.extend(fresh);
    }

    /// More messages come than are read.
    pub(crate) fn flooded(&self) {
        self.flood.store(true, Ordering::Relaxed);
    }

    /// Whether there was a flood of messages that was not told of; told with that.
    pub(crate) fn tell_flood(&self) -> bool {
        self.flood.swap(false, Ordering::Relaxed)
    }

    /// How many bytes were added so far.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// What is there, as text.
    pub(crate) fn text(&self) -> String {
        let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }

    /// The last line that says something.
    pub(crate) fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(300).collect())
    }

    /// Reads a stream to its end, so that who writes never comes to a halt.
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
    async fn only_the_end_is_kept() {
        let tail = Tail::default();
        let mut flood = vec![b'x'; 3 * KEPT];
        flood.extend(b"\nthe reason\n\n");
        tail.clone().drain(flood.as_slice()).await;
        assert_eq!(tail.text().len(), KEPT);
        assert_eq!(tail.last_line().as_deref(), Some("the reason"));
    }
}
