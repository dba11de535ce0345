//! One attempt at an answer: its stream, shown to the faces as it comes and
//! taken back when nothing becomes of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EndReason, EventBody, ItemDone, ItemStart, ModelCall};
use parallax_protocol::ids::ItemId;
use parallax_protocol::model::{Chunk, ModelError, Request, StreamEvent, Usage};

use super::answered::text_of;
use crate::agents::SUBAGENT;
use crate::answer::{Answer, Piece};
use crate::loop_guard::LoopGuard;
use crate::meter::{cost, error_class, millis};
use crate::model_hooks::{Said, replace_text, visible};
use crate::routing::Events;
use crate::session::Session;
/// How one stream ended.
pub(super) enum Ended {
    Whole,
    Chanting,
    Cancelled,
    /// A hook ended it.
    Stopped(EndReason),
    Failed(ModelError),
}

/// What hooks have to do with an attempt.
pub(super) struct Played<'a> {
    /// What comes in the place of a new request.
    pub(super) given: Option<Events>,
    /// The request as hooks of answers see it, when there are any.
    pub(super) seen: Option<&'a serde_json::Value>,
}

/// The answer that a hook gave in the model's place.
pub(super) fn only(chunk: Chunk) -> Events {
    futures_util::stream::iter([Ok(StreamEvent::Chunk(Box::new(chunk)))]).boxed()
}

/// One attempt: what came, and what of it is shown already.
pub(super) struct Attempt {
    pub(super) answer: Answer,
    pub(super) text: Option<ItemId>,
    thought: Option<ItemId>,
    thought_text: String,
    /// When the request in flight was sent.
    begun: Instant,
    /// How large it is, in bytes.
    request_bytes: u64,
}

impl Attempt {
    /// One whose request, of so many bytes, was sent then.
    pub(super) fn new(begun: Instant, request_bytes: u64) -> Self {
        Self {
            answer: Answer::default(),
            text: None,
            thought: None,
            thought_text: String::new(),
            begun,
            request_bytes,
        }
    }
}

