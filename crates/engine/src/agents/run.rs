//! Runs one subagent: starts its session, follows its events, and builds its result.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::agent::{
    AgentDefinition, AgentEnd, AgentResult, AgentTask, CloseAgent, FinishWorkspace,
    FinishedWorkspace,
};
use parallax_protocol::event::{
    EndReason, Event, EventBody, ItemDone, Level, ModelCall, TurnEnded,
};
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome};
use parallax_protocol::ids::{ApprovalId, ItemId};
use parallax_protocol::observer::SubagentScope;
use parallax_protocol::op::{Op, Prompt};
use parallax_protocol::tool::{Display, ToolError, ToolErrorKind, ToolResult};
use parallax_protocol::trace_headers::TraceHeaders;
use serde_json::{Value, json};

use super::deadline::PausableDeadline;
use super::manager::SubagentManager;
use super::progress::ProgressTracker;
use super::role::AgentRole;
use crate::event_bus::EventReader;
use crate::options::{SaveOutput, SessionOptions};
use crate::session_handle::SessionHandle;

/// Time limit of the final turn.
const LAST_CHANCE: Duration = Duration::from_secs(60);
/// How long a cancelled subagent may take to shut down.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);
/// Maximum number of characters of a result for the calling model. A longer result is saved to a
/// file.
const RESULT: usize = 40_000;
/// Prefix of the prompt of a resumed subagent.
const RESUME_PROMPT_PREFIX: &str = "[Your work was interrupted. Continue where you left off. Tool calls without a \
    result were cancelled.]\n\n";
/// The role of subagents' requests in usage statistics.
pub(crate) const SUBAGENT: &str = "subagent";

/// How the run ended, and why.
pub(super) struct SubagentRunOutcome {
    pub(super) end: AgentEnd,
    /// The result, or what happened.
    pub(super) text: String,
}

/// What ends with the run.
struct RunResources {
    close: Option<CloseAgent>,
    finish: Option<FinishWorkspace>,
}

/// How one turn of the subagent ended.
enum SubagentTurnOutcome {
    Ended(EndReason),
    TimedOut,
    Cancelled,
    /// The session is gone.
    SessionClosed,
}

/// A running subagent.
pub(super) struct SubagentRun {
    pub(super) subagents: Arc<SubagentManager>,
    pub(super) agent: Arc<AgentDefinition>,
    /// The call that started it.
    item: ItemId,
    pub(super) cancel: CancellationToken,
    result: AgentResult,
    pub(super) progress: ProgressTracker,
    open: HashSet<ApprovalId>,
    /// The calling model's prompt without hook context: it identifies the run.
    task: Option<String>,
    /// The id of the run to resume.
    pub(super) resume: Option<String>,
    /// The id of its journal.
    journal: Option<String>,
    /// The id for resuming it, if it was interrupted.
    resume_id: Option<String>,
    /// What it left in its own workspace.
    finished: Option<FinishedWorkspace>,
    /// The trace context of the call, for a remote agent.
    pub(super) trace: Option<TraceHeaders>,
}

impl SubagentRun {
    pub(super) fn new(
        subagents: Arc<SubagentManager>,
        agent: Arc<AgentDefinition>,
        item: ItemId,
        resume: Option<String>,
        cancel: CancellationToken,
    ) -> Self {
        let progress = ProgressTracker::new(&agent.name);
        let result = AgentResult::default();
        Self {
            subagents,
            agent,
            item,
            cancel,
            result,
            progress,
            open: HashSet::new(),
            task: None,
            resume,
            journal: None,
            resume_id: None,
            finished: None,
            trace: None,
        }
    }

    /// Sets the trace context of the call.
    pub(super) fn with_trace(mut self, trace: Option<TraceHeaders>) -> Self {
        self.trace = trace;
        self
    }

    /// Runs the subagent; always returns a result that the calling model can read.
    pub(super) async fn run(mut self, prompt: String) -> ToolResult {
        let subagents = Arc::clone(&self.subagents);
        let slot = tokio::select! {
            place = subagents.slots.acquire() => place.ok(),
            () = self.cancel.cancelled() => None,
        };
        let outcome = match slot {
            Some(_) => self.run_to_end(prompt).await,
            None => aborted(),
        };
        self.subagents.remove_journal(&self.item);
        self.outcome(outcome)
    }

