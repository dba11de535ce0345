//! One model request: build it, stream it, judge the stream, try again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use parallax_protocol::content::{
    Content, FunctionCall, Part, PartView, SYNTHETIC_SIGNATURE, Sealed,
};
use parallax_protocol::event::{
    ContextUsed, EndReason, EventBody, Failure, FailureKind, ItemDone, ItemStart, Level, ModelCall,
};
use parallax_protocol::ids::ItemId;
use parallax_protocol::model::{Chunk, ModelError, Request, Retry, StreamEvent, ToolSet, Usage};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::{CancellationToken, Object};

use serde_json::value::RawValue;

use crate::answer::{Answer, Piece};
use crate::board::Call;
use crate::fallback::{self, Fell};
use crate::history::Remarks;
use crate::loop_guard::LoopGuard;
use crate::meter::{error_class, millis};
use crate::model_hooks::{Said, replace_text, visible};
use crate::session::Session;
use crate::tokens;
use crate::verdict::Invalid;

/// Attempts of one request whose stream broke or held no answer.
const ATTEMPTS: u32 = 4;

/// What the model said.
pub(crate) enum Reply {
    /// It wants calls run.
    Calls(Vec<Call>),
    /// It is done.
    Final,
    /// It wrote the same text again and again; the stream was cut.
    Chanting,
}

/// How one stream ended.
enum Ended {
    Whole,
    Chanting,
    Cancelled,
    /// A hook ended it.
    Stopped(EndReason),
    Failed(ModelError),
}

/// What hooks have to do with an attempt.
struct Played<'a> {
    /// The answer that a hook gave in the model's place.
    hooked: Option<Chunk>,
    /// The request as hooks of answers see it, when there are any.
    seen: Option<&'a serde_json::Value>,
}

/// One attempt: what came, and what of it is shown already.
struct Attempt {
    answer: Answer,
    text: Option<ItemId>,
    thought: Option<ItemId>,
    thought_text: String,
    /// When the request in flight was sent.
    begun: Instant,
    /// How large it is, in bytes.
    request_bytes: u64,
}

/// What to do after an attempt that gave no answer.
enum Again {
    /// Wait and send the same again, not sooner than the service asks.
    Wait(Failure, Option<Duration>),
    /// Wait and send it with a note that asks for an answer.
    Nudge(Failure),
    /// The service does not like our signatures: replace them and send.
    Unsign,
    /// The service finds the request too long: make it shorter, once.
    MakeRoom(Failure),
    /// It is over.
    Stop(Failure),
}

