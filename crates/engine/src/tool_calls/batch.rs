//! The state of a batch of tool calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::context::FoundContextFile;
use parallax_protocol::event::CallDecision;
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::image::Image;
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{PolicyDecision, SuggestedRule};
use parallax_protocol::tool::{
    Effects, Invocation, Preview, Tool, ToolError, ToolKind, ToolResult,
};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::RawValue;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use crate::approvals::PolicyInput;
use crate::context::PendingResults;
use crate::function_response::{FinishedResults, FunctionResponse};
use crate::registry::Registry;
use crate::tokens;
use crate::tool_call::ToolCall;

/// How often one call may be replaced by another.
const MAX_REPLACEMENTS: u32 = 5;
/// Maximum number of concurrent calls.
const PARALLEL: usize = 8;
/// The tool whose calls are headings for the calls that follow.
const HEADING_TOOL: &str = "update_topic";

/// The result of a finished batch.
pub(crate) struct BatchResult {
    /// One result per call, in call order.
    pub(crate) results: Vec<Box<RawValue>>,
    /// The text that the model reads of each, for loop detection.
    pub(crate) texts: Vec<String>,
    /// Audio and video to inject after the batch.
    pub(crate) injected: Vec<parallax_protocol::content::Part>,
    /// A failure that ends the run.
    pub(crate) fatal: Option<ToolError>,
    /// The reason, if a tool requested the end of the run.
    pub(crate) stopped: Option<String>,
    /// Whether the user denied all calls without a message for the model.
    pub(crate) was_declined: bool,
}

/// The state of a call.
pub(super) enum CallStage {
    /// It waits for previous calls, or for a free slot.
    Queued,
    /// Its arguments are validated and the policy decides.
    Preparing,
    /// The user decides.
    AwaitingApproval { ask: ApprovalId, prepared: Box<PreparedCall> },
    /// It runs as a task.
    Running { task: Id, call: Box<RunningCall> },
    /// It has a result.
    Done(FunctionResponse),
}

/// What happens to a call next.
pub(super) enum Transition {
    /// Prepare it, perhaps again with changes.
    Prepare(RerunContext),
    /// Ask the user.
    Ask(Box<PreparedCall>),
    /// Run it, with the user's answers if it is a question.
    Run { prepared: Box<PreparedCall>, decision: CallDecision, answers: Option<Object> },
    /// Run another call in its place.
    Replace { name: String, arguments: Object },
    /// Finish it.
    Finish(Box<ToolResult>, Box<CallSummary>),
    /// Nothing: the batch is cancelled and finishes it.
    Cancelled,
}

impl Transition {
    /// Returns the first transition of a call.
    pub(super) fn first() -> Self {
        Self::Prepare(RerunContext::default())
    }

    pub(super) fn finish(outcome: ToolResult, summary: CallSummary) -> Self {
        Self::Finish(Box::new(outcome), Box::new(summary))
    }

    pub(super) fn fail(error: ToolError, summary: CallSummary) -> Self {
        Self::finish(ToolResult::failure(error), summary)
    }
}

/// The changes with which a call is prepared again.
#[derive(Default)]
pub(super) struct RerunContext {
    /// Changed arguments.
    pub(super) arguments: Option<Object>,
    /// Whether the user changed them. The model is then notified.
    pub(super) changed: bool,
    /// A note for the model about arguments that a hook changed.
    pub(super) hooked: Option<String>,
    /// The permissions that the sandbox denied and those that were approved before.
    pub(super) permissions: Permissions,
    /// The outcome without these permissions.
    pub(super) denial: Option<Box<SandboxDenial>>,
    /// How often the call has run.
    pub(super) runs: u32,
}

/// A run that the sandbox interrupted: what the model gets if the permissions are denied.
pub(super) struct SandboxDenial {
    pub(super) outcome: ToolResult,
    pub(super) summary: CallSummary,
}

/// A prepared call with its decision.
pub(super) struct PreparedCall {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) invocation: Box<dyn Invocation>,
    /// The effects, including the permissions requested now.
    pub(super) effects: Effects,
    pub(super) title: String,
    pub(super) policy_decision: PolicyDecision,
    /// Rules that would allow the call.
    pub(super) rules: Vec<SuggestedRule>,
    /// Why there are none, if approval is required.
    pub(super) no_rule_reason: Option<String>,
    pub(super) input: PolicyInput,
    /// The context files of its directories.
    pub(super) context_files: Vec<FoundContextFile>,
    /// The responses offered.
    pub(super) outcomes: Vec<ApprovalResponse>,
    /// The user's response.
    pub(super) response: Option<ApprovalResponse>,
    pub(super) rerun: RerunContext,
}