    async fn run_to_end(&mut self, mut prompt: String) -> SubagentRunOutcome {
        self.task = Some(prompt.clone());
        let started = json!({"agent_name": self.agent.name, "prompt": prompt});
        let hooked = self.hook(HookEvent::SubagentStart, started).await;
        if let Some(reason) = hooked.stop.as_deref().or(hooked.denial()) {
            let text = format!("A hook blocked the subagent: {}", hooked.with_hook_names(reason));
            return SubagentRunOutcome { end: AgentEnd::Error, text };
        }
        if let Some(context) = &hooked.context {
            prompt.push_str("\n\n");
            prompt.push_str(context);
        }
        let outcome = self.run_with_hooks(prompt.clone()).await;
        let ended = json!({
            "agent_name": self.agent.name, "prompt": prompt,
            "terminate_reason": outcome.end.as_str(), "result": outcome.text,
        });
        self.hook(HookEvent::SubagentEnd, ended).await;
        outcome
    }

    /// Runs the session's hooks and shows their messages to the user.
    async fn hook(&self, event: HookEvent, input: Value) -> HookOutcome {
        let hooks = self.subagents.hooks.clone().filter(|hooks| hooks.has_subscriber(event, false));
        let (Some(hooks), Value::Object(input)) = (hooks, input) else {
            return HookOutcome::default();
        };
        let call = HookCall::new(event, &self.agent.name, input);
        let outcome = hooks.run(call, self.cancel.clone()).await;
        for (index, message) in outcome.messages.iter().enumerate() {
            let item = ItemId::new(format!("{}-{}-{index}", self.item, event.as_str()));
            let done = message.notice(event);
            self.subagents.bus.send(EventBody::ItemDone { item, done });
        }
        outcome
    }

    async fn run_with_hooks(&mut self, prompt: String) -> SubagentRunOutcome {
        let outcome = match self.agent.remote {
            Some(_) => self.run_remote(prompt).await,
            None => self.run_locally(prompt).await,
        };
        match outcome.text.len() > RESULT {
            true => {
                shorten_result(
                    outcome,
                    &self.agent.name,
                    self.subagents.options().compaction.save_output,
                )
                .await
            }
            false => outcome,
        }
    }

