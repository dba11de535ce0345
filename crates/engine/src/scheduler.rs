//! Runs the calls of one response: prepare, decide, ask, run. Results are in call order.
//!
//! Shared calls run concurrently, at most eight. An exclusive call (an edit, or one with
//! `wait_for_previous`) is *prepared* only when all previous calls are done, so that several
//! edits of a file apply in order, and later calls start only after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::event::{
    CallDecision, CallPhase, CallState, EventBody, ItemStart, Level, ToolStart,
};
use parallax_protocol::policy::Decision;
use parallax_protocol::tool::{Outcome, Preview, Run, ToolError, ToolErrorKind, ToolKind};
use parallax_protocol::{CancellationToken, Object};
use serde_json::Value;
use tokio::task::Id;
use tokio::time::Instant;

use crate::checkpointed_call::{CheckpointedCall, is_command};
use crate::registry::Registry;
use crate::registry::WAIT_FOR_PREVIOUS;
use crate::session::Session;
use crate::taint;
use crate::tool_batch::{
    BatchResult, CallProgress, CallSummary, FinishedResults, PreparedCall, RerunContext,
    RunningCall, SandboxDenial, ToolBatch, ToolCall,
};

mod finish;
mod prepare;

pub(crate) use self::prepare::denial_note;

/// Maximum number of concurrent calls.
const PARALLEL: usize = 8;

/// Added to the result of a call that the user changed.
const CHANGED_BY_USER: &str = "[The user changed this call before approving it. Check the result \
    before you rely on it.]";
/// Added to the result of a command that ran again with more permissions.
const RERUN_NOTE: &str = "[The command ran twice: the sandbox denied the first run some access; \
    this is the result of the second run, with that access. The effects of the first run \
    remain.]";

/// The tool whose calls are headings for the calls that follow.
const HEADING_TOOL: &str = "update_topic";

/// How often a call may run again with more permissions.
const MAX_RUNS: u32 = 4;

impl Session {
    /// Runs all calls of a response that are not finished yet. Always returns one result per call.
    pub(crate) async fn run_batch(
        &mut self,
        calls: &[ToolCall],
        finished: FinishedResults,
        cancel: &CancellationToken,
    ) -> BatchResult {
        let mut board = ToolBatch::new(calls, finished);
        for (index, call) in calls.iter().enumerate() {
            if board.is_finished(index) {
                continue;
            }
            self.hub.send(EventBody::ItemStarted {
                item: call.item(),
                start: ItemStart::Tool(ToolStart {
                    call: call.id.clone(),
                    index,
                    name: call.name.clone(),
                    args: call.args.clone().unwrap_or_default(),
                }),
            });
        }
        let mut waiting = order(calls);
        waiting.retain(|index| !board.is_finished(*index));
        loop {
            if board.declined {
                board.queued_replacements.clear();
                let rest: Vec<usize> = waiting.drain(..).collect();
                self.leave_out(&mut board, &rest);
            }
            while let Some(next) = board.queued_replacements.front().copied()
                && !cancel.is_cancelled()
                && self.registry.may_start(&board, next)
            {
                board.queued_replacements.pop_front();
                self.begin(&mut board, next, RerunContext::default(), cancel).await;
            }
            while let Some(next) = waiting.front().copied()
                && board.queued_replacements.is_empty()
                && !cancel.is_cancelled()
                && self.registry.may_start(&board, next)
            {
                waiting.pop_front();
                self.begin(&mut board, next, RerunContext::default(), cancel).await;
            }
            // Responses may have arrived while other calls were prepared.
            if !self.inbox.decisions.is_empty() && !cancel.is_cancelled() {
                self.decide(&mut board, cancel).await;
                continue;
            }
            if cancel.is_cancelled()
                || (waiting.is_empty() && board.queued_replacements.is_empty() && !board.is_busy())
            {
                break;
            }
            tokio::select! {
                biased;
                () = self.inbox.receive() => self.decide(&mut board, cancel).await,
                () = cancel.cancelled() => {}
                Some(joined) = board.tasks.join_next_with_id() => {
                    self.joined(&mut board, joined, cancel).await;
                }
            }
        }
        if cancel.is_cancelled() {
            self.cancel_batch(&mut board).await;
        }
        self.collect(board)
    }