impl Session {
    /// Asks the model for the next step and keeps what it says.
    pub(crate) async fn ask_model(
        &mut self,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Result<Reply, EndReason> {
        let after_tool = self.history.ends_with_results();
        self.take_tools();
        self.choose_model(cancel).await?;
        self.avoid_trouble(cancel).await?;
        let mut model = self.main_model();
        self.may_spend(&model)?;
        self.make_room(cancel).await?;
        let mut nudged = false;
        let mut foreign_signature = 0u8;
        let mut made_room = false;
        let mut number = 0;
        loop {
            number += 1;
            let request = self.request(&model, nudged, after_tool)?;
            let (request, hooked) = self.hook_before_model(request, cancel).await?;
            let seen = self.request_view(&request);
            let sent = self.history.len();
            let mut attempt = Attempt {
                answer: Answer::default(),
                text: None,
                thought: None,
                thought_text: String::new(),
                begun: Instant::now(),
                request_bytes: request.bytes(),
            };
            let played = Played { hooked, seen: seen.as_ref() };
            let mut ended = self.stream(request, played, &mut attempt, guard, cancel).await;
            self.tell_call(&model, &attempt, &ended);
            if let (Ended::Whole, Some(seen)) = (&ended, &seen)
                && let Err(reason) = self.show_hooks(&mut attempt, seen, cancel).await
            {
                ended = Ended::Stopped(reason);
            }
            if let Some(usage) = attempt.answer.usage
                && !nudged
            {
                self.history.counted(sent, usage.prompt_token_count);
            }
            let trouble = match &ended {
                Ended::Failed(error) => fallback::cause(error),
                _ => None,
            };
            let again = match ended {
                Ended::Cancelled => {
                    self.keep_partial(attempt, &model);
                    return Err(EndReason::Cancelled);
                }
                Ended::Chanting => {
                    self.keep_partial(attempt, &model);
                    return Ok(Reply::Chanting);
                }
                Ended::Stopped(reason) => {
                    self.drop_shown(&mut attempt);
                    return Err(reason);
                }
                Ended::Whole => match attempt.answer.blocked.clone() {
                    Some(reason) => Again::Stop(blocked(&reason, &attempt.answer)),
                    None => match Invalid::of(&attempt.answer, after_tool) {
                        None => {
                            self.models.well(&model);
                            return Ok(self.keep(attempt, &model));
                        }
                        Some(invalid) => {
                            let failure = invalid.failure(&attempt.answer);
                            if number >= invalid.max_attempts() {
                                Again::Stop(failure)
                            } else if invalid.wants_nudge() {
                                Again::Nudge(failure)
                            } else {
                                Again::Wait(failure, None)
                            }
                        }
                    },
                },
                Ended::Failed(error) => classify(&error, number, &mut foreign_signature),
            };
            self.drop_shown(&mut attempt);
            match again {
                Again::Stop(mut failure) => {
                    let Some(cause) = trouble else { return Err(EndReason::Failed(failure)) };
                    if let Fell::No = self.fall_back(cause, &mut failure, cancel).await? {
                        return Err(EndReason::Failed(failure));
                    }
                    model = self.main_model();
                    self.may_spend(&model)?;
                    number = 0;
                }
                Again::Unsign => self.unsign(),
                Again::MakeRoom(failure) => {
                    if std::mem::replace(&mut made_room, true)
                        || !self.make_room_by_force(cancel).await
                    {
                        return Err(EndReason::Failed(failure));
                    }
                }
                Again::Wait(failure, asked) => {
                    self.wait(&failure, number, asked, &model, cancel).await?;
                }
                Again::Nudge(failure) => {
                    nudged = true;
                    self.wait(&failure, number, None, &model, cancel).await?;
                }
            }
        }
    }

    fn request(
        &mut self,
        model: &str,
        nudged: bool,
        after_tool: bool,
    ) -> Result<Request, EndReason> {
        let mode = self.inbox.mode;
        let system = (self.system)(mode);
        let tools = self.declarations(mode);
        let ContextUsed { tokens: estimate, window: limit } = self.context(model);
        if estimate > limit {
            return Err(EndReason::Failed(Failure {
                kind: FailureKind::Overflow,
                message: format!(
                    "the conversation has about {estimate} tokens and `{model}` takes {limit}; \
                     begin a new session, or send less at once"
                ),
                status: None,
            }));
        }
        let mut contents = crate::view::contents_of(self.history.view());
        if nudged {
            nudge(&mut contents, after_tool);
        }
        debug_assert_eq!(crate::invariants::violation(&contents), None);
        Ok(Request {
            model: model.to_owned(),
            system,
            contents,
            tools: tools.map_or(ToolSet::None, ToolSet::Functions),
            generation: self.generation.clone(),
            role: "main".into(),
            max_attempts: match self.models.one_attempt(model) {
                true => Some(1),
                false => self.max_attempts.or_else(|| self.model.attempts(model, self.chooses())),
            },
        })
    }

    /// Waits, before the first prompt, for tools that it cannot do without, and
    /// says what the model should know of them.
    pub(crate) async fn await_tools(&mut self, cancel: &CancellationToken) {
        let Some(settled) = self.registry.settled() else { return };
        tokio::select! {
            biased;
            () = self.inbox.during(settled) => {}
            () = cancel.cancelled() => return,
        }
        if let (Some(preface), Some(context)) = (&mut self.preface, self.registry.context()) {
            preface.push_str("\n\n");
            preface.push_str(&context);
        }
    }

    /// Takes over tools that came or went since the last request.
    fn take_tools(&mut self) {
        if self.registry.refresh() {
            self.declared = None;
        }
    }

    /// How full the context of a model would be with the next request.
    pub(crate) fn context(&mut self, model: &str) -> ContextUsed {
        let fixed = self.fixed_tokens();
        let window = self.model.limits(model).context;
        ContextUsed { tokens: self.history.estimate(fixed), window }
    }

    /// An estimate of what goes with every request: system prompt and tools.
    pub(crate) fn fixed_tokens(&mut self) -> u64 {
        let (system, tools) = self.fixed_parts();
        system + tools
    }

    /// The same, of the system prompt and of the tools.
    pub(crate) fn fixed_parts(&mut self) -> (u64, u64) {
        let mode = self.inbox.mode;
        let tools = self.declarations(mode).map_or(0, |tools| tokens::of_text(tools.get()));
        (tokens::of_text(&(self.system)(mode)), tools)
    }

    /// Tells how full the context is, where that is new.
    pub(crate) fn tell_context(&mut self) {
        let model = self.main_model();
        let used = self.context(&model);
        if self.told_context.replace(used) != Some(used) {
            self.hub.send(EventBody::ContextUsed(used));
        }
    }

    /// The declarations of the tools, made once for a mode.
    fn declarations(&mut self, mode: ApprovalMode) -> Option<Arc<RawValue>> {
        match &self.declared {
            Some((known, tools)) if *known == mode => tools.clone(),
            _ => {
                let judge = self.judge.as_ref();
                let tools = self.registry.declarations(judge, mode, self.interactive);
                self.declared = Some((mode, tools.clone()));
                tools
            }
        }
    }

    /// Shows hooks a whole answer. What they put in its place is shown in its
    /// place.
    async fn show_hooks(
        &mut self,
        attempt: &mut Attempt,
        seen: &serde_json::Value,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let said = Said {
            text: attempt.answer.text(),
            finish: attempt.answer.finish.as_ref(),
            usage: attempt.answer.usage,
        };
        let new = self.hook_after_model(seen, &said, false, cancel).await?;
        let old = said.text;
        let Some(new) = new.filter(|new| *new != old) else { return Ok(()) };
        attempt.answer.replace_text(&new);
        self.end_thought(attempt);
        if let Some(item) = attempt.text.take() {
            let text = Arc::new(old);
            let done = ItemDone::Text { text, dropped: true };
            self.hub.send(EventBody::ItemDone { item, done });
        }
        self.show(attempt, Piece::Text(new));
        Ok(())
    }

    /// Streams one attempt to the faces.
    async fn stream(
        &mut self,
        request: Request,
        played: Played<'_>,
        attempt: &mut Attempt,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Ended {
        let model = request.model.clone();
        let mut stream = match played.hooked {
            Some(chunk) => {
                let said = [Ok(StreamEvent::Chunk(Box::new(chunk)))];
                futures_util::stream::iter(said).boxed()
            }
            None => self.model.stream(request, cancel.clone()),
        };
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
                    self.hub.send(EventBody::ModelCall(ModelCall {
                        model: model.clone(),
                        role: "main".into(),
                        usage: Usage::default(),
                        cost: None,
                        latency_ms: millis(attempt.begun),
                        request_bytes: attempt.request_bytes,
                        error: Some(retry.class.clone()),
                    }));
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
                            Ok(Some(text)) => replace_text(&mut chunk.parts, &text),
                            Err(reason) => return Ended::Stopped(reason),
                        }
                    }
                    for piece in attempt.answer.push(*chunk) {
                        if let Piece::Text(text) = &piece
                            && self.loop_detection
                            && guard.text.push(text)
                        {
                            self.show(attempt, piece);
                            return Ended::Chanting;
                        }
                        self.show(attempt, piece);
                    }
                }
            }
        }
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

    fn end_thought(&self, attempt: &mut Attempt) {
        if let Some(item) = attempt.thought.take() {
            let text = std::mem::take(&mut attempt.thought_text);
            self.hub.send(EventBody::ItemDone { item, done: ItemDone::Thought { text } });
        }
    }

    fn tell_call(&self, model: &str, attempt: &Attempt, ended: &Ended) {
        let answer = &attempt.answer;
        let usage = answer.usage.unwrap_or_default();
        let call = ModelCall {
            model: answer.model_version.clone().unwrap_or_else(|| model.to_owned()),
            role: "main".into(),
            usage,
            // A version of the model costs what was asked for.
            cost: self.model.price(model).map(|price| price.of(&usage)),
            latency_ms: millis(attempt.begun),
            request_bytes: attempt.request_bytes,
            error: match ended {
                Ended::Failed(error) => Some(error_class(error)),
                Ended::Cancelled => Some("cancelled".into()),
                Ended::Whole | Ended::Chanting | Ended::Stopped(_) => None,
            },
        };
        self.budget.ledger().count(&call);
        self.hub.send(EventBody::ModelCall(call));
    }

    /// Keeps a valid answer: history and journal first, then the faces.
    fn keep(&mut self, mut attempt: Attempt, model: &str) -> Reply {
        self.end_thought(&mut attempt);
        let cut =
            attempt.answer.finish.as_ref().is_some_and(|reason| reason.as_str() == "MAX_TOKENS");
        let item = attempt.text.take();
        let mut answer = attempt.answer;
        let citations = citations(&mut answer);
        let remarks = Remarks {
            model: Some(model.to_owned()),
            usage: answer.usage,
            thoughts: std::mem::take(&mut answer.thoughts),
            ..Remarks::default()
        };
        if answer.is_empty() {
            // Silence after results is an end; the next prompt settles it.
            return Reply::Final;
        }
        let content = answer.into_content();
        self.history.push(&content, remarks);
        let calls: Vec<Call> = content
            .calls()
            .map(|call| (call.id.map(str::to_owned), call.name.to_owned(), args_of(&call)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(wire_id, name, args)| Call {
                id: self.call_id(wire_id.as_deref(), &name),
                wire_id,
                name,
                args,
                replaces: None,
            })
            .collect();
        if let Some(item) = item {
            let text = Arc::new(text_of(content));
            self.hub
                .send(EventBody::ItemDone { item, done: ItemDone::Text { text, dropped: false } });
        }
        if cut {
            let text = "the answer was cut at the model's output limit (`MAX_TOKENS`)";
            self.inbox.notice(Level::Warning, text);
        }
        if let Some(citations) = citations {
            self.inbox.notice(Level::Info, citations);
        }
        if calls.is_empty() { Reply::Final } else { Reply::Calls(calls) }
    }

    /// Keeps the text of an interrupted answer.
    fn keep_partial(&mut self, mut attempt: Attempt, model: &str) {
        self.end_thought(&mut attempt);
        let item = attempt.text.take();
        let mut answer = attempt.answer;
        let remarks = Remarks {
            model: Some(model.to_owned()),
            usage: answer.usage,
            thoughts: std::mem::take(&mut answer.thoughts),
            partial: true,
            ..Remarks::default()
        };
        let content = answer.into_partial();
        if !content.parts.is_empty() {
            self.history.push(&content, remarks);
        }
        if let Some(item) = item {
            let text = Arc::new(text_of(content));
            self.hub
                .send(EventBody::ItemDone { item, done: ItemDone::Text { text, dropped: false } });
        }
    }

    /// Tells the faces to take back what a broken attempt showed.
    fn drop_shown(&mut self, attempt: &mut Attempt) {
        self.end_thought(attempt);
        if let Some(item) = attempt.text.take() {
            let content = std::mem::take(&mut attempt.answer).into_content();
            let text = Arc::new(text_of(content));
            self.hub
                .send(EventBody::ItemDone { item, done: ItemDone::Text { text, dropped: true } });
        }
    }

    /// Waits 1, 2, 4 … times the base before another attempt.
    async fn wait(
        &mut self,
        failure: &Failure,
        number: u32,
        asked: Option<Duration>,
        model: &str,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let backoff = self.retry_base * 2u32.saturating_pow(number.saturating_sub(1)).min(64);
        let delay = backoff.max(asked.unwrap_or_default());
        self.hub.send(EventBody::Retry(Retry {
            attempt: number,
            max_attempts: ATTEMPTS,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            class: "stream".into(),
            status: failure.status,
            message: failure.message.clone(),
            model: model.to_owned(),
        }));
        self.pause(delay, cancel).await
    }

    async fn pause(
        &mut self,
        delay: Duration,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let woken = async {
            tokio::select! {
                () = cancel.cancelled() => Err(EndReason::Cancelled),
                () = tokio::time::sleep(delay) => Ok(()),
            }
        };
        self.inbox.during(woken).await
    }

    /// Replaces every signature of the history by the synthetic one.
    fn unsign(&mut self) {
        let text = "the service refused thought signatures of this session (another model, key or \
                    endpoint made them); they are replaced";
        self.inbox.notice(Level::Warning, text);
        let contents = self.history.contents().iter().map(unsigned).collect();
        self.history.replace(contents);
    }
}

