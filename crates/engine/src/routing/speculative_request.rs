//! A speculative request to the default model, sent while the classifier is running. Its
//! response is held back until the decision.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use parallax_protocol::event::ModelCall;
use parallax_protocol::model::{Chunk, Model, ModelError, Request, StreamEvent, Usage};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::{BoxStream, CancellationToken};

use super::classifier::ROLE;
use crate::budget::Ledger;
use crate::event_bus::EventBus;
use crate::session::Session;
use crate::usage_tracking::{cost, error_class, estimated_request_tokens, millis};

/// Bytes of a response that are held back; the rest waits in the connection.
const MAX_HELD: usize = 1 << 20;

/// A model stream.
pub(crate) type Events = BoxStream<'static, Result<StreamEvent, ModelError>>;

/// A speculative request in progress. If dropped, it is cancelled and its cost is reported as
/// routing.
pub(crate) struct SpeculativeRequest {
    request: Request,
    /// The mode that it was built for.
    mode: ApprovalMode,
    begun: Instant,
    events: Events,
    buffered: VecDeque<Result<StreamEvent, ModelError>>,
    bytes: usize,
    is_over: bool,
    cancel: CancellationToken,
    /// Where its cost is reported when it is dropped.
    counts: Option<(EventBus, Ledger, Arc<dyn Model>)>,
}

impl SpeculativeRequest {
    /// Whether it is a request to the model.
    pub(crate) fn is_to(&self, model: &str) -> bool {
        self.request.model == model
    }

    /// The request, its send time, and its full stream.
    pub(crate) fn take(mut self) -> (Request, Instant, Events) {
        self.counts = None;
        if let Some(adopted) = &self.request.adopted {
            adopted.cancel();
        }
        let buffered = futures_util::stream::iter(std::mem::take(&mut self.buffered));
        let rest = std::mem::replace(&mut self.events, futures_util::stream::empty().boxed());
        let events = if self.is_over { buffered.boxed() } else { buffered.chain(rest).boxed() };
        (self.request.clone(), self.begun, events)
    }

    /// Reads until the buffer is full. Cancel-safe.
    async fn read(&mut self) -> Infallible {
        while !self.is_over && self.bytes < MAX_HELD {
            match self.events.next().await {
                Some(event) => {
                    if let Ok(StreamEvent::Chunk(chunk)) = &event {
                        self.bytes += size(chunk);
                    }
                    self.is_over = event.is_err();
                    self.buffered.push_back(event);
                }
                None => self.is_over = true,
            }
        }
        std::future::pending().await
    }

    /// The usage so far, and the error if any.
    fn account(&self) -> (Usage, Option<String>) {
        let told = self.buffered.iter().rev().find_map(|event| match event {
            Ok(StreamEvent::Chunk(chunk)) => chunk.usage,
            _ => None,
        });
        let error = self.buffered.back().and_then(|event| event.as_ref().err()).map(error_class);
        (told.unwrap_or_default(), error)
    }
}

/// Reads a speculative request, if there is one.
pub(super) async fn fill(ahead: &mut Option<SpeculativeRequest>) -> Infallible {
    match ahead {
        Some(ahead) => ahead.read().await,
        None => std::future::pending().await,
    }
}

/// The approximate memory of a chunk.
fn size(chunk: &Chunk) -> usize {
    let of_part = |part| serde_json::to_vec(part).map_or(0, |json| json.len());
    let parts: usize = chunk.parts.iter().map(of_part).sum();
    size_of::<Chunk>() + parts
}

impl Drop for SpeculativeRequest {
    fn drop(&mut self) {
        let Some((hub, ledger, model)) = self.counts.take() else { return };
        self.cancel.cancel();
        let (usage, error) = self.account();
        let request_bytes = self.request.bytes();
        let price = model.catalog().price(&self.request.model);
        let call = ModelCall {
            // If the service had no time to report usage, the request counts by its size: it was
            // sent, and a budget must hold.
            cost: match &error {
                None => cost(price, &usage, request_bytes),
                Some(_) => price.map(|price| price.of(&usage)),
            },
            model: self.request.model.clone(),
            role: ROLE.into(),
            usage,
            latency_ms: millis(self.begun),
            request_bytes,
            error,
        };
        ledger.count(&call);
        let id = hub.observe_request(&self.request, self.begun.elapsed());
        hub.send_model_call(id, call, None, None);
    }
}

impl Session {
    /// Sends a speculative request, unless something would have to happen before it.
    pub(super) fn send_speculatively(
        &mut self,
        model: &str,
        cancel: &CancellationToken,
    ) -> Option<SpeculativeRequest> {
        let is_well = self.router.models.outage(model).is_none()
            && !self.router.models.is_limited_to_one_attempt(model);
        // Hooks run once, for the request that counts; a script has no response to spare.
        let is_free = !self.hooks.has_request_hooks()
            && !self.client.model.catalog().is_scripted()
            && self.can_enforce_cost(model);
        if !is_well || !is_free || !self.fits_without_compaction(model) {
            return None;
        }
        let mut request = self.request(model, false, false, false).ok()?;
        if self.is_too_expensive(&request) {
            return None;
        }
        request.adopted = Some(CancellationToken::new());
        let cancel = cancel.child_token();
        tracing::info!(model, "asked before it is chosen");
        Some(SpeculativeRequest {
            mode: self.inbox.mode,
            begun: Instant::now(),
            events: self.client.model.stream(request.clone(), cancel.clone()),
            request,
            buffered: VecDeque::new(),
            bytes: 0,
            is_over: false,
            cancel,
            counts: Some((self.hub.clone(), self.budget.ledger(), Arc::clone(&self.client.model))),
        })
    }

    /// Whether an unused request and a second one like it would approach a budget limit.
    fn is_too_expensive(&self, request: &Request) -> bool {
        let tokens = estimated_request_tokens(request.bytes());
        let usage = Usage { prompt: tokens, ..Usage::default() };
        let price = self.client.model.catalog().price(&request.model);
        let dollars = price.map_or(0.0, |price| price.of(&usage).total());
        self.budget.would_approach_limit(tokens.saturating_mul(2), dollars * 2.0)
    }

    /// Whether the request is still the one that would be sent now.
    pub(super) fn is_still_valid(&self, ahead: &SpeculativeRequest) -> bool {
        ahead.mode == self.inbox.mode
            && self.inbox.compactions.is_empty()
            && self.budget.exceeded().is_none()
    }
}
