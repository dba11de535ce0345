//! Runs the calls of one answer: prepare, judge, ask, run; results in call
//! order, whatever finishes first.
//!
//! Shared calls run together, eight at most. An exclusive call (an edit, or one
//! with `wait_for_previous`) is *prepared* only when all calls before it are
//! done, so that several edits of one file apply one after the other, and
//! nothing behind it starts before it is done.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_protocol::event::{
    Ask, CallDecision, EventBody, ItemDone, ItemStart, Level, ToolDone, ToolStart, ToolStatus,
};
use parallax_protocol::ids::{AskId, CallId, ItemId};
use parallax_protocol::op::AskOutcome;
use parallax_protocol::policy::{ApprovalMode, Decision, Query, Verdict};
use parallax_protocol::store::{Record, ResultRecord};
use parallax_protocol::tool::{
    Invocation, Outcome, Progress, Run, Scope, Tool, ToolError, ToolErrorKind, ToolKind,
};
use parallax_protocol::{CancellationToken, Object};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::{Id, JoinSet};

use crate::history::now;
use crate::hub::EventHub;
use crate::meter::millis;
use crate::registry::WAIT_FOR_PREVIOUS;
use crate::respond::{Answered, Response, respond};
use crate::session::Session;

/// Calls that run at the same time.
const PARALLEL: usize = 8;
/// How long cancelled tools get to hand over what they have.
const GRACE: Duration = Duration::from_secs(2);

/// A call of the model, with our id.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) wire_id: Option<String>,
    pub(crate) name: String,
    /// `None` when the model sent something that is no object.
    pub(crate) args: Option<Object>,
}

/// The finished round.
pub(crate) struct Round {
    /// One for each call, in call order.
    pub(crate) results: Vec<Box<RawValue>>,
    /// What the model reads of each, for the loop guard.
    pub(crate) texts: Vec<String>,
    /// Audio and video to be injected behind the round.
    pub(crate) injected: Vec<parallax_protocol::content::Part>,
    /// A failure that ends the run.
    pub(crate) fatal: Option<ToolError>,
    /// A tool asked for the end.
    pub(crate) stopped: Option<String>,
}

/// A prepared call with what was decided about it.
struct Prepared {
    index: usize,
    tool: Arc<dyn Tool>,
    invocation: Box<dyn Invocation>,
    title: String,
    verdict: Verdict,
}

/// What is known of a call that runs.
struct Running {
    index: usize,
    begun: Instant,
    title: String,
    kind: ToolKind,
    verdict: Verdict,
    decision: CallDecision,
    cancel: CancellationToken,
}

/// What a call came to before it is told.
struct Finish {
    kind: Option<ToolKind>,
    title: String,
    decision: Option<CallDecision>,
    verdict: Option<Verdict>,
    duration_ms: u64,
    cancelled: bool,
}

struct CallProgress {
    hub: EventHub,
    item: ItemId,
}

impl Progress for CallProgress {
    fn output(&self, text: &str) {
        self.hub.send(EventBody::ItemDelta { item: self.item.clone(), text: text.to_owned() });
    }
}

/// The state of one round.
struct Board<'a> {
    calls: &'a [Call],
    slots: Vec<Option<Response>>,
    asking: HashMap<AskId, Prepared>,
    running: HashMap<Id, Running>,
    tasks: JoinSet<Outcome>,
    /// Whether an exclusive call runs or is asked about.
    exclusive: bool,
    fatal: Option<ToolError>,
    stopped: Option<String>,
}

impl Board<'_> {
    fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.asking.is_empty()
    }
}

impl Session {
    /// Runs all calls of an answer. Always gives one result for each call.
    pub(crate) async fn run_round(&mut self, calls: &[Call], cancel: &CancellationToken) -> Round {
        for (index, call) in calls.iter().enumerate() {
            self.hub.send(EventBody::ItemStarted {
                item: item_of(call),
                start: ItemStart::Tool(ToolStart {
                    call: call.id.clone(),
                    index,
                    name: call.name.clone(),
                    args: call.args.clone().unwrap_or_default(),
                }),
            });
        }
        let mut board = Board {
            calls,
            slots: calls.iter().map(|_| None).collect(),
            asking: HashMap::new(),
            running: HashMap::new(),
            tasks: JoinSet::new(),
            exclusive: false,
            fatal: None,
            stopped: None,
        };
        let mut next = 0;
        loop {
            while next < calls.len() && !cancel.is_cancelled() && self.may_start(&board, next) {
                self.begin(&mut board, next, cancel).await;
                next += 1;
            }
            if cancel.is_cancelled() || (next == calls.len() && !board.is_busy()) {
                break;
            }
            tokio::select! {
                biased;
                () = self.inbox.take_one() => self.decide(&mut board, cancel),
                () = cancel.cancelled() => {}
                Some(joined) = board.tasks.join_next_with_id() => self.joined(&mut board, joined),
            }
        }
        if cancel.is_cancelled() {
            self.wind_up(&mut board).await;
        }
        self.collect(board)
    }

