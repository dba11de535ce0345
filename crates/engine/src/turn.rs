//! The turn loop: request the model, run its calls, repeat.

use parallax_protocol::agent::KeptWork;
use parallax_protocol::content::{Content, Part, Role};
use parallax_protocol::event::{
    EndReason, EventBody, Failure, FailureKind, ItemDone, ItemStart, Level, SteerFate,
};
use parallax_protocol::ids::{CallId, ItemId};
use parallax_protocol::image::Image;
use parallax_protocol::op::Prompt;
use parallax_protocol::store::{Record, ResultRecord, RoundRecord, assemble_round};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::RawValue;

use crate::agents::{AgentRole, INVOKE_AGENT, resume_hint};
use crate::function_response;
use crate::history::{ContentMetadata, now};
use crate::loop_approval::GO_ON;
use crate::loop_detection::{LoopAction, LoopDetector};
use crate::model_request::ModelReply;
use crate::session::Session;
use crate::tool_batch::{BatchResult, FinishedResults, ToolCall};

/// Replaces a response that was interrupted, so that roles alternate.
pub(crate) const INTERRUPTED: &str = "[The user interrupted this turn.]";

/// The same when the time was up.
pub(crate) const TIMED_OUT: &str = "[The time for this turn was over.]";
/// How a turn ends when the user denied all its calls.
const DECLINED_REASON: &str = "you denied the requested actions; tell the agent what to do instead";

/// Replaces a response that never came.
pub(crate) const UNANSWERED: &str = "[This turn ended without an answer.]";

impl Session {
    /// Runs one prompt to its end. The history is valid afterwards in every case.
    pub(crate) async fn run_prompt(
        &mut self,
        prompt: Prompt,
        cancel: &CancellationToken,
    ) -> EndReason {
        self.is_last_answer_partial = false;
        self.unfinished = None;
        self.close_open_calls(UNANSWERED);
        let before = self.history.len();
        self.update_coordinator_mode(&prompt.text);
        self.wait_for_tools(cancel).await;
        self.describe_added_directories().await;
        let preface = self.preface.take();
        let editor = self.editor_context.as_ref().and_then(|context| context.message());
        self.push_prompt(prompt, preface.as_deref(), editor);
        let mut guard = LoopDetector::default();
        self.requests_at_prompt = self.requests;
        loop {
            let reason = match self.step(&mut guard, cancel).await {
                Ok(()) => continue,
                Err(reason) => reason,
            };
            match &reason {
                // Without a response the prompt is removed, so that it can be sent again. Tool
                // results stay, because the tools have run.
                EndReason::Failed(_) | EndReason::MaxTurns { .. } | EndReason::Budget(_)
                    if self.history.len() == before + 1 =>
                {
                    self.save_spending();
                    self.history.truncate(before);
                    self.prompts.truncate(before);
                    self.preface = preface;
                    self.forget_editor_context();
                    self.taken_back = true;
                }
                EndReason::Cancelled => self.close_interrupted_turn(),
                _ => {}
            }
            return reason;
        }
    }

    /// One model request and its tool calls.
    pub(crate) async fn step(
        &mut self,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        if cancel.is_cancelled() {
            return Err(EndReason::Cancelled);
        }
        let role = self.role.as_ref();
        let last_chance = role.is_some_and(AgentRole::is_final_turn);
        let limit = match last_chance {
            // One request, whatever was made before.
            true => Some(self.requests_at_prompt + 1),
            false => self.max_turns,
        };
        if let Some(limit) = limit
            && self.requests >= limit
        {
            return Err(EndReason::MaxTurns { limit });
        }
        self.requests += 1;
        let reply = self.request_model(guard, cancel).await?;
        self.report_storage_error();
        self.emit_context_usage();
        match reply {
            ModelReply::ToolCalls(calls) => self.run_calls(calls, guard, cancel).await,
            ModelReply::RepetitionDetected => match guard.record_text_repetition() {
                LoopAction::Nudge(detail) => {
                    self.inbox.notice(Level::Warning, format!("Possible loop: {detail}"));
                    self.history.push_note(&nudge(&detail));
                    Ok(())
                }
                LoopAction::Stop(detail) => {
                    self.confirm_loop(detail, cancel).await?;
                    self.history.push_note(GO_ON);
                    Ok(())
                }
            },
            // Steering messages received meanwhile become prompts.
            ModelReply::Final => Err(EndReason::Done),
        }
    }

    async fn run_calls(
        &mut self,
        calls: Vec<ToolCall>,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        self.run_open_calls(calls, FinishedResults::new(), guard, cancel).await
    }

