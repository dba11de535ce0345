//! Records a model's responses in the script format.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_gemini::encode_chunk;
use parallax_protocol::model::{
    Answer, Chunk, Model, ModelCatalog, ModelError, Request, Retry, ServerAddress, StreamEvent,
};
use parallax_protocol::secret::Secret;
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::digest::{Digest, DigestMode};
use crate::recorded_error::RecordedError;
use crate::recording_redaction::Secrets;
use crate::regular_file::describe_special_file;
use crate::volatile::VolatileText;

/// The format of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFormat {
    /// The format of Gemini CLI's `--record-responses`: candidates and usage of finished requests.
    Reference,
    /// The format of Parallax (`--record`): also a digest of the request, errors, and interrupted
    /// streams.
    Full,
}

/// A failure to write a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be opened for appending.
    #[error("failed to write the recording `{path}`: {source}")]
    Open {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The recording already exists; appending to it would make neither replayable.
    #[error("the recording `{path}` already exists; choose another name or delete it")]
    Exists {
        /// The file.
        path: String,
    },
    /// The path is a directory, a pipe, or a device.
    #[error("failed to write the recording `{path}`: it is {kind}, not a regular file")]
    NotAFile {
        /// The path.
        path: String,
        /// The kind of entry.
        kind: &'static str,
    },
}

/// A model that records the responses of another.
#[derive(Clone)]
pub struct Recorder {
    model: Arc<dyn Model>,
    writer: Arc<RecordingWriter>,
}

struct RecordingWriter {
    path: String,
    file: Mutex<File>,
    secrets: Secrets,
    format: RecordFormat,
    volatile: VolatileText,
}