    fn may_start(&self, board: &Board<'_>, index: usize) -> bool {
        if board.exclusive || board.running.len() + board.asking.len() >= PARALLEL {
            return false;
        }
        !board.calls.get(index).is_some_and(|call| self.is_exclusive(call)) || !board.is_busy()
    }

    fn is_exclusive(&self, call: &Call) -> bool {
        let waits = call.args.as_ref().and_then(|args| args.get(WAIT_FOR_PREVIOUS));
        waits.and_then(Value::as_bool) == Some(true) || self.registry.is_exclusive(&call.name)
    }

    /// Prepares and judges a call, and starts it, asks, or refuses.
    async fn begin(&mut self, board: &mut Board<'_>, index: usize, cancel: &CancellationToken) {
        let Some(call) = board.calls.get(index).cloned() else { return };
        let prepared = match self.prepare(&call, index).await {
            Ok(prepared) => prepared,
            Err((error, finish)) => {
                self.finish(board, index, Outcome::failure(error), *finish);
                return;
            }
        };
        match prepared.verdict.decision {
            Decision::Allow => {
                self.start(board, prepared, CallDecision::Accept, cancel);
            }
            Decision::Ask => {
                let ask = AskId::new(format!("ask-{}", call.id));
                let spec = prepared.tool.spec();
                let mut outcomes = vec![AskOutcome::ProceedOnce];
                if spec.kind == ToolKind::Edit {
                    outcomes.push(AskOutcome::ProceedAlways);
                }
                outcomes.push(AskOutcome::Cancel);
                self.hub.send(EventBody::Ask(Ask {
                    id: ask.clone(),
                    call: call.id.clone(),
                    name: call.name.clone(),
                    kind: spec.kind,
                    title: prepared.title.clone(),
                    preview: prepared.invocation.preview(),
                    verdict: prepared.verdict.clone(),
                    outcomes,
                }));
                board.exclusive = self.is_exclusive(&call);
                board.asking.insert(ask, prepared);
            }
            Decision::Deny => {
                let error = ToolError::new(
                    ToolErrorKind::PolicyViolation,
                    format!("Tool execution denied by policy. {}", prepared.verdict.why),
                );
                let finish = Finish {
                    kind: Some(prepared.tool.spec().kind),
                    title: prepared.title,
                    decision: Some(CallDecision::Reject),
                    verdict: Some(prepared.verdict),
                    duration_ms: 0,
                    cancelled: false,
                };
                self.finish(board, index, Outcome::failure(error), finish);
            }
        }
    }

    /// Checks the arguments on a blocking thread and asks the policy.
    async fn prepare(
        &mut self,
        call: &Call,
        index: usize,
    ) -> Result<Prepared, (ToolError, Box<Finish>)> {
        let refused = |kind: Option<ToolKind>| {
            Box::new(Finish {
                kind,
                title: call.name.clone(),
                decision: None,
                verdict: None,
                duration_ms: 0,
                cancelled: false,
            })
        };
        let Some(tool) = self.registry.get(&call.name).cloned() else {
            let message = self.registry.not_found(&call.name);
            return Err((ToolError::new(ToolErrorKind::ToolNotRegistered, message), refused(None)));
        };
        let kind = tool.spec().kind;
        let Some(mut args) = call.args.clone() else {
            let error = ToolError::new(
                ToolErrorKind::InvalidToolParams,
                "the arguments must be a JSON object",
            );
            return Err((error, refused(Some(kind))));
        };
        args.shift_remove(WAIT_FOR_PREVIOUS);
        let scope = Scope {
            call: call.id.clone(),
            name: call.name.clone(),
            mode: self.inbox.mode,
            interactive: self.interactive,
        };
        let preparing = {
            let (tool, args) = (Arc::clone(&tool), args.clone());
            tokio::task::spawn_blocking(move || tool.prepare(args, &scope))
        };
        let invocation = match self.inbox.during(preparing).await {
            Ok(Ok(invocation)) => invocation,
            Ok(Err(error)) => return Err((error, refused(Some(kind)))),
            Err(panicked) => return Err((crashed(&call.name, &panicked), refused(Some(kind)))),
        };
        let workspace = (self.workspace)();
        let verdict = self.judge.judge(&Query {
            tool: &tool.spec().name,
            aliases: &tool.spec().aliases,
            kind,
            args: &args,
            effects: invocation.effects(),
            mode: self.inbox.mode,
            interactive: self.interactive,
            workspace: &workspace,
            trusted: self.trusted,
        });
        Ok(Prepared { index, title: invocation.title(), tool, invocation, verdict })
    }

