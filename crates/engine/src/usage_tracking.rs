//! Wraps a model so that utility requests of tools are counted and reported like the engine's
//! own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_protocol::event::ModelCall;
use parallax_protocol::model::{
    Answer, Model, ModelCatalog, ModelError, Request, ServerAddress, StreamEvent, Usage,
};
use parallax_protocol::observer::ResponseInfo;
use parallax_protocol::price::{Cost, Price};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};

use crate::budget::{Ledger, RequestPrice, Reservation, ReservationError, max_output};
use crate::event_bus::{EventBus, SentRequest};
use crate::tokens;

/// A model that reports [`Model::generate`] calls as events.
pub struct UsageTrackingModel {
    model: Arc<dyn Model>,
    bus: EventBus,
    ledger: Ledger,
}

impl UsageTrackingModel {
    /// Wraps the model; reports go to the bus.
    pub fn new(model: Arc<dyn Model>, bus: EventBus) -> Self {
        Self { model, bus, ledger: Ledger::default() }
    }

    /// Also counts the requests in a ledger.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = ledger;
        self
    }
}

/// Returns the cost of a response: what the service charged, else by the price. Some gateways do
/// not report usage: it is then estimated from the request's size, so that a budget still holds.
pub(crate) fn cost(price: Option<Price>, usage: &Usage, request_bytes: u64) -> Option<Cost> {
    let guessed = Usage { prompt: tokens::estimate_request(request_bytes), ..Usage::default() };
    cost_of(price, if *usage == Usage::default() { &guessed } else { usage })
}

/// Returns what the service charged, else the cost by the price.
pub(crate) fn cost_of(price: Option<Price>, usage: &Usage) -> Option<Cost> {
    let by_price = price.map(|price| price.cost(usage));
    match usage.charged_cost {
        Some(charged) => Some(Cost::from_charge(charged, by_price)),
        None => by_price,
    }
}

/// Reserves what a request may cost, and limits its output to what a budget covers.
async fn reserve(
    ledger: &Ledger,
    catalog: &dyn ModelCatalog,
    request: &mut Request,
    cancel: &CancellationToken,
) -> Result<Option<Reservation>, ModelError> {
    let Some(price) = catalog.price(&request.model) else { return Ok(None) };
    let prompt = tokens::estimate_request(request.bytes());
    let price = RequestPrice::new(price, prompt, 0, max_output(catalog, request));
    let reserved = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(ModelError::Cancelled),
        reserved = ledger.reserve(price) => reserved,
    };
    let refused =
        |message| ModelError::Unavailable { status: None, delay: None, class: "budget", message };
    let reservation = reserved.map_err(|error| match error {
        ReservationError::Exhausted(budget) => refused(budget.to_string()),
        ReservationError::Unavailable(message) => refused(message),
    })?;
    if let Some((tokens, _)) = reservation.as_ref().and_then(Reservation::output_limit) {
        request.generation.insert("maxOutputTokens".to_owned(), tokens.into());
    }
    Ok(reservation)
}

/// Returns the error class for statistics.
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

impl Model for UsageTrackingModel {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        self.model.stream(request, cancel)
    }

    fn generate(
        &self,
        mut request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        let (bus, ledger, asked) = (self.bus.clone(), self.ledger.clone(), Arc::clone(&self.model));
        Box::pin(async move {
            // It is released when the request is counted.
            let _reservation = reserve(&ledger, asked.catalog(), &mut request, &cancel).await?;
            let (model, role) = (request.model.clone(), request.role.clone());
            let request_bytes = request.bytes();
            let id = bus.observe_request(&request, Duration::ZERO);
            let answer = asked.generate(request, cancel);
            let started_at = Instant::now();
            let answer = answer.await;
            let meta = answer.as_ref().ok().map(|answer| &answer.metadata);
            let usage = meta.and_then(|meta| meta.usage).unwrap_or_default();
            let call = ModelCall {
                cost: answer
                    .as_ref()
                    .ok()
                    .and_then(|_| cost(asked.catalog().price(&model), &usage, request_bytes)),
                model,
                role,
                usage,
                latency_ms: millis(started_at),
                request_bytes,
                error: answer.as_ref().err().map(error_class),
            };
            ledger.count(&call);
            let response = answer.as_ref().ok().map(|answer| ResponseInfo {
                parts: &answer.parts,
                finish: answer
                    .metadata
                    .finish
                    .as_ref()
                    .map(|finish| finish.provider_reason.clone()),
                id: answer.metadata.response_id.as_deref(),
                model: answer.metadata.model_version.as_deref(),
                first_chunk_ms: None,
            });
            let status = answer.as_ref().err().and_then(ModelError::status);
            let server = asked.server_address(&call.model);
            bus.send_model_call(call, SentRequest { id, response, status, server });
            answer
        })
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        self.model.catalog()
    }

    fn server_address(&self, model: &str) -> Option<ServerAddress> {
        self.model.server_address(model)
    }
}

/// Milliseconds since an instant.
pub(crate) fn millis(started_at: Instant) -> u64 {
    u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
}