/// A running call.
pub(super) struct RunningCall {
    pub(super) started: Instant,
    /// How long requests to the user had been open when the call started.
    pub(super) user_wait_at_start: Duration,
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) policy_decision: PolicyDecision,
    pub(super) decision: CallDecision,
    pub(super) cancel: CancellationToken,
    pub(super) effects: Effects,
    pub(super) context_files: Vec<FoundContextFile>,
    pub(super) arguments: Option<Object>,
    pub(super) permissions: Permissions,
    /// Whether the user changed the arguments.
    pub(super) changed: bool,
    /// The note for the model, if a hook changed the arguments.
    pub(super) hooked: Option<String>,
    pub(super) runs: u32,
}

/// Information about a call when it finishes.
pub(super) struct CallSummary {
    pub(super) kind: Option<ToolKind>,
    pub(super) title: String,
    pub(super) decision: Option<CallDecision>,
    pub(super) policy_decision: Option<PolicyDecision>,
    pub(super) duration_ms: u64,
    pub(super) cancelled: bool,
    /// The arguments, if a hook or the user changed them.
    pub(super) arguments: Option<Object>,
}

impl PreparedCall {
    /// Whether the call is a user question.
    pub(super) fn is_user_question(&self) -> bool {
        matches!(self.invocation.preview(), Some(Preview::Questions { .. }))
    }

    /// Whether the call asks the user to approve a plan.
    pub(super) fn is_plan(&self) -> bool {
        matches!(self.invocation.preview(), Some(Preview::Plan { .. }))
    }

    /// Returns the note for the model when permissions beyond the sandbox were denied.
    pub(super) fn denial_note(&self, reason: &str) -> String {
        let requested: &Permissions = &self.rerun.permissions;
        format!(
            "[The sandbox denied this command: {}. {reason}]",
            requested.descriptions().join(", ")
        )
    }
}

impl CallSummary {
    /// Creates the summary of a call without a decision.
    pub(super) fn without_decision(kind: Option<ToolKind>, title: String) -> Self {
        Self {
            kind,
            title,
            decision: None,
            policy_decision: None,
            duration_ms: 0,
            cancelled: false,
            arguments: None,
        }
    }

    /// Creates the summary of a call that was denied.
    pub(super) fn rejected(prepared: &PreparedCall, cancelled: bool) -> Self {
        Self {
            kind: Some(prepared.tool.spec().kind),
            title: prepared.title.clone(),
            decision: Some(CallDecision::Reject),
            policy_decision: Some(prepared.policy_decision.clone()),
            duration_ms: 0,
            cancelled,
            arguments: prepared.rerun.arguments.clone(),
        }
    }
}

/// A call of a batch.
struct BatchedCall<'a> {
    requested: &'a ToolCall,
    /// The call that a hook requested in its place, and how often that happened.
    replacement: Option<(ToolCall, u32)>,
    stage: CallStage,
    /// Whether no other call may run next to it.
    runs_alone: bool,
}

impl BatchedCall<'_> {
    fn is_active(&self) -> bool {
        matches!(self.stage, CallStage::AwaitingApproval { .. } | CallStage::Running { .. })
    }

    fn response(&self) -> Option<&FunctionResponse> {
        match &self.stage {
            CallStage::Done(response) => Some(response),
            _ => None,
        }
    }
}

/// The state of a batch.
pub(super) struct ToolBatch<'a> {
    calls: Vec<BatchedCall<'a>>,
    pub(super) tasks: JoinSet<ToolResult>,
    /// Calls that have not started, in order.
    queue: VecDeque<usize>,
    /// Replacements that have not started. They go first.
    replacements: VecDeque<usize>,
    pub(super) fatal: Option<ToolError>,
    pub(super) stopped: Option<String>,
    /// Whether the user denied a call without a message, so that calls that have not started are
    /// skipped.
    pub(super) was_declined: bool,
    /// Whether the turn ends as well.
    pub(super) ends_turn: bool,
    /// The number of calls that were not cancelled.
    pub(super) executed: usize,
    /// Images of results, by index, until the previous calls are done.
    images: BTreeMap<usize, Vec<Image>>,
}

/// Removes and returns what is before an index, in order.
fn drain_before<T>(found: &mut BTreeMap<usize, Vec<T>>, index: usize) -> Vec<T> {
    let later = found.split_off(&index);
    std::mem::replace(found, later).into_values().flatten().collect()
}