    /// Runs the unfinished calls and commits the batch.
    pub(crate) async fn run_open_calls(
        &mut self,
        calls: Vec<ToolCall>,
        finished: FinishedResults,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let round = self.run_batch(&calls, finished, cancel).await;
        let finding = if self.loop_detection && !cancel.is_cancelled() {
            let calls = calls.iter().zip(&round.texts);
            guard.round(
                calls.map(|(call, text)| (call.name.as_str(), call.args.as_ref(), text.as_str())),
            )
        } else {
            None
        };
        let mut tail = self.take_reports();
        let mut said = Vec::new();
        let (fatal, stopped) = (round.fatal.clone(), round.stopped.clone());
        // Unless the user sent a steering message meanwhile.
        let declined = round.declined && self.inbox.steers.is_empty();
        let ends = fatal.is_some()
            || stopped.is_some()
            || declined
            || matches!(finding, Some(LoopAction::Stop(_)));
        // If no request follows, a steering message becomes a prompt.
        if !ends && !cancel.is_cancelled() {
            said = self.take_steering(&mut tail);
        }
        if let Some(LoopAction::Nudge(detail)) = &finding {
            self.inbox.notice(Level::Warning, format!("Possible loop: {detail}"));
            tail.push(Part::text(nudge(detail)));
        }
        self.commit_batch(round, &tail, said);
        if let Some(error) = fatal {
            return Err(EndReason::Failed(Failure {
                kind: FailureKind::Tool,
                message: error.message,
                status: None,
            }));
        }
        if let Some(reason) = stopped {
            return Err(EndReason::Stopped { reason, blocked: false });
        }
        if self.role.as_ref().is_some_and(|role| role.result.is_given()) {
            return Err(EndReason::Done);
        }
        if let Some(LoopAction::Stop(detail)) = finding {
            self.confirm_loop(detail, cancel).await?;
        }
        if declined {
            let reason = DECLINED_REASON.to_owned();
            return Err(EndReason::Stopped { reason, blocked: false });
        }
        Ok(())
    }

    /// Journals the end of a batch and appends its content.
    fn commit_batch(&mut self, round: BatchResult, tail: &[Part], said: Vec<String>) {
        let results: Vec<&RawValue> = round.results.iter().map(AsRef::as_ref).collect();
        let tail = if tail.is_empty() { None } else { serde_json::value::to_raw_value(tail).ok() };
        let content = assemble_round(&results, tail.as_deref());
        self.history.record(&Record::Round(RoundRecord {
            results: results.len(),
            tail,
            said: Some(said),
        }));
        self.history.keep(content);
        if !round.injected.is_empty() {
            for content in function_response::injection(round.injected) {
                self.history.push(&content, ContentMetadata::synthetic());
            }
        }
    }

    /// Records a prompt that hooks rejected.
    pub(crate) fn record_prompt(&mut self, prompt: Prompt) {
        self.close_open_calls(UNANSWERED);
        let preface = self.preface.take();
        self.push_prompt(prompt, preface.as_deref(), None);
    }

    /// Appends a prompt; `preface` and `editor` go before it.
    fn push_prompt(&mut self, mut prompt: Prompt, preface: Option<&str>, editor: Option<String>) {
        self.redact(&mut prompt.text);
        for notice in std::mem::take(&mut prompt.notices) {
            self.inbox.notice(Level::Warning, notice);
        }
        let mut shown = prompt.typed.unwrap_or_else(|| prompt.text.clone());
        self.redact(&mut shown);
        let item = self.next_item("user");
        self.hub.send(EventBody::ItemStarted {
            item: item.clone(),
            start: ItemStart::User { text: shown.clone() },
        });
        let mut parts = Vec::new();
        parts.extend(preface.map(Part::text));
        parts.extend(editor.map(|mut text| {
            self.redact(&mut text);
            Part::text(text)
        }));
        // The context of session-start hooks goes first, in one part with the prompt.
        parts.push(Part::text(match self.hook_context.take() {
            Some(context) => format!("{context}\n\n{}", prompt.text),
            None => prompt.text,
        }));
        self.emit_images(&prompt.attachments, None);
        parts.extend(prompt.attachments);
        self.prompts.add(self.turn, self.history.len(), &shown);
        let (display, turn) = (Some(shown), Some(self.turn));
        let remarks = ContentMetadata { display, turn, ..ContentMetadata::default() };
        self.history.push(&Content::user(parts), remarks);
        self.record_directories();
        self.report_storage_error();
        self.hub.send(EventBody::ItemDone { item, done: ItemDone::User });
    }

    /// Adds steering messages to the parts of a batch; returns their texts.
    fn take_steering(&mut self, parts: &mut Vec<Part>) -> Vec<String> {
        let mut said = Vec::new();
        for steer in std::mem::take(&mut self.inbox.steers) {
            let Prompt { mut text, attachments, notices, .. } = steer.prompt;
            for notice in notices {
                self.inbox.notice(Level::Warning, notice);
            }
            self.redact(&mut text);
            self.inbox.steer_ended(steer.id, text.clone(), SteerFate::Delivered);
            let item = self.next_item("user");
            self.hub.send(EventBody::ItemStarted {
                item: item.clone(),
                start: ItemStart::User { text: text.clone() },
            });
            self.hub.send(EventBody::ItemDone { item, done: ItemDone::User });
            self.emit_images(&attachments, None);
            parts.push(Part::text(text.clone()));
            parts.extend(attachments);
            said.push(text);
        }
        said
    }