/// The arguments of a call; a call without any has none to give.
fn args_of(call: &FunctionCall<'_>) -> Option<Object> {
    match call.args {
        Some(args) => Some(args.clone()),
        None if call.has_args => None,
        None => Some(Object::new()),
    }
}

/// What a failed stream calls for.
fn classify(error: &ModelError, number: u32, foreign_signature: &mut u8) -> Again {
    if let ModelError::BadRequest { message, status, .. } = error {
        let lower = message.to_lowercase().replace('_', " ");
        if lower.contains("thought signature") && *foreign_signature < 2 {
            *foreign_signature += 1;
            let failure =
                Failure { kind: FailureKind::Api, message: message.clone(), status: Some(*status) };
            // Once as it is, since the service is known to err; then without.
            return if *foreign_signature == 1 {
                Again::Wait(failure, None)
            } else {
                Again::Unsign
            };
        }
    }
    let failure = failure_of(error);
    if is_overflow(error) {
        return Again::MakeRoom(Failure { kind: FailureKind::Overflow, ..failure });
    }
    match error {
        ModelError::Broken { retryable: true, delay, .. } if number < ATTEMPTS => {
            Again::Wait(failure, *delay)
        }
        _ => Again::Stop(failure),
    }
}

/// Whether the service refused a request for its length.
fn is_overflow(error: &ModelError) -> bool {
    let ModelError::BadRequest { message, status, .. } = error else { return false };
    let lower = message.to_lowercase();
    let counted =
        lower.contains("token") && (lower.contains("exceed") || lower.contains("maximum"));
    *status == 413 || counted || lower.contains("context length") || lower.contains("too long")
}

