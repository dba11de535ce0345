//! The calls and results that a resumed turn continues with.

use std::collections::BTreeMap;

use parallax_protocol::content::{Part, PartView, Role};
use parallax_protocol::ids::CallId;
use parallax_protocol::op::Restore;
use parallax_protocol::store::{Record, ResultRecord};
use serde_json::value::{RawValue, to_raw_value};

use super::Conversation;
use crate::function_response::{FinishedResults, FunctionResponse};
use crate::history::now;
use crate::tool_call::ToolCall;

impl Conversation {
    /// Whether the newest turn was interrupted and can be continued.
    pub(crate) fn is_interrupted(&self) -> bool {
        match self.history.last_role() {
            // The model has not responded yet.
            Some(Role::User) => true,
            Some(Role::Model) => self.is_last_answer_partial || !self.open_calls().is_empty(),
            None => false,
        }
    }

    /// Takes the results of the newest batch that are already known.
    pub(crate) fn take_finished_results(&mut self) -> FinishedResults {
        let finished = std::mem::take(&mut self.pending).into_iter();
        finished.filter_map(|(index, wire)| Some((index, response_of(&wire)?))).collect()
    }

    /// Rewinds to a call of the newest batch that is run again, and keeps the results of the calls
    /// before it.
    pub(crate) fn restore_results(&mut self, earlier: Vec<ResultRecord>) {
        for result in &earlier {
            self.history.record(&Record::Result(result.clone()));
        }
        let results = earlier.into_iter().map(|result| (result.index, result.wire));
        self.pending = results.collect::<BTreeMap<_, _>>();
    }

    /// Returns the calls of the newest content.
    pub(crate) fn last_calls(&mut self) -> Vec<ToolCall> {
        let last = self.history.contents().last().and_then(|content| content.open().ok());
        last.map_or_else(Vec::new, |content| self.calls_of(&content))
    }

    /// Returns the results of the calls before the one that is run again; `None` when no
    /// call is at that position.
    pub(crate) fn results_before(&self, request: Restore) -> Option<Vec<ResultRecord>> {
        let contents = self.history.contents();
        let content = contents.get(request.keep_contents.checked_sub(1)?)?.open().ok()?;
        let calls: Vec<_> = content.calls().collect();
        if content.role != Role::Model || request.call >= calls.len() {
            return None;
        }
        let answers = contents.get(request.keep_contents).and_then(|answers| answers.open().ok());
        let results = answers.map(|answers| split(answers.parts)).unwrap_or_default();
        if results.len() < request.call {
            return None;
        }
        let results = results.into_iter().zip(calls).enumerate().take(request.call);
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
                details: None,
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
