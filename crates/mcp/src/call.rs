//! One request to a server: bounded in time, reported on, cancelled properly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::Level;
use parallax_protocol::tool::{Advance, Progress};
use rmcp::Peer;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, NumberOrString,
    ProgressNotificationParam, ProgressToken, RequestId, RequestMetaObject,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::connect::{is_refusal, not_sent, wants_sign_in};
use crate::error::McpError;
use crate::messages::UNREADABLE;

/// Progress lengthens a request to so many times its limit, and no further.
const LONGER: u32 = 10;

/// Progress is told once in so long.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of its message.
const MESSAGE: usize = 500;

/// How long the notice of a cancelled request may take.
const NOTICE: Duration = Duration::from_millis(500);

/// The running requests that want to hear of their progress.
#[derive(Clone, Default)]
pub(crate) struct Listeners {
    by_token: Arc<Mutex<HashMap<NumberOrString, Listener>>>,
}

struct Listener {
    progress: Option<Arc<dyn Progress>>,
    /// When the server told of any.
    moved: Instant,
    /// When it was told last.
    told: Option<Instant>,
    /// It was warned.
    warned: bool,
}

impl Listeners {
    fn add(&self, token: &ProgressToken, progress: Option<Arc<dyn Progress>>) -> Listening {
        let mut listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = Instant::now();
        listeners.insert(token.0.clone(), Listener { progress, moved, told: None, warned: false });
        Listening { listeners: self.clone(), token: token.0.clone() }
    }

    /// Tells the one who waits, not more often than anybody can see.
    pub(crate) fn tell(&self, told: &ProgressNotificationParam) {
        let mut listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listener) = listeners.get_mut(&told.progress_token.0) else { return };
        listener.moved = Instant::now();
        let Some(progress) = listener.progress.clone() else { return };
        let Some(advance) = advance(told) else { return };
        let is_end = advance.percent() == Some(100);
        if !is_end && listener.told.is_some_and(|told| told.elapsed() < PAUSE) {
            return;
        }
        listener.told = Some(Instant::now());
        drop(listeners);
        progress.advance(&advance);
    }

    /// Warns those who wait of what the server did. Once each: a server can do it
    /// without end.
    pub(crate) fn warn(&self, words: &str) {
        let mut listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let new = listeners.values_mut().filter(|listener| !listener.warned);
        let new: Vec<_> = new
            .filter_map(|listener| {
                listener.warned = true;
                listener.progress.clone()
            })
            .collect();
        drop(listeners);
        for progress in new {
            progress.notice(Level::Warning, words);
        }
    }
}

/// Until it is dropped, progress is told.
struct Listening {
    listeners: Listeners,
    token: NumberOrString,
}

impl Listening {
    /// When the server told of progress last; at first, when the request was sent.
    fn moved(&self) -> Option<Instant> {
        let listeners = self.listeners.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.get(&self.token).map(|listener| listener.moved)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.listeners.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.remove(&self.token);
    }
}

/// What a notice of progress says; `None` when it says nothing that can be shown.
fn advance(told: &ProgressNotificationParam) -> Option<Advance> {
    let message = told.message.as_deref().unwrap_or_default();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Advance {
        progress: Some(told.progress).filter(|progress| progress.is_finite())?,
        total: told.total.filter(|total| *total > 0.0 && total.is_finite()),
        message: message.chars().take(MESSAGE).collect(),
    })
}

/// What bounds a request.
pub(crate) struct Bounds {
    /// Without an answer or progress for so long it is over.
    pub(crate) timeout: Duration,
    /// Ends it.
    pub(crate) cancel: CancellationToken,
    /// Where progress is told.
    pub(crate) progress: Option<Arc<dyn Progress>>,
}

impl Bounds {
    pub(crate) fn within(timeout: Duration) -> Self {
        Self { timeout, cancel: CancellationToken::new(), progress: None }
    }
}

/// Sends a request and gives the result as JSON. The limits are kept here and not by
/// the library, which waits for a server that reads nothing to read that it is late.
pub(crate) async fn request(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    bounds: Bounds,
    listeners: &Listeners,
) -> Result<Value, McpError> {
    let Bounds { timeout, cancel, progress } = bounds;
    let begun = Instant::now();
    let mut options = PeerRequestOptions::no_options();
    if let Some(traceparent) = progress.as_ref().and_then(|it| it.traceparent_of_mcp_request()) {
        let mut meta = RequestMetaObject::new();
        meta.insert("traceparent".to_owned(), traceparent.into());
        options.meta = Some(meta);
    }
    let sending = peer.send_request_with_option(request, options);
    let handle = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(McpError::Cancelled),
        handle = sending => handle.map_err(failed)?,
        () = sleep(timeout) => return Err(McpError::Timeout { after: timeout }),
    };
    let listening = listeners.add(&handle.progress_token, progress);
    let id = handle.id.clone();
    let over = tokio::select! {
        biased;
        answered = handle.await_response() => {
            let result = answered.map_err(failed)?;
            return serde_json::to_value(result)
                .map_err(|error| McpError::Protocol { message: error.to_string() });
        }
        () = cancel.cancelled() => McpError::Cancelled,
        after = late(begun, timeout, &listening) => McpError::Timeout { after },
    };
    let why = match over {
        McpError::Cancelled => "the user cancelled it",
        _ => "it took too long",
    };
    let told = tokio::time::timeout(NOTICE, tell_cancelled(peer, id, why)).await;
    tracing::debug!(in_time = told.is_ok(), why, "an MCP request was cancelled");
    Err(over)
}

/// Comes back when the request is too old: without progress for so long, or at the
/// end of what progress gives it. Tells how long that was.
async fn late(begun: Instant, timeout: Duration, listening: &Listening) -> Duration {
    let longest = timeout.saturating_mul(LONGER);
    loop {
        let moved = listening.moved().unwrap_or(begun);
        let left = longest.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return longest;
        }
        let still = timeout.saturating_sub(moved.elapsed());
        if still.is_zero() {
            return timeout;
        }
        sleep(still.min(left)).await;
    }
}

async fn tell_cancelled(peer: &Peer<RoleClient>, id: RequestId, why: &str) {
    let notice =
        CancelledNotification::new(CancelledNotificationParam::new(Some(id), Some(why.to_owned())));
    // Gone already is as good.
    let _ = peer.send_notification(notice.into()).await;
}

fn failed(error: ServiceError) -> McpError {
    match error {
        ServiceError::McpError(error) if error.code.0 == UNREADABLE => {
            McpError::Protocol { message: error.message.into_owned() }
        }
        ServiceError::McpError(error) => {
            McpError::Server { code: i64::from(error.code.0), message: error.message.into_owned() }
        }
        ServiceError::Timeout { timeout } => McpError::Timeout { after: timeout },
        ServiceError::TransportClosed => McpError::Lost,
        ServiceError::TransportSend(error) if wants_sign_in(&error) => {
            McpError::SignIn { again: true }
        }
        ServiceError::TransportSend(error) => {
            let why = not_sent(&error);
            match is_refusal(&error) {
                true => McpError::Refused { why },
                false => McpError::Sending { why },
            }
        }
        ServiceError::Cancelled { .. } => McpError::Cancelled,
        other => McpError::Protocol { message: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
