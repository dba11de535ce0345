//! A request to the model that answers by default, sent while the small model still thinks
//! about which one the prompt is for. What comes is held back until that is known.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use parallax_protocol::event::{EventBody, ModelCall};
use parallax_protocol::model::{Chunk, Model, ModelError, Request, StreamEvent, Usage};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::{BoxStream, CancellationToken};

use super::classifier::ROLE;
use crate::budget::Ledger;
use crate::hub::EventHub;
use crate::meter::{cost, error_class, guessed_tokens, millis};
use crate::session::Session;

/// Bytes of an answer that are held back; the rest waits in the connection.
const HELD: usize = 1 << 20;

/// What a model sends.
pub(crate) type Events = BoxStream<'static, Result<StreamEvent, ModelError>>;

/// A request under way whose answer nobody has yet. Dropped, it is cancelled, and what it
/// spent is told as spent on the choice.
pub(crate) struct Ahead {
    request: Request,
    /// The mode that it was made for.
    mode: ApprovalMode,
    begun: Instant,
    events: Events,
    held: VecDeque<Result<StreamEvent, ModelError>>,
    bytes: usize,
    is_over: bool,
    cancel: CancellationToken,
    /// Where it is told when it is dropped.
    counts: Option<(EventHub, Ledger, Arc<dyn Model>)>,
}

impl Ahead {
    /// Whether it is a request to that model.
    pub(crate) fn is_to(&self, model: &str) -> bool {
        self.request.model == model
    }

    /// The request, when it was sent, and its answer from the beginning.
    pub(crate) fn take(mut self) -> (Request, Instant, Events) {
        self.counts = None;
        if let Some(taken) = &self.request.taken {
            taken.cancel();
        }
        let held = futures_util::stream::iter(std::mem::take(&mut self.held));
        let rest = std::mem::replace(&mut self.events, futures_util::stream::empty().boxed());
        let events = if self.is_over { held.boxed() } else { held.chain(rest).boxed() };
        (self.request.clone(), self.begun, events)
    }

    /// Reads on as long as there is room. Safe to cancel.
    async fn read(&mut self) -> Infallible {
        while !self.is_over && self.bytes < HELD {
            match self.events.next().await {
                Some(event) => {
                    if let Ok(StreamEvent::Chunk(chunk)) = &event {
                        self.bytes += size(chunk);
                    }
                    self.is_over = event.is_err();
                    self.held.push_back(event);
                }
                None => self.is_over = true,
            }
        }
        std::future::pending().await
    }

    /// What was said of it so far: the tokens, and what went wrong.
    fn account(&self) -> (Usage, Option<String>) {
        let told = self.held.iter().rev().find_map(|event| match event {
            Ok(StreamEvent::Chunk(chunk)) => chunk.usage,
            _ => None,
        });
        let error = self.held.back().and_then(|event| event.as_ref().err()).map(error_class);
        (told.unwrap_or_default(), error)
    }
}

/// Reads what a request brings, if one is under way.
pub(super) async fn fill(ahead: &mut Option<Ahead>) -> Infallible {
    match ahead {
        Some(ahead) => ahead.read().await,
        None => std::future::pending().await,
    }
}

/// About the memory that a piece takes.
fn size(chunk: &Chunk) -> usize {
    let of_part = |part| serde_json::to_vec(part).map_or(0, |json| json.len());
    let parts: usize = chunk.parts.iter().map(of_part).sum();
    size_of::<Chunk>() + parts
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let Some((hub, ledger, model)) = self.counts.take() else { return };
        self.cancel.cancel();
        let (usage, error) = self.account();
        let request_bytes = self.request.bytes();
        let price = model.price(&self.request.model);
        let call = ModelCall {
            // Where the service had no time to tell what it used, the request counts by its
            // size: it was sent, and a budget holds all the same.
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
        hub.send(EventBody::ModelCall(call));
    }
}

impl Session {
    /// Sends the next request to a model before it is known whether that is the one, unless
    /// something would have to be done or asked before.
    pub(super) fn send_ahead(&mut self, model: &str, cancel: &CancellationToken) -> Option<Ahead> {
        let is_well = self.models.trouble(model).is_none() && !self.models.one_attempt(model);
        // Hooks are asked once, and of what counts; a script has no answer to spare.
        let is_free = !self.shows_requests() && !self.model.is_scripted() && self.is_priced(model);
        if !is_well || !is_free || !self.has_room(model) {
            return None;
        }
        let mut request = self.request(model, false, false, false).ok()?;
        if self.is_dear(&request) {
            return None;
        }
        request.taken = Some(CancellationToken::new());
        let cancel = cancel.child_token();
        tracing::info!(model, "asked before it is chosen");
        Some(Ahead {
            mode: self.inbox.mode,
            begun: Instant::now(),
            events: self.model.stream(request.clone(), cancel.clone()),
            request,
            held: VecDeque::new(),
            bytes: 0,
            is_over: false,
            cancel,
            counts: Some((self.hub.clone(), self.budget.ledger(), Arc::clone(&self.model))),
        })
    }

    /// Whether a budget would be nearly spent if the request were made in vain and one
    /// like it had to follow: nobody's last money is spent on a guess.
    fn is_dear(&self, request: &Request) -> bool {
        let tokens = guessed_tokens(request.bytes());
        let usage = Usage { prompt_token_count: tokens, ..Usage::default() };
        let price = self.model.price(&request.model);
        let dollars = price.map_or(0.0, |price| price.of(&usage).total());
        self.budget.would_be_near(tokens.saturating_mul(2), dollars * 2.0)
    }

    /// Whether the request is the one that would be sent now: a person may have changed
    /// something meanwhile, or a budget is spent.
    pub(super) fn still_fits(&self, ahead: &Ahead) -> bool {
        ahead.mode == self.inbox.mode
            && self.inbox.compactions.is_empty()
            && self.budget.over().is_none()
    }
}
