//! Streamable HTTP on this machine: POST for messages, one GET for the event stream.

use std::sync::OnceLock;
use std::time::Duration;

use futures_util::StreamExt as _;
use parallax_http::reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use parallax_http::reqwest::{Client, RequestBuilder, Response, StatusCode};
use parallax_http::{ClientOptions, EventParser, client, error_chain};
use parallax_protocol::CancellationToken;
use serde_json::Value;

use super::{CONNECT_TIME, MAX_EVENT_BYTES, MessageSink, connection_lost};
use crate::error::RequestError;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

#[derive(Debug)]
pub(super) struct HttpTransport {
    client: Client,
    url: String,
    headers: HeaderMap,
    session: OnceLock<HeaderValue>,
}

impl HttpTransport {
    pub(super) fn new(host: &str, port: u16, token: Option<&str>) -> Result<Self, RequestError> {
        let failed = |reason: String| RequestError::Connection { reason };
        let client = client(&ClientOptions {
            system_proxy: false,
            plain_http: true,
            connect_timeout: Duration::from_secs(1),
            ..ClientOptions::default()
        });
        let client = client.map_err(|error| failed(error.to_string()))?;
        let mut headers = HeaderMap::new();
        // Companions accept only this host name, whichever name was used to reach them.
        let own_host = HeaderValue::try_from(format!("127.0.0.1:{port}"));
        headers.insert(HOST, own_host.map_err(|error| failed(error.to_string()))?);
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|_| failed("the token is not valid".into()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let url = format!("http://{host}:{port}/mcp");
        Ok(Self { client, url, headers, session: OnceLock::new() })
    }

    /// Sets the server's protocol version, which is sent with all later requests.
    pub(super) fn set_protocol_version(&mut self, version: Option<&str>) {
        if let Some(value) = version.and_then(|version| HeaderValue::try_from(version).ok()) {
            self.headers.insert(VERSION, value);
        }
    }

    fn with_headers(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.headers(self.headers.clone());
        match self.session.get() {
            Some(session) => request.header(SESSION_ID, session),
            None => request,
        }
    }

    /// Sends a message. Messages in the response are delivered to `sink`.
    pub(super) async fn post(
        &self,
        message: &Value,
        sink: &MessageSink,
    ) -> Result<(), RequestError> {
        let request = self
            .with_headers(self.client.post(&self.url))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.to_string());
        let response = checked(request.send().await)?;
        if let Some(session) = response.headers().get(SESSION_ID) {
            // The first session id stays.
            let _ = self.session.set(session.clone());
        }
        let is_stream = is_event_stream(&response);
        let request_id = message.get("method").and_then(|_| message.get("id"));
        let mut chunks = response.bytes_stream();
        let (mut parser, mut whole) = (EventParser::new(MAX_EVENT_BYTES), Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| connection_error(&error.without_url()))?;
            if is_stream {
                for event in parser.push(&chunk).map_err(|_| too_large())? {
                    let answers = request_id.is_some_and(|id| answers(&event.data, id));
                    sink.deliver(&event.data).await;
                    if answers {
                        // The server may keep the stream open.
                        return Ok(());
                    }
                }
            } else {
                if whole.len() + chunk.len() > MAX_EVENT_BYTES {
                    return Err(too_large());
                }
                whole.extend_from_slice(&chunk);
            }
        }
        if !whole.is_empty() && request_id.is_some() {
            sink.deliver(&whole).await;
        }
        Ok(())
    }

    /// Opens the event stream and reads it in the background until it ends.
    pub(super) async fn listen(
        &self,
        sink: MessageSink,
        ended: CancellationToken,
    ) -> Result<(), RequestError> {
        let request =
            self.with_headers(self.client.get(&self.url)).header(ACCEPT, "text/event-stream");
        let answered = tokio::time::timeout(CONNECT_TIME, request.send()).await;
        let timed_out = RequestError::TimedOut { seconds: CONNECT_TIME.as_secs() };
        let response = checked(answered.map_err(|_| timed_out)?)?;
        tokio::spawn(async move {
            let read_events = read(response, &sink);
            tokio::select! {
                result = read_events => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "the event stream of the companion broke");
                    }
                }
                () = ended.cancelled() => {}
            }
            ended.cancel();
        });
        Ok(())
    }
}

async fn read(response: Response, sink: &MessageSink) -> Result<(), RequestError> {
    let mut chunks = response.bytes_stream();
    let mut parser = EventParser::new(MAX_EVENT_BYTES);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| connection_error(&error.without_url()))?;
        for event in parser.push(&chunk).map_err(|_| too_large())? {
            sink.deliver(&event.data).await;
        }
    }
    Err(connection_lost())
}

fn checked(
    response: Result<Response, parallax_http::reqwest::Error>,
) -> Result<Response, RequestError> {
    let response = response.map_err(|error| connection_error(&error.without_url()))?;
    match response.status() {
        status if status.is_success() => Ok(response),
        StatusCode::UNAUTHORIZED => Err(RequestError::Unauthorized),
        status => Err(RequestError::Status { status: status.as_u16() }),
    }
}

fn connection_error(error: &parallax_http::reqwest::Error) -> RequestError {
    RequestError::Connection { reason: error_chain(error) }
}

fn too_large() -> RequestError {
    RequestError::Invalid { reason: "the message is too large".into() }
}

fn is_event_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.and_then(|value| value.to_str().ok()).is_some_and(|value| {
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// Returns whether an event is the response to a request.
fn answers(event: &[u8], id: &Value) -> bool {
    serde_json::from_slice::<Value>(event)
        .is_ok_and(|message| message.get("method").is_none() && message.get("id") == Some(id))
}
