//! A model that plays back responses from a source, as a service would send them, without a key and
//! without network access.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parallax_gemini::parse_scripted_chunk;
use parallax_models::ModelTable;
use parallax_protocol::model::{
    Answer, Chunk, Limits, Model, ModelCatalog, ModelError, Request, StreamEvent,
};
use parallax_protocol::price::Price;
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};

use crate::script::ScriptReply;

/// Selects the reply to a request.
pub(crate) trait ReplySource: Send + Sync {
    /// Returns the reply to a request with that method.
    fn next_reply(&self, method: &str, request: &Request) -> Result<ScriptReply, ModelError>;
}

/// A model that plays back the replies of a source.
#[derive(Debug, Clone)]
pub struct PlaybackModel<S> {
    pub(crate) source: S,
    catalog: ScriptedCatalog,
}

impl<S> PlaybackModel<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, catalog: ScriptedCatalog::default() }
    }

    /// Sets the table for aliases and limits.
    #[must_use]
    pub fn with_models(mut self, models: Arc<ModelTable>) -> Self {
        self.catalog = ScriptedCatalog(models);
        self
    }
}

impl<S: ReplySource> Model for PlaybackModel<S> {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        let reply = self.source.next_reply("generateContentStream", &request);
        let reply_stream = ReplyStream::new(reply, &request.model, cancel);
        Box::pin(futures_util::stream::unfold(reply_stream, |mut playing| async move {
            let piece = playing.next().await?;
            Some((piece.map(|chunk| StreamEvent::Chunk(Box::new(chunk))), playing))
        }))
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        let reply = self.source.next_reply("generateContent", &request);
        let mut reply_stream = ReplyStream::new(reply, &request.model, cancel);
        Box::pin(async move {
            let mut answer = Answer::default();
            while let Some(chunk) = reply_stream.next().await {
                answer.push(chunk?);
            }
            Ok(answer)
        })
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        &self.catalog
    }
}

/// The catalog of scripted responses: model names and limits, without prices and routes.
#[derive(Debug, Clone, Default)]
struct ScriptedCatalog(Arc<ModelTable>);

impl ModelCatalog for ScriptedCatalog {
    fn limits(&self, model: &str) -> Limits {
        self.0.limits(model)
    }

    fn resolve(&self, name: &str) -> String {
        self.0.resolve(name)
    }

    fn price(&self, _model: &str) -> Option<Price> {
        Some(Price::FREE)
    }

    fn is_scripted(&self) -> bool {
        true
    }
}

/// The chunks of a reply with the delays before them; an error ends the stream.
struct ReplyStream {
    pieces: VecDeque<(Duration, Result<Chunk, ModelError>)>,
    cancel: CancellationToken,
}

impl ReplyStream {
    fn new(reply: Result<ScriptReply, ModelError>, model: &str, cancel: CancellationToken) -> Self {
        let mut pieces = VecDeque::new();
        match reply {
            Err(error) => pieces.push_back((Duration::ZERO, Err(error))),
            Ok(reply) => {
                for (delay, text) in reply.chunks {
                    let is_first = pieces.is_empty();
                    let chunk = parse_scripted_chunk(text.as_bytes(), model, is_first);
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
            // A script without delays must still let other tasks run.
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
