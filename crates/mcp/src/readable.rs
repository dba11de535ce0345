//! A streamable HTTP client that repairs unreadable events. The library skips such events, so their
//! requests would otherwise run into the timeout.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use parallax_http::reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::messages::{OpenRequests, no_json};

type Headers = HashMap<HeaderName, HeaderValue>;
type EventStream = BoxStream<'static, Result<Sse, SseError>>;
type EventText = Arc<str>;

/// A client whose events are repaired.
#[derive(Clone)]
pub(crate) struct EventRepairClient<C> {
    inner: C,
    open: OpenRequests,
}

impl<C> EventRepairClient<C> {
    pub(crate) fn new(inner: C) -> Self {
        Self { inner, open: OpenRequests::default() }
    }

    /// Repairs the events. `of` is the request that they answer, if known.
    fn repair_events(&self, events: EventStream, of: Option<RequestId>) -> EventStream {
        let open = self.open.clone();
        events.flat_map(move |event| stream::iter(repair_event(&open, of.as_ref(), event))).boxed()
    }

    fn repaired_response<E: std::error::Error + Send + Sync + 'static>(
        &self,
        response: Result<StreamableHttpPostResponse, StreamableHttpError<E>>,
        of: Option<RequestId>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<E>> {
        match response {
            Ok(StreamableHttpPostResponse::Sse(events, session)) => {
                Ok(StreamableHttpPostResponse::Sse(self.repair_events(events, of), session))
            }
            Ok(StreamableHttpPostResponse::Json(mut message, session)) => {
                if let Some(id) = &of {
                    self.open.assign_to_request(&mut message, id);
                }
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            Err(error) => {
                // Only the error message shows that an unreadable answer arrived.
                let reason = match &error {
                    StreamableHttpError::UnexpectedServerResponse(reason) => {
                        reason.strip_prefix(NO_JSON).map(no_json)
                    }
                    _ => None,
                };
                // The request gets no other answer, whatever went wrong.
                let ended =
                    of.and_then(|id| self.open.fail(&id, reason.as_deref().unwrap_or_default()));
                match ended.filter(|_| reason.is_some()) {
                    Some(message) => Ok(StreamableHttpPostResponse::Json(message, None)),
                    None => Err(error),
                }
            }
            Ok(StreamableHttpPostResponse::Accepted) => {
                // Only notifications and responses may be accepted without an answer.
                let reason = "the server accepted the request but did not respond";
                let ended = of.and_then(|id| self.open.fail(&id, reason));
                Ok(match ended {
                    Some(message) => StreamableHttpPostResponse::Json(message, None),
                    None => StreamableHttpPostResponse::Accepted,
                })
            }
            Ok(other) => Ok(other),
        }
    }
}

/// The prefix of the library's error for an unreadable answer.
const NO_JSON: &str = "could not parse JSON response as ServerJsonRpcMessage: ";

/// Returns the id of a message that is a request.
fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Returns the events that replace one event.
fn repair_event(
    open: &OpenRequests,
    of: Option<&RequestId>,
    event: Result<Sse, SseError>,
) -> Vec<Result<Sse, SseError>> {
    // The content of the event is lost.
    if let (Err(SseError::Utf8Parse(_)), Some(id)) = (&event, of)
        && let Some(failed) = open.fail(id, "it is not UTF-8")
    {
        let data = serde_json::to_string(&failed).ok();
        return vec![Ok(Sse { data, ..Sse::default() })];
    }
    let texts = match &event {
        Ok(Sse { event: kind, data: Some(text), .. })
            if matches!(kind.as_deref(), None | Some("" | "message")) =>
        {
            open.repair_event(text, of)
        }
        _ => None,
    };
    let (Ok(event), Some(texts)) = (&event, texts) else { return vec![event] };
    if texts.is_empty() {
        // The event id is kept, because the stream may be resumed after it.
        return vec![Ok(Sse { data: None, ..event.clone() })];
    }
    let last = texts.len().saturating_sub(1);
    let of = |(order, text)| {
        // Only the last event gets the id, because resuming after it means that all were received.
        let id = event.id.clone().filter(|_| order == last);
        Ok(Sse { data: Some(text), id, ..event.clone() })
    };
    texts.into_iter().enumerate().map(of).collect()
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for EventRepairClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: EventText,
        message: ClientJsonRpcMessage,
        session: Option<EventText>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        self.open.record_sent(&message);
        let of = id_of(&message);
        let response = self.inner.post_message(uri, message, session, token, headers).await;
        self.repaired_response(response, of)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: EventText,
        message: ClientJsonRpcMessage,
        session: Option<EventText>,
        token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        self.open.record_sent(&message);
        let of = id_of(&message);
        let response = self
            .inner
            .post_message_with_max_sse_event_size(uri, message, session, token, headers, limit)
            .await;
        self.repaired_response(response, of)
    }

    async fn delete_session(
        &self,
        uri: EventText,
        session: EventText,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<C::Error>> {
        self.inner.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: EventText,
        session: Option<EventText>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<EventStream, StreamableHttpError<C::Error>> {
        let events = self.inner.get_stream(uri, session, last, token, headers).await?;
        Ok(self.repair_events(events, None))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: EventText,
        session: Option<EventText>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<EventStream, StreamableHttpError<C::Error>> {
        let events = self
            .inner
            .get_stream_with_max_sse_event_size(uri, session, last, token, headers, limit)
            .await?;
        Ok(self.repair_events(events, None))
    }
}
