//! `/acp`: the Agent Client Protocol over a WebSocket, one JSON-RPC message per text message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use http::header::{SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use crate::backend::AgentHost;
use crate::reply::{self, ReplyBody};

/// Maximum bytes of a message, as over stdin.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// Size in bytes of the buffers between the socket and the protocol.
const PIPE_BYTES: usize = 32 * 1024;
/// How often a silent client is pinged; one that is silent for two intervals is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a client may take to receive a message.
const SEND_LIMIT: Duration = Duration::from_secs(30);
/// How long the sessions of a client may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Answers the handshake, then serves the client.
pub(crate) fn upgrade(
    host: &AgentHost,
    mut request: Request<Incoming>,
    permit: Arc<OwnedSemaphorePermit>,
) -> Response<ReplyBody> {
    let headers = request.headers();
    let is_websocket = request.method() == Method::GET
        && names(headers, &UPGRADE, "websocket")
        && names(headers, &CONNECTION, "upgrade")
        && names(headers, &SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_websocket);
    let accept = key.map(|key| derive_accept_key(key.as_bytes()));
    let Some(accept) = accept.and_then(|accept| HeaderValue::from_str(&accept).ok()) else {
        let status = StatusCode::UPGRADE_REQUIRED;
        let mut response = reply::error(status, "connect to `/acp` with a WebSocket, version 13");
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        return response;
    };
    let upgraded = hyper::upgrade::on(&mut request);
    let owned = host.clone();
    host.connections.tasks.spawn(async move {
        // It counts as a connection while it lasts.
        let _permit = permit;
        match upgraded.await {
            Ok(upgraded) => {
                let config = WebSocketConfig::default()
                    .max_message_size(Some(MESSAGE_BYTES))
                    .max_frame_size(Some(MESSAGE_BYTES));
                let io = TokioIo::new(upgraded);
                let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
                serve(&owned, socket).await;
            }
            Err(error) => tracing::debug!("a WebSocket did not open: {error}"),
        }
    });
    let mut response = Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// Whether a header lists a word.
fn names(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.split(',').any(|it| it.trim().eq_ignore_ascii_case(word)))
}

async fn serve(host: &AgentHost, socket: Socket) {
    let (sink, stream) = socket.split();
    let (to_agent, agent_input) = tokio::io::duplex(PIPE_BYTES);
    let (agent_output, from_agent) = tokio::io::duplex(PIPE_BYTES);
    let close_token = host.connections.stopping.child_token();
    let agent = host.backend.serve_acp(
        Box::new(BufReader::new(agent_input)),
        Box::new(agent_output),
        close_token.clone(),
    );
    let agent = host.connections.tasks.spawn(agent);
    let has_sent = AtomicBool::new(true);
    let write_messages = write(from_agent, sink, &has_sent);
    tokio::pin!(write_messages);
    let is_written = tokio::select! {
        () = read(stream, to_agent, &has_sent) => false,
        () = &mut write_messages => true,
    };
    close_token.cancel();
    let shutdown = async {
        if !is_written {
            write_messages.await;
        }
        // Its sessions are saved.
        let _ = agent.await;
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, shutdown).await;
}

/// Passes on what the client sends, until it is gone.
async fn read(
    mut stream: futures_util::stream::SplitStream<Socket>,
    mut agent: DuplexStream,
    has_sent: &AtomicBool,
) {
    while let Some(Ok(message)) = stream.next().await {
        has_sent.store(true, Ordering::Relaxed);
        let mut line = match message {
            Message::Text(text) => text.as_bytes().to_vec(),
            Message::Binary(bytes) => bytes.to_vec(),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            Message::Close(_) => return,
        };
        // Outside of strings a line break is a space, and inside it is not allowed.
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        if agent.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Sends what the agent writes, until it ends or the client is gone.
async fn write(
    agent: impl AsyncRead + Unpin,
    mut sink: futures_util::stream::SplitSink<Socket, Message>,
    has_sent: &AtomicBool,
) {
    let mut agent = BufReader::new(agent);
    let mut line = Vec::new();
    let mut pings = tokio::time::interval(PING_INTERVAL);
    pings.reset();
    loop {
        let message = tokio::select! {
            // The part of a line that was read is kept when the other branch is taken.
            read = agent.read_until(b'\n', &mut line) => {
                if !matches!(read, Ok(1..)) {
                    break;
                }
                let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                line.clear();
                Message::text(text)
            }
            _ = pings.tick() => {
                if !has_sent.swap(false, Ordering::Relaxed) {
                    break;
                }
                Message::Ping(bytes::Bytes::new())
            }
        };
        if !matches!(tokio::time::timeout(SEND_LIMIT, sink.send(message)).await, Ok(Ok(()))) {
            return;
        }
    }
    // The client may be gone already.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, sink.close()).await;
}