    fn start(
        &mut self,
        board: &mut Board<'_>,
        prepared: Prepared,
        decision: CallDecision,
        cancel: &CancellationToken,
    ) {
        let Some(call) = board.calls.get(prepared.index) else { return };
        let cancel = cancel.child_token();
        let run = Run {
            cancel: cancel.clone(),
            progress: Arc::new(CallProgress { hub: self.hub.clone(), item: item_of(call) }),
        };
        board.exclusive = self.is_exclusive(call);
        let handle = board.tasks.spawn(prepared.invocation.run(run));
        board.running.insert(
            handle.id(),
            Running {
                index: prepared.index,
                begun: Instant::now(),
                title: prepared.title,
                kind: prepared.tool.spec().kind,
                verdict: prepared.verdict,
                decision,
                cancel,
            },
        );
    }

    /// Takes the answers to open questions.
    fn decide(&mut self, board: &mut Board<'_>, cancel: &CancellationToken) {
        for (ask, outcome, feedback) in std::mem::take(&mut self.inbox.decisions) {
            let Some(prepared) = board.asking.remove(&ask) else {
                self.inbox.notice(Level::Error, format!("there is no open question `{ask}`"));
                continue;
            };
            if outcome == AskOutcome::ProceedAlways && prepared.tool.spec().kind == ToolKind::Edit {
                self.inbox.mode = self.inbox.mode.max(ApprovalMode::AutoEdit);
                self.inbox.tell_state();
            }
            self.hub.send(EventBody::AskClosed { ask, outcome: Some(outcome) });
            if outcome != AskOutcome::Cancel {
                let decision = match outcome {
                    AskOutcome::ProceedAlways => CallDecision::AutoAccept,
                    _ => CallDecision::Accept,
                };
                self.start(board, prepared, decision, cancel);
                continue;
            }
            let mut message = "[Operation Cancelled] User denied execution.".to_owned();
            if let Some(feedback) = feedback.filter(|text| !text.trim().is_empty()) {
                message.push_str(&format!(" The user says: {feedback}"));
            }
            let finish = Finish {
                kind: Some(prepared.tool.spec().kind),
                title: prepared.title,
                decision: Some(CallDecision::Reject),
                verdict: Some(prepared.verdict),
                duration_ms: 0,
                cancelled: true,
            };
            let error = ToolError::new(ToolErrorKind::PolicyViolation, message);
            board.exclusive = false;
            self.finish(board, prepared.index, Outcome::failure(error), finish);
        }
    }

    fn joined(
        &mut self,
        board: &mut Board<'_>,
        joined: Result<(Id, Outcome), tokio::task::JoinError>,
    ) {
        let (id, outcome) = match joined {
            Ok((id, outcome)) => (id, Ok(outcome)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(running) = board.running.remove(&id) else { return };
        board.exclusive = false;
        let outcome = outcome.unwrap_or_else(|error| {
            let name = board.calls.get(running.index).map_or("", |call| call.name.as_str());
            Outcome::failure(crashed(name, &error))
        });
        let finish = Finish {
            kind: Some(running.kind),
            title: running.title,
            decision: Some(running.decision),
            verdict: Some(running.verdict),
            duration_ms: millis(running.begun),
            // A command that was stopped hands over its output as a result.
            cancelled: running.cancel.is_cancelled()
                && (outcome.error.is_some() || running.kind == ToolKind::Execute),
        };
        self.finish(board, running.index, outcome, finish);
    }

    /// The turn was interrupted: running tools hand over what they have, the
    /// rest is answered as cancelled.
    async fn wind_up(&mut self, board: &mut Board<'_>) {
        for (ask, _) in board.asking.drain() {
            self.hub.send(EventBody::AskClosed { ask, outcome: None });
        }
        let deadline = tokio::time::sleep(GRACE);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                () = self.inbox.take_one() => {}
                joined = board.tasks.join_next_with_id() => match joined {
                    Some(joined) => self.joined(board, joined),
                    None => break,
                },
                () = &mut deadline => {
                    board.tasks.abort_all();
                    break;
                }
            }
        }
        let open: Vec<usize> = (0..board.slots.len())
            .filter(|index| board.slots.get(*index).is_some_and(Option::is_none))
            .collect();
        for index in open {
            let title = board.calls.get(index).map_or_else(String::new, |call| call.name.clone());
            let finish = Finish {
                kind: None,
                title,
                decision: None,
                verdict: None,
                duration_ms: 0,
                cancelled: true,
            };
            let error = ToolError::new(
                ToolErrorKind::ExecutionFailed,
                "[Operation Cancelled] The user interrupted before this call finished.",
            );
            self.finish(board, index, Outcome::failure(error), finish);
        }
    }

