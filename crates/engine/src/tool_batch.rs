//! The state of a batch of tool calls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::event::{CallDecision, EventBody, ItemDone, Level};
use parallax_protocol::ids::{AskId, CallId, ItemId};
use parallax_protocol::image::Image;
use parallax_protocol::observer::SpanOf;
use parallax_protocol::op::AskOutcome;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{RuleDraft, Verdict};
use parallax_protocol::shell::{ProcessControl, Screen};
use parallax_protocol::tool::{
    Advance, Effects, Invocation, Outcome, Progress, Tool, ToolError, ToolKind,
};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::RawValue;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use crate::event_bus::EventBus;
use crate::function_response::FunctionResponse;
use crate::running_processes::RunningProcesses;
use crate::tool_output_limits::PendingResults;

/// How often one call may be replaced by another.
const MAX_REPLACEMENTS: u32 = 5;

/// A tool call of the model, with the id that Parallax uses.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall {
    pub(crate) id: CallId,
    pub(crate) wire_id: Option<String>,
    pub(crate) name: String,
    /// The arguments, or what is wrong with them.
    pub(crate) args: Result<Object, String>,
    /// The name that the model called, when a hook replaced the call.
    pub(crate) replaces: Option<String>,
}

impl ToolCall {
    pub(crate) fn item(&self) -> ItemId {
        ItemId::new(format!("tool-{}", self.id))
    }
}

/// Results of calls that ran before, by call index.
pub(crate) type FinishedResults = BTreeMap<usize, FunctionResponse>;

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
    pub(crate) declined: bool,
}

/// The changes with which a call is prepared again.
#[derive(Default)]
pub(crate) struct RerunContext {
    /// Changed arguments.
    pub(crate) arguments: Option<Object>,
    /// Whether the user changed them. The model is then notified.
    pub(crate) changed: bool,
    /// A note for the model about arguments that a hook changed.
    pub(crate) hooked: Option<String>,
    /// The permissions that the sandbox denied and those that were approved before.
    pub(crate) permissions: Permissions,
    /// The outcome without these permissions.
    pub(crate) refused: Option<Box<SandboxDenial>>,
    /// How often the call has run.
    pub(crate) runs: u32,
}

/// A run that the sandbox interrupted: what the model gets if the permissions are denied.
pub(crate) struct SandboxDenial {
    pub(crate) outcome: Outcome,
    pub(crate) finish: CallSummary,
}

/// The input of a policy query besides the tool and the effects.
pub(crate) struct PolicyInput {
    pub(crate) args: Object,
    pub(crate) workspace: Vec<PathBuf>,
    /// Files that the agent created in this session.
    pub(crate) made: Vec<PathBuf>,
}

/// A prepared call with its decision.
pub(crate) struct PreparedCall {
    pub(crate) index: usize,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) invocation: Box<dyn Invocation>,
    /// The effects, including the permissions requested now.
    pub(crate) effects: Effects,
    pub(crate) title: String,
    pub(crate) verdict: Verdict,
    /// Rules that would allow the call.
    pub(crate) rules: Vec<RuleDraft>,
    /// Why there are none, if approval is required.
    pub(crate) no_rule: Option<String>,
    pub(crate) asked: PolicyInput,
    /// The responses offered.
    pub(crate) outcomes: Vec<AskOutcome>,
    /// The user's response.
    pub(crate) decided: Option<AskOutcome>,
    pub(crate) again: RerunContext,
}

/// A running call.
pub(crate) struct RunningCall {
    pub(crate) index: usize,
    pub(crate) begun: Instant,
    /// How long requests to the user had been open when the call started.
    pub(crate) waited: Duration,
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    pub(crate) verdict: Verdict,
    pub(crate) decision: CallDecision,
    pub(crate) cancel: CancellationToken,
    pub(crate) effects: Effects,
    pub(crate) arguments: Option<Object>,
    pub(crate) permissions: Permissions,
    /// Whether the user changed the arguments.
    pub(crate) changed: bool,
    /// The note for the model, if a hook changed the arguments.
    pub(crate) hooked: Option<String>,
    pub(crate) runs: u32,
}

/// What is known about a call when it finishes.
pub(crate) struct CallSummary {
    pub(crate) kind: Option<ToolKind>,
    pub(crate) title: String,
    pub(crate) decision: Option<CallDecision>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) duration_ms: u64,
    pub(crate) cancelled: bool,
    /// The arguments, if a hook or the user changed them.
    pub(crate) arguments: Option<Object>,
}

impl CallSummary {
    /// Creates the summary of a call without a decision.
    pub(crate) fn without_decision(kind: Option<ToolKind>, title: String) -> Self {
        Self {
            kind,
            title,
            decision: None,
            verdict: None,
            duration_ms: 0,
            cancelled: false,
            arguments: None,
        }
    }

    /// Creates the summary of a call that was denied.
    pub(crate) fn rejected(prepared: &PreparedCall, cancelled: bool) -> Self {
        Self {
            kind: Some(prepared.tool.spec().kind),
            title: prepared.title.clone(),
            decision: Some(CallDecision::Reject),
            verdict: Some(prepared.verdict.clone()),
            duration_ms: 0,
            cancelled,
            arguments: prepared.again.arguments.clone(),
        }
    }
}

