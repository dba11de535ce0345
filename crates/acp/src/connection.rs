//! The connection to a client: messages to it, and pending requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::rpc::RpcError;
use crate::updates::ClientFeatures;

/// Maximum bytes of a message.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// Maximum number of messages queued for a slow client. After that, sessions wait.
const WAITING: usize = 256;

/// An extension notification: a turn that another client of the session began or that ended.
const TURN: &str = "_parallax/turn";

type AnswerSender = oneshot::Sender<Result<Value, RpcError>>;

/// Sends messages to a client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClientConnection {
    lines: mpsc::Sender<Vec<u8>>,
    pending: Arc<Mutex<HashMap<u64, AnswerSender>>>,
    next_id: Arc<AtomicU64>,
    /// Set when the client disconnected.
    is_disconnected: Arc<AtomicBool>,
    /// Set by `initialize`.
    features: Arc<OnceLock<ClientFeatures>>,
}

impl ClientConnection {
    /// Writes messages to `output` in a task, which ends when the last clone is dropped.
    pub(crate) fn new(
        mut output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> (Self, JoinHandle<()>) {
        let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING);
        let writer = tokio::spawn(async move {
            while let Some(line) = waiting.recv().await {
                let written = output.write_all(&line).await;
                // Flush once for several queued messages.
                let flushed = match waiting.is_empty() {
                    true => output.flush().await,
                    false => Ok(()),
                };
                if written.and(flushed).is_err() {
                    // The client is gone; the end of its input is handled elsewhere.
                    return;
                }
            }
        });
        let connection = Self {
            lines,
            pending: Arc::default(),
            next_id: Arc::default(),
            is_disconnected: Arc::default(),
            features: Arc::default(),
        };
        (connection, writer)
    }

    /// Returns whether both are the same client.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pending, &other.pending)
    }

    /// Returns what the client offers.
    pub(crate) fn features(&self) -> ClientFeatures {
        self.features.get().copied().unwrap_or_default()
    }

    /// Remembers what the client offered first.
    pub(crate) fn set_features(&self, features: ClientFeatures) {
        // Open sessions rely on it, so that it does not change.
        let _ = self.features.set(features);
    }

    /// Sends a message. Returns `false` if the client disconnected.
    async fn send(&self, message: &Value) -> bool {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.lines.send(line).await.is_ok()
    }

    pub(crate) async fn respond(&self, id: Value, result: Result<Value, RpcError>) {
        self.send(&match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.to_json()}),
        })
        .await;
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Reports that another client's turn began or ended, if the client follows turns.
    pub(crate) async fn notify_turn(&self, params: Value) {
        if self.features().follows_turns {
            self.notify(TURN, params).await;
        }
    }

    /// Sends an update of a session.
    pub(crate) async fn update(&self, session: &str, update: Value) {
        self.notify("session/update", json!({"sessionId": session, "update": update})).await;
    }

    /// Sends a request and waits for the answer without a time limit.
    ///
    /// # Errors
    /// Returns the client's error, or an error if the client disconnected.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        let pending = || self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut pending = pending();
            if self.is_disconnected() {
                return Err(RpcError::disconnected());
            }
            pending.insert(id, answered);
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if !self.send(&message).await {
            pending().remove(&id);
        }
        answer.await.unwrap_or_else(|_| Err(RpcError::disconnected()))
    }

    /// Sends a request whose answer does not matter.
    pub(crate) async fn request_unanswered(&self, method: &str, params: Value) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// Handles the answer to a request. Unexpected answers are ignored.
    pub(crate) fn handle_response(&self, id: u64, result: Result<Value, RpcError>) {
        let waiting = self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(waiting) = waiting {
            // Fails only if the session stopped waiting.
            let _ = waiting.send(result);
        }
    }

    /// Whether the client disconnected.
    pub(crate) fn is_disconnected(&self) -> bool {
        self.is_disconnected.load(Ordering::Acquire)
    }

    /// Ends all requests, because no answers will come.
    pub(crate) fn close_pending(&self) {
        self.is_disconnected.store(true, Ordering::Release);
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A line from the client.
#[derive(Debug, PartialEq)]
pub(crate) enum ClientLine {
    Text(Vec<u8>),
    /// The line was too long and was skipped.
    TooLong,
}

/// Reads a line. Returns `None` at the end of the input. Empty lines are skipped.
pub(crate) async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> Option<ClientLine> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        // Unreadable input counts as ended.
        let buffer = input.fill_buf().await.ok()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(buffer.len());
        let is_at_end = buffer.is_empty();
        if line.len() + length > MAX_LINE {
            is_too_long = true;
            line = Vec::new();
        } else if !is_too_long {
            line.extend_from_slice(buffer.get(..length).unwrap_or_default());
        }
        input.consume(length + usize::from(end.is_some()));
        if end.is_none() && !is_at_end {
            continue;
        }
        if is_too_long {
            return Some(ClientLine::TooLong);
        }
        if !line.trim_ascii().is_empty() {
            return Some(ClientLine::Text(line));
        }
        if is_at_end {
            return None;
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_read_to_the_end_and_long_ones_are_skipped() {
        let mut input = b"\n  \r\none\n".to_vec();
        input.extend(std::iter::repeat_n(b'x', MAX_LINE + 1));
        input.extend_from_slice(b"\ntwo");
        let mut input = &input[..];
        assert_eq!(read_line(&mut input).await, Some(ClientLine::Text(b"one".to_vec())));
        assert_eq!(read_line(&mut input).await, Some(ClientLine::TooLong));
        assert_eq!(read_line(&mut input).await, Some(ClientLine::Text(b"two".to_vec())));
        assert_eq!(read_line(&mut input).await, None);
    }
}