    /// Fills a slot: journal first, then the faces.
    fn finish(&mut self, board: &mut Board<'_>, index: usize, outcome: Outcome, finish: Finish) {
        let Some(call) = board.calls.get(index) else { return };
        let status = match (&outcome.error, finish.cancelled) {
            (_, true) => ToolStatus::Cancelled,
            (Some(_), false) => ToolStatus::Error,
            (None, false) => ToolStatus::Success,
        };
        let error = outcome.error.clone();
        if let Some(error) = &error {
            if error.kind.is_fatal() {
                board.fatal = Some(error.clone());
            } else if error.kind == ToolErrorKind::StopExecution {
                board.stopped = Some(error.message.clone());
            }
        }
        let display = outcome.for_user.clone();
        let data = outcome.data.clone();
        let spec_name = self.registry.get(&call.name).map_or("", |tool| &tool.spec().name);
        let response = respond(
            &Answered {
                wire_id: call.wire_id.as_deref(),
                name: &call.name,
                nested_media: self.nested_media(),
                may_inject: matches!(spec_name, "read_file" | "read_many_files"),
            },
            outcome,
        );
        self.history.record(&Record::Result(ResultRecord {
            time: now(),
            call: call.id.clone(),
            index,
            name: call.name.clone(),
            wire: raw(&response.parts),
            status: match status {
                ToolStatus::Success => "success",
                ToolStatus::Error => "error",
                ToolStatus::Cancelled => "cancelled",
            }
            .to_owned(),
            display: display.as_ref().and_then(|display| serde_json::to_value(display).ok()),
        }));
        self.hub.send(EventBody::ItemDone {
            item: item_of(call),
            done: ItemDone::Tool(Box::new(ToolDone {
                call: call.id.clone(),
                index,
                name: call.name.clone(),
                kind: finish.kind,
                title: finish.title,
                status,
                decision: finish.decision,
                verdict: finish.verdict,
                display,
                error: error.map(|error| (error.kind, error.message)),
                for_model: response.text.clone(),
                data,
                duration_ms: finish.duration_ms,
            })),
        });
        if let Some(slot) = board.slots.get_mut(index) {
            *slot = Some(response);
        }
    }

    fn collect(&self, board: Board<'_>) -> Round {
        let mut round = Round {
            results: Vec::with_capacity(board.slots.len()),
            texts: Vec::with_capacity(board.slots.len()),
            injected: Vec::new(),
            fatal: board.fatal,
            stopped: board.stopped,
        };
        for response in board.slots.into_iter().flatten() {
            round.results.push(raw(&response.parts));
            round.texts.push(response.text);
            round.injected.extend(response.injected);
        }
        round
    }
}

fn item_of(call: &Call) -> ItemId {
    ItemId::new(format!("tool-{}", call.id))
}

/// A tool that panics is a failed call, never a dead session.
fn crashed(name: &str, error: &tokio::task::JoinError) -> ToolError {
    let what =
        if error.is_panic() { "crashed; this is a defect of the tool" } else { "was aborted" };
    ToolError::new(ToolErrorKind::UnhandledException, format!("tool `{name}` {what}"))
}

/// Parts as JSON. Objects of strings and values cannot fail to serialise.
fn raw(parts: &[parallax_protocol::content::Part]) -> Box<RawValue> {
    serde_json::value::to_raw_value(parts).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
