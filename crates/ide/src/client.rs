//! A minimal client of the Model Context Protocol for companions.

mod http_transport;
mod stdio_transport;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_protocol::CancellationToken;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::discovery::{DiscoveryOptions, ServerAddress};
use crate::error::RequestError;
use http_transport::HttpTransport;
use stdio_transport::StdioTransport;

/// The version of the protocol that is offered; the server's own version is used from then on.
const PROTOCOL_VERSION: &str = "2025-06-18";
/// How long a server may take for each step of the connection.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Maximum bytes of a message; a diff contains a whole file.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;
/// How long opening a diff may take.
const DIFF_TIME: Duration = Duration::from_secs(600);
/// How long a server may take for a ping before its responses count as lost.
const PING_TIME: Duration = Duration::from_millis(250);
/// How long a second connection may take.
const SECOND_CONNECTION_TIME: Duration = Duration::from_millis(500);

/// Pending requests by id.
#[derive(Debug, Default)]
struct PendingRequests(Mutex<HashMap<u64, oneshot::Sender<Value>>>);

impl PendingRequests {
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<u64, oneshot::Sender<Value>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Receives the server's messages.
#[derive(Debug, Clone)]
struct MessageSink {
    pending: Arc<PendingRequests>,
    /// Receives notifications and requests from the server.
    incoming: mpsc::Sender<Value>,
}

impl MessageSink {
    /// Delivers a message or a batch of messages.
    async fn deliver(&self, bytes: &[u8]) {
        match serde_json::from_slice(bytes) {
            Ok(Value::Array(messages)) => {
                for message in messages {
                    self.deliver_message(message).await;
                }
            }
            Ok(message) => self.deliver_message(message).await,
            Err(error) => tracing::debug!(%error, "skipped an event that is not JSON"),
        }
    }

    async fn deliver_message(&self, message: Value) {
        if message.get("method").is_some() {
            // Fails only if the client is gone.
            let _ = self.incoming.send(message).await;
        } else if let Some(id) = message.get("id").and_then(Value::as_u64)
            && let Some(reply) = self.pending.with(|pending| pending.remove(&id))
        {
            // Fails only if the request was abandoned.
            let _ = reply.send(message);
        }
    }
}

#[derive(Debug)]
enum Transport {
    Http(HttpTransport),
    Stdio(StdioTransport),
}

/// A connection to a companion.
#[derive(Debug)]
pub(crate) struct CompanionClient {
    transport: Transport,
    messages: MessageSink,
    next_id: AtomicU64,
    /// The address and the program's version, for a second connection.
    origin: (ServerAddress, String),
    /// Cancelled when the connection has ended.
    pub(crate) disconnected: CancellationToken,
    /// Whether the editor shows diffs.
    pub(crate) can_diff: bool,
}

impl Drop for CompanionClient {
    fn drop(&mut self) {
        self.disconnected.cancel();
    }
}

impl CompanionClient {
    /// Connects to a server. Its notifications and requests go to `incoming`.
    pub(crate) async fn connect(
        address: &ServerAddress,
        options: &DiscoveryOptions,
        version: &str,
        incoming: mpsc::Sender<Value>,
    ) -> Result<Self, RequestError> {
        let mut client = Self::initialize(address, options, version, incoming).await?;
        if let Transport::Http(http) = &client.transport {
            http.listen(client.messages.clone(), client.disconnected.clone()).await?;
        }
        client.can_diff = client.offers_diffs().await;
        Ok(client)
    }

