//! One request to a server: bounded in time, reported on, cancelled properly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_http::chain;
use parallax_protocol::CancellationToken;
use parallax_protocol::tool::Progress;
use rmcp::Peer;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, NumberOrString,
    ProgressNotificationParam, ProgressToken, RequestId,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;

use crate::error::McpError;

/// Progress lengthens a request to so many times its limit, and no further.
const LONGER: u32 = 10;

/// How long the notice of a cancelled request may take.
const NOTICE: Duration = Duration::from_millis(500);

/// The running requests that want to hear of their progress.
#[derive(Clone, Default)]
pub(crate) struct Listeners {
    by_token: Arc<Mutex<HashMap<NumberOrString, Arc<dyn Progress>>>>,
}

impl Listeners {
    fn add(&self, token: &ProgressToken, progress: Arc<dyn Progress>) -> Listening {
        let mut listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.insert(token.0.clone(), progress);
        Listening { listeners: self.clone(), token: token.0.clone() }
    }

    /// Tells the one who waits.
    pub(crate) fn tell(&self, told: &ProgressNotificationParam) {
        let listeners = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listeners.get(&told.progress_token.0).cloned();
        drop(listeners);
        if let Some(listener) = listener {
            listener.output(&words(told));
        }
    }
}

/// Until it is dropped, progress is told.
struct Listening {
    listeners: Listeners,
    token: NumberOrString,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.listeners.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.remove(&self.token);
    }
}

/// One line of progress.
fn words(told: &ProgressNotificationParam) -> String {
    let message = told.message.as_deref().unwrap_or_default().trim();
    let message: String = message.chars().take(500).collect();
    let share = match told.total {
        Some(total) if total > 0.0 && total.is_finite() => {
            format!("{:.0} %", (told.progress / total * 100.0).clamp(0.0, 100.0))
        }
        _ => format!("{}", told.progress),
    };
    match message.is_empty() {
        true => format!("{share}\n"),
        false => format!("{message} ({share})\n"),
    }
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

/// Sends a request and gives the result as JSON.
pub(crate) async fn request(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    bounds: Bounds,
    listeners: &Listeners,
) -> Result<Value, McpError> {
    let Bounds { timeout, cancel, progress } = bounds;
    let options = PeerRequestOptions::with_timeout(timeout)
        .reset_timeout_on_progress()
        .with_max_total_timeout(timeout.saturating_mul(LONGER));
    let sending = peer.send_request_with_option(request, options);
    let handle = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(McpError::Cancelled),
        handle = sending => handle.map_err(failed)?,
    };
    let _listening = progress.map(|progress| listeners.add(&handle.progress_token, progress));
    let id = handle.id.clone();
    let answered = tokio::select! {
        biased;
        answered = handle.await_response() => answered,
        () = cancel.cancelled() => {
            let told = tokio::time::timeout(NOTICE, tell_cancelled(peer, id)).await;
            tracing::debug!(in_time = told.is_ok(), "an MCP request was cancelled");
            return Err(McpError::Cancelled);
        }
    };
    let result = answered.map_err(failed)?;
    serde_json::to_value(result).map_err(|error| McpError::Protocol { message: error.to_string() })
}

async fn tell_cancelled(peer: &Peer<RoleClient>, id: RequestId) {
    let notice = CancelledNotification::new(CancelledNotificationParam::new(
        Some(id),
        Some("the user cancelled it".to_owned()),
    ));
    // Gone already is as good.
    let _ = peer.send_notification(notice.into()).await;
}

fn failed(error: ServiceError) -> McpError {
    match error {
        ServiceError::McpError(error) => {
            McpError::Server { code: i64::from(error.code.0), message: error.message.into_owned() }
        }
        ServiceError::Timeout { timeout } => McpError::Timeout { after: timeout },
        ServiceError::TransportClosed => McpError::Lost,
        ServiceError::TransportSend(error) => McpError::Sending { why: chain(&error) },
        ServiceError::Cancelled { .. } => McpError::Cancelled,
        other => McpError::Protocol { message: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_words() {
        let mut told =
            ProgressNotificationParam::new(ProgressToken(NumberOrString::Number(1)), 1.0);
        assert_eq!(words(&told), "1\n");
        told.total = Some(4.0);
        told.message = Some("reading".into());
        assert_eq!(words(&told), "reading (25 %)\n");
        told.total = Some(f64::NAN);
        assert_eq!(words(&told), "reading (1)\n");
    }
}