    async fn run_locally(&mut self, mut prompt: String) -> SubagentRunOutcome {
        let role = AgentRole::new(&self.agent.name, self.result.clone(), self.cancel.child_token());
        let _end_with_me = role.cancel.clone().drop_guard();
        let (options, resources) = match self.options(&prompt).await {
            Ok(equipped) => equipped,
            Err(outcome) => return outcome,
        };
        if self.resume.is_some() {
            prompt.insert_str(0, RESUME_PROMPT_PREFIX);
        }
        let scope = SubagentScope { item: self.item.clone(), name: self.agent.name.clone() };
        let bus = self.subagents.bus.for_subagent(scope);
        let mut events = bus.subscribe();
        let handle = (self.subagents.launch)(options, Some(role.clone()), bus);
        self.subagents.enter(self.item.clone(), handle.ops.clone());
        self.emit_progress();
        let outcome = self.run_turns(prompt, &role, &handle, &mut events).await;
        self.subagents.remove(&self.item);
        // The subagent is done: what is left of its session ends by itself.
        let _ = handle.ops.try_send(Op::Shutdown);
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, handle.join()).await;
        self.release(resources, &outcome).await;
        self.finish_journal(&outcome).await;
        outcome
    }

    /// Ends what was started for the run.
    async fn release(&mut self, resources: RunResources, outcome: &SubagentRunOutcome) {
        if let Some(close) = resources.close {
            close().await;
        }
        if let Some(finish) = resources.finish {
            self.finished = Some(finish(self.can_be_resumed(outcome)).await);
        }
    }

    fn can_be_resumed(&self, outcome: &SubagentRunOutcome) -> bool {
        let is_cut_off = matches!(outcome.end, AgentEnd::Aborted | AgentEnd::Error);
        is_cut_off && self.progress.has_started() && self.journal.is_some()
    }

    /// Keeps the journal of an interrupted run so that it can be resumed; deletes that of a
    /// completed run.
    async fn finish_journal(&mut self, outcome: &SubagentRunOutcome) {
        let can_be_resumed = self.can_be_resumed(outcome);
        let Some(id) = self.journal.take() else { return };
        if can_be_resumed {
            self.resume_id = Some(id);
            return;
        }
        let subagents = Arc::clone(&self.subagents);
        let delete_task = tokio::task::spawn_blocking(move || subagents.agents.delete_run(&id));
        if let Err(error) = delete_task.await {
            tracing::warn!(%error, "failed to delete the journal of a subagent run");
        }
    }

    async fn options(
        &mut self,
        prompt: &str,
    ) -> Result<(SessionOptions, RunResources), SubagentRunOutcome> {
        let mut options = self.subagents.options();
        let (subagents, agent) = (Arc::clone(&self.subagents), Arc::clone(&self.agent));
        let (result, prompt) = (self.result.clone(), prompt.to_owned());
        let resume = self.resume.clone();
        let mut resources_task = tokio::task::spawn_blocking(move || {
            let journal = subagents.agents.journal(&agent.name, resume.as_deref());
            // A resumed run keeps its original task.
            let task = journal.as_ref().and_then(|journal| journal.task.clone());
            let prompt = task.unwrap_or(prompt);
            if let (None, Some(id)) = (&journal, &resume) {
                let name = &agent.name;
                return Err(format!(
                    "`{name}` has no interrupted run `{id}`. Call it without `resume` to start a \
                     new run."
                ));
            }
            let run = journal.as_ref().map(|journal| journal.id.as_str());
            let task = AgentTask { prompt: &prompt, run, is_resumed: resume.is_some() };
            let kit = subagents.agents.prepare_run(&agent, task, subagents.tools(), result);
            if let (Err(_), Some(id), false) = (&kit, run, resume.is_some()) {
                subagents.agents.delete_run(id);
            }
            Ok((kit?, journal))
        });
        // Its MCP servers may take long to start.
        let equipped = tokio::select! {
            equipped = &mut resources_task => equipped,
            () = self.cancel.cancelled() => {
                tokio::spawn(async move {
                    if let Ok(Ok((kit, _))) = resources_task.await {
                        if let Some(close) = kit.close {
                            close().await;
                        }
                        if let Some(workspace) = kit.workspace {
                            (workspace.finish)(false).await;
                        }
                    }
                });
                return Err(aborted());
            }
        };
        let equipped = equipped.unwrap_or_else(|error| Err(error.to_string()));
        let (kit, journal) = equipped.map_err(|reason| SubagentRunOutcome {
            end: AgentEnd::Error,
            text: format!("The subagent failed to start: {reason}"),
        })?;
        options.preface = kit.preface;
        if let Some(journal) = journal {
            if self.resume.is_some() {
                self.progress.resume();
                self.subagents.record_journal(self.item.clone(), journal.id.clone());
                options.preface = None;
            }
            options.store = journal.store;
            options.history = journal.contents;
            options.compactions = journal.compactions;
            options.pending = journal.pending;
            self.journal = Some(journal.id);
        }
        let finish = kit.workspace.map(|workspace| {
            options.workspace = workspace.roots;
            options.checkpoints = workspace.checkpoints;
            options.folder_context = Some(workspace.folder_context);
            workspace.finish
        });
        options.tools = kit.tools;
        options.system = Box::new(move |_, _| Arc::clone(&kit.system));
        options.max_turns = Some(self.agent.max_turns);
        if self.agent.may_delegate {
            options.agents = Some(Arc::clone(&self.subagents.agents));
        }
        if let Some(model) = &self.agent.model {
            options.model_name.clone_from(model);
            options.generation.clear();
        }
        options.generation.extend(self.agent.generation.clone());
        for (index, text) in kit.problems.into_iter().enumerate() {
            let item = ItemId::new(format!("{}-problem-{index}", self.item));
            let done = ItemDone::notice(Level::Warning, text);
            self.subagents.bus.send(EventBody::ItemDone { item, done });
        }
        Ok((options, RunResources { close: kit.close, finish }))
    }

    async fn run_turns(
        &mut self,
        prompt: String,
        role: &AgentRole,
        handle: &SessionHandle,
        events: &mut EventReader,
    ) -> SubagentRunOutcome {
        let time = self.agent.time;
        let turn = self.turn(prompt, time, handle, events).await;
        let Some(outcome) = self.check_end(turn) else { return aborted() };
        let hopeful = matches!(
            outcome.end,
            AgentEnd::Timeout | AgentEnd::MaxTurns | AgentEnd::ErrorNoCompleteTaskCall
        );
        if !hopeful {
            return outcome;
        }
        role.allow_final_turn();
        let urge = format!(
            "You have reached a limit: {}. This is your last turn. Call `complete_task` now with \
                your findings and say what is missing. No other tool call will run.",
            outcome.text
        );
        let turn = self.turn(urge, LAST_CHANCE, handle, events).await;
        match self.check_end(turn) {
            Some(last) if last.end == AgentEnd::Goal => last,
            Some(_) => outcome,
            None => aborted(),
        }
    }

    /// Runs one prompt to the end of its turn.
    async fn turn(
        &mut self,
        text: String,
        time: Duration,
        handle: &SessionHandle,
        events: &mut EventReader,
    ) -> SubagentTurnOutcome {
        let typed_command = self.task.clone();
        let prompt = Prompt { text, typed_command, ..Prompt::default() };
        if handle.ops.send(Op::Prompt(prompt)).await.is_err() {
            return SubagentTurnOutcome::SessionClosed;
        }
        let mut clock = PausableDeadline::new(time);
        let mut is_up = false;
        loop {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return SubagentTurnOutcome::Cancelled,
                event = events.next() => event,
                () = clock.wait_until_expired(), if !is_up => {
                    is_up = true;
                    let _ = handle.ops.send(Op::Interrupt).await;
                    continue;
                }
            };
            let Some(Event { body, .. }) = event else { return SubagentTurnOutcome::SessionClosed };
            if let EventBody::TurnEnded(TurnEnded { reason, .. }) = body {
                self.close_approvals();
                return if is_up {
                    SubagentTurnOutcome::TimedOut
                } else {
                    SubagentTurnOutcome::Ended(reason)
                };
            }
            self.forward_event(body);
            if self.open.is_empty() {
                clock.resume();
            } else {
                clock.pause();
            }
        }
    }

    /// Forwards the events that the user should see.
    fn forward_event(&mut self, body: EventBody) {
        let had_begun = self.progress.has_started();
        let mut changed = self.progress.apply(&body);
        if !had_begun && self.progress.has_started() {
            self.record_journal();
        }
        match body {
            EventBody::ModelCall(call) => {
                let role = if call.role == "main" { SUBAGENT.to_owned() } else { call.role };
                self.subagents.bus.send(EventBody::ModelCall(ModelCall { role, ..call }));
            }
            EventBody::ApprovalRequested(ask) => {
                self.open.insert(ask.id.clone());
                changed |= self.progress.waits(true);
                self.subagents.forward_request(&self.item, &self.agent.name, *ask);
            }
            EventBody::ApprovalClosed { ask, outcome } => {
                self.open.remove(&ask);
                changed |= self.progress.waits(!self.open.is_empty());
                self.subagents.close(&self.item, &ask, outcome);
            }
            EventBody::StateChanged { mode, .. } => self.subagents.adopt_mode(mode),
            EventBody::Aside { text } => self.subagents.bus.send(EventBody::Aside { text }),
            EventBody::Retry(retry) => self.subagents.bus.send(EventBody::Retry(retry)),
            EventBody::FellBack(fallback) => self.subagents.bus.send(EventBody::FellBack(fallback)),
            EventBody::ItemDone { item, done: ItemDone::Notice { level, text, kind } } => {
                let text = format!("{}: {text}", self.agent.name);
                self.subagents.bus.send(EventBody::ItemDone {
                    item: ItemId::new(format!("{}-{item}", self.item)),
                    done: ItemDone::Notice { level, text, kind },
                });
            }
            _ => {}
        }
        if changed {
            self.emit_progress();
        }
    }

    /// Records the journal, so that a run that is interrupted and does not end in time can be
    /// resumed.
    fn record_journal(&self) {
        if let Some(id) = &self.journal {
            self.subagents.record_journal(self.item.clone(), id.clone());
        }
    }

    /// Closes requests that can no longer be answered.
    fn close_approvals(&mut self) {
        for ask in std::mem::take(&mut self.open) {
            self.subagents.close(&self.item, &ask, None);
        }
    }

    pub(super) fn emit_progress(&mut self) {
        let progress = Arc::new(self.progress.current());
        self.subagents.bus.send(EventBody::Agent { item: self.item.clone(), progress });
    }

    /// Returns the outcome of a turn; `None` when it was cancelled.
    fn check_end(&mut self, turn: SubagentTurnOutcome) -> Option<SubagentRunOutcome> {
        if let Some(result) = self.result.get() {
            return Some(SubagentRunOutcome { end: AgentEnd::Goal, text: to_text(&result) });
        }
        let output = std::mem::take(&mut self.progress.text);
        let (end, text) = match turn {
            SubagentTurnOutcome::Cancelled | SubagentTurnOutcome::Ended(EndReason::Cancelled) => {
                self.close_approvals();
                return None;
            }
            SubagentTurnOutcome::Ended(EndReason::Done)
                if !self.agent.has_schema && !output.trim().is_empty() =>
            {
                (AgentEnd::Goal, output)
            }
            SubagentTurnOutcome::Ended(EndReason::Done) => (
                AgentEnd::ErrorNoCompleteTaskCall,
                "it stopped without calling `complete_task`".to_owned(),
            ),
            SubagentTurnOutcome::Ended(EndReason::MaxTurns { .. }) => (
                AgentEnd::MaxTurns,
                format!("it reached its limit of {} requests", self.agent.max_turns),
            ),
            SubagentTurnOutcome::TimedOut => (
                AgentEnd::Timeout,
                format!("it reached its time limit of {} s", self.agent.time.as_secs()),
            ),
            SubagentTurnOutcome::Ended(EndReason::Loop { detail }) => {
                (AgentEnd::Error, format!("it was stopped because of a loop: {detail}"))
            }
            SubagentTurnOutcome::Ended(EndReason::Stopped { reason, .. }) => {
                (AgentEnd::Error, format!("it was stopped: {reason}"))
            }
            SubagentTurnOutcome::Ended(EndReason::Budget(spent)) => {
                (AgentEnd::Error, spent.to_string())
            }
            SubagentTurnOutcome::Ended(EndReason::Failed(failure)) => {
                (AgentEnd::Error, failure.message)
            }
            SubagentTurnOutcome::SessionClosed => {
                (AgentEnd::Error, "it crashed (this is a bug)".to_owned())
            }
        };
        Some(SubagentRunOutcome { end, text })
    }

    fn outcome(mut self, run_outcome: SubagentRunOutcome) -> ToolResult {
        let SubagentRunOutcome { end, text } = run_outcome;
        let progress = self.progress.final_progress(end, &text);
        let mut data = json!({
            "agent": self.agent.name,
            "result": text,
            "terminate_reason": end.as_str(),
            "turn_count": progress.turns,
            "duration_ms": progress.duration_ms,
            "total_tokens": progress.tokens,
        });
        let mut answer = format!(
            "Subagent '{}' finished.\nTermination Reason: {}\nResult:\n{text}",
            self.agent.name,
            end.as_str(),
        );
        if let Some(finished) = self.finished.take() {
            answer.push_str(&format!("\n{}", finished.report));
            if let Some(worktree) = finished.data {
                data["worktree"] = worktree;
            }
        }
        if let Some(id) = &self.resume_id {
            answer.push_str(&format!("\n{}", resume_hint(id)));
            data["resume"] = json!(id);
        }
        let mut outcome = match end {
            AgentEnd::Goal => ToolResult::text(answer),
            _ => ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, answer)),
        };
        outcome.for_user = Some(Display::Agent(progress));
        outcome.data = Some(data);
        outcome
    }
}

