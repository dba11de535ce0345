//! Diffs in the editor: opened one at a time, decided in the editor or in the terminal.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};

use super::{Companion, CompanionState};
use crate::client::CompanionClient;
use crate::error::RequestError;

/// How long the editor may take to close a diff.
const CLOSE_TIME: Duration = Duration::from_millis(700);
/// Total time limit for closing a diff, including a second connection.
const TAKE_TIME: Duration = Duration::from_millis(1_600);

/// Result of a diff in the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffDecision {
    /// The user accepted this text, which may differ from the proposed one.
    Accepted {
        /// The whole file.
        text: String,
    },
    /// The user rejected the change.
    Rejected,
    /// The diff could not be opened, or the connection was lost. The user decides in the terminal.
    Unavailable {
        /// What happened.
        reason: String,
    },
}

/// What the editor has for a file when its diff is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClosedDiff {
    /// The text, which the user may have changed.
    Text(String),
    /// The editor shows no diff of it.
    NotOpen,
    /// The editor did not respond: what the user changed there is not known.
    Unknown,
}

/// Receives the editor's text when a diff is closed.
type CloseReply = oneshot::Sender<ClosedDiff>;

/// A diff that is open in the editor or queued. Dropping it closes it.
#[derive(Debug)]
pub struct OpenDiff {
    close: Option<oneshot::Sender<CloseReply>>,
}

impl OpenDiff {
    /// Closes the diff and returns the editor's text, which the user may have changed.
    pub async fn take_text(mut self) -> ClosedDiff {
        let (reply, text) = oneshot::channel();
        // Nothing receives this after the decision.
        if self.close.take().is_none_or(|close| close.send(reply).is_err()) {
            return ClosedDiff::NotOpen;
        }
        match tokio::time::timeout(TAKE_TIME, text).await {
            Ok(text) => text.unwrap_or(ClosedDiff::NotOpen),
            Err(_) => ClosedDiff::Unknown,
        }
    }
}

impl Companion {
    /// Shows a change in the editor. The receiver gets the decision, unless the diff is closed
    /// first. Returns `None` if the editor cannot show diffs.
    pub fn open_diff(
        &self,
        path: &Path,
        text: String,
    ) -> Option<(OpenDiff, oneshot::Receiver<DiffDecision>)> {
        if !self.snapshot().can_diff {
            return None;
        }
        let (decided, decision) = oneshot::channel();
        let (close, closing) = oneshot::channel();
        let (state, path) = (Arc::clone(&self.state), path.to_owned());
        tokio::spawn(async move {
            if let Some(result) = show(&state, &path, text, closing).await {
                // Fails only if the front end is gone.
                let _ = decided.send(result);
            }
        });
        Some((OpenDiff { close: Some(close) }, decision))
    }
}

/// Returns `None` if the diff was closed before a decision.
async fn show(
    state: &CompanionState,
    path: &Path,
    text: String,
    mut closing: oneshot::Receiver<CloseReply>,
) -> Option<DiffDecision> {
    // Dropping a reply means that there is no text.
    let _slot = tokio::select! {
        slot = state.diff_slot.acquire() => slot.ok()?,
        _ = &mut closing => return None,
    };
    let lost =
        || DiffDecision::Unavailable { reason: "the connection to the editor was lost".into() };
    let Some(client) = state.client() else { return Some(lost()) };
    // Decisions count as soon as the request is sent: its response may come late or never, for
    // example if the editor sends it to another client.
    let mut decisions = state.decisions.subscribe();
    let mut open_request = std::pin::pin!(client.open_diff(path, &text));
    let mut is_opening = true;
    loop {
        tokio::select! {
            biased;
            decision = decisions.recv() => match decision {
                Ok((at, decision)) if is_same(&at, path) => return Some(decision),
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Some(lost()),
            },
            () = client.disconnected.cancelled() => return Some(lost()),
            reply = &mut closing => {
                close(state, &client, path, reply.ok()).await;
                return None;
            }
            opened = &mut open_request, if is_opening => match opened {
                Ok(()) | Err(RequestError::TimedOut { .. }) => is_opening = false,
                Err(error) => {
                    return Some(DiffDecision::Unavailable { reason: error.to_string() });
                }
            },
        }
    }
}

async fn close(
    state: &CompanionState,
    client: &CompanionClient,
    path: &Path,
    reply: Option<CloseReply>,
) {
    let closed = match reply {
        Some(_) => client.close_diff_reliably(&state.options, path, CLOSE_TIME).await,
        None => client.close_diff(path, CLOSE_TIME).await,
    };
    let text = match closed {
        Ok(text) => text.map_or(ClosedDiff::NotOpen, ClosedDiff::Text),
        Err(error) => {
            tracing::debug!(%error, "the editor did not close a diff");
            ClosedDiff::Unknown
        }
    };
    if let Some(reply) = reply {
        // Fails only if the caller stopped waiting.
        let _ = reply.send(text);
    }
}

fn is_same(at: &str, path: &Path) -> bool {
    let at = Path::new(at);
    at == path
        || matches!((std::fs::canonicalize(at), std::fs::canonicalize(path)),
            (Ok(one), Ok(two)) if one == two)
}
