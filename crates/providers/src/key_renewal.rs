//! Runs the command that prints a provider's key again when the service rejects the key: such
//! commands often print tokens that expire.

use futures_util::StreamExt as _;
use parallax_protocol::model::{Answer, ModelError, Request, StreamEvent};
use parallax_protocol::{BoxStream, CancellationToken};

use crate::ProviderModels;
use crate::provider_credentials::KeySource;

impl ProviderModels {
    /// Whether the key for a model comes from a command.
    fn has_key_command(&self, model: &str) -> bool {
        let split = self.table.providers().split(model);
        split.is_some_and(|(provider, _)| {
            self.manager.credential_of(provider, &[]).source == KeySource::Command
        })
    }

    /// Sends a request; if the service rejects the key that a command printed, once more with a new
    /// one.
    pub(crate) async fn stream_renewing_key(
        self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        let model = match self.clone().client(request.model.clone(), &cancel).await {
            Ok(model) => model,
            Err(error) => return futures_util::stream::iter([Err(error)]).boxed(),
        };
        if !self.has_key_command(&request.model) {
            return model.stream(request, cancel);
        }
        let stream = model.stream(request.clone(), cancel.clone());
        let attempt = RenewableStream { models: self, request, cancel, stream, is_renewable: true };
        futures_util::stream::unfold(attempt, |mut attempt| async move {
            let event = attempt.next().await?;
            Some((event, attempt))
        })
        .boxed()
    }

    /// Like [`Self::stream_renewing_key`], for a whole answer.
    pub(crate) async fn generate_renewing_key(
        self,
        request: Request,
        cancel: CancellationToken,
    ) -> Result<Answer, ModelError> {
        let model = self.clone().client(request.model.clone(), &cancel).await?;
        if !self.has_key_command(&request.model) {
            return model.generate(request, cancel).await;
        }
        let answer = model.generate(request.clone(), cancel.clone()).await;
        if !answer.as_ref().is_err_and(is_rejected_key) {
            return answer;
        }
        self.close(&request.model);
        let model = self.client(request.model.clone(), &cancel).await?;
        model.generate(request, cancel).await
    }
}

/// The response to a request that may be sent again with a new key.
struct RenewableStream {
    models: ProviderModels,
    request: Request,
    cancel: CancellationToken,
    stream: BoxStream<'static, Result<StreamEvent, ModelError>>,
    /// Whether nothing from the answer was received yet, and the key is the first one.
    is_renewable: bool,
}

impl RenewableStream {
    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        let event = self.stream.next().await?;
        match &event {
            Ok(StreamEvent::Chunk(_)) => self.is_renewable = false,
            Err(error) if is_rejected_key(error) => {
                // Later requests need a new key, too.
                self.models.close(&self.request.model);
                if std::mem::take(&mut self.is_renewable) {
                    let name = self.request.model.clone();
                    match self.models.clone().client(name, &self.cancel).await {
                        Ok(model) => {
                            self.stream = model.stream(self.request.clone(), self.cancel.clone());
                        }
                        Err(error) => return Some(Err(error)),
                    }
                    return self.stream.next().await;
                }
            }
            _ => {}
        }
        Some(event)
    }
}

fn is_rejected_key(error: &ModelError) -> bool {
    matches!(error, ModelError::Auth { status: Some(401), .. })
}
