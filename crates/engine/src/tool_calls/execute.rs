//! Runs a prepared call, and decides what follows when it ends.

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::event::{CallDecision, CallPhase, Level};
use parallax_protocol::policy::Decision;
use parallax_protocol::tool::{RunContext, ToolError, ToolErrorKind, ToolKind, ToolResult};
use parallax_protocol::{CancellationToken, Object};
use tokio::task::{Id, JoinError};
use tokio::time::Instant;

use super::ToolRunner;
use super::batch::{
    CallStage, CallSummary, PreparedCall, RerunContext, RunningCall, SandboxDenial, ToolBatch,
    Transition,
};
use crate::call_progress::CallProgress;
use crate::checkpoints::{CheckpointedCall, is_command};
use crate::context::PendingResults;
use crate::hooks::AfterToolInput;
use crate::tool_call::ToolCall;
use crate::tool_notes::add_note;

/// Added to the result of a call that the user changed.
const CHANGED_BY_USER: &str = "[The user changed this call before approving it. Check the result \
    before you rely on it.]";
/// Added to the result of a command that ran again with more permissions.
const RERUN_NOTE: &str = "[The command ran twice: the sandbox denied the first run some access; \
    this is the result of the second run, with that access. The effects of the first run \
    remain.]";
/// How often a call may run again with more permissions.
const MAX_RUNS: u32 = 4;

/// How a task ended.
pub(super) type TaskEnd = Result<(Id, ToolResult), JoinError>;