    /// Connects without listening for notifications.
    async fn initialize(
        address: &ServerAddress,
        options: &DiscoveryOptions,
        version: &str,
        incoming: mpsc::Sender<Value>,
    ) -> Result<Self, RequestError> {
        let messages = MessageSink { pending: Arc::default(), incoming };
        let disconnected = CancellationToken::new();
        let transport = match address {
            ServerAddress::Http { host, port, token } => {
                Transport::Http(HttpTransport::new(host, *port, token.as_deref())?)
            }
            ServerAddress::Stdio(command) => {
                let sink = messages.clone();
                let start = StdioTransport::start(command, options, sink, disconnected.clone());
                Transport::Stdio(start.await?)
            }
        };
        let first_id = match &transport {
            Transport::Http(_) => random_id(),
            Transport::Stdio(_) => 1,
        };
        let mut client = Self {
            transport,
            messages,
            next_id: AtomicU64::new(first_id),
            origin: (address.clone(), version.to_owned()),
            disconnected,
            can_diff: false,
        };
        let hello = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "parallax", "version": version},
        });
        let result = client.request("initialize", hello, CONNECT_TIME).await?;
        if let Transport::Http(http) = &mut client.transport {
            http.set_protocol_version(result.get("protocolVersion").and_then(Value::as_str));
        }
        client.notify("notifications/initialized", json!({})).await?;
        Ok(client)
    }

    /// Whether the server has the tools that open and close diffs. A server without tools is fine.
    /// A response that does not come counts as yes: it may have gone to a later client, and the
    /// user can decide in the terminal too.
    async fn offers_diffs(&self) -> bool {
        let result = match self.request("tools/list", json!({}), CONNECT_TIME).await {
            Ok(result) => result,
            Err(error) => return matches!(error, RequestError::TimedOut { .. }),
        };
        let tools = result.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        let has = |name| tools.iter().any(|tool| tool.get("name") == Some(&Value::from(name)));
        has("openDiff") && has("closeDiff")
    }

    /// Opens a diff in the editor.
    pub(crate) async fn open_diff(&self, path: &Path, text: &str) -> Result<(), RequestError> {
        let arguments = json!({"filePath": path.to_string_lossy(), "newContent": text});
        self.call("openDiff", arguments, DIFF_TIME).await.map(drop)
    }

    /// Closes a diff like [`CompanionClient::close_diff`], and makes sure that the response
    /// arrives: the extension for VS Code sends all responses to the client that connected last.
    /// If a ping is not answered, a second connection is used.
    pub(crate) async fn close_diff_reliably(
        &self,
        options: &DiscoveryOptions,
        path: &Path,
        limit: Duration,
    ) -> Result<Option<String>, RequestError> {
        if let Err(RequestError::TimedOut { .. }) = self.request("ping", json!({}), PING_TIME).await
            && matches!(self.transport, Transport::Http(_))
        {
            let (incoming, _) = mpsc::channel(1);
            let (address, version) = &self.origin;
            let second = Self::initialize(address, options, version, incoming);
            match tokio::time::timeout(SECOND_CONNECTION_TIME, second).await {
                Ok(Ok(second)) => return second.close_diff(path, limit).await,
                Ok(Err(error)) => tracing::debug!(%error, "cannot connect to the companion again"),
                Err(_) => tracing::debug!("timed out connecting to the companion again"),
            }
        }
        self.close_diff(path, limit).await
    }

    /// Closes a diff, without a notification. Returns the text that the editor has for the file,
    /// which the user may have changed.
    pub(crate) async fn close_diff(
        &self,
        path: &Path,
        limit: Duration,
    ) -> Result<Option<String>, RequestError> {
        let arguments = json!({"filePath": path.to_string_lossy(), "suppressNotification": true});
        let result = self.call("closeDiff", arguments, limit).await?;
        let text = first_text(&result);
        let content = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        Ok(content.as_ref().and_then(|it| it.get("content")?.as_str()).map(str::to_owned))
    }

    async fn call(
        &self,
        tool: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value, RequestError> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request("tools/call", params, limit).await?;
        if result.get("isError").and_then(Value::as_bool) == Some(true) {
            let message = first_text(&result).unwrap_or("the tool failed").to_owned();
            return Err(RequestError::Rpc { message });
        }
        Ok(result)
    }

    /// Responds to a request from the server: answers pings and rejects everything else.
    pub(crate) async fn respond(&self, request: &Value) {
        let Some(id) = request.get("id").filter(|id| !id.is_null()) else { return };
        let response = match request.get("method").and_then(Value::as_str) {
            Some("ping") => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => json!({"jsonrpc": "2.0", "id": id,
                "error": {"code": -32601, "message": "Method not found"}}),
        };
        if let Err(error) = self.send(&response, CONNECT_TIME).await {
            tracing::debug!(%error, "cannot respond to a request of the companion");
        }
    }

    async fn notify(&self, method: &str, params: Value) -> Result<(), RequestError> {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.send(&message, CONNECT_TIME).await
    }

    async fn send(&self, message: &Value, limit: Duration) -> Result<(), RequestError> {
        let send_requests = async {
            match &self.transport {
                Transport::Http(http) => http.post(message, &self.messages).await,
                Transport::Stdio(stdio) => stdio.write(message).await,
            }
        };
        let sent = tokio::select! {
            sent = tokio::time::timeout(limit, send_requests) => sent,
            () = self.disconnected.cancelled() => return Err(connection_lost()),
        };
        sent.unwrap_or(Err(RequestError::TimedOut { seconds: limit.as_secs() }))
    }

    async fn request(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, RequestError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (reply, mut response) = oneshot::channel();
        self.messages.pending.with(|pending| pending.insert(id, reply));
        let _forgotten = PendingGuard { pending: &self.messages.pending, id };
        let answer_requests = async {
            match &self.transport {
                Transport::Http(http) => {
                    http.post(&message, &self.messages).await?;
                    // The response is in the answer to the POST, or arrives as an event.
                }
                Transport::Stdio(stdio) => stdio.write(&message).await?,
            }
            (&mut response).await.map_err(|_| connection_lost())
        };
        let answered = tokio::select! {
            answered = tokio::time::timeout(limit, answer_requests) => answered,
            () = self.disconnected.cancelled() => return Err(connection_lost()),
        };
        let message =
            answered.unwrap_or(Err(RequestError::TimedOut { seconds: limit.as_secs() }))?;
        if let Some(error) = message.get("error") {
            let text = error.get("message").and_then(Value::as_str).unwrap_or("unknown error");
            return Err(RequestError::Rpc { message: text.to_owned() });
        }
        Ok(message.get("result").cloned().unwrap_or_default())
    }
}

/// Removes a request when nothing waits for it any longer.
struct PendingGuard<'a> {
    pending: &'a PendingRequests,
    id: u64,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.pending.with(|pending| pending.remove(&self.id));
    }
}

/// Returns a random id for the first request: a response that a server sends to the wrong client
/// must not answer another request there.
fn random_id() -> u64 {
    RandomState::new().hash_one(()) >> 33
}

fn connection_lost() -> RequestError {
    RequestError::Connection { reason: "the connection was lost".into() }
}

fn first_text(result: &Value) -> Option<&str> {
    let blocks = result.get("content")?.as_array()?;
    blocks.iter().find_map(|block| block.get("text")?.as_str())
}