impl Recorder {
    /// Records `model` to a file. Gemini CLI's format appends; the format of Parallax requires
    /// a new or empty file. The strings in `secrets` are never written.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or is not a regular file, or, in the format of
    /// Parallax, is not empty.
    pub fn new(
        model: Arc<dyn Model>,
        path: &Path,
        format: RecordFormat,
        secrets: Vec<Secret>,
    ) -> Result<Self, RecordError> {
        let mut options = File::options();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let path_text = path.display().to_string();
        let failed = |source| RecordError::Open { path: path_text.clone(), source };
        // Check before opening: opening a pipe blocks.
        match std::fs::metadata(path) {
            Ok(metadata) => {
                if let Some(kind) = describe_special_file(&metadata) {
                    return Err(RecordError::NotAFile { path: path_text, kind });
                }
                if format == RecordFormat::Full && metadata.len() > 0 {
                    return Err(RecordError::Exists { path: path_text });
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let file = options.open(path).map_err(failed)?;
        let secrets = Secrets::new(secrets);
        let (file, volatile) = (Mutex::new(file), VolatileText::default());
        let tape = RecordingWriter { path: path_text, file, secrets, format, volatile };
        Ok(Self { model, writer: Arc::new(tape) })
    }

    /// Sets the working directory and the home directory of the run, which digests of requests
    /// leave out. To be called before the first request.
    #[must_use]
    pub fn with_directories(mut self, directory: &Path, home: &Path) -> Self {
        if let Some(writer) = Arc::get_mut(&mut self.writer) {
            writer.volatile = VolatileText::new(directory, home);
        }
        self
    }
}

impl RecordingWriter {
    fn is_full(&self) -> bool {
        self.format == RecordFormat::Full
    }

    /// Returns the digest of a request, in the full format.
    fn digest(&self, request: &Request) -> Option<Digest> {
        let form = DigestMode::Reproducible(&self.volatile);
        self.is_full().then(|| Digest::for_request(request, &self.secrets, form))
    }

    async fn append(self: Arc<Self>, call: RecordedCall) -> Result<(), ModelError> {
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || {
            let text = serde_json::to_string(&call.into_line(&self))?;
            let mut text = self.secrets.redact(text.into()).into_owned();
            text.push('\n');
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(text.as_bytes())
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
        .map_err(|reason| ModelError::Script {
            message: format!("failed to write the recording `{path}`: {reason}"),
        })
    }
}

/// A finished request.
struct RecordedCall {
    chunks: Vec<Chunk>,
    is_stream: bool,
    error: Option<RecordedError>,
    retries: Vec<Retry>,
    digest: Option<Digest>,
}

impl RecordedCall {
    fn into_line(mut self, tape: &RecordingWriter) -> RecordingLine {
        let mut parts: Vec<_> =
            self.chunks.iter_mut().flat_map(|chunk| chunk.parts.iter_mut()).collect();
        tape.secrets.redact_parts(&mut parts);
        if self.chunks.is_empty() && !tape.is_full() {
            // A script has no streams without chunks.
            self.chunks.push(Chunk::default());
        }
        let has_ids = tape.format == RecordFormat::Full;
        let mut chunks = self.chunks.iter().map(|chunk| encode_chunk(chunk, has_ids));
        let response = if self.is_stream {
            RecordedResponse::Stream(chunks.collect())
        } else {
            RecordedResponse::Whole(
                chunks.next().unwrap_or_else(|| encode_chunk(&Chunk::default(), has_ids)),
            )
        };
        let method = if self.is_stream { "generateContentStream" } else { "generateContent" };
        RecordingLine {
            method,
            response,
            error: self.error,
            retries: self.retries,
            request: self.digest,
        }
    }
}

/// One line of a recording.
#[derive(Serialize)]
struct RecordingLine {
    method: &'static str,
    response: RecordedResponse,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RecordedError>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retries: Vec<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Digest>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RecordedResponse {
    Stream(Vec<Box<RawValue>>),
    Whole(Box<RawValue>),
}

/// A stream being recorded.
struct RecordedStream {
    stream: BoxStream<'static, Result<StreamEvent, ModelError>>,
    writer: Arc<RecordingWriter>,
    /// Taken when the stream ends.
    call: Option<RecordedCall>,
}

impl RecordedStream {
    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        let call = self.call.as_mut()?;
        let next = futures_util::StreamExt::next(&mut self.stream).await;
        match &next {
            Some(Ok(StreamEvent::Chunk(chunk))) => {
                call.chunks.push((**chunk).clone());
                return next;
            }
            Some(Ok(StreamEvent::Retry(retry))) => {
                if self.writer.is_full() {
                    call.retries.push(retry.clone());
                }
                return next;
            }
            Some(Ok(StreamEvent::Notice(_) | StreamEvent::NextHop)) => return next,
            Some(Err(error)) => call.error = Some(RecordedError::from(error)),
            None => {}
        }
        let call = self.call.take()?;
        if call.error.is_some() && !self.writer.is_full() {
            return next;
        }
        match self.writer.clone().append(call).await {
            // The error of the response takes precedence.
            Err(unwritten) if next.is_none() => Some(Err(unwritten)),
            _ => next,
        }
    }
}

impl Model for Recorder {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        let call = RecordedCall {
            chunks: Vec::new(),
            is_stream: true,
            error: None,
            retries: Vec::new(),
            digest: self.writer.digest(&request),
        };
        let stream = self.model.stream(request, cancel);
        let recorded_stream =
            RecordedStream { stream, writer: self.writer.clone(), call: Some(call) };
        Box::pin(futures_util::stream::unfold(recorded_stream, |mut taping| async move {
            let next = taping.next().await?;
            Some((next, taping))
        }))
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        let digest = self.writer.digest(&request);
        let tape = self.writer.clone();
        let answer = self.model.generate(request, cancel);
        Box::pin(async move {
            let result = answer.await;
            let (chunks, error) = match &result {
                Ok(answer) => {
                    (vec![Chunk { parts: answer.parts.clone(), ..answer.metadata.clone() }], None)
                }
                Err(error) if tape.is_full() => (Vec::new(), Some(RecordedError::from(error))),
                Err(_) => return result,
            };
            let call =
                RecordedCall { chunks, is_stream: false, error, retries: Vec::new(), digest };
            match (tape.append(call).await, result) {
                (Err(unwritten), Ok(_)) => Err(unwritten),
                (_, result) => result,
            }
        })
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        self.model.catalog()
    }

    fn server_address(&self, model: &str) -> Option<ServerAddress> {
        self.model.server_address(model)
    }
}