fn failure_of(error: &ModelError) -> Failure {
    let kind = match error {
        ModelError::Auth { .. } => FailureKind::Auth,
        ModelError::Quota { .. } => FailureKind::Quota,
        ModelError::Broken { status: None, .. } => FailureKind::InvalidStream,
        _ => FailureKind::Api,
    };
    Failure { kind, message: error.to_string(), status: error.status() }
}

fn blocked(reason: &str, answer: &Answer) -> Failure {
    let mut message = format!("the service blocked the prompt (`{reason}`)");
    if let Some(said) = answer.finish_message.as_deref().filter(|said| !said.is_empty()) {
        message.push_str(&format!(": {said}"));
    }
    Failure { kind: FailureKind::Blocked, message, status: None }
}

/// The visible text, without a copy where it is one part.
fn text_of(content: Content) -> String {
    let mut text = String::new();
    for part in content.parts {
        if !matches!(part.view(), PartView::Text(_)) {
            continue;
        }
        let piece = part.into_text().unwrap_or_default();
        if text.is_empty() {
            text = piece;
        } else {
            text.push_str(&piece);
        }
    }
    text
}

/// The sources of an answer as one block, sorted and without repeats.
fn citations(answer: &mut Answer) -> Option<String> {
    let mut sources = std::mem::take(&mut answer.citations);
    sources.retain(|source| !source.uri.is_empty());
    sources.sort();
    sources.dedup();
    if sources.is_empty() {
        return None;
    }
    let lines = sources.iter().map(|source| match &source.title {
        Some(title) => format!("({title}) {}", source.uri),
        None => source.uri.clone(),
    });
    Some(format!("Citations:\n{}", lines.collect::<Vec<_>>().join("\n")))
}

/// Asks for an answer, in this request only.
fn nudge(contents: &mut Vec<Sealed>, after_tool: bool) {
    let note = Part::text(
        "[System: the last response held no answer. Give the final answer now, or call a tool.]",
    );
    if after_tool {
        contents.push(Content::model(vec![Part::text("[tool done]")]).seal());
        contents.push(Content::user(vec![note]).seal());
    } else if let Some(last) = contents.pop() {
        match last.open() {
            Ok(mut content) => {
                content.parts.push(note);
                contents.push(content.seal());
            }
            Err(_) => contents.push(last),
        }
    }
}

fn unsigned(content: &Sealed) -> Sealed {
    if !content.json().contains("thoughtSignature") {
        return content.clone();
    }
    let Ok(mut opened) = content.open() else { return content.clone() };
    for part in &mut opened.parts {
        if part.signature().is_some() {
            *part = part.with_signature(SYNTHETIC_SIGNATURE);
        }
    }
    opened.seal()
}