    /// Prepares a call and gets the decision; then starts, asks, or denies.
    pub(crate) async fn begin(
        &mut self,
        board: &mut ToolBatch<'_>,
        index: usize,
        again: RerunContext,
        cancel: &CancellationToken,
    ) {
        let Some(call) = board.call(index).cloned() else { return };
        self.emit_phase(&call, CallPhase::Validating, None);
        let mut again = again;
        let mut asks = None;
        // Not when it is run again or was changed by the user.
        if again.runs == 0 && again.arguments.is_none() {
            let hooked = self.run_before_tool_hooks(board, &call, index, cancel).await;
            let Some(hooked) = hooked else { return };
            // The hooks were cancelled before they could deny it: nothing may run. Unfinished calls
            // are answered when the batch is cancelled.
            if cancel.is_cancelled() {
                return;
            }
            again.hooked =
                hooked.arguments.as_ref().and_then(|changed| hook_change_note(&call, changed));
            again.arguments = hooked.arguments;
            asks = hooked.asks;
        }
        let note = again.hooked.clone();
        let mut prepared = match self.prepare(&call, index, again).await {
            Ok(prepared) => prepared,
            Err((error, finish, refused)) => {
                let (mut outcome, finish) = match refused {
                    Some(refused) => (refused.outcome, refused.finish),
                    None => (Outcome::failure(error), *finish),
                };
                if let Some(note) = note {
                    add_note(&mut outcome, &note);
                }
                self.finish(board, index, outcome, finish);
                return;
            }
        };
        if cancel.is_cancelled() && prepared.again.refused.is_none() {
            return;
        }
        if let Some(why) = asks {
            self.environment.require_approval_for_hook(&mut prepared.verdict, &why);
        }
        match prepared.verdict.decision {
            Decision::Allow if self.environment.interactive && is_user_question(&prepared) => {
                self.put(board, &call, prepared).await;
            }
            Decision::Allow => self.start(board, prepared, CallDecision::Accept, None, cancel),
            Decision::Ask => self.put(board, &call, prepared).await,
            Decision::Deny => self.refuse(board, prepared),
        }
    }

    /// Emits the phase of a call, with its title once known.
    pub(crate) fn emit_phase(&self, call: &ToolCall, phase: CallPhase, title: Option<String>) {
        self.hub.send(EventBody::CallState(Box::new(CallState {
            item: call.item(),
            call: call.id.clone(),
            phase,
            title,
            kind: self.registry.get(&call.name).map(|tool| tool.spec().kind),
        })));
    }

    pub(crate) fn start(
        &mut self,
        board: &mut ToolBatch<'_>,
        prepared: PreparedCall,
        decision: CallDecision,
        answers: Option<Object>,
        cancel: &CancellationToken,
    ) {
        let Some(call) = board.call(prepared.index).cloned() else { return };
        let cancel = cancel.child_token();
        let PreparedCall {
            index, tool, invocation, effects, title, verdict, again, decided, ..
        } = prepared;
        let kind = tool.spec().kind;
        let mut permissions = effects.permissions.clone().and(&verdict.grants);
        // The user saw the command: programs that git runs in a trusted repository, and agents that
        // git may need, are part of the approval.
        if verdict.decision == Decision::Ask && kind == ToolKind::Execute && is_command(&effects) {
            permissions.repository_programs |= self.environment.trusted;
            permissions.agents = true;
        }
        let reach = self.inbox.reach.clone();
        reach.enter(call.item(), cancel.clone());
        self.emit_phase(&call, CallPhase::Executing, Some(title.clone()));
        let run = Run {
            cancel: cancel.clone(),
            progress: Arc::new(CallProgress { hub: self.hub.clone(), item: call.item(), reach }),
            permissions: permissions.clone(),
            asked: effects.permissions.clone(),
            mode: self.inbox.mode,
            decided,
            answers,
        };
        board.exclusive = self.registry.runs_alone(&call);
        let guarded = CheckpointedCall {
            invocation,
            run,
            effects: effects.clone(),
            checkpoints: self.checkpoints.store.clone(),
            turn: self.conversation.turn,
        };
        let handle = board.tasks.spawn(guarded.run());
        board.running.insert(
            handle.id(),
            RunningCall {
                index,
                begun: Instant::now(),
                waited: self.hub.user_wait(),
                title,
                kind,
                verdict,
                decision,
                cancel,
                effects,
                arguments: again.arguments,
                permissions,
                changed: again.changed,
                hooked: again.hooked,
                runs: again.runs + 1,
            },
        );
    }