impl<'a> ToolBatch<'a> {
    pub(super) fn new(calls: &'a [ToolCall], mut finished: FinishedResults) -> Self {
        let mut queue = start_order(calls);
        queue.retain(|index| !finished.contains_key(index));
        let calls = calls.iter().enumerate().map(|(index, requested)| BatchedCall {
            requested,
            replacement: None,
            stage: finished.remove(&index).map_or(CallStage::Queued, CallStage::Done),
            runs_alone: false,
        });
        Self {
            calls: calls.collect(),
            tasks: JoinSet::new(),
            queue,
            replacements: VecDeque::new(),
            fatal: None,
            stopped: None,
            was_declined: false,
            ends_turn: false,
            executed: 0,
            images: BTreeMap::new(),
        }
    }

    /// Returns the call to make: the model's, or its replacement. It keeps its id and is answered
    /// under the name that the model used.
    pub(super) fn call(&self, index: usize) -> Option<&ToolCall> {
        let call = self.calls.get(index)?;
        Some(call.replacement.as_ref().map_or(call.requested, |(replacement, _)| replacement))
    }

    /// Returns the call as the model requested it.
    pub(super) fn requested_call(&self, index: usize) -> Option<&'a ToolCall> {
        self.calls.get(index).map(|call| call.requested)
    }

    /// Whether the call has a result.
    pub(super) fn is_done(&self, index: usize) -> bool {
        self.calls.get(index).is_some_and(|call| call.response().is_some())
    }

    /// Returns the calls without a result.
    pub(super) fn open_calls(&self) -> Vec<usize> {
        (0..self.calls.len()).filter(|index| !self.is_done(*index)).collect()
    }

    /// Whether nothing runs and nothing waits.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty()
            && self.replacements.is_empty()
            && !self.calls.iter().any(BatchedCall::is_active)
    }

    /// Takes the next call, if it may start now.
    pub(super) fn take_ready(&mut self, registry: &Registry) -> Option<usize> {
        let next = *self.replacements.front().or_else(|| self.queue.front())?;
        if !self.may_start(next, registry) {
            return None;
        }
        self.replacements.pop_front().or_else(|| self.queue.pop_front())
    }

    fn may_start(&self, index: usize, registry: &Registry) -> bool {
        let mut active = self.calls.iter().filter(|call| call.is_active()).peekable();
        if active.peek().is_none() {
            return true;
        }
        let runs_alone = self.call(index).is_some_and(|call| registry.runs_alone(call));
        !runs_alone && !active.clone().any(|call| call.runs_alone) && active.count() < PARALLEL
    }

    /// Takes the calls that have not started.
    pub(super) fn take_queued(&mut self) -> Vec<usize> {
        self.replacements.drain(..).chain(self.queue.drain(..)).collect()
    }

    pub(super) fn set_stage(&mut self, index: usize, stage: CallStage) {
        if let Some(call) = self.calls.get_mut(index) {
            call.stage = stage;
            call.runs_alone = false;
        }
    }

    /// Sets the stage of a call that waits for the user or runs.
    pub(super) fn enter(&mut self, index: usize, stage: CallStage, runs_alone: bool) {
        if let Some(call) = self.calls.get_mut(index) {
            call.stage = stage;
            call.runs_alone = runs_alone;
        }
    }

    /// Takes the call that waits for this response.
    pub(super) fn take_awaiting(&mut self, ask: &ApprovalId) -> Option<(usize, Box<PreparedCall>)> {
        let waits = |call: &BatchedCall<'_>| matches!(&call.stage, CallStage::AwaitingApproval { ask: other, .. } if other == ask);
        let index = self.calls.iter().position(waits)?;
        let call = self.calls.get_mut(index)?;
        match std::mem::replace(&mut call.stage, CallStage::Preparing) {
            CallStage::AwaitingApproval { prepared, .. } => Some((index, prepared)),
            _ => None,
        }
    }

    /// Takes all calls that wait for the user, with their requests.
    pub(super) fn take_all_awaiting(&mut self) -> Vec<(usize, ApprovalId, Box<PreparedCall>)> {
        let mut steering = Vec::new();
        for (index, call) in self.calls.iter_mut().enumerate() {
            match std::mem::replace(&mut call.stage, CallStage::Preparing) {
                CallStage::AwaitingApproval { ask, prepared } => {
                    steering.push((index, ask, prepared))
                }
                stage => call.stage = stage,
            }
        }
        steering
    }

    /// Takes the call that ran as a task.
    pub(super) fn take_running(&mut self, task: Id) -> Option<(usize, Box<RunningCall>)> {
        let runs = |call: &BatchedCall<'_>| matches!(&call.stage, CallStage::Running { task: other, .. } if *other == task);
        let index = self.calls.iter().position(runs)?;
        let call = self.calls.get_mut(index)?;
        match std::mem::replace(&mut call.stage, CallStage::Preparing) {
            CallStage::Running { call, .. } => Some((index, call)),
            _ => None,
        }
    }

    /// Whether the call may be replaced by another.
    pub(super) fn may_replace(&self, index: usize) -> bool {
        let replacement = self.calls.get(index).and_then(|call| call.replacement.as_ref());
        replacement.is_none_or(|(_, number)| *number < MAX_REPLACEMENTS)
    }

    /// Replaces a call and queues the replacement before waiting calls.
    pub(super) fn replace(&mut self, index: usize, name: String, args: Object) {
        let Some(call) = self.calls.get_mut(index) else { return };
        let number = call.replacement.as_ref().map_or(0, |(_, number)| *number);
        let replaced_name = Some(call.requested.name.clone());
        let replacement =
            ToolCall { name, args: Ok(args), replaced_name, ..call.requested.clone() };
        call.replacement = Some((replacement, number + 1));
        self.set_stage(index, CallStage::Queued);
        self.replacements.push_back(index);
    }

    /// Records a result with its images. Returns the images that are next in call order, since
    /// concurrent calls finish in any order.
    pub(super) fn record_result(
        &mut self,
        index: usize,
        response: FunctionResponse,
        images: Vec<Image>,
    ) -> Vec<Image> {
        self.set_stage(index, CallStage::Done(response));
        self.images.insert(index, images);
        let open = self.calls.iter().position(|call| call.response().is_none());
        drain_before(&mut self.images, open.unwrap_or(self.calls.len()))
    }

    /// Returns the other results of the batch.
    pub(super) fn pending_results(&self) -> PendingResults {
        let results = self.calls.iter().filter_map(BatchedCall::response);
        let open = self.calls.iter().filter(|call| call.response().is_none()).count();
        PendingResults {
            tokens: results.map(|response| tokens::estimate_text(&response.text)).sum(),
            expected: (open as u64).saturating_sub(1),
        }
    }

    /// Returns the results, in call order.
    pub(super) fn into_result(self) -> BatchResult {
        let mut result = BatchResult {
            results: Vec::with_capacity(self.calls.len()),
            texts: Vec::with_capacity(self.calls.len()),
            injected: Vec::new(),
            fatal: self.fatal,
            stopped: self.stopped,
            was_declined: self.ends_turn && self.executed == 0,
        };
        for call in self.calls {
            if let CallStage::Done(response) = call.stage {
                result.results.push(response.to_raw());
                result.texts.push(response.text);
                result.injected.extend(response.injected);
            }
        }
        result
    }
}

