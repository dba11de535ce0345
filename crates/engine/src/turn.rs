//! From a prompt to its last answer: ask the model, run its calls, again.

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

use crate::agents::{AgentRole, INVOKE_AGENT, how_to_go_on};
use crate::ask::Reply;
use crate::board::{Call, Finished, Round};
use crate::history::{Remarks, now};
use crate::loop_guard::{Finding, LoopGuard};
use crate::respond;
use crate::session::Session;
use crate::unwatched::GO_ON;

/// Stands for the answer that an interrupt cut off, so that roles alternate.
pub(crate) const INTERRUPTED: &str = "[The user interrupted this turn.]";

/// The same where its time was over.
pub(crate) const TIMED_OUT: &str = "[The time for this turn was over.]";
/// How a turn ends whose calls the person refused, all of them.
const DECLINED: &str = "you refused what it wanted to do; say what to do instead";

/// Stands for an answer that never came.
pub(crate) const UNANSWERED: &str = "[This turn ended without an answer.]";

impl Session {
    /// Runs one prompt to its end. The history is valid afterwards, whatever
    /// happened.
    pub(crate) async fn run_prompt(
        &mut self,
        prompt: Prompt,
        cancel: &CancellationToken,
    ) -> EndReason {
        self.is_half = false;
        self.settle(UNANSWERED);
        let before = self.history.len();
        self.note_coordination(&prompt.text);
        self.await_tools(cancel).await;
        self.describe_added().await;
        let preface = self.preface.take();
        self.push_prompt(prompt, preface.as_deref());
        let mut guard = LoopGuard::default();
        self.requests_at_prompt = self.requests;
        loop {
            let reason = match self.step(&mut guard, cancel).await {
                Ok(()) => continue,
                Err(reason) => reason,
            };
            match &reason {
                // Nobody answered: the prompt is taken back, so that it can be
                // sent again. Results of tools stay, since things were done.
                EndReason::Failed(_) | EndReason::MaxTurns { .. } | EndReason::Budget(_)
                    if self.history.len() == before + 1 =>
                {
                    self.note_spent();
                    self.history.truncate(before);
                    self.prompts.truncate(before);
                    self.preface = preface;
                    self.taken_back = true;
                }
                EndReason::Cancelled => self.settle_cut_off(),
                _ => {}
            }
            return reason;
        }
    }

    /// One model request and the calls it asks for.
    pub(crate) async fn step(
        &mut self,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        if cancel.is_cancelled() {
            return Err(EndReason::Cancelled);
        }
        let role = self.role.as_ref();
        let last_chance = role.is_some_and(AgentRole::has_last_chance);
        let limit = match last_chance {
            // One request whatever was made before.
            true => Some(self.requests_at_prompt + 1),
            false => self.max_turns,
        };
        if let Some(limit) = limit
            && self.requests >= limit
        {
            return Err(EndReason::MaxTurns { limit });
        }
        self.requests += 1;
        let reply = self.ask_model(guard, cancel).await?;
        self.tell_trouble();
        self.tell_context();
        match reply {
            Reply::Calls(calls) => self.answer_calls(calls, guard, cancel).await,
            Reply::Chanting => match guard.text_strike() {
                Finding::Nudge(detail) => {
                    self.inbox.notice(Level::Warning, format!("possible loop: {detail}"));
                    self.history.push_note(&nudge(&detail));
                    Ok(())
                }
                Finding::Stop(detail) => {
                    self.stop_loop(detail, cancel).await?;
                    self.history.push_note(GO_ON);
                    Ok(())
                }
            },
            // What the person said meanwhile is a prompt of its own.
            Reply::Final => Err(EndReason::Done),
        }
    }

    async fn answer_calls(
        &mut self,
        calls: Vec<Call>,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        self.answer_open_calls(calls, Finished::new(), guard, cancel).await
    }

    /// Runs the calls that are not finished, and closes the round.
    pub(crate) async fn answer_open_calls(
        &mut self,
        calls: Vec<Call>,
        finished: Finished,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let round = self.run_round(&calls, finished, cancel).await;
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
        // Unless the person said something else meanwhile.
        let declined = round.declined && self.inbox.steers.is_empty();
        let ends = fatal.is_some()
            || stopped.is_some()
            || declined
            || matches!(finding, Some(Finding::Stop(_)));
        // Where no request follows, a message is a prompt of its own.
        if !ends && !cancel.is_cancelled() {
            said = self.take_steers(&mut tail);
        }
        if let Some(Finding::Nudge(detail)) = &finding {
            self.inbox.notice(Level::Warning, format!("possible loop: {detail}"));
            tail.push(Part::text(nudge(detail)));
        }
        self.close_round(round, &tail, said);
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
        if let Some(Finding::Stop(detail)) = finding {
            self.stop_loop(detail, cancel).await?;
        }
        if declined {
            let reason = DECLINED.to_owned();
            return Err(EndReason::Stopped { reason, blocked: false });
        }
        Ok(())
    }

