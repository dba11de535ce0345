//! A model whose answers are written in a file; the format is told in
//! [`crate::script`]'s documentation.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::model::{Answer, Chunk, Limits, Model, ModelError, Request, StreamEvent};
use parallax_protocol::price::Price;
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};

use crate::call::absorb;
use crate::chunk::{ChunkError, read_chunk};
use crate::classify::Refusal;
use crate::models::ModelTable;
use crate::script::{Reply, Script, ScriptError};

/// Which flag asked for the script. Both take the first unused line of the
/// method asked for, since a program with other side calls than the recorded
/// one cannot follow the order of the lines strictly; the mode is named in
/// errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptMode {
    /// `--fake-responses`
    Strict,
    /// `--fake-responses-non-strict`
    NonStrict,
    /// `--model script:…`: a script that is part of the program, or a file.
    Embedded,
}

impl ScriptMode {
    /// Where the script comes from, for messages.
    fn origin(self, is_file: bool) -> &'static str {
        match self {
            Self::Strict => "`--fake-responses`",
            Self::NonStrict => "`--fake-responses-non-strict`",
            Self::Embedded if is_file => "`--model`",
            Self::Embedded => "built in",
        }
    }
}

/// The scripted model, playing a file as [`crate::script`] tells. It needs no
/// key, no network and no model check.
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    script: Arc<Script>,
    origin: &'static str,
    cwd: PathBuf,
    models: Arc<ModelTable>,
}

impl ScriptedModel {
    /// Loads a script from a file.
    ///
    /// # Errors
    /// When it cannot be read, or a line (named by file and number) is broken.
    pub fn from_file(path: &Path, mode: ScriptMode) -> Result<Self, ScriptError> {
        Ok(Self::new(Script::from_file(path)?, mode.origin(true)))
    }

    /// Loads a script from a text. `name` stands for the file in messages.
    ///
    /// # Errors
    /// When a line is broken.
    pub fn from_text(name: &str, text: &str, mode: ScriptMode) -> Result<Self, ScriptError> {
        Ok(Self::new(Script::from_text(name, text)?, mode.origin(false)))
    }

    fn new(script: Script, origin: &'static str) -> Self {
        let cwd = std::env::current_dir().unwrap_or_default();
        Self { script: Arc::new(script), origin, cwd, models: Arc::default() }
    }

    /// Sets what `${cwd}` stands for; otherwise the process's own directory.
    #[must_use]
    pub fn with_cwd(mut self, cwd: PathBuf) -> Self {
        self.cwd = cwd;
        self
    }

    /// Sets the table that aliases and limits come from.
    #[must_use]
    pub fn with_models(mut self, models: Arc<ModelTable>) -> Self {
        self.models = models;
        self
    }

    fn take(&self, method: &str, request: &Request) -> Result<Reply, ModelError> {
        self.script
            .take(method, request, &self.cwd, &|_| true)?
            .ok_or_else(|| self.script.exhausted(method, request, self.origin))
    }
}

impl Model for ScriptedModel {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        play_stream(self.take("generateContentStream", &request), request.model, cancel)
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        play_answer(self.take("generateContent", &request), request.model, cancel)
    }

    fn limits(&self, model: &str) -> Limits {
        self.models.limits(model)
    }

    fn resolve(&self, name: &str) -> String {
        self.models.resolve(name)
    }

    fn price(&self, _model: &str) -> Option<Price> {
        Some(Price::FREE)
    }

    fn is_scripted(&self) -> bool {
        true
    }
}

/// The pieces of a reply with the waits before them; an error ends them.
struct Playing {
    pieces: VecDeque<(Duration, Result<Chunk, ModelError>)>,
    cancel: CancellationToken,
}

impl Playing {
    fn new(reply: Result<Reply, ModelError>, model: &str, cancel: CancellationToken) -> Self {
        let mut pieces = VecDeque::new();
        match reply {
            Err(error) => pieces.push_back((Duration::ZERO, Err(error))),
            Ok(reply) => {
                for (delay, text) in reply.chunks {
                    let is_first = pieces.is_empty();
                    let chunk = read_chunk(text.as_bytes())
                        .map_err(|error| scripted_error(error, model, is_first));
                    pieces.push_back((delay, chunk));
                }
                if let Some(error) = reply.error {
                    pieces.push_back((Duration::ZERO, Err(error.into_error(model))));
                }
            }
        }
        Self { pieces, cancel }
    }

    async fn next(&mut self) -> Option<Result<Chunk, ModelError>> {
        let (delay, piece) = self.pieces.pop_front()?;
        let cancelled = if delay.is_zero() {
            // A script is over at once; others must have their turn in between.
            tokio::task::yield_now().await;
            self.cancel.is_cancelled()
        } else {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => true,
                () = tokio::time::sleep(delay) => false,
            }
        };
        let piece = if cancelled { Err(ModelError::Cancelled) } else { piece };
        if piece.is_err() {
            self.pieces.clear();
        }
        Some(piece)
    }
}

/// An error in the place of a chunk means what it would mean on the wire.
fn scripted_error(error: ChunkError, model: &str, is_first: bool) -> ModelError {
    match error {
        ChunkError::NotJson => {
            ModelError::Script { message: "a chunk of the script is no JSON object".to_owned() }
        }
        ChunkError::Refused(payload) => {
            let status = payload.code.unwrap_or(500);
            let refusal = Refusal { status, payload: *payload, retry_after: None };
            let verdict = refusal.verdict();
            match refusal.into_error(model, verdict) {
                ModelError::Unavailable { status, message, .. } if !is_first => {
                    ModelError::Broken { status, message, retryable: true, delay: None }
                }
                error => error,
            }
        }
    }
}

pub(crate) fn play_stream(
    reply: Result<Reply, ModelError>,
    model: String,
    cancel: CancellationToken,
) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
    let playing = Playing::new(reply, &model, cancel);
    Box::pin(futures_util::stream::unfold(playing, |mut playing| async move {
        let piece = playing.next().await?;
        Some((piece.map(|chunk| StreamEvent::Chunk(Box::new(chunk))), playing))
    }))
}

pub(crate) fn play_answer(
    reply: Result<Reply, ModelError>,
    model: String,
    cancel: CancellationToken,
) -> BoxFuture<'static, Result<Answer, ModelError>> {
    let mut playing = Playing::new(reply, &model, cancel);
    Box::pin(async move {
        let mut answer = Answer::default();
        while let Some(chunk) = playing.next().await {
            absorb(&mut answer, chunk?);
        }
        Ok(answer)
    })
}
