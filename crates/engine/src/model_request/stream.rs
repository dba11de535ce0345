//! Streams an attempt at a response to the front ends, and retracts it if it fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use parallax_protocol::BoxStream;
use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EndReason, EventBody, ItemDone, ItemStart, Level, ModelCall};
use parallax_protocol::ids::ItemId;
use parallax_protocol::model::{Chunk, ModelError, Request, Retry, StreamEvent, Usage};
use parallax_protocol::observer::ResponseInfo;
use parallax_protocol::price::Cost;
use parallax_protocol::store::RequestRecord;

use super::ResponseReceiver;
use super::attempt::{Attempt, text_of};
use super::response_builder::StreamedText;
use crate::agents::SUBAGENT;
use crate::budget::total_tokens;
use crate::event_bus::SentRequest;
use crate::hooks::ResponseView;
use crate::part_text::{replace_text, visible_text};
use crate::usage_tracking::{cost, cost_of, error_class, interrupted_cost, may_have_cost, millis};

/// A model stream.
type EventStream = BoxStream<'static, Result<StreamEvent, ModelError>>;

/// How a stream ended.
pub(crate) enum StreamEnd {
    Complete,
    RepetitionDetected,
    Cancelled,
    /// The answer would continue with another request, but a budget is used up.
    OutOfBudget,
    /// A hook stopped it.
    Stopped(EndReason),
    Failed(ModelError),
}

impl StreamEnd {
    /// Whether the stream was stopped here, while the model may have gone on.
    pub(crate) fn is_by_client(&self) -> bool {
        matches!(self, Self::Cancelled | Self::RepetitionDetected | Self::Stopped(_))
    }
}

/// Where the stream comes from, and what hooks need.
pub(crate) struct StreamSource<'a> {
    /// The response from a hook, which replaces the request.
    pub(crate) hook_response: Option<EventStream>,
    /// The request as `AfterModel` hooks see it, if there are any.
    pub(crate) hook_request: Option<&'a serde_json::Value>,
}

/// Returns a stream of a single chunk: a hook's response.
pub(crate) fn single_chunk(chunk: Chunk) -> EventStream {
    futures_util::stream::iter([Ok(StreamEvent::Chunk(Box::new(chunk)))]).boxed()
}