impl Session {
    /// Streams one attempt to the faces.
    pub(super) async fn stream(
        &mut self,
        request: Request,
        played: Played<'_>,
        attempt: &mut Attempt,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Ended {
        let model = request.model.clone();
        let mut stream = match played.given {
            Some(events) => events,
            None => self.model.stream(request, cancel.clone()),
        };
        let held = self.holds_text();
        loop {
            let event = tokio::select! {
                biased;
                () = self.inbox.take_one() => continue,
                () = cancel.cancelled() => return Ended::Cancelled,
                event = stream.next() => event,
            };
            match event {
                None => return Ended::Whole,
                Some(Err(ModelError::Cancelled)) => return Ended::Cancelled,
                Some(Err(error)) => {
                    // The answer was whole; only the farewell got lost.
                    let told = matches!(error, ModelError::Broken { status: None, .. });
                    if told && attempt.answer.finish.is_some() {
                        return Ended::Whole;
                    }
                    return Ended::Failed(error);
                }
                Some(Ok(StreamEvent::Retry(retry))) => {
                    self.count_request(ModelCall {
                        model: model.clone(),
                        role: "main".into(),
                        usage: Usage::default(),
                        cost: None,
                        latency_ms: millis(attempt.begun),
                        request_bytes: attempt.request_bytes,
                        error: Some(retry.class.clone()),
                    });
                    // The wait is no part of the next request's time.
                    attempt.begun = Instant::now() + Duration::from_millis(retry.delay_ms);
                    self.hub.send(EventBody::Retry(retry));
                }
                Some(Ok(StreamEvent::Chunk(mut chunk))) => {
                    if let Some(seen) = played.seen {
                        let said = Said {
                            text: visible(&chunk.parts),
                            finish: chunk.finish.as_ref(),
                            usage: chunk.usage,
                        };
                        match self.hook_after_model(seen, &said, true, cancel).await {
                            Ok(None) => {}
                            Ok(Some(text)) => drop(replace_text(&mut chunk.parts, &text)),
                            Err(reason) => return Ended::Stopped(reason),
                        }
                    }
                    for piece in attempt.answer.push(*chunk) {
                        let is_text = matches!(piece, Piece::Text(_));
                        let chants = self.loop_detection
                            && matches!(&piece, Piece::Text(text) if guard.text.push(text));
                        if !(held && is_text) {
                            self.show(attempt, piece);
                        }
                        if chants {
                            return Ended::Chanting;
                        }
                    }
                }
            }
        }
    }

    /// Shows hooks a whole answer, and then people: its text, or what the hooks put
    /// in its place.
    pub(super) async fn show_hooks(
        &mut self,
        attempt: &mut Attempt,
        seen: &serde_json::Value,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        if !self.holds_text() {
            return Ok(());
        }
        let said = Said {
            text: attempt.answer.text(),
            finish: attempt.answer.finish.as_ref(),
            usage: attempt.answer.usage,
        };
        let new = self.hook_after_model(seen, &said, false, cancel).await?;
        if cancel.is_cancelled() {
            // The hooks were ended before they could say anything.
            return Err(EndReason::Cancelled);
        }
        if let Some(new) = new.filter(|new| *new != said.text) {
            attempt.answer.replace_text(&new);
        }
        let text = attempt.answer.text();
        if !text.is_empty() {
            self.show(attempt, Piece::Text(text));
        }
        Ok(())
    }

    fn show(&mut self, attempt: &mut Attempt, piece: Piece) {
        match piece {
            Piece::Thought(text) => {
                let item = match &attempt.thought {
                    Some(item) => item.clone(),
                    None => {
                        let item = self.begin_item("thought", ItemStart::Thought);
                        attempt.thought = Some(item.clone());
                        item
                    }
                };
                attempt.thought_text.push_str(&text);
                self.hub.send(EventBody::ItemDelta { item, text });
            }
            Piece::Text(text) => {
                self.end_thought(attempt);
                let item = match &attempt.text {
                    Some(item) => item.clone(),
                    None => {
                        let item = self.begin_item("text", ItemStart::Text);
                        attempt.text = Some(item.clone());
                        item
                    }
                };
                self.hub.send(EventBody::ItemDelta { item, text });
            }
        }
    }

    fn begin_item(&mut self, kind: &str, start: ItemStart) -> ItemId {
        let item = self.next_item(kind);
        self.hub.send(EventBody::ItemStarted { item: item.clone(), start });
        item
    }

    pub(super) fn end_thought(&self, attempt: &mut Attempt) {
        if let Some(item) = attempt.thought.take() {
            let text = std::mem::take(&mut attempt.thought_text);
            self.hub.send(EventBody::ItemDone { item, done: ItemDone::Thought { text } });
        }
    }

    /// Tells the faces to take back what a broken attempt showed.
    pub(super) fn drop_shown(&mut self, attempt: &mut Attempt) {
        self.end_thought(attempt);
        if let Some(item) = attempt.text.take() {
            let content = std::mem::take(&mut attempt.answer).into_content();
            let text = Arc::new(text_of(content));
            self.hub
                .send(EventBody::ItemDone { item, done: ItemDone::Text { text, dropped: true } });
        }
    }

    pub(super) fn tell_call(&self, model: &str, attempt: &Attempt, ended: &Ended) {
        let answer = &attempt.answer;
        let usage = answer.usage.unwrap_or_default();
        let call = ModelCall {
            model: answer.model_version.clone().unwrap_or_else(|| model.to_owned()),
            role: "main".into(),
            usage,
            // A version of the model costs what was asked for.
            // A gateway that tells no usage has answered all the same, where an end came.
            cost: match answer.finish.is_some() {
                true => cost(self.model.price(model), &usage, attempt.request_bytes),
                false => self.model.price(model).map(|price| price.of(&usage)),
            },
            latency_ms: millis(attempt.begun),
            request_bytes: attempt.request_bytes,
            error: match ended {
                Ended::Failed(error) => Some(error_class(error)),
                Ended::Cancelled => Some("cancelled".into()),
                Ended::Whole | Ended::Chanting | Ended::Stopped(_) => None,
            },
        };
        self.count_request(call);
    }

    /// Counts a request for the answer, and tells it.
    fn count_request(&self, call: ModelCall) {
        // What an agent asks for is nothing that the session's own model was asked.
        let role = if self.role.is_some() { SUBAGENT } else { call.role.as_str() };
        self.budget.ledger().count(&ModelCall { role: role.to_owned(), ..call.clone() });
        self.hub.send(EventBody::ModelCall(call));
    }
}
