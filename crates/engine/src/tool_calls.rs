//! Runs the calls of one response: prepare, decide, ask, run. Results are in call order.
//!
//! Shared calls run concurrently, at most eight. An exclusive call (an edit, or one with
//! `wait_for_previous`) is *prepared* only when all previous calls are done, so that several
//! edits of a file apply in order, and later calls start only after it.
//!
//! Every call is a state machine: [`CallStage`] is its state, and [`Transition`] what happens next.
//! Each step is in its own file and returns the transition; only [`ToolRunner::advance`] follows
//! it.

mod approve;
mod batch;
mod execute;
mod finish;
mod plan_mode;
mod prepare;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{CallPhase, CallState, EventBody, ItemStart, ToolStart};
use parallax_protocol::model::Limits;

use self::batch::{CallStage, ToolBatch, Transition};
use crate::agents::SubagentManager;
use crate::approvals::ApprovalState;
use crate::checkpoints::SessionCheckpoints;
use crate::context::{ContextManager, RequestFrame};
use crate::conversation::Conversation;
use crate::environment::SessionEnvironment;
use crate::event_bus::EventBus;
use crate::function_response::FinishedResults;
use crate::hooks::HookRunner;
use crate::inbox::Inbox;
use crate::registry::Registry;
use crate::tool_call::ToolCall;

pub(crate) use self::batch::BatchResult;

/// Runs the tool calls of a step.
pub(crate) struct ToolRunner<'a> {
    pub(crate) registry: &'a mut Registry,
    pub(crate) approvals: &'a mut ApprovalState,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) hooks: &'a mut HookRunner,
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) context: &'a ContextManager,
    pub(crate) checkpoints: &'a SessionCheckpoints,
    pub(crate) environment: &'a SessionEnvironment,
    pub(crate) subagents: Option<&'a SubagentManager>,
    pub(crate) bus: &'a EventBus,
    /// The model that reads the results.
    pub(crate) model: (String, Limits),
}

impl ToolRunner<'_> {
    /// Runs all calls of a response that are not finished yet. Always returns one result per call.
    pub(crate) async fn run_batch(
        &mut self,
        calls: &[ToolCall],
        finished: FinishedResults,
        cancel: &CancellationToken,
    ) -> BatchResult {
        let mut batch = ToolBatch::new(calls, finished);
        for (index, call) in calls.iter().enumerate() {
            if !batch.is_done(index) {
                self.announce(index, call);
            }
        }
        loop {
            if batch.was_declined {
                self.skip_queued(&mut batch);
            }
            while !cancel.is_cancelled()
                && let Some(next) = batch.take_ready(self.registry)
            {
                self.advance(&mut batch, next, Transition::first(), cancel).await;
            }
            // Responses may have arrived while other calls were prepared.
            if self.inbox.has_decisions() && !cancel.is_cancelled() {
                self.handle_responses(&mut batch, cancel).await;
                continue;
            }
            if cancel.is_cancelled() || batch.is_over() {
                break;
            }
            tokio::select! {
                biased;
                () = self.inbox.receive() => self.handle_responses(&mut batch, cancel).await,
                () = cancel.cancelled() => {}
                Some(joined) = batch.tasks.join_next_with_id() => {
                    self.handle_end(&mut batch, joined, cancel).await;
                }
            }
        }
        if cancel.is_cancelled() {
            self.cancel_batch(&mut batch).await;
        }
        batch.into_result()
    }

    /// Notifies the front ends that a call was requested.
    fn announce(&self, index: usize, call: &ToolCall) {
        self.bus.send(EventBody::ItemStarted {
            item: call.item(),
            start: ItemStart::Tool(ToolStart {
                call: call.id.clone(),
                index,
                name: call.name.clone(),
                args: call.args.clone().unwrap_or_default(),
            }),
        });
    }

    /// Follows the transitions of a call until it waits for something.
    async fn advance(
        &mut self,
        batch: &mut ToolBatch<'_>,
        index: usize,
        transition: Transition,
        cancel: &CancellationToken,
    ) {
        let mut transition = transition;
        loop {
            let Some(call) = batch.call(index).cloned() else { return };
            transition = match transition {
                Transition::Prepare(rerun) => {
                    batch.set_stage(index, CallStage::Preparing);
                    self.emit_phase(&call, CallPhase::Validating, None);
                    self.prepare(&call, rerun, cancel).await
                }
                Transition::Ask(prepared) => {
                    let runs_alone = self.registry.runs_alone(&call);
                    let response = self.request_approval(&call, *prepared).await;
                    batch.enter(index, response, runs_alone);
                    return;
                }
                Transition::Run { prepared, decision, answers } => {
                    let runs_alone = self.registry.runs_alone(&call);
                    let running = self.start(batch, &call, *prepared, (decision, answers), cancel);
                    batch.enter(index, running, runs_alone);
                    return;
                }
                Transition::Finish(outcome, summary) => {
                    self.finish(batch, index, *outcome, *summary);
                    return;
                }
                Transition::Replace { name, arguments } => {
                    batch.replace(index, name, arguments);
                    return;
                }
                Transition::Cancelled => return,
            };
        }
    }

    /// Emits the phase of a call, with its title once known.
    fn emit_phase(&self, call: &ToolCall, phase: CallPhase, title: Option<String>) {
        self.bus.send(EventBody::CallState(Box::new(CallState {
            item: call.item(),
            call: call.id.clone(),
            phase,
            title,
            kind: self.registry.get(&call.name).map(|tool| tool.spec().kind),
        })));
    }

    /// Returns what the next request contains besides the history.
    fn frame(&mut self) -> RequestFrame {
        let (mode, interactive) = (self.inbox.mode(), self.environment.interactive);
        let tools = self.registry.declare(self.approvals.policy_engine(), mode, interactive);
        self.context.frame(self.model.clone(), mode, &tools)
    }
}
