//! Reads the response to one request, chunk by chunk.

use std::collections::VecDeque;
use std::time::Duration;

use parallax_http::Failure;
use parallax_http::reqwest::{Response, header};
use parallax_protocol::model::Chunk;
use tokio::time::Instant;

use crate::error_payload::ErrorPayload;
use crate::sse::{SseDecoder, SseError};
use crate::tapped_request::TappedChunks;
use crate::wire::{Decoder, EventError, ResponseMode};

/// Maximum bytes of a response.
const MAX_BYTES: u64 = 512 << 20;

/// Content types of streams. A response of another type may still be one.
const STREAMS: [&str; 4] = ["event-stream", "ndjson", "jsonl", "json-seq"];

/// How many times longer a stream may send only keep-alives than it may be silent.
const KEEP_ALIVE_FACTOR: u32 = 5;

/// Why reading stopped.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// The service sent an error.
    Refused(Box<ErrorPayload>),
    /// The connection failed.
    Network(Failure),
    /// Nothing was received for that long.
    Silent(Duration),
    /// Only keep-alives were received for that long.
    NoContent(Duration),
    /// The stream ended inside a chunk.
    Incomplete,
    /// The response ended properly, but not its answer.
    Unfinished,
    /// A chunk is not JSON.
    NotJson,
    /// The response is a document of this type, such as a web page.
    Document(String),
    /// A chunk or the response is too large.
    TooLarge(String),
}

impl From<EventError> for ReadFailure {
    fn from(error: EventError) -> Self {
        match error {
            EventError::NotJson => Self::NotJson,
            EventError::Refused(payload) => Self::Refused(payload),
            EventError::Incomplete => Self::Incomplete,
        }
    }
}

/// A response being read.
pub(crate) struct ResponseReader {
    /// `None` at the end of the bytes.
    response: Option<Response>,
    sse: Option<SseDecoder>,
    decoder: Box<dyn Decoder>,
    events: VecDeque<Vec<u8>>,
    /// The event whose blank line was missing: incomplete if it does not parse.
    last: Option<Vec<u8>>,
    chunks: VecDeque<Chunk>,
    /// Whether the response is a stream that contained an event, or is not a stream.
    has_event: bool,
    /// The bytes ended properly, and the decoder does not know it yet.
    is_complete: bool,
    failure: Option<ReadFailure>,
    /// The content type of a response that is not declared as a stream, until a chunk is read.
    document: Option<String>,
    bytes: u64,
    idle: Duration,
    /// When the stream counts as silent.
    deadline: Instant,
    /// The same for a stream that sends only keep-alives, such as comments and pings.
    content_deadline: Instant,
    observed_chunks: TappedChunks,
}

impl ResponseReader {
    pub(crate) fn new(
        response: Response,
        decoder: Box<dyn Decoder>,
        mode: ResponseMode,
        idle: Duration,
        observed_chunks: TappedChunks,
    ) -> Self {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_stream = kind.is_empty() || STREAMS.iter().any(|stream| kind.ends_with(stream));
        Self {
            document: (!is_stream).then_some(kind),
            response: Some(response),
            sse: Some(SseDecoder::default()),
            decoder,
            events: VecDeque::new(),
            last: None,
            chunks: VecDeque::new(),
            has_event: mode == ResponseMode::Whole,
            is_complete: false,
            failure: None,
            bytes: 0,
            idle,
            deadline: Instant::now() + idle,
            content_deadline: Instant::now() + idle * KEEP_ALIVE_FACTOR,
            observed_chunks,
        }
    }

    /// Returns the next chunk; `None` at the end. Complete chunks before a failure are returned
    /// before it.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, ReadFailure> {
        match self.read_next().await {
            Ok(chunk) => {
                if chunk.is_some() {
                    self.document = None;
                }
                Ok(chunk)
            }
            Err(ReadFailure::Incomplete | ReadFailure::NotJson) if self.document.is_some() => {
                Err(ReadFailure::Document(self.document.take().unwrap_or_default()))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn read_next(&mut self) -> Result<Option<Chunk>, ReadFailure> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                if has_content(&chunk) {
                    self.content_deadline = Instant::now() + self.idle * KEEP_ALIVE_FACTOR;
                }
                return Ok(Some(chunk));
            }
            if let Some(event) = self.events.pop_front() {
                self.has_event = true;
                self.decoder.event(&event, &mut self.chunks)?;
                continue;
            }
            if let Some(event) = self.last.take() {
                self.has_event = true;
                self.decoder.event(&event, &mut self.chunks).map_err(|error| match error {
                    EventError::NotJson => ReadFailure::Incomplete,
                    error => error.into(),
                })?;
                continue;
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            // An empty stream is an empty answer, whatever the wire.
            let is_empty = !self.has_event && self.document.is_none();
            if std::mem::take(&mut self.is_complete) && !is_empty {
                self.decoder.end(&mut self.chunks)?;
                continue;
            }
            let Some(response) = &mut self.response else { return Ok(None) };
            let deadline = self.deadline.min(self.content_deadline);
            match tokio::time::timeout_at(deadline, response.chunk()).await {
                Err(_) if deadline < self.deadline => {
                    self.stop(ReadFailure::NoContent(self.idle * KEEP_ALIVE_FACTOR));
                }
                Err(_) => self.stop(ReadFailure::Silent(self.idle)),
                Ok(Err(error)) => self.stop(ReadFailure::Network(error.into())),
                Ok(Ok(Some(bytes))) => {
                    self.deadline = Instant::now() + self.idle;
                    self.push_bytes(&bytes);
                }
                Ok(Ok(None)) => self.end(),
            }
        }
    }

    /// Called when the bytes ended, or when what follows does not belong to the response.
    fn end(&mut self) {
        self.response = None;
        match self.sse.take().map(SseDecoder::finish) {
            Some(Ok(last)) => (self.last, self.is_complete) = (last, true),
            Some(Err(_)) => self.failure = Some(ReadFailure::Incomplete),
            None => {}
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.observed_chunks.record_bytes(bytes.len());
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            self.stop(ReadFailure::TooLarge(format!(
                "the response is larger than {MAX_BYTES} bytes"
            )));
            return;
        }
        let Some(sse) = &mut self.sse else { return };
        let events = &mut self.events;
        if let Err(error @ (SseError::TooLarge { .. } | SseError::Incomplete)) =
            sse.push(bytes, |event| events.push_back(event))
        {
            self.stop(ReadFailure::TooLarge(error.to_string()));
        } else if sse.is_done() {
            // Some gateways leave the connection open after `[DONE]`.
            self.end();
        }
    }

    /// Closes the connection.
    fn stop(&mut self, failure: ReadFailure) {
        self.response = None;
        self.sse = None;
        self.failure = Some(failure);
    }
}

/// Whether a chunk contains anything.
fn has_content(chunk: &Chunk) -> bool {
    !chunk.parts.is_empty()
        || chunk.finish.is_some()
        || chunk.usage.is_some()
        || chunk.blocked.is_some()
        || chunk.grounding.is_some()
}