impl ResponseReceiver<'_> {
    /// Streams one attempt to the front ends.
    pub(crate) async fn stream(
        &mut self,
        request: Request,
        played: StreamSource<'_>,
        attempt: &mut Attempt,
        cancel: &CancellationToken,
    ) -> StreamEnd {
        let model = request.model.clone();
        let is_continued = request.continuation.is_some();
        attempt.observed = self.bus.observe_request(&request, attempt.sent_at.elapsed());
        let mut stream = match played.hook_response {
            Some(events) => events,
            None => {
                attempt.is_sent = true;
                self.client.model().stream(request, cancel.clone())
            }
        };
        let is_delayed = self.hooks.holds_back_text();
        loop {
            let event = tokio::select! {
                biased;
                () = self.inbox.receive() => continue,
                () = cancel.cancelled() => return StreamEnd::Cancelled,
                event = stream.next() => event,
            };
            match event {
                None => return StreamEnd::Complete,
                Some(Err(ModelError::Cancelled)) => return StreamEnd::Cancelled,
                Some(Err(error)) => {
                    // The response was complete; only the end of the stream was lost.
                    let is_broken_stream = matches!(error, ModelError::Broken { status: None, .. });
                    if is_broken_stream && attempt.answer.finish.is_some() {
                        return StreamEnd::Complete;
                    }
                    return StreamEnd::Failed(error);
                }
                Some(Ok(StreamEvent::Retry(retry))) => {
                    let call = ModelCall {
                        model: model.clone(),
                        role: "main".into(),
                        usage: Usage::default(),
                        cost: match retry.status.is_none() && retry.class == Retry::TIMEOUT {
                            true => {
                                let price = self.client.catalog().price(&model);
                                cost(price, &Usage::default(), attempt.request_bytes)
                            }
                            false => None,
                        },
                        latency_ms: millis(attempt.sent_at),
                        request_bytes: attempt.request_bytes,
                        error: Some(retry.class.clone()),
                    };
                    let details =
                        RequestRecord { status: retry.status, ..RequestRecord::default() };
                    self.count_request(&call, details);
                    self.bus.send(EventBody::ModelCall(call));
                    // The wait does not count towards the next request's latency.
                    attempt.sent_at = Instant::now() + Duration::from_millis(retry.delay_ms);
                    self.bus.send(EventBody::Retry(retry));
                }
                Some(Ok(StreamEvent::NextHop)) => {
                    // The request that ended here began with a token, unless it was the first.
                    attempt.accepted_tokens += u32::from(attempt.hops > 0 || is_continued);
                    attempt.hops += 1;
                    if self.is_out_of_budget(&model, attempt).await {
                        return StreamEnd::OutOfBudget;
                    }
                }
                Some(Ok(StreamEvent::Notice(text))) => self.inbox.notice(Level::Warning, &text),
                Some(Ok(StreamEvent::Chunk(mut chunk))) => {
                    attempt.first_chunk_ms.get_or_insert_with(|| millis(attempt.sent_at));
                    if let Some(request_view) = played.hook_request {
                        let output = ResponseView {
                            text: visible_text(&chunk.parts),
                            finish: chunk.finish.as_ref(),
                            usage: chunk.usage,
                        };
                        match self
                            .hooks
                            .after_model(request_view, &output, true, self.inbox, cancel)
                            .await
                        {
                            Ok(None) => {}
                            Ok(Some(text)) => drop(replace_text(&mut chunk.parts, &text)),
                            Err(reason) => return StreamEnd::Stopped(reason),
                        }
                    }
                    let token = chunk.continuation.take();
                    let parts = match token.is_some() || attempt.unjournaled.is_some() {
                        true => chunk.parts.clone(),
                        false => Vec::new(),
                    };
                    let pieces = attempt.answer.push(*chunk);
                    self.journal_piece(attempt, &parts, token.as_deref(), &model);
                    for piece in pieces {
                        let is_text = matches!(piece, StreamedText::Text(_));
                        let repeats = matches!(&piece, StreamedText::Text(text) if self.loops.push_text(text));
                        if !(is_delayed && is_text) {
                            self.show(attempt, piece);
                        }
                        if repeats {
                            return StreamEnd::RepetitionDetected;
                        }
                    }
                }
            }
        }
    }

    /// Runs hooks on a complete response, then shows its text or the hooks' replacement.
    pub(crate) async fn run_response_hooks(
        &mut self,
        attempt: &mut Attempt,
        request_view: &serde_json::Value,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        if !self.hooks.holds_back_text() {
            return Ok(());
        }
        let output = ResponseView {
            text: attempt.answer.text(),
            finish: attempt.answer.finish.as_ref(),
            usage: attempt.answer.usage,
        };
        let new = self.hooks.after_model(request_view, &output, false, self.inbox, cancel).await?;
        if cancel.is_cancelled() {
            // The hooks were cancelled before they could respond.
            return Err(EndReason::Cancelled);
        }
        if let Some(new) = new.filter(|new| *new != output.text) {
            attempt.answer.replace_text(&new);
        }
        let text = attempt.answer.text();
        if !text.is_empty() {
            self.show(attempt, StreamedText::Text(text));
        }
        Ok(())
    }

    pub(crate) fn show(&mut self, attempt: &mut Attempt, piece: StreamedText) {
        match piece {
            StreamedText::Thought(text) => {
                let item = match &attempt.thought {
                    Some(item) => item.clone(),
                    None => {
                        let item = self.start_item("thought", ItemStart::Thought);
                        attempt.thought = Some(item.clone());
                        item
                    }
                };
                attempt.thought_text.push_str(&text);
                self.bus.send(EventBody::ItemDelta { item, text });
            }
            StreamedText::Text(text) => {
                self.finish_thought(attempt);
                let item = match &attempt.text {
                    Some(item) => item.clone(),
                    None => {
                        let item = self.start_item("text", ItemStart::Text);
                        attempt.text = Some(item.clone());
                        item
                    }
                };
                self.bus.send(EventBody::ItemDelta { item, text });
            }
        }
    }

    fn start_item(&mut self, kind: &str, start: ItemStart) -> ItemId {
        let item = self.conversation.next_item(kind);
        self.bus.send(EventBody::ItemStarted { item: item.clone(), start });
        item
    }

    pub(crate) fn finish_thought(&self, attempt: &mut Attempt) {
        if let Some(item) = attempt.thought.take() {
            let text = std::mem::take(&mut attempt.thought_text);
            self.bus.send(EventBody::ItemDone { item, done: ItemDone::Thought { text } });
        }
    }

    /// Tells the front ends to discard what a failed attempt showed.
    pub(crate) fn discard_output(&mut self, attempt: &mut Attempt) {
        self.finish_thought(attempt);
        if let Some(item) = attempt.text.take() {
            let content = std::mem::take(&mut attempt.answer).into_content();
            let text = Arc::new(attempt.strip_shown(text_of(content)));
            self.bus.send(EventBody::ItemDone {
                item,
                done: ItemDone::Text { text, is_dropped: true },
            });
        }
    }

    /// Counts the request and reports it to observers. Returns its cost in US dollars, if known.
    pub(crate) fn report_request(
        &self,
        model: &str,
        attempt: &Attempt,
        ended: &StreamEnd,
    ) -> Option<f64> {
        let answer = &attempt.answer;
        let usage = answer.usage.unwrap_or_default();
        let call = ModelCall {
            model: answered_model(model, answer.model_version.as_deref()),
            role: "main".into(),
            usage,
            // A version of a model costs what the requested model costs.
            cost: self.cost_of_request(model, attempt, ended),
            latency_ms: millis(attempt.sent_at),
            request_bytes: attempt.request_bytes,
            error: match ended {
                StreamEnd::Failed(error) => Some(error_class(error)),
                StreamEnd::Cancelled => Some("cancelled".into()),
                StreamEnd::Complete
                | StreamEnd::RepetitionDetected
                | StreamEnd::OutOfBudget
                | StreamEnd::Stopped(_) => None,
            },
        };
        let status = match ended {
            StreamEnd::Failed(error) => error.status(),
            _ => None,
        };
        let details = RequestRecord {
            first_chunk_ms: attempt.first_chunk_ms,
            window: Some(self.client.catalog().limits(model).context),
            status,
            ..RequestRecord::default()
        };
        self.count_request(&call, details);
        let response = call.error.is_none().then(|| ResponseInfo {
            parts: answer.parts(),
            finish: answer.finish.as_ref().map(|finish| finish.provider_reason.clone()),
            id: answer.response_id.as_deref(),
            model: answer.model_version.as_deref(),
            first_chunk_ms: attempt.first_chunk_ms,
        });
        let server = self.client.model().server_address(model);
        let request = SentRequest { id: attempt.observed, response, status, server };
        let cost = call.cost.map(|cost| cost.total());
        self.bus.send_model_call(call, request);
        cost
    }

    /// Returns what an attempt cost. A gateway without usage data has still responded if there is a
    /// finish reason. Without one, the answer broke off, and its usage is estimated.
    fn cost_of_request(&self, model: &str, attempt: &Attempt, ended: &StreamEnd) -> Option<Cost> {
        let (answer, price) = (&attempt.answer, self.client.catalog().price(model));
        let usage = answer.usage.unwrap_or_default();
        if answer.finish.is_some() {
            return cost(price, &usage, attempt.request_bytes);
        }
        let may_have_cost = match ended {
            _ if !attempt.is_sent => false,
            _ if attempt.first_chunk_ms.is_some() => true,
            StreamEnd::Failed(error) => may_have_cost(error),
            // It may wait to be sent again.
            StreamEnd::Cancelled => attempt.sent_at <= Instant::now(),
            _ => false,
        };
        match may_have_cost {
            true => {
                let received = answer.estimated_tokens();
                interrupted_cost(price, &usage, attempt.request_bytes, received)
            }
            false => cost_of(price, &usage),
        }
    }

    /// Whether the attempt, which is not counted yet, has used up a budget, or a budget does not
    /// cover the next request of its answer.
    async fn is_out_of_budget(&self, model: &str, attempt: &mut Attempt) -> bool {
        let usage = attempt.answer.usage.unwrap_or_default();
        let cost = cost_of(self.client.catalog().price(model), &usage);
        let cost = cost.map_or(0.0, |cost| cost.total());
        if self.ledger.would_exceed(cost, total_tokens(&usage)) {
            return true;
        }
        match &mut attempt.reservation {
            Some(reservation) => !reservation.extend(cost).await,
            None => false,
        }
    }

    /// Counts a request in the budget.
    fn count_request(&self, call: &ModelCall, details: RequestRecord) {
        // A subagent's requests do not count for the session's own model.
        let role = if self.environment.role.is_some() { SUBAGENT } else { call.role.as_str() };
        self.ledger.count_as(call, role, details);
    }
}

/// Returns the model that a request is counted for. Names with a provider stay as they were
/// requested: what such a provider answers lacks its prefix.
fn answered_model(requested: &str, version: Option<&str>) -> String {
    match version {
        Some(version) if !requested.contains(':') => version.to_owned(),
        _ => requested.to_owned(),
    }
}
