//! Wraps a model so that utility calls made by tools are counted and told like
//! the engine's own.

use std::sync::Arc;
use std::time::Instant;

use parallax_protocol::event::{EventBody, ModelCall};
use parallax_protocol::model::{Answer, Limits, Model, ModelError, Request, StreamEvent, Usage};
use parallax_protocol::price::{Cost, Price};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};

use crate::budget::Ledger;
use crate::hub::EventHub;

/// A model whose [`Model::generate`] calls are reported as events.
pub struct Metered {
    model: Arc<dyn Model>,
    hub: EventHub,
    ledger: Ledger,
}

impl Metered {
    /// Wraps the model; reports go to the hub.
    pub fn new(model: Arc<dyn Model>, hub: EventHub) -> Self {
        Self { model, hub, ledger: Ledger::default() }
    }

    /// Counts what is spent there, too.
    #[must_use]
    pub fn counted(mut self, ledger: Ledger) -> Self {
        self.ledger = ledger;
        self
    }
}

/// What an answered request cost. Some gateways do not tell what was used: its
/// size is a guess then, so that a budget holds all the same.
pub(crate) fn cost(price: Option<Price>, usage: &Usage, request_bytes: u64) -> Option<Cost> {
    let guessed = Usage { prompt_token_count: guessed_tokens(request_bytes), ..Usage::default() };
    let used = if *usage == Usage::default() { &guessed } else { usage };
    price.map(|price| price.of(used))
}

/// About how many tokens a request of so many bytes has.
pub(crate) fn guessed_tokens(request_bytes: u64) -> u64 {
    request_bytes / 4
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
        let (hub, ledger, asked) = (self.hub.clone(), self.ledger.clone(), Arc::clone(&self.model));
        let (model, role) = (request.model.clone(), request.role.clone());
        let request_bytes = request.bytes();
        let answer = self.model.generate(request, cancel);
        Box::pin(async move {
            let begun = Instant::now();
            let answer = answer.await;
            let meta = answer.as_ref().ok().map(|answer| &answer.meta);
            let usage = meta.and_then(|meta| meta.usage).unwrap_or_default();
            let call = ModelCall {
                cost: answer
                    .as_ref()
                    .ok()
                    .and_then(|_| cost(asked.price(&model), &usage, request_bytes)),
                model,
                role,
                usage,
                latency_ms: millis(begun),
                request_bytes,
                error: answer.as_ref().err().map(error_class),
            };
            ledger.count(&call);
            hub.send(EventBody::ModelCall(call));
            answer
        })
    }

    fn limits(&self, model: &str) -> Limits {
        self.model.limits(model)
    }

    fn resolve(&self, name: &str) -> String {
        self.model.resolve(name)
    }

    fn behind(&self) -> Option<&dyn Model> {
        Some(&*self.model)
    }
}

/// Milliseconds since an instant.
pub(crate) fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