    /// Journals the end of a round and appends its content.
    fn close_round(&mut self, round: Round, tail: &[Part], said: Vec<String>) {
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
            for content in respond::injection(round.injected) {
                self.history.push(&content, Remarks::synthetic());
            }
        }
    }

    /// Keeps a prompt that hooks let nobody answer.
    pub(crate) fn keep_prompt(&mut self, prompt: Prompt) {
        self.settle(UNANSWERED);
        let preface = self.preface.take();
        self.push_prompt(prompt, preface.as_deref());
    }

    fn push_prompt(&mut self, mut prompt: Prompt, preface: Option<&str>) {
        self.black_out(&mut prompt.text);
        for notice in std::mem::take(&mut prompt.notices) {
            self.inbox.notice(Level::Warning, notice);
        }
        let mut shown = prompt.typed.unwrap_or_else(|| prompt.text.clone());
        self.black_out(&mut shown);
        let item = self.next_item("user");
        self.hub.send(EventBody::ItemStarted {
            item: item.clone(),
            start: ItemStart::User { text: shown.clone() },
        });
        let mut parts = Vec::new();
        parts.extend(preface.map(Part::text));
        // What hooks of the start add stands in front, in one part with the prompt.
        parts.push(Part::text(match self.hook_context.take() {
            Some(context) => format!("{context}\n\n{}", prompt.text),
            None => prompt.text,
        }));
        self.tell_images(&prompt.attachments, None);
        parts.extend(prompt.attachments);
        self.prompts.add(self.turn, self.history.len(), &shown);
        let (display, turn) = (Some(shown), Some(self.turn));
        let remarks = Remarks { display, turn, ..Remarks::default() };
        self.history.push(&Content::user(parts), remarks);
        self.record_directories();
        self.tell_trouble();
        self.hub.send(EventBody::ItemDone { item, done: ItemDone::User });
    }

    /// Adds what the person said meanwhile to the parts of a round; gives their
    /// texts.
    fn take_steers(&mut self, parts: &mut Vec<Part>) -> Vec<String> {
        let mut said = Vec::new();
        for steer in std::mem::take(&mut self.inbox.steers) {
            let Prompt { mut text, attachments, notices, .. } = steer.prompt;
            for notice in notices {
                self.inbox.notice(Level::Warning, notice);
            }
            self.black_out(&mut text);
            self.inbox.steer_ended(steer.id, text.clone(), SteerFate::Delivered);
            let item = self.next_item("user");
            self.hub.send(EventBody::ItemStarted {
                item: item.clone(),
                start: ItemStart::User { text: text.clone() },
            });
            self.hub.send(EventBody::ItemDone { item, done: ItemDone::User });
            self.tell_images(&attachments, None);
            parts.push(Part::text(text.clone()));
            parts.extend(attachments);
            said.push(text);
        }
        said
    }

    /// Tells of the pictures among parts; those without a name of their own get this one.
    pub(crate) fn tell_images(&self, parts: &[Part], name: Option<&str>) {
        for image in Image::among(parts, name) {
            self.hub.send(EventBody::Image(image));
        }
    }

    /// Makes the history ready for a user content: every call answered, the
    /// model last. After a crash or an interrupt neither may hold.
    pub(crate) fn settle(&mut self, remark: &str) {
        if self.history.last_role() == Some(Role::Model) {
            let calls = self.open_calls();
            if !calls.is_empty() {
                self.answer_lost(&calls);
            }
        }
        if self.history.last_role() == Some(Role::User) {
            let note = Content::model(vec![Part::text(remark)]);
            self.history.push(&note, Remarks::synthetic());
        }
    }

    /// Closes a round that was cut off: results that were finished are used,
    /// the others are said to be lost.
    pub(crate) fn answer_lost(&mut self, calls: &[(Option<String>, String)]) {
        let mut finished = std::mem::take(&mut self.pending);
        let mut results = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            if let Some(result) = finished.remove(&index) {
                results.push(result);
                continue;
            }
            let Some(wire) = lost_result(call, self.kept_of(index).as_deref()) else { continue };
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
        let round = Round {
            results,
            texts: Vec::new(),
            injected: Vec::new(),
            fatal: None,
            stopped: None,
            declined: false,
        };
        self.close_round(round, &[], Vec::new());
    }

    /// How a call of the newest content is gone on with, when it started an agent whose
    /// work is kept.
    fn kept_of(&self, index: usize) -> Option<String> {
        if self.kept_work.is_empty() {
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
        let kept = self.kept_work.iter().find(is_it).filter(|_| call.name == INVOKE_AGENT)?;
        Some(how_to_go_on(&kept.id))
    }

    /// The calls of the newest content, which nobody answered.
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

    /// An id for a call: the server's where it is new, else one of ours.
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

/// The answer to a call whose result is lost (the program was killed).
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

/// What the model reads when it seems to go in circles.
fn nudge(detail: &str) -> String {
    format!(
        "System: a possible loop was found: {detail}. Step back: say what was reached so far, \
         and what would be different about the next step. If nothing would, try another way, or \
         end with what you know and what is missing."
    )
}