/// Cuts a result that is too long for the calling model and saves the whole of it.
async fn shorten_result(
    outcome: SubagentRunOutcome,
    agent: &str,
    keep: Option<SaveOutput>,
) -> SubagentRunOutcome {
    let name = agent.to_owned();
    let truncate_task = tokio::task::spawn_blocking(move || {
        let cut = &outcome.text[..outcome.text.floor_char_boundary(RESULT)];
        let saved = keep.and_then(|keep| keep(&name, &outcome.text).ok());
        let rest = match saved {
            Some(path) => format!("the full result is in `{}`", path.display()),
            None => "the rest is omitted".to_owned(),
        };
        SubagentRunOutcome { text: format!("{cut}\n[… {rest}]"), ..outcome }
    });
    truncate_task.await.unwrap_or_else(|error| SubagentRunOutcome {
        end: AgentEnd::Error,
        text: format!("Failed to read the result: {error}"),
    })
}

/// Tells the calling model how to resume an interrupted run.
pub(crate) fn resume_hint(id: &str) -> String {
    format!("Its progress is saved. Call `invoke_agent` with `resume`: \"{id}\" to continue.")
}

pub(super) fn aborted() -> SubagentRunOutcome {
    SubagentRunOutcome { end: AgentEnd::Aborted, text: "it was interrupted".to_owned() }
}

/// Returns a result as text: strings as they are, other values as JSON.
fn to_text(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}
