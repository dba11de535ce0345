//! Resumes an interrupted turn, or a turn at a restored checkpoint.

use std::collections::BTreeMap;

use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Content, Part, PartView, Role};
use parallax_protocol::event::{EndReason, EventBody, Level, Undone};
use parallax_protocol::ids::CallId;
use parallax_protocol::op::Restore;
use parallax_protocol::store::{Record, ResultRecord};
use serde_json::value::{RawValue, to_raw_value};

use crate::call_arguments::call_arguments;
use crate::conversation::Conversation;
use crate::function_response::FunctionResponse;
use crate::history::now;
use crate::inbox::{QueuedInput, TurnInput};
use crate::loop_detection::LoopDetector;
use crate::session::Session;
use crate::tool_batch::{FinishedResults, ToolCall};
use crate::turn::TurnStep;

/// Follows a response that was interrupted because the program ended.
pub(crate) const PARTIAL_NOTE: &str =
    "[Your response was interrupted here. Continue where you were.]";

impl Session {
    /// Whether a turn can start this way; otherwise notifies the user.
    pub(crate) fn can_start_turn(&mut self, beginning: &TurnInput) -> bool {
        let is_open = match self.conversation.history.last_role() {
            // The model has not responded yet.
            Some(Role::User) => true,
            Some(Role::Model) => {
                self.conversation.is_last_answer_partial
                    || !self.conversation.open_calls().is_empty()
            }
            None => false,
        };
        if matches!(beginning, TurnInput::Prompt(_)) || is_open {
            return true;
        }
        self.inbox.notice(Level::Warning, "There is no interrupted turn to continue");
        self.hub.send(EventBody::NotContinued);
        false
    }

    /// Answers open calls and continues to the final response. Calls without a result are run if
    /// `runs`, otherwise they are reported as lost. After a failure the turn can be resumed again.
    pub(crate) async fn resume_turn(
        &mut self,
        runs: bool,
        cancel: &CancellationToken,
    ) -> EndReason {
        self.wait_for_tools(cancel).await;
        let mut guard = LoopDetector::default();
        let open = match self.conversation.history.last_role() {
            Some(Role::Model) => self.conversation.open_calls(),
            _ => Vec::new(),
        };
        let is_last_answer_partial = std::mem::take(&mut self.conversation.is_last_answer_partial);
        let mut step = Ok(TurnStep::NextRequest);
        if runs && !open.is_empty() {
            let finished = std::mem::take(&mut self.conversation.pending);
            let finished: FinishedResults = finished
                .into_iter()
                .filter_map(|(index, wire)| Some((index, response_of(&wire)?)))
                .collect();
            let calls = self.conversation.last_calls();
            self.current.is_rerun = true;
            step = self.run_calls(calls, finished, &mut guard, cancel).await;
            self.current.is_rerun = false;
        } else if !open.is_empty() {
            self.conversation.answer_lost_calls(&open);
        } else if self.client.unfinished.is_none()
            && is_last_answer_partial
            && self.conversation.history.last_role() == Some(Role::Model)
        {
            self.conversation.history.push_note(PARTIAL_NOTE);
        }
        self.run_steps(step, &mut guard, cancel).await
    }

    /// Restores the requested checkpoints. Only between turns.
    pub(crate) async fn restore(&mut self) {
        for order in std::mem::take(&mut self.inbox.restores) {
            let Some(earlier) = self.conversation.results_before(order) else {
                let text = "Cannot restore: the call of that change is no longer in the \
                    conversation";
                self.inbox.notice(Level::Error, text);
                continue;
            };
            let undone = self.restore_checkpoint(order).await;
            if undone.problem.is_none() {
                self.rewind_conversation(order.keep).await;
                for result in &earlier {
                    self.conversation.history.record(&Record::Result(result.clone()));
                }
                let results = earlier.into_iter().map(|result| (result.index, result.wire));
                self.conversation.pending = results.collect::<BTreeMap<_, _>>();
                self.inbox.prompts.push_front(QueuedInput::new(TurnInput::Rerun));
            }
            self.hub.send(EventBody::Restored(undone));
        }
    }

    async fn restore_checkpoint(&mut self, order: Restore) -> Undone {
        let problem = |why: &str| Undone { problem: Some(why.to_owned()), ..Undone::default() };
        let Some(checkpoints) = self.checkpoints.store.clone() else {
            return problem("checkpoints are disabled in this session");
        };
        // A turn of its own, so that an undo reverts the restore.
        self.conversation.turn += 1;
        let turn = self.conversation.turn;
        let restore = move || checkpoints.restore(order.moment, turn, order.force);
        match self.inbox.while_receiving(tokio::task::spawn_blocking(restore)).await {
            Ok(Ok(undone)) => undone,
            Ok(Err(why)) => problem(&why),
            Err(_) => problem("the restore crashed (this is a bug)"),
        }
    }
}

impl Conversation {
    pub(crate) fn last_calls(&mut self) -> Vec<ToolCall> {
        let last = self.history.contents().last().and_then(|content| content.open().ok());
        let calls: Vec<_> = last.iter().flat_map(Content::calls).collect();
        let calls = calls.into_iter().map(|call| {
            let wire_id = call.id.map(str::to_owned);
            (wire_id, call.name.to_owned(), call_arguments(&call))
        });
        let calls: Vec<_> = calls.collect();
        let calls = calls.into_iter().map(|(wire_id, name, args)| {
            let id = self.ids.call(wire_id.as_deref(), &name);
            ToolCall { id, wire_id, name, args, replaces: None }
        });
        calls.collect()
    }

    /// Returns the results of the calls before the one that is run again; `None` when there is no
    /// such call at that position.
    pub(crate) fn results_before(&self, order: Restore) -> Option<Vec<ResultRecord>> {
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

/// Returns the parts of each result: a response and its sibling media.
fn split(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut results: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        match (part.view(), results.last_mut()) {
            (PartView::Response(_), _) => results.push(vec![part]),
            // Steering messages do not belong to a result.
            (PartView::Text(_), _) | (_, None) => {}
            (_, Some(result)) => result.push(part),
        }
    }
    results
}

fn response_of(wire: &RawValue) -> Option<FunctionResponse> {
    let parts: Vec<Part> = serde_json::from_str(wire.get()).ok()?;
    Some(FunctionResponse { parts, ..FunctionResponse::default() })
}
