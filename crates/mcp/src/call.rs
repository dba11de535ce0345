//! One request to a server, with a timeout, progress reports, and cancellation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::Level;
use parallax_protocol::tool::{Progress, ProgressUpdate};
use rmcp::Peer;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, NumberOrString,
    ProgressNotificationParam, ProgressToken, RequestId, RequestMetaObject,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::connection_errors::{is_rejection, send_error, wants_sign_in};
use crate::error::McpError;
use crate::messages::UNREADABLE;

/// Progress extends a request up to this multiple of its timeout.
const LONGER: u32 = 10;

/// Minimum interval between progress reports.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum characters of a progress message.
const MESSAGE: usize = 500;

/// Time limit for sending the cancellation notification.
const NOTICE: Duration = Duration::from_millis(500);

/// The running requests that receive progress notifications, by token.
#[derive(Clone, Default)]
pub(crate) struct Listeners {
    by_token: Arc<Mutex<HashMap<NumberOrString, Listener>>>,
}

struct Listener {
    progress: Option<Arc<dyn Progress>>,
    /// When the last progress arrived, or when the request was sent.
    last_progress: Instant,
    /// When the last progress was reported.
    last_report: Option<Instant>,
    /// Whether a warning was emitted.
    has_warned: bool,
}

impl Listeners {
    fn add(&self, token: &ProgressToken, progress: Option<Arc<dyn Progress>>) -> ListenerGuard {
        let mut listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let last_progress = Instant::now();
        listeners.insert(
            token.0.clone(),
            Listener { progress, last_progress, last_report: None, has_warned: false },
        );
        ListenerGuard { listeners: self.clone(), token: token.0.clone() }
    }

    /// Reports progress for a request, limited in rate.
    pub(crate) fn report(&self, report: &ProgressNotificationParam) {
        let mut listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listener) = listeners.get_mut(&report.progress_token.0) else { return };
        listener.last_progress = Instant::now();
        let Some(progress) = listener.progress.clone() else { return };
        let Some(advance) = advance(report) else { return };
        let is_end = advance.percent() == Some(100);
        if !is_end && listener.last_report.is_some_and(|report| report.elapsed() < PAUSE) {
            return;
        }
        listener.last_report = Some(Instant::now());
        drop(listeners);
        progress.advance(&advance);
    }

    /// Emits a warning about the server for all running requests, once per request, because a
    /// server can cause it any number of times.
    pub(crate) fn warn(&self, words: &str) {
        let mut listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let new = listeners.values_mut().filter(|listener| !listener.has_warned);
        let new: Vec<_> = new
            .filter_map(|listener| {
                listener.has_warned = true;
                listener.progress.clone()
            })
            .collect();
        drop(listeners);
        for progress in new {
            progress.notice(Level::Warning, words);
        }
    }
}

/// Registers a request for progress until this value is dropped.
struct ListenerGuard {
    listeners: Listeners,
    token: NumberOrString,
}

impl ListenerGuard {
    /// Returns when the last progress arrived, or when the request was sent.
    fn last_progress(&self) -> Option<Instant> {
        let listeners = self.listeners.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.get(&self.token).map(|listener| listener.last_progress)
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let mut listeners = self.listeners.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.remove(&self.token);
    }
}

/// Converts a progress notification; `None` if it contains nothing that can be shown.
fn advance(report: &ProgressNotificationParam) -> Option<ProgressUpdate> {
    let message = report.message.as_deref().unwrap_or_default();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(ProgressUpdate {
        progress: Some(report.progress).filter(|progress| progress.is_finite())?,
        total: report.total.filter(|total| *total > 0.0 && total.is_finite()),
        message: message.chars().take(MESSAGE).collect(),
    })
}

/// The limits of a request.
pub(crate) struct RequestOptions {
    /// The timeout without an answer or progress.
    pub(crate) timeout: Duration,
    /// Cancels the request.
    pub(crate) cancel: CancellationToken,
    /// Receives progress.
    pub(crate) progress: Option<Arc<dyn Progress>>,
}

impl RequestOptions {
    pub(crate) fn with_timeout(timeout: Duration) -> Self {
        Self { timeout, cancel: CancellationToken::new(), progress: None }
    }
}

/// Sends a request and returns the result as JSON. The timeout is enforced here, because the
/// library does not enforce it while it waits for a server that does not read its input.
pub(crate) async fn request(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    bounds: RequestOptions,
    listeners: &Listeners,
) -> Result<Value, McpError> {
    let RequestOptions { timeout, cancel, progress } = bounds;
    let started_at = Instant::now();
    let mut options = PeerRequestOptions::no_options();
    if let Some(trace) = progress.as_ref().and_then(|it| it.trace_headers_of_mcp_request()) {
        let mut meta = RequestMetaObject::new();
        for (name, value) in trace.fields() {
            meta.insert(name.to_owned(), value.into());
        }
        options.meta = Some(meta);
    }
    let request_sent = peer.send_request_with_option(request, options);
    let handle = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(McpError::Cancelled),
        handle = request_sent => handle.map_err(service_error)?,
        () = sleep(timeout) => return Err(McpError::Timeout { after: timeout }),
    };
    let listener = listeners.add(&handle.progress_token, progress);
    let id = handle.id.clone();
    let over = tokio::select! {
        biased;
        answered = handle.await_response() => {
            let result = answered.map_err(service_error)?;
            return serde_json::to_value(result)
                .map_err(|error| McpError::Protocol { message: error.to_string() });
        }
        () = cancel.cancelled() => McpError::Cancelled,
        after = wait_for_timeout(started_at, timeout, &listener) => McpError::Timeout { after },
    };
    let reason = match over {
        McpError::Cancelled => "the user cancelled it",
        _ => "it timed out",
    };
    let notified = tokio::time::timeout(NOTICE, notify_cancelled(peer, id, reason)).await;
    tracing::debug!(in_time = notified.is_ok(), reason, "an MCP request was cancelled");
    Err(over)
}

/// Resolves when the request times out: after `timeout` without progress, or after the maximum
/// extension. Returns the time that elapsed.
async fn wait_for_timeout(
    started_at: Instant,
    timeout: Duration,
    listener: &ListenerGuard,
) -> Duration {
    let longest = timeout.saturating_mul(LONGER);
    loop {
        let moved = listener.last_progress().unwrap_or(started_at);
        let remaining = longest.saturating_sub(started_at.elapsed());
        if remaining.is_zero() {
            return longest;
        }
        let still = timeout.saturating_sub(moved.elapsed());
        if still.is_zero() {
            return timeout;
        }
        sleep(still.min(remaining)).await;
    }
}

async fn notify_cancelled(peer: &Peer<RoleClient>, id: RequestId, reason: &str) {
    let notice = CancelledNotification::new(CancelledNotificationParam::new(
        Some(id),
        Some(reason.to_owned()),
    ));
    // Ignored, because a closed connection has the same effect.
    let _ = peer.send_notification(notice.into()).await;
}

fn service_error(error: ServiceError) -> McpError {
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
            McpError::SignIn { is_renewal: true }
        }
        ServiceError::TransportSend(error) => {
            let reason = send_error(&error);
            match is_rejection(&error) {
                true => McpError::Refused { reason },
                false => McpError::Sending { reason },
            }
        }
        ServiceError::Cancelled { .. } => McpError::Cancelled,
        other => McpError::Protocol { message: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