/// The state of a batch.
pub(crate) struct ToolBatch<'a> {
    pub(crate) calls: &'a [ToolCall],
    pub(crate) slots: Vec<Option<FunctionResponse>>,
    pub(crate) awaiting_approval: HashMap<AskId, PreparedCall>,
    pub(crate) running: HashMap<Id, RunningCall>,
    pub(crate) tasks: JoinSet<Outcome>,
    /// Whether an exclusive call is running or waiting for approval.
    pub(crate) exclusive: bool,
    pub(crate) fatal: Option<ToolError>,
    pub(crate) stopped: Option<String>,
    /// Whether the user denied a call without a message, so that calls that have not started are
    /// skipped.
    pub(crate) declined: bool,
    /// Whether the turn ends as well.
    pub(crate) ends: bool,
    /// The number of calls that were not cancelled.
    pub(crate) executed: usize,
    /// Replacement calls requested by hooks, by index, with their count.
    replacements: HashMap<usize, (ToolCall, u32)>,
    /// The replacements that have not started.
    pub(crate) queued_replacements: VecDeque<usize>,
    /// Images of results, by index, until the previous calls are done.
    images: BTreeMap<usize, Vec<Image>>,
}

/// Removes and returns what is before an index, in order.
fn drain_before<T>(found: &mut BTreeMap<usize, Vec<T>>, place: usize) -> Vec<T> {
    let later = found.split_off(&place);
    std::mem::replace(found, later).into_values().flatten().collect()
}

impl<'a> ToolBatch<'a> {
    pub(crate) fn new(calls: &'a [ToolCall], mut finished: FinishedResults) -> Self {
        Self {
            calls,
            slots: (0..calls.len()).map(|index| finished.remove(&index)).collect(),
            awaiting_approval: HashMap::new(),
            running: HashMap::new(),
            tasks: JoinSet::new(),
            exclusive: false,
            fatal: None,
            stopped: None,
            declined: false,
            ends: false,
            executed: 0,
            replacements: HashMap::new(),
            queued_replacements: VecDeque::new(),
            images: BTreeMap::new(),
        }
    }

    /// Records a result with its images. Returns the images that are next in call order, since
    /// concurrent calls finish in any order.
    pub(crate) fn record_result(
        &mut self,
        index: usize,
        response: FunctionResponse,
        images: Vec<Image>,
    ) -> Vec<Image> {
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(response);
        }
        self.images.insert(index, images);
        let open = self.slots.iter().position(Option::is_none);
        drain_before(&mut self.images, open.unwrap_or(self.slots.len()))
    }

    /// Returns the other results of the batch.
    pub(crate) fn pending(&self) -> PendingResults {
        let results = self.slots.iter().flatten();
        let open = self.slots.iter().filter(|slot| slot.is_none()).count();
        PendingResults {
            tokens: results.map(|response| crate::tokens::of_text(&response.text)).sum(),
            expected: (open as u64).saturating_sub(1),
        }
    }

    /// Returns the call to make: the model's, or its replacement. It keeps its id and is answered
    /// under the name that the model used.
    pub(crate) fn call(&self, index: usize) -> Option<&ToolCall> {
        match self.replacements.get(&index) {
            Some((call, _)) => Some(call),
            None => self.calls.get(index),
        }
    }

    /// Replaces a call and queues the replacement before waiting calls. `false`: it was replaced
    /// too often.
    pub(crate) fn tail(&mut self, index: usize, name: String, args: Object) -> bool {
        let Some(call) = self.calls.get(index) else { return false };
        let number = self.replacements.get(&index).map_or(0, |(_, number)| *number);
        if number >= MAX_REPLACEMENTS {
            return false;
        }
        let replaces = Some(call.name.clone());
        let tail = ToolCall { name, args: Ok(args), replaces, ..call.clone() };
        self.replacements.insert(index, (tail, number + 1));
        self.queued_replacements.push_back(index);
        true
    }

    /// Whether the call has a result.
    pub(crate) fn is_finished(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(Option::is_some)
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.awaiting_approval.is_empty()
    }
}

/// Sends live output of a call to the front ends.
pub(crate) struct CallProgress {
    pub(crate) hub: EventBus,
    pub(crate) item: ItemId,
    pub(crate) reach: RunningProcesses,
}

impl Progress for CallProgress {
    fn output(&self, text: &str) {
        self.hub.send(EventBody::ItemDelta { item: self.item.clone(), text: text.to_owned() });
    }

    fn advance(&self, advance: &Advance) {
        let (item, advance) = (self.item.clone(), advance.clone());
        self.hub.send(EventBody::ItemAdvanced { item, advance });
    }

    fn aside(&self, text: &str) {
        self.hub.send(EventBody::Aside { text: text.to_owned() });
    }

    fn traceparent(&self) -> Option<String> {
        self.hub.traceparent(SpanOf::Call(&self.item))
    }

    fn traceparent_of_mcp_request(&self) -> Option<String> {
        self.hub.traceparent(SpanOf::McpRequest(&self.item))
    }

    fn screen(&self, screen: Screen) {
        let screen = Arc::new(screen);
        self.hub.send(EventBody::ItemScreen { item: self.item.clone(), screen });
    }

    fn control(&self, control: Arc<dyn ProcessControl>) {
        self.reach.control(&self.item, control);
    }

    fn notice(&self, level: Level, text: &str) {
        let item = ItemId::new(format!("{}-notice", self.item.as_str()));
        self.hub.send(EventBody::ItemDone {
            item,
            done: ItemDone::Notice { level, text: text.to_owned() },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_early_waits_for_what_stands_before_it() {
        let mut found = BTreeMap::from([(2, vec!["c"])]);
        assert!(drain_before(&mut found, 0).is_empty());
        found.insert(0, vec!["a", "b"]);
        assert_eq!(drain_before(&mut found, 1), ["a", "b"]);
        assert_eq!(drain_before(&mut found, 3), ["c"]);
    }
}
