//! Wraps a model so that utility calls made by tools are counted and told like
//! the engine's own.

use std::sync::Arc;
use std::time::Instant;

use parallax_protocol::event::{EventBody, ModelCall};
use parallax_protocol::model::{Answer, Limits, Model, ModelError, Request, StreamEvent};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};

use crate::hub::EventHub;

/// A model whose [`Model::generate`] calls are reported as events.
pub struct Metered {
    model: Arc<dyn Model>,
    hub: EventHub,
}

impl Metered {
    /// Wraps the model; reports go to the hub.
    pub fn new(model: Arc<dyn Model>, hub: EventHub) -> Self {
        Self { model, hub }
    }
}

/// The class of a failure, as statistics name it.
pub(crate) fn error_class(error: &ModelError) -> String {
    match error {
        ModelError::Cancelled => "cancelled".into(),
        ModelError::Auth { .. } => "auth".into(),
        ModelError::ModelNotFound { .. } => "model_not_found".into(),
        ModelError::Quota { .. } => "quota".into(),
        ModelError::BadRequest { .. } => "bad_request".into(),
        ModelError::Unavailable { class, .. } => (*class).into(),
        ModelError::Broken { .. } => "broken_stream".into(),
        ModelError::Script { .. } => "script".into(),
    }
}

impl Model for Metered {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        self.model.stream(request, cancel)
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        let hub = self.hub.clone();
        let (model, role) = (request.model.clone(), request.role.clone());
        let request_bytes = request.bytes();
        let answer = self.model.generate(request, cancel);
        Box::pin(async move {
            let begun = Instant::now();
            let answer = answer.await;
            hub.send(EventBody::ModelCall(ModelCall {
                model,
                role,
                usage: answer
                    .as_ref()
                    .ok()
                    .and_then(|answer| answer.meta.usage)
                    .unwrap_or_default(),
                latency_ms: millis(begun),
                request_bytes,
                error: answer.as_ref().err().map(error_class),
            }));
            answer
        })
    }

    fn limits(&self, model: &str) -> Limits {
        self.model.limits(model)
    }

    fn resolve(&self, name: &str) -> String {
        self.model.resolve(name)
    }

    fn utility(&self, name: &str, main: &str) -> String {
        self.model.utility(name, main)
    }

    fn is_scripted(&self) -> bool {
        self.model.is_scripted()
    }
}

/// Milliseconds since an instant.
pub(crate) fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
