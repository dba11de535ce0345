//! Sends requests to a scripted server and collects the responses.

use std::time::Duration;

use futures_util::StreamExt;
use parallax_gemini::{Auth, Gemini, GeminiOptions};
use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Model, ModelError, Request, Retry, StreamEvent, ToolSet};
use parallax_protocol::secret::Secret;
use parallax_protocol::{CancellationToken, Object};
pub(crate) use testkit::canned::*;

pub(crate) const KEY: &str = "AIza-a-very-secret-key";

pub(crate) fn text_chunk(text: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}],"role":"model"}}}}]}}"#)
}

pub(crate) fn last_chunk(text: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}],"usageMetadata":{{"promptTokenCount":3,"totalTokenCount":5}}}}"#
    )
}

/// Options for a server, with short waits.
pub(crate) fn options(base: &str) -> GeminiOptions {
    let env = |name: &str| (name == "PARALLAX_RETRY_BASE_MS").then(|| "2".to_owned());
    let mut options = GeminiOptions::from_env(Auth::ApiKey(Secret::new(KEY)), &env);
    options.base_url = Some(base.to_owned());
    options.transport.idle_timeout = Duration::from_millis(150);
    options
}

pub(crate) fn gemini(server: &Server) -> Gemini {
    Gemini::new(options(&server.base)).expect("a good base")
}

pub(crate) fn request() -> Request {
    Request {
        model: "gemini-3-flash-preview".into(),
        system: "".into(),
        contents: vec![Content::user(vec![Part::text("hi")]).seal()],
        tools: ToolSet::None,
        generation: Object::new(),
        role: "main".into(),
        alias: String::new(),
        max_attempts: None,
        has_fallback: false,
        is_retry: false,
        continuation: None,
    }
}

/// The result of a stream: its text, its retries, and how it ended.
#[derive(Debug)]
pub(crate) struct StreamResult {
    pub(crate) text: String,
    pub(crate) retries: Vec<Retry>,
    pub(crate) end: Result<(), ModelError>,
}

pub(crate) async fn drain(model: &dyn Model, request: Request) -> StreamResult {
    let mut stream = model.stream(request, CancellationToken::new());
    let mut received = StreamResult { text: String::new(), retries: Vec::new(), end: Ok(()) };
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Chunk(chunk)) => {
                received.text.push_str(&Content::model(chunk.parts).visible_text());
            }
            Ok(StreamEvent::Retry(retry)) => received.retries.push(retry),
            Ok(StreamEvent::Notice(_) | StreamEvent::NextHop) => {}
            Err(error) => received.end = Err(error),
        }
    }
    received
}

/// Serves the answers and drains one stream.
pub(crate) async fn serve(answers: Vec<CannedResponse>) -> (StreamResult, Server) {
    let server = Server::start(answers).await;
    let received = drain(&gemini(&server), request()).await;
    (received, server)
}
