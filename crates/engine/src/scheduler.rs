//! Runs the calls of one answer: prepare, judge, ask, run; results in call
//! order, whatever finishes first.
//!
//! Shared calls run together, eight at most. An exclusive call (an edit, or one
//! with `wait_for_previous`) is *prepared* only when all calls before it are
//! done, so that several edits of one file apply one after the other, and
//! nothing behind it starts before it is done.

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

use crate::board::{
    Again, Board, Call, CallProgress, Finish, Finished, Prepared, Refused, Round, Running,
};
use crate::guarded::{Guarded, is_command};
use crate::registry::WAIT_FOR_PREVIOUS;
use crate::session::Session;
use crate::taint;

mod finish;
mod prepare;

pub(crate) use self::prepare::refusal_note;

/// Calls that run at the same time.
const PARALLEL: usize = 8;

/// What the model is told of a call that a person changed.
const CHANGED: &str = "[The user changed this call before agreeing to it: what was done is not all \
                       that you proposed. Look at the result before you build on it.]";
/// What the model hears of a command that the sandbox had cut short before.
const RAN_AGAIN: &str = "[The command ran twice: the sandbox refused the first run something, and \
     this is the second, with leave for it. What the first run did was there already.]";

/// The tool whose calls are headings of what follows.
const HEADING: &str = "update_topic";

/// How often a call may be run again with more permissions.
const MOST_RUNS: u32 = 4;

impl Session {
    /// Runs all calls of an answer but those finished already. Always gives one
    /// result for each call.
    pub(crate) async fn run_round(
        &mut self,
        calls: &[Call],
        finished: Finished,
        cancel: &CancellationToken,
    ) -> Round {
        let mut board = Board::new(calls, finished);
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
                board.tailed.clear();
                let rest: Vec<usize> = waiting.drain(..).collect();
                self.leave_out(&mut board, &rest);
            }
            while let Some(next) = board.tailed.front().copied()
                && !cancel.is_cancelled()
                && self.may_start(&board, next)
            {
                board.tailed.pop_front();
                self.begin(&mut board, next, Again::default(), cancel).await;
            }
            while let Some(next) = waiting.front().copied()
                && board.tailed.is_empty()
                && !cancel.is_cancelled()
                && self.may_start(&board, next)
            {
                waiting.pop_front();
                self.begin(&mut board, next, Again::default(), cancel).await;
            }
            // Answers may have come while other calls were prepared.
            if !self.inbox.decisions.is_empty() && !cancel.is_cancelled() {
                self.decide(&mut board, cancel).await;
                continue;
            }
            if cancel.is_cancelled()
                || (waiting.is_empty() && board.tailed.is_empty() && !board.is_busy())
            {
                break;
            }
            tokio::select! {
                biased;
                () = self.inbox.take_one() => self.decide(&mut board, cancel).await,
                () = cancel.cancelled() => {}
                Some(joined) = board.tasks.join_next_with_id() => {
                    self.joined(&mut board, joined, cancel).await;
                }
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
        !board.call(index).is_some_and(|call| self.is_exclusive(call)) || !board.is_busy()
    }

    pub(crate) fn is_exclusive(&self, call: &Call) -> bool {
        let waits = call.args.as_ref().and_then(|args| args.get(WAIT_FOR_PREVIOUS));
        waits.and_then(Value::as_bool) == Some(true) || self.registry.is_exclusive(&call.name)
    }

    /// Prepares and judges a call, and starts it, asks, or refuses.
    pub(crate) async fn begin(
        &mut self,
        board: &mut Board<'_>,
        index: usize,
        again: Again,
        cancel: &CancellationToken,
    ) {
        let Some(call) = board.call(index).cloned() else { return };
        self.tell_phase(&call, CallPhase::Validating, None);
        let mut again = again;
        let mut asks = None;
        // Not when it is run again, or as a person changed it.
        if again.runs == 0 && again.arguments.is_none() {
            let hooked = self.hook_before_tool(board, &call, index, cancel).await;
            let Some(hooked) = hooked else { return };
            // The hooks were ended before they could say no: nothing may run. What
            // is not finished is answered when the round winds up.
            if cancel.is_cancelled() {
                return;
            }
            again.hooked = hooked.arguments.as_ref().and_then(|changed| hook_note(&call, changed));
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
            self.asked_by_hook(&mut prepared.verdict, &why);
        }
        match prepared.verdict.decision {
            Decision::Allow if self.interactive && asks_itself(&prepared) => {
                self.put(board, &call, prepared).await;
            }
            Decision::Allow => self.start(board, prepared, CallDecision::Accept, None, cancel),
            Decision::Ask => self.put(board, &call, prepared).await,
            Decision::Deny => self.refuse(board, prepared),
        }
    }