/// Returns the order in which calls start: the model's order, headings first.
fn start_order(calls: &[ToolCall]) -> VecDeque<usize> {
    let is_heading =
        |index: &usize| calls.get(*index).is_some_and(|call| call.name == HEADING_TOOL);
    let (headings, others): (Vec<usize>, Vec<usize>) = (0..calls.len()).partition(is_heading);
    headings.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use parallax_protocol::ids::CallId;
    use parallax_protocol::tool::Concurrency;

    use super::*;
    use crate::test_parts::TestTool;

    fn registry() -> Registry {
        let tool = |name, kind, sharing| Arc::new(TestTool::new(name, kind, sharing)) as _;
        let tools: Vec<Arc<dyn Tool>> = vec![
            tool("read", ToolKind::Read, Concurrency::Shared),
            tool("edit", ToolKind::Edit, Concurrency::Exclusive),
            tool(HEADING_TOOL, ToolKind::Think, Concurrency::Shared),
        ];
        Registry::new(tools, None)
    }

    fn calls(names: &[&str]) -> Vec<ToolCall> {
        let call = |(index, name): (usize, &&str)| ToolCall {
            id: CallId::new(format!("call-{index}")),
            wire_id: None,
            name: (*name).to_owned(),
            args: Ok(Object::new()),
            replaced_name: None,
        };
        names.iter().enumerate().map(call).collect()
    }

    fn done() -> FunctionResponse {
        FunctionResponse { text: "done".to_owned(), ..FunctionResponse::default() }
    }

    /// Starts what may start, as tasks that never end.
    fn start_all(batch: &mut ToolBatch<'_>, registry: &Registry) -> Vec<usize> {
        let mut started = Vec::new();
        while let Some(index) = batch.take_ready(registry) {
            let task = batch.tasks.spawn(std::future::pending()).id();
            let runs_alone = batch.call(index).is_some_and(|call| registry.runs_alone(call));
            let call = RunningCall {
                started: Instant::now(),
                user_wait_at_start: Duration::ZERO,
                title: String::new(),
                kind: ToolKind::Read,
                policy_decision: PolicyDecision::new(
                    parallax_protocol::policy::Decision::Allow,
                    "test",
                    "",
                ),
                decision: CallDecision::Accept,
                cancel: CancellationToken::new(),
                effects: Effects::default(),
                context_files: Vec::new(),
                arguments: None,
                permissions: Permissions::default(),
                changed: false,
                hooked: None,
                runs: 1,
            };
            batch.enter(index, CallStage::Running { task, call: Box::new(call) }, runs_alone);
            started.push(index);
        }
        started
    }

    #[tokio::test]
    async fn exclusive_call_waits_for_earlier_calls_and_delays_later_ones() {
        let (registry, calls) = (registry(), calls(&["read", "read", "edit", "read"]));
        let mut batch = ToolBatch::new(&calls, FinishedResults::new());
        assert_eq!(start_all(&mut batch, &registry), [0, 1]);
        batch.record_result(0, done(), Vec::new());
        assert!(start_all(&mut batch, &registry).is_empty());
        batch.record_result(1, done(), Vec::new());
        assert_eq!(start_all(&mut batch, &registry), [2]);
        assert!(!batch.is_over());
        batch.record_result(2, done(), Vec::new());
        assert_eq!(start_all(&mut batch, &registry), [3]);
        batch.record_result(3, done(), Vec::new());
        assert!(batch.is_over() && batch.open_calls().is_empty());
        assert_eq!(batch.into_result().texts, ["done"; 4]);
    }

    #[tokio::test]
    async fn at_most_eight_calls_run_and_headings_start_first() {
        let (registry, mut names) = (registry(), vec!["read"; 9]);
        names.push(HEADING_TOOL);
        let calls = calls(&names);
        let mut batch = ToolBatch::new(&calls, FinishedResults::new());
        assert_eq!(start_all(&mut batch, &registry), [9, 0, 1, 2, 3, 4, 5, 6]);
        batch.record_result(3, done(), Vec::new());
        assert_eq!(start_all(&mut batch, &registry), [7]);
        assert_eq!(batch.take_queued(), [8]);
    }

    #[tokio::test]
    async fn replacement_keeps_its_id_starts_first_and_is_limited() {
        let (registry, calls) = (registry(), calls(&["edit", "read"]));
        let mut batch = ToolBatch::new(&calls, FinishedResults::new());
        assert_eq!(batch.take_ready(&registry), Some(0));
        batch.set_stage(0, CallStage::Preparing);
        for _ in 0..MAX_REPLACEMENTS {
            assert!(batch.may_replace(0));
            batch.replace(0, "read".to_owned(), Object::new());
            assert_eq!(batch.take_ready(&registry), Some(0));
        }
        assert!(!batch.may_replace(0));
        let call = batch.call(0).expect("a call");
        assert_eq!((call.name.as_str(), call.replaced_name.as_deref()), ("read", Some("edit")));
        assert_eq!(call.id, calls[0].id);
        assert_eq!(batch.open_calls(), [0, 1]);
    }

    #[test]
    fn finished_calls_of_a_resumed_batch_do_not_start() {
        let (registry, calls) = (registry(), calls(&["read", "edit"]));
        let mut batch = ToolBatch::new(&calls, FinishedResults::from([(0, done())]));
        assert!(batch.is_done(0) && !batch.is_done(1));
        assert_eq!(batch.take_ready(&registry), Some(1));
        assert_eq!(batch.take_ready(&registry), None);
    }

    #[test]
    fn early_result_waits_for_the_results_before_it() {
        let mut found = BTreeMap::from([(2, vec!["c"])]);
        assert!(drain_before(&mut found, 0).is_empty());
        found.insert(0, vec!["a", "b"]);
        assert_eq!(drain_before(&mut found, 1), ["a", "b"]);
        assert_eq!(drain_before(&mut found, 3), ["c"]);
    }
}