    async fn joined(
        &mut self,
        board: &mut ToolBatch<'_>,
        joined: Result<(Id, Outcome), tokio::task::JoinError>,
        cancel: &CancellationToken,
    ) {
        let (id, outcome) = match joined {
            Ok((id, outcome)) => (id, Ok(outcome)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(running) = board.running.remove(&id) else { return };
        board.exclusive = false;
        let Some(call) = board.call(running.index).cloned() else { return };
        let mut outcome =
            outcome.unwrap_or_else(|error| Outcome::failure(crashed(&call.name, &error)));
        self.learn(&call.name, &running, &outcome);
        let took = running.begun.elapsed();
        let worked = match running.kind {
            // A user question takes as long as the user does.
            ToolKind::Communicate => Duration::ZERO,
            // A subagent pauses while the user responds.
            ToolKind::Agent => {
                took.saturating_sub(self.hub.user_wait().saturating_sub(running.waited))
            }
            _ => took,
        };
        let mut finish = CallSummary {
            kind: Some(running.kind),
            title: running.title,
            decision: Some(running.decision),
            verdict: Some(running.verdict),
            duration_ms: u64::try_from(worked.as_millis()).unwrap_or(u64::MAX),
            // A stopped command returns its output as a result.
            cancelled: running.cancel.is_cancelled()
                && (outcome.error.is_some() || running.kind == ToolKind::Execute),
            arguments: None,
        };
        let refused = std::mem::take(&mut outcome.refused).beyond(&running.permissions);
        let again = !refused.is_empty() && !cancel.is_cancelled() && running.runs < MAX_RUNS;
        if running.changed && outcome.error.is_none() {
            add_note(&mut outcome, CHANGED_BY_USER);
        }
        if let Some(note) = running.hooked.as_deref().filter(|_| !again) {
            add_note(&mut outcome, note);
        }
        if running.runs > 1 {
            add_note(&mut outcome, RERUN_NOTE);
        }
        if !again {
            let arguments = running.arguments.as_ref();
            let tail = self.run_after_tool_hooks(&call, arguments, &mut outcome, cancel).await;
            if let Some((name, args)) = tail
                && !cancel.is_cancelled()
            {
                self.inbox.reach.leave(&call.item());
                if board.tail(running.index, name, args) {
                    return;
                }
                let text = "Hooks requested too many tool calls; the last result is used";
                self.inbox.notice(Level::Warning, text);
            }
            let name = self.registry.get(&call.name).map(|tool| tool.spec().name.clone());
            let name = name.unwrap_or_else(|| call.name.clone());
            let pending = board.pending();
            self.prepare_result(&name, pending, &running.effects, &mut outcome).await;
            finish.arguments = running.arguments;
            self.finish(board, running.index, outcome, finish);
            return;
        }
        // Offer to run the same command again with the missing permissions.
        finish.arguments.clone_from(&running.arguments);
        let again = RerunContext {
            arguments: running.arguments,
            permissions: running.effects.permissions.and(&refused),
            refused: Some(Box::new(SandboxDenial { outcome, finish })),
            changed: running.changed,
            hooked: running.hooked,
            runs: running.runs,
        };
        self.begin(board, running.index, again, cancel).await;
    }

    /// Records what makes later commands suspicious: untrusted text and changed build files.
    fn learn(&mut self, name: &str, running: &RunningCall, outcome: &Outcome) {
        if taint::is_untrusted(name, Some(running.kind)) {
            taint::add_words(&mut self.approval.taint, &outcome.for_model.output);
            // Only the quoted part of a failure is untrusted.
            let quoted = outcome.error.as_ref().and_then(|error| {
                error.message.split_once("<untrusted_context>").map(|(_, quoted)| quoted)
            });
            taint::add_words(&mut self.approval.taint, quoted.unwrap_or_default());
        }
        if outcome.error.is_none() {
            for path in
                running.effects.writes.iter().filter(|path| (self.checkpoints.is_build_file)(path))
            {
                taint::add_build_file(&mut self.approval.taint, path.clone());
            }
        }
    }
}

impl Registry {
    pub(crate) fn may_start(&self, board: &ToolBatch<'_>, index: usize) -> bool {
        if board.exclusive || board.running.len() + board.awaiting_approval.len() >= PARALLEL {
            return false;
        }
        !board.call(index).is_some_and(|call| self.runs_alone(call)) || !board.is_busy()
    }

    pub(crate) fn runs_alone(&self, call: &ToolCall) -> bool {
        let waits = call.args.as_ref().ok().and_then(|args| args.get(WAIT_FOR_PREVIOUS));
        waits.and_then(Value::as_bool) == Some(true) || self.is_exclusive(&call.name)
    }
}

/// Returns the order in which calls start: the model's order, headings first.
fn order(calls: &[ToolCall]) -> VecDeque<usize> {
    let is_heading =
        |index: &usize| calls.get(*index).is_some_and(|call| call.name == HEADING_TOOL);
    let (headings, others): (Vec<usize>, Vec<usize>) = (0..calls.len()).partition(is_heading);
    headings.into_iter().chain(others).collect()
}

/// Whether the call is a user question.
pub(crate) fn is_user_question(prepared: &PreparedCall) -> bool {
    matches!(prepared.invocation.preview(), Some(Preview::Questions { .. }))
}

/// Returns a note for the model about the arguments that a hook changed; `None` if it changed none.
fn hook_change_note(call: &ToolCall, changed: &Object) -> Option<String> {
    let asked = call.args.clone().unwrap_or_default();
    let differs = |(name, value): &(&String, &Value)| asked.get(*name) != Some(*value);
    let names: Vec<String> =
        changed.iter().filter(differs).take(8).map(|(name, _)| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| {
        format!("[System] A hook changed {} of this call before it ran.", names.join(", "))
    })
}

/// Adds a line to the result that the model reads.
pub(crate) fn add_note(outcome: &mut Outcome, note: &str) {
    let text = match &mut outcome.error {
        Some(error) => &mut error.message,
        None => &mut outcome.for_model.output,
    };
    text.push('\n');
    text.push_str(note);
    if let Some(serde_json::Value::Array(parts)) = &mut outcome.for_hooks.content {
        parts.push(serde_json::json!({"text": note}));
    }
}

/// Returns the error for a tool that panicked, which fails its call but does not end the session.
fn crashed(name: &str, error: &tokio::task::JoinError) -> ToolError {
    let what = if error.is_panic() { "crashed (this is a bug in the tool)" } else { "was aborted" };
    ToolError::new(ToolErrorKind::UnhandledException, format!("tool `{name}` {what}"))
}
