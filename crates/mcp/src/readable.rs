//! Streamable HTTP whose events are read as far as they can be: the library passes
//! over those that it cannot read, and their request would wait for its limit.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use parallax_http::reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::messages::Open;

type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Text = Arc<str>;

/// A client whose events can be read.
#[derive(Clone)]
pub(crate) struct Readable<C> {
    inner: C,
    open: Open,
}

impl<C> Readable<C> {
    pub(crate) fn new(inner: C) -> Self {
        Self { inner, open: Open::default() }
    }

    fn mended(&self, events: Events) -> Events {
        let open = self.open.clone();
        events.flat_map(move |event| stream::iter(mended(&open, event))).boxed()
    }
}

/// The events that stand for one.
fn mended(open: &Open, event: Result<Sse, SseError>) -> Vec<Result<Sse, SseError>> {
    let texts = match &event {
        Ok(Sse { event: kind, data: Some(text), .. })
            if matches!(kind.as_deref(), None | Some("" | "message")) =>
        {
            open.mend(text).filter(|texts| !texts.is_empty())
        }
        _ => None,
    };
    let (Ok(event), Some(texts)) = (&event, texts) else { return vec![event] };
    let last = texts.len().saturating_sub(1);
    let of = |(order, text)| {
        // Whoever goes on behind it has had all of them.
        let id = event.id.clone().filter(|_| order == last);
        Ok(Sse { data: Some(text), id, ..event.clone() })
    };
    texts.into_iter().enumerate().map(of).collect()
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for Readable<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Text,
        message: ClientJsonRpcMessage,
        session: Option<Text>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        self.open.sent(&message);
        let response = self.inner.post_message(uri, message, session, token, headers).await?;
        Ok(self.mended_response(response))
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Text,
        message: ClientJsonRpcMessage,
        session: Option<Text>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        self.open.sent(&message);
        let response = self
            .inner
            .post_message_with_max_sse_event_size(uri, message, session, token, headers, most)
            .await?;
        Ok(self.mended_response(response))
    }

    async fn delete_session(
        &self,
        uri: Text,
        session: Text,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<C::Error>> {
        self.inner.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Text,
        session: Option<Text>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, StreamableHttpError<C::Error>> {
        let events = self.inner.get_stream(uri, session, last, token, headers).await?;
        Ok(self.mended(events))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Text,
        session: Option<Text>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<Events, StreamableHttpError<C::Error>> {
        let events = self
            .inner
            .get_stream_with_max_sse_event_size(uri, session, last, token, headers, most)
            .await?;
        Ok(self.mended(events))
    }
}

impl<C> Readable<C> {
    fn mended_response(&self, response: StreamableHttpPostResponse) -> StreamableHttpPostResponse {
        match response {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(self.mended(events), session)
            }
            StreamableHttpPostResponse::Json(message, session) => {
                self.open.heard(&message);
                StreamableHttpPostResponse::Json(message, session)
            }
            other => other,
        }
    }
}
