//! A client of the Agent Client Protocol in the process: it runs the sessions of tasks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::CancellationToken;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::backend::Backend;

/// Size in bytes of the buffers between the client and the agent.
const PIPE_BYTES: usize = 64 * 1024;
/// Maximum number of lines waiting to be sent.
const LINES: usize = 256;

/// The answer to a request: its result, or the error object.
pub(super) type RpcAnswer = Result<Value, Value>;

/// What the agent sends by itself.
pub(super) enum AgentMessage {
    /// A notification.
    Notification { method: String, params: Value },
    /// A request, to be answered with [`AcpClient::answer`].
    Request { id: Value, method: String, params: Value },
    /// The answer to a request of ours. It arrives in order with the other messages, so everything
    /// sent before it has been handled.
    Answer { to: oneshot::Sender<RpcAnswer>, answer: RpcAnswer },
}

/// The client. Cheap to clone.
#[derive(Clone)]
pub(super) struct AcpClient {
    lines: mpsc::Sender<String>,
    pending_requests: Arc<Mutex<HashMap<u64, oneshot::Sender<RpcAnswer>>>>,
    ids: Arc<AtomicU64>,
}

impl AcpClient {
    /// Starts the agent. Messages that it sends by itself go to `messages`.
    pub(super) fn start(
        backend: &Arc<dyn Backend>,
        tasks: &TaskTracker,
        stopping: &CancellationToken,
        messages: mpsc::Sender<AgentMessage>,
    ) -> Self {
        let (to_agent, agent_input) = tokio::io::duplex(PIPE_BYTES);
        let (agent_output, from_agent) = tokio::io::duplex(PIPE_BYTES);
        let (lines, receiver) = mpsc::channel(LINES);
        let input = Box::new(BufReader::new(agent_input));
        let stopped = stopping.child_token();
        tasks.spawn(backend.serve_acp(input, Box::new(agent_output), stopped));
        let client = Self { lines, pending_requests: Arc::default(), ids: Arc::default() };
        // The first line, before any request. Its answer is ignored.
        let capabilities = json!({"_meta": {"parallax/turns": true}});
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let first = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        // The queue is empty.
        let _ = client.lines.try_send(first.to_string());
        tasks.spawn(write(receiver, to_agent, stopping.child_token()));
        tasks.spawn(client.clone().read(from_agent, messages));
        client
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(&self, method: &str, params: Value) -> RpcAnswer {
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        self.pending_requests.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let shutdown_error = || json!({"code": -32603, "message": "the server is shutting down"});
        self.lines.send(line.to_string()).await.map_err(|_| shutdown_error())?;
        answer.await.unwrap_or_else(|_| Err(shutdown_error()))
    }

    /// Sends a notification.
    pub(super) async fn notify(&self, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "method": method, "params": params});
        // The agent may be gone.
        let _ = self.lines.send(line.to_string()).await;
    }

    /// Answers a request from the agent.
    pub(super) async fn answer(&self, id: &Value, answer: RpcAnswer) {
        let line = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        // The agent may be gone.
        let _ = self.lines.send(line.to_string()).await;
    }

    async fn read(self, from_agent: DuplexStream, messages: mpsc::Sender<AgentMessage>) {
        let mut lines = BufReader::new(from_agent).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(Value::Object(mut message)) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            let params = message.remove("params").unwrap_or(Value::Null);
            let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
            let id = message.remove("id");
            let passed = match (method, id) {
                (Some(method), Some(id)) => AgentMessage::Request { id, method, params },
                (Some(method), None) => AgentMessage::Notification { method, params },
                (None, id) => {
                    let id = id.and_then(|id| id.as_u64());
                    let waiting =
                        || self.pending_requests.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(to) = id.and_then(|id| waiting().remove(&id)) else { continue };
                    let answer = match message.remove("error") {
                        Some(error) => Err(error),
                        None => Ok(message.remove("result").unwrap_or(Value::Null)),
                    };
                    AgentMessage::Answer { to, answer }
                }
            };
            if messages.send(passed).await.is_err() {
                break;
            }
        }
        // No more answers come.
        self.pending_requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

async fn write(
    mut lines: mpsc::Receiver<String>,
    mut to_agent: DuplexStream,
    stopping: CancellationToken,
) {
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = stopping.cancelled() => None,
        };
        let Some(mut line) = line else { return };
        line.push('\n');
        if to_agent.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}
