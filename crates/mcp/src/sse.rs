//! The older HTTP transport with server-sent events: a stream delivers messages, and the URL to
//! which client messages are posted.

use std::collections::{HashMap, VecDeque};
use std::io;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use parallax_http::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use parallax_http::reqwest::{Client, Response, StatusCode};
use parallax_http::{EventParser, ServerEvent};
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use url::Url;

use crate::connection_errors::describe_network_error;
use crate::error::McpError;
use crate::lines::{MAX_BYTES, ReadRateLimit};
use crate::messages::OpenRequests;
use crate::oauth::BearerTokens;

type ByteStream = BoxStream<'static, Result<bytes::Bytes, parallax_http::reqwest::Error>>;

/// A connection over server-sent events.
pub(crate) struct SseConnection {
    client: Client,
    messages: Url,
    headers: HeaderMap,
    bearer: Option<BearerTokens>,
    events: SseReader,
    pace: ReadRateLimit,
    open: OpenRequests,
    batch: VecDeque<ServerJsonRpcMessage>,
}

impl SseConnection {
    /// Opens the stream and waits for the message URL.
    pub(crate) async fn open(
        client: Client,
        url: &str,
        headers: HashMap<HeaderName, HeaderValue>,
        bearer: Option<BearerTokens>,
    ) -> Result<Self, McpError> {
        let failed = |reason: String| McpError::Start { reason };
        let url: Url = url.parse().map_err(|error| failed(format!("`{url}`: {error}")))?;
        let headers: HeaderMap = headers.into_iter().collect();
        let mut response = get(&client, &url, &headers, bearer.as_ref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(bearer) = &bearer
            && bearer.renew().await
        {
            response = get(&client, &url, &headers, Some(bearer)).await?;
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(McpError::SignIn { is_renewal: false });
        }
        if !response.status().is_success() {
            return Err(failed(format!("the server responded with {}", response.status())));
        }
        let mut events = SseReader::new(response);
        loop {
            let Some(event) = events.next().await else { return Err(McpError::Lost) };
            if event.name == b"endpoint" {
                let messages = url.join(String::from_utf8_lossy(&event.data).trim());
                let messages =
                    messages.map_err(|error| failed(format!("invalid message URL: {error}")))?;
                // The headers may contain secrets, so they are sent only to this server.
                if messages.origin() != url.origin() {
                    return Err(failed("its message endpoint is on another server".to_owned()));
                }
                return Ok(Self {
                    client,
                    messages,
                    headers,
                    bearer,
                    events,
                    pace: ReadRateLimit::new(),
                    open: OpenRequests::default(),
                    batch: VecDeque::new(),
                });
            }
        }
    }
}

async fn get(
    client: &Client,
    url: &Url,
    headers: &HeaderMap,
    bearer: Option<&BearerTokens>,
) -> Result<Response, McpError> {
    let build =
        |url: Url| client.get(url).headers(headers.clone()).header("Accept", "text/event-stream");
    let request = match bearer {
        Some(bearer) => bearer.request(url, build).await,
        None => build(url.clone()),
    };
    request.send().await.map_err(|error| McpError::Start {
        reason: describe_network_error(&parallax_http::error_chain(&error.without_url())),
    })
}

impl Transport<RoleClient> for SseConnection {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.open.record_sent(&item);
        let (client, url, headers) =
            (self.client.clone(), self.messages.clone(), self.headers.clone());
        let bearer = self.bearer.clone();
        async move {
            let post = async |bearer: Option<&BearerTokens>| {
                let build = |url| client.post(url).headers(headers.clone()).json(&item);
                let request = match bearer {
                    Some(bearer) => bearer.request(&url, build).await,
                    None => build(url.clone()),
                };
                request.send().await.map_err(|error| io::Error::other(error.without_url()))
            };
            let mut response = post(bearer.as_ref()).await?;
            if response.status() == StatusCode::UNAUTHORIZED
                && let Some(bearer) = &bearer
                && bearer.renew().await
            {
                response = post(Some(bearer)).await?;
            }
            match response.status().is_success() {
                true => Ok(()),
                false => Err(io::Error::other(format!(
                    "the server responded with {}",
                    response.status()
                ))),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.batch.pop_front() {
                return Some(message);
            }
            self.pace.wait().await;
            let event = self.events.next().await?;
            if !matches!(&*event.name, b"" | b"message") {
                continue;
            }
            let received = self.open.read(&event.data, None);
            if !received.is_message {
                tracing::debug!("skipped an event of an MCP server that is not a message");
            }
            self.batch.extend(received.messages);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events.is_closed = true;
        Ok(())
    }
}

/// The events of a stream. Cancel-safe.
struct SseReader {
    chunks: ByteStream,
    parser: EventParser,
    ready: VecDeque<ServerEvent>,
    is_closed: bool,
}

impl SseReader {
    fn new(response: Response) -> Self {
        Self {
            chunks: response.bytes_stream().boxed(),
            parser: EventParser::new(MAX_BYTES),
            ready: VecDeque::new(),
            is_closed: false,
        }
    }

    /// Returns the next event; `None` at the end, or if an event is too large.
    async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            if self.is_closed {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let chunk = self.chunks.next().await?.ok()?;
            self.ready.extend(self.parser.push(&chunk).ok()?);
        }
    }
}
