//! Creates requests and collects the results of streams.

use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Model, ModelError, Request, Retry, StreamEvent, ToolSet};
use parallax_protocol::{CancellationToken, Object};

pub(crate) const KEY: &str = "AIza-a-very-secret-key";

/// Creates a named pipe without a reader.
pub(crate) fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
    path
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
