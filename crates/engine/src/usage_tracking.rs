//! Wraps a model so that utility requests of tools are counted and reported like the engine's
//! own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_protocol::event::{EventBody, ModelCall};
use parallax_protocol::model::{
    Answer, Model, ModelCatalog, ModelError, Request, Retry, ServerAddress, StreamEvent, Usage,
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

/// Returns the cost of a response: what the service charged, otherwise the price. Some gateways do
/// not report usage: it is then estimated from the request's size, so that a budget still holds.
pub(crate) fn cost(price: Option<Price>, usage: &Usage, request_bytes: u64) -> Option<Cost> {
    let guessed = Usage { prompt: tokens::estimate_request(request_bytes), ..Usage::default() };
    cost_of(price, if *usage == Usage::default() { &guessed } else { usage })
}

/// Returns the estimated cost of a response that broke off after some output tokens: services report
/// usage at the end, or only what they knew at the beginning.
pub(crate) fn interrupted_cost(
    price: Option<Price>,
    reported: &Usage,
    request_bytes: u64,
    received: u64,
) -> Option<Cost> {
    let mut usage = *reported;
    if usage.prompt == 0 {
        usage.prompt = tokens::estimate_request(request_bytes);
    }
    usage.output = usage.output.max(received.saturating_sub(usage.thought));
    cost_of(price, &usage)
}

/// Whether a request that failed before the first chunk may have been processed: the service
/// accepted it, but its answer was not awaited.
pub(crate) fn may_have_cost(error: &ModelError) -> bool {
    match error {
        ModelError::Cancelled | ModelError::Broken { .. } => true,
        ModelError::Unavailable { status: None, class, .. } => *class == Retry::TIMEOUT,
        _ => false,
    }
}

/// Returns what the service charged, otherwise the cost by the price.
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
    let budget_error =
        |message| ModelError::Unavailable { status: None, delay: None, class: "budget", message };
    let reservation = reserved.map_err(|error| match error {
        ReservationError::Exhausted(budget) => budget_error(budget.to_string()),
        ReservationError::Unavailable(message) => budget_error(message),
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

/// A request that has no answer yet. If it is dropped before, it is counted as cancelled.
struct RunningRequest {
    model: String,
    role: String,
    price: Option<Price>,
    request_bytes: u64,
    started_at: Instant,
    ledger: Ledger,
    bus: EventBus,
    is_counted: bool,
}

impl RunningRequest {
    fn count(mut self, usage: Usage, cost: Option<Cost>, error: Option<String>) -> ModelCall {
        self.is_counted = true;
        let call = self.call(usage, cost, error);
        self.ledger.count(&call);
        call
    }

    fn call(&self, usage: Usage, cost: Option<Cost>, error: Option<String>) -> ModelCall {
        ModelCall {
            cost,
            model: self.model.clone(),
            role: self.role.clone(),
            usage,
            latency_ms: millis(self.started_at),
            request_bytes: self.request_bytes,
            error,
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if self.is_counted {
            return;
        }
        let usage = Usage::default();
        let cost = interrupted_cost(self.price, &usage, self.request_bytes, 0);
        let call = self.call(usage, cost, Some("cancelled".to_owned()));
        self.ledger.count(&call);
        self.bus.send(EventBody::ModelCall(call));
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
            let reservation = reserve(&ledger, asked.catalog(), &mut request, &cancel).await?;
            let request_bytes = request.bytes();
            let price = asked.catalog().price(&request.model);
            let running = RunningRequest {
                model: request.model.clone(),
                role: request.role.clone(),
                price,
                request_bytes,
                started_at: Instant::now(),
                ledger: ledger.clone(),
                bus: bus.clone(),
                is_counted: false,
            };
            let id = bus.observe_request(&request, Duration::ZERO);
            let answer = asked.generate(request, cancel).await;
            let meta = answer.as_ref().ok().map(|answer| &answer.metadata);
            let usage = meta.and_then(|meta| meta.usage).unwrap_or_default();
            let cost = match &answer {
                Ok(_) => cost(price, &usage, request_bytes),
                Err(error) if may_have_cost(error) => {
                    interrupted_cost(price, &usage, request_bytes, 0)
                }
                Err(_) => None,
            };
            let call = running.count(usage, cost, answer.as_ref().err().map(error_class));
            if let Some(reservation) = reservation {
                match (&answer, call.cost) {
                    (Err(ModelError::Cancelled), Some(cost)) => {
                        reservation.release_unfinished(cost.total()).await;
                    }
                    _ => reservation.release().await,
                }
            }
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

#[cfg(test)]
mod tests {
    use parallax_protocol::price::Rates;

    use super::*;

    #[test]
    fn interrupted_answer_costs_its_input_and_what_was_received() {
        // One dollar for a million tokens of input, ten for a million of output.
        let price = Price { short_prompts: Rates::new(1.0, 0.1, 10.0), long_prompts: None };
        let cost = |usage| {
            let cost = interrupted_cost(Some(price), &usage, 400_000, 10_000);
            (cost.expect("a price").total() * 1e3).round()
        };
        assert!((cost(Usage::default()) - 200.0).abs() < 1e-9);
        // Reported at the beginning.
        let early = Usage { prompt: 50_000, output: 1, ..Usage::default() };
        assert!((cost(early) - 150.0).abs() < 1e-9);
        let thoughts = Usage { prompt: 50_000, thought: 15_000, ..Usage::default() };
        assert!((cost(thoughts) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn only_requests_that_a_service_accepted_may_have_cost() {
        let unavailable = |status, class| ModelError::Unavailable {
            status,
            delay: None,
            class,
            message: String::new(),
        };
        assert!(may_have_cost(&ModelError::Cancelled));
        assert!(may_have_cost(&unavailable(None, Retry::TIMEOUT)));
        assert!(!may_have_cost(&unavailable(None, "connect")));
        assert!(!may_have_cost(&unavailable(Some(503), "server")));
    }
}