    /// Tells how far a call is, with its title once there is one.
    pub(crate) fn tell_phase(&self, call: &Call, phase: CallPhase, title: Option<String>) {
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
        board: &mut Board<'_>,
        prepared: Prepared,
        decision: CallDecision,
        answers: Option<Object>,
        cancel: &CancellationToken,
    ) {
        let Some(call) = board.call(prepared.index).cloned() else { return };
        let cancel = cancel.child_token();
        let Prepared { index, tool, invocation, effects, title, verdict, again, decided, .. } =
            prepared;
        let kind = tool.spec().kind;
        let mut permissions = effects.permissions.clone().and(&verdict.grants);
        // A person saw the command: what git runs of a trusted repository, and
        // the agents that git may need, are part of what was approved.
        if verdict.decision == Decision::Ask && kind == ToolKind::Execute && is_command(&effects) {
            permissions.repository_programs |= self.trusted;
            permissions.agents = true;
        }
        let reach = self.inbox.reach.clone();
        reach.enter(call.item(), cancel.clone());
        self.tell_phase(&call, CallPhase::Executing, Some(title.clone()));
        let run = Run {
            cancel: cancel.clone(),
            progress: Arc::new(CallProgress { hub: self.hub.clone(), item: call.item(), reach }),
            permissions: permissions.clone(),
            asked: effects.permissions.clone(),
            mode: self.inbox.mode,
            decided,
            answers,
        };
        board.exclusive = self.is_exclusive(&call);
        let guarded = Guarded {
            invocation,
            run,
            effects: effects.clone(),
            checkpoints: self.checkpoints.clone(),
            turn: self.turn,
        };
        let handle = board.tasks.spawn(guarded.run());
        board.running.insert(
            handle.id(),
            Running {
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
        board: &mut Board<'_>,
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
            // What asks the user takes as long as they do.
            ToolKind::Communicate => Duration::ZERO,
            // A subagent stands still while the user answers.
            ToolKind::Agent => {
                took.saturating_sub(self.hub.user_wait().saturating_sub(running.waited))
            }
            _ => took,
        };
        let finish = Finish {
            kind: Some(running.kind),
            title: running.title,
            decision: Some(running.decision),
            verdict: Some(running.verdict),
            // What asks the user takes as long as they do.
            duration_ms: u64::try_from(worked.as_millis()).unwrap_or(u64::MAX),
            // A command that was stopped hands over its output as a result.
            cancelled: running.cancel.is_cancelled()
                && (outcome.error.is_some() || running.kind == ToolKind::Execute),
        };
        let refused = std::mem::take(&mut outcome.refused).beyond(&running.permissions);
        let again = !refused.is_empty() && !cancel.is_cancelled() && running.runs < MOST_RUNS;
        if running.changed && outcome.error.is_none() {
            add_note(&mut outcome, CHANGED);
        }
        if let Some(note) = running.hooked.as_deref().filter(|_| !again) {
            add_note(&mut outcome, note);
        }
        if running.runs > 1 {
            add_note(&mut outcome, RAN_AGAIN);
        }
        if !again {
            let arguments = running.arguments.as_ref();
            let tail = self.hook_after_tool(&call, arguments, &mut outcome, cancel).await;
            if let Some((name, args)) = tail
                && !cancel.is_cancelled()
            {
                self.inbox.reach.leave(&call.item());
                if board.tail(running.index, name, args) {
                    return;
                }
                let text = "hooks asked for a further call too often; the last result stands";
                self.inbox.notice(Level::Warning, text);
            }
            let name = self.registry.get(&call.name).map(|tool| tool.spec().name.clone());
            let name = name.unwrap_or_else(|| call.name.clone());
            let pending = board.pending();
            self.make_ready(&name, pending, &running.effects, &mut outcome).await;
            self.finish(board, running.index, outcome, finish);
            return;
        }
        // The same command once more, with what it lacked, if that is agreed to.
        let again = Again {
            arguments: running.arguments,
            permissions: running.effects.permissions.and(&refused),
            refused: Some(Box::new(Refused { outcome, finish })),
            changed: running.changed,
            hooked: running.hooked,
            runs: running.runs,
        };
        self.begin(board, running.index, again, cancel).await;
    }

    /// Notes what makes later commands doubtful.
    fn learn(&mut self, name: &str, running: &Running, outcome: &Outcome) {
        if taint::is_untrusted(name, Some(running.kind)) {
            taint::take_words(&mut self.taint, &outcome.for_model.output);
            // A failure quotes who failed; the rest of it is ours.
            let quoted = outcome.error.as_ref().and_then(|error| {
                error.message.split_once("<untrusted_context>").map(|(_, quoted)| quoted)
            });
            taint::take_words(&mut self.taint, quoted.unwrap_or_default());
        }
        if outcome.error.is_none() {
            for path in running.effects.writes.iter().filter(|path| (self.is_build_file)(path)) {
                taint::take_build_file(&mut self.taint, path.clone());
            }
        }
    }
}

/// The order in which calls begin: that of the model, with headings first.
fn order(calls: &[Call]) -> VecDeque<usize> {
    let is_heading = |index: &usize| calls.get(*index).is_some_and(|call| call.name == HEADING);
    let (headings, others): (Vec<usize>, Vec<usize>) = (0..calls.len()).partition(is_heading);
    headings.into_iter().chain(others).collect()
}

/// Whether the call is a question to a person.
pub(crate) fn asks_itself(prepared: &Prepared) -> bool {
    matches!(prepared.invocation.preview(), Some(Preview::Questions { .. }))
}

/// What the model is told of arguments that a hook changed; `None` when they are
/// what they were.
fn hook_note(call: &Call, changed: &Object) -> Option<String> {
    let asked = call.args.clone().unwrap_or_default();
    let differs = |(name, value): &(&String, &Value)| asked.get(*name) != Some(*value);
    let names: Vec<String> =
        changed.iter().filter(differs).take(8).map(|(name, _)| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| {
        format!(
            "[System] A hook changed {} of this call before it was made: the result is not that of \
             your arguments.",
            names.join(", ")
        )
    })
}

/// Adds a line to what the model reads.
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

/// A tool that panics is a failed call, never a dead session.
fn crashed(name: &str, error: &tokio::task::JoinError) -> ToolError {
    let what =
        if error.is_panic() { "crashed; this is a defect of the tool" } else { "was aborted" };
    ToolError::new(ToolErrorKind::UnhandledException, format!("tool `{name}` {what}"))
}