impl ToolRunner<'_> {
    /// Starts a call as a task of the batch.
    pub(super) fn start(
        &mut self,
        batch: &mut ToolBatch<'_>,
        call: &ToolCall,
        prepared: PreparedCall,
        (decision, answers): (CallDecision, Option<Object>),
        cancel: &CancellationToken,
    ) -> CallStage {
        let cancel = cancel.child_token();
        let PreparedCall {
            tool,
            invocation,
            effects,
            title,
            policy_decision,
            context_files,
            rerun,
            response,
            ..
        } = prepared;
        let kind = tool.spec().kind;
        let mut permissions = effects.permissions.clone().union(&policy_decision.grants);
        // The user saw the command: programs that git runs in a trusted repository, and agents that
        // git may need, are part of the approval.
        if policy_decision.kind == Decision::Ask
            && kind == ToolKind::Execute
            && is_command(&effects)
        {
            permissions.repository_programs |= self.environment.trusted;
            permissions.agents = true;
        }
        let processes = self.inbox.processes().clone();
        processes.enter(call.item(), cancel.clone());
        self.emit_phase(call, CallPhase::Executing, Some(title.clone()));
        let run = RunContext {
            cancel: cancel.clone(),
            progress: Arc::new(CallProgress {
                bus: self.bus.clone(),
                item: call.item(),
                processes,
            }),
            permissions: permissions.clone(),
            requested: effects.permissions.clone(),
            mode: self.inbox.mode(),
            response,
            answers,
        };
        let checkpointed = CheckpointedCall {
            invocation,
            run,
            effects: effects.clone(),
            checkpoints: self.checkpoints.store(),
            turn: self.conversation.turn(),
        };
        let task = batch.tasks.spawn(checkpointed.run()).id();
        let call = RunningCall {
            started: Instant::now(),
            user_wait_at_start: self.bus.user_wait(),
            title,
            kind,
            policy_decision,
            decision,
            cancel,
            effects,
            context_files,
            arguments: rerun.arguments,
            permissions,
            changed: rerun.changed,
            hooked: rerun.hooked,
            runs: rerun.runs + 1,
        };
        CallStage::Running { task, call: Box::new(call) }
    }

    /// Handles the end of a task.
    pub(super) async fn handle_end(
        &mut self,
        batch: &mut ToolBatch<'_>,
        ended: TaskEnd,
        cancel: &CancellationToken,
    ) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Ok(outcome)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some((index, running)) = batch.take_running(id) else { return };
        let Some(call) = batch.call(index).cloned() else { return };
        let outcome =
            outcome.unwrap_or_else(|error| ToolResult::failure(crash_error(&call.name, &error)));
        let batch_state = (batch.pending_results(), batch.may_replace(index));
        let transition = self.complete(&call, *running, outcome, batch_state, cancel).await;
        self.advance(batch, index, transition, cancel).await;
    }

    /// Decides what follows a run: a result, another run with more permissions, or another call.
    async fn complete(
        &mut self,
        call: &ToolCall,
        running: RunningCall,
        mut outcome: ToolResult,
        (pending, may_replace): (PendingResults, bool),
        cancel: &CancellationToken,
    ) -> Transition {
        let is_build_file = self.checkpoints.is_build_file();
        let name = (call.name.as_str(), running.kind);
        self.approvals.learn(name, &running.effects, &outcome, is_build_file);
        let mut summary = self.summarize(&running, &outcome);
        let newly_denied =
            std::mem::take(&mut outcome.denied_permissions).difference(&running.permissions);
        let reruns = !newly_denied.is_empty() && !cancel.is_cancelled() && running.runs < MAX_RUNS;
        if running.changed && outcome.error.is_none() {
            add_note(&mut outcome, CHANGED_BY_USER);
        }
        if let Some(note) = running.hooked.as_deref().filter(|_| !reruns) {
            add_note(&mut outcome, note);
        }
        if running.runs > 1 {
            add_note(&mut outcome, RERUN_NOTE);
        }
        if reruns {
            // Offer to run the same command again with the missing permissions.
            summary.arguments.clone_from(&running.arguments);
            return Transition::Prepare(RerunContext {
                arguments: running.arguments,
                permissions: running.effects.permissions.union(&newly_denied),
                denial: Some(Box::new(SandboxDenial { outcome, summary })),
                changed: running.changed,
                hooked: running.hooked,
                runs: running.runs,
            });
        }
        let arguments = running.arguments.as_ref();
        let finished = AfterToolInput { registry: self.registry, call, arguments, is_build_file };
        let replacement = self.hooks.after_tool(finished, &mut outcome, self.inbox, cancel).await;
        if let Some((name, arguments)) = replacement
            && !cancel.is_cancelled()
        {
            self.inbox.processes().remove(&call.item());
            if may_replace {
                return Transition::Replace { name, arguments };
            }
            let text = "Hooks requested too many tool calls; the last result is used";
            self.inbox.notice(Level::Warning, text);
        }
        let name = self.registry.declared_name(&call.name);
        let frame = self.frame();
        let limits = self.context.result_limits(&frame, self.conversation.history(), pending);
        self.context
            .prepare_result(&name, limits, running.context_files, &mut outcome, self.inbox)
            .await;
        summary.arguments = running.arguments;
        Transition::finish(outcome, summary)
    }

    fn summarize(&self, running: &RunningCall, outcome: &ToolResult) -> CallSummary {
        let took = running.started.elapsed();
        let worked = match running.kind {
            // A user question takes as long as the user does.
            ToolKind::Communicate => Duration::ZERO,
            // A subagent pauses while the user responds.
            ToolKind::Agent => {
                took.saturating_sub(self.bus.user_wait().saturating_sub(running.user_wait_at_start))
            }
            _ => took,
        };
        CallSummary {
            kind: Some(running.kind),
            title: running.title.clone(),
            decision: Some(running.decision),
            policy_decision: Some(running.policy_decision.clone()),
            duration_ms: u64::try_from(worked.as_millis()).unwrap_or(u64::MAX),
            // A stopped command returns its output as a result.
            cancelled: running.cancel.is_cancelled()
                && (outcome.error.is_some() || running.kind == ToolKind::Execute),
            arguments: None,
        }
    }
}

/// Returns the error for a tool that panicked, which fails its call but does not end the session.
pub(super) fn crash_error(name: &str, error: &JoinError) -> ToolError {
    let what = if error.is_panic() { "crashed (this is a bug in the tool)" } else { "was aborted" };
    ToolError::new(ToolErrorKind::UnhandledException, format!("tool `{name}` {what}"))
}