    /// Emits the images among parts; `name` is used for images without a name.
    pub(crate) fn emit_images(&self, parts: &[Part], name: Option<&str>) {
        for image in Image::among(parts, name) {
            self.hub.send(EventBody::Image(image));
        }
    }

    /// Makes the history ready for a user content: every call answered, the model last. Neither
    /// holds after a crash or an interrupt.
    pub(crate) fn close_open_calls(&mut self, remark: &str) {
        if self.history.last_role() == Some(Role::Model) {
            let calls = self.open_calls();
            if !calls.is_empty() {
                self.answer_lost_calls(&calls);
            }
        }
        if self.history.last_role() == Some(Role::User) {
            let note = Content::model(vec![Part::text(remark)]);
            self.history.push(&note, ContentMetadata::synthetic());
        }
    }

    /// Commits an interrupted batch: finished results are used, the others are reported as lost.
    pub(crate) fn answer_lost_calls(&mut self, calls: &[(Option<String>, String)]) {
        let mut finished = std::mem::take(&mut self.pending);
        let mut results = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            if let Some(result) = finished.remove(&index) {
                results.push(result);
                continue;
            }
            let Some(wire) = lost_result(call, self.resume_hint_for(index).as_deref()) else {
                continue;
            };
            self.history.record(&Record::Result(ResultRecord {
                time: now(),
                call: CallId::new(call.0.clone().unwrap_or_else(|| format!("{}_{index}", call.1))),
                index,
                name: call.1.clone(),
                wire: wire.clone(),
                status: "cancelled".into(),
                display: None,
                told: None,
            }));
            results.push(wire);
        }
        let round = BatchResult {
            results,
            texts: Vec::new(),
            injected: Vec::new(),
            fatal: None,
            stopped: None,
            declined: false,
        };
        self.commit_batch(round, &[], Vec::new());
    }

    /// How to resume the subagent that a call of the newest content started.
    fn resume_hint_for(&self, index: usize) -> Option<String> {
        if self.interrupted_work.is_empty() {
            return None;
        }
        let last = self.history.contents().last()?.open().ok()?;
        let call = last.calls().nth(index)?;
        let text = |name: &str| call.args?.get(name)?.as_str().map(str::trim);
        let (agent, task, resumed) = (text("agent_name")?, text("prompt")?, text("resume"));
        let is_it = |kept: &&KeptWork| match resumed {
            Some(id) => kept.id == id,
            None => kept.agent == agent && kept.task == task,
        };
        let kept =
            self.interrupted_work.iter().find(is_it).filter(|_| call.name == INVOKE_AGENT)?;
        Some(resume_hint(&kept.id))
    }

    /// The unanswered calls of the newest content.
    pub(crate) fn open_calls(&self) -> Vec<(Option<String>, String)> {
        let last = self.history.contents().last().and_then(|content| content.open().ok());
        last.map_or_else(Vec::new, |content| {
            content.calls().map(|call| (call.id.map(str::to_owned), call.name.to_owned())).collect()
        })
    }

    pub(crate) fn next_item(&mut self, kind: &str) -> ItemId {
        self.items += 1;
        ItemId::new(format!("{kind}-{}", self.items))
    }

    /// An id for a call: the server's if it is unique, else a generated one.
    pub(crate) fn call_id(&mut self, wire_id: Option<&str>, name: &str) -> CallId {
        self.calls += 1;
        match wire_id {
            Some(id) if self.known_ids.insert(id.to_owned()) => CallId::new(id),
            _ => {
                let milliseconds = jiff::Timestamp::now().as_millisecond();
                CallId::new(format!("{name}_{milliseconds}_{}", self.calls))
            }
        }
    }
}

/// The result of a call whose own result is lost (the program was killed).
fn lost_result(call: &(Option<String>, String), more: Option<&str>) -> Option<Box<RawValue>> {
    let mut response = Object::new();
    let mut text = "[Operation Cancelled] The run was interrupted before this call finished; its result is lost.".to_owned();
    if let Some(more) = more {
        text.push(' ');
        text.push_str(more);
    }
    response.insert("error".into(), serde_json::Value::String(text));
    let part = Part::function_response(call.0.as_deref(), &call.1, response, Vec::new());
    serde_json::value::to_raw_value(&[part]).ok()
}

/// The note for the model about a possible loop.
fn nudge(detail: &str) -> String {
    format!(
        "System: Possible loop: {detail}. Summarize what you have achieved and what the next \
            step would change. If nothing, try another approach, or finish with what you know \
            and what is missing."
    )
}
