//! Going on where a turn was cut off, and where a change was gone back to.

use std::collections::BTreeMap;

use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Content, Part, PartView, Role};
use parallax_protocol::event::{EndReason, EventBody, Level, Undone};
use parallax_protocol::ids::CallId;
use parallax_protocol::op::Restore;
use parallax_protocol::store::{Record, ResultRecord};
use serde_json::value::{RawValue, to_raw_value};

use crate::board::{Call, Finished};
use crate::history::now;
use crate::inbox::{Beginning, Queued};
use crate::loop_guard::LoopGuard;
use crate::respond::Response;
use crate::session::Session;

/// Said behind an answer that the end of the program cut off.
const HALF: &str = "[Your answer was cut off here: go on where you were.]";

impl Session {
    /// Whether a turn can begin so; people are told when it cannot.
    pub(crate) fn can_begin(&mut self, beginning: &Beginning) -> bool {
        let is_open = match self.history.last_role() {
            // Nobody answered.
            Some(Role::User) => true,
            Some(Role::Model) => self.is_half || !self.open_calls().is_empty(),
            None => false,
        };
        if matches!(beginning, Beginning::Prompt(_)) || is_open {
            return true;
        }
        self.inbox.notice(Level::Warning, "no turn was cut off: there is nothing to go on with");
        self.hub.send(EventBody::NotContinued);
        false
    }

    /// Answers what is open and goes on to the last answer. Calls without a result
    /// are run when `runs`, else they are said to be lost. What fails can be gone on
    /// with again.
    pub(crate) async fn go_on(&mut self, runs: bool, cancel: &CancellationToken) -> EndReason {
        self.await_tools(cancel).await;
        let mut guard = LoopGuard::default();
        let open = match self.history.last_role() {
            Some(Role::Model) => self.open_calls(),
            _ => Vec::new(),
        };
        let is_half = std::mem::take(&mut self.is_half);
        let mut step = Ok(());
        if runs && !open.is_empty() {
            let finished = std::mem::take(&mut self.pending);
            let finished: Finished = finished
                .into_iter()
                .filter_map(|(index, wire)| Some((index, response_of(&wire)?)))
                .collect();
            let calls = self.calls_of_last();
            self.went_back = true;
            step = self.answer_open_calls(calls, finished, &mut guard, cancel).await;
            self.went_back = false;
        } else if !open.is_empty() {
            self.answer_lost(&open);
        } else if is_half && self.history.last_role() == Some(Role::Model) {
            self.history.push_note(HALF);
        }
        loop {
            if let Err(reason) = step {
                if matches!(reason, EndReason::Cancelled) {
                    self.settle_cut_off();
                }
                return reason;
            }
            step = self.step(&mut guard, cancel).await;
        }
    }

    fn calls_of_last(&mut self) -> Vec<Call> {
        let last = self.history.contents().last().and_then(|content| content.open().ok());
        let calls: Vec<_> = last.iter().flat_map(Content::calls).collect();
        let calls = calls.into_iter().map(|call| {
            let wire_id = call.id.map(str::to_owned);
            (wire_id, call.name.to_owned(), call.args.cloned())
        });
        let calls: Vec<_> = calls.collect();
        let calls = calls.into_iter().map(|(wire_id, name, args)| {
            // A call without arguments has none to check.
            let (id, args) =
                (self.call_id(wire_id.as_deref(), &name), Some(args.unwrap_or_default()));
            Call { id, wire_id, name, args, replaces: None }
        });
        calls.collect()
    }

    /// Goes back to changes that were asked for. Between turns only.
    pub(crate) async fn restore(&mut self) {
        for order in std::mem::take(&mut self.inbox.restores) {
            let Some(earlier) = self.earlier_results(order) else {
                let text = "the call of that change is no longer in the conversation";
                self.inbox.notice(Level::Error, text);
                continue;
            };
            let undone = self.restore_files(order).await;
            if undone.problem.is_none() {
                self.rewind_chat(order.keep).await;
                for result in &earlier {
                    self.history.record(&Record::Result(result.clone()));
                }
                let results = earlier.into_iter().map(|result| (result.index, result.wire));
                self.pending = results.collect::<BTreeMap<_, _>>();
                self.inbox.prompts.push_front(Queued::new(Beginning::Restored));
            }
            self.hub.send(EventBody::Restored(undone));
        }
    }

    async fn restore_files(&mut self, order: Restore) -> Undone {
        let problem = |why: &str| Undone { problem: Some(why.to_owned()), ..Undone::default() };
        let Some(checkpoints) = self.checkpoints.clone() else {
            return problem("this session keeps no old versions of files");
        };
        // Its own turn: an undo of it takes the restore back.
        self.turn += 1;
        let turn = self.turn;
        let restore = move || checkpoints.restore(order.moment, turn, order.force);
        match self.inbox.during(tokio::task::spawn_blocking(restore)).await {
            Ok(Ok(undone)) => undone,
            Ok(Err(why)) => problem(&why),
            Err(_) => problem("the restore crashed; this is a defect"),
        }
    }

    /// The results of the calls before the one that is run again; `None` when the
    /// place does not hold such a call.
    fn earlier_results(&self, order: Restore) -> Option<Vec<ResultRecord>> {
        let contents = self.history.contents();
        let content = contents.get(order.keep.checked_sub(1)?)?.open().ok()?;
        let calls: Vec<_> = content.calls().collect();
        if content.role != Role::Model || order.call >= calls.len() {
            return None;
        }
        let answers = contents.get(order.keep).and_then(|answers| answers.open().ok());
        let results = answers.map(|answers| split(answers.parts)).unwrap_or_default();
        if results.len() < order.call {
            return None;
        }
        let results = results.into_iter().zip(calls).enumerate().take(order.call);
        let results = results.filter_map(|(index, (parts, call))| {
            Some(ResultRecord {
                time: now(),
                call: CallId::new(
                    call.id.map_or_else(|| format!("{}_{index}", call.name), str::to_owned),
                ),
                index,
                name: call.name.to_owned(),
                wire: to_raw_value(&parts).ok()?,
                status: "success".into(),
                display: None,
                told: None,
            })
        });
        Some(results.collect())
    }
}

/// The parts of each result: a response and the media beside it.
fn split(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut results: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        match (part.view(), results.last_mut()) {
            (PartView::Response(_), _) => results.push(vec![part]),
            // What a person said meanwhile belongs to no result.
            (PartView::Text(_), _) | (_, None) => {}
            (_, Some(result)) => result.push(part),
        }
    }
    results
}

fn response_of(wire: &RawValue) -> Option<Response> {
    let parts: Vec<Part> = serde_json::from_str(wire.get()).ok()?;
    Some(Response { parts, ..Response::default() })
}
