//! The conversation of a session: the history with its journal, the prompts, and the ids of items
//! and calls. Only the owner of this state appends to the history.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use parallax_protocol::Object;
use parallax_protocol::agent::KeptWork;
use parallax_protocol::content::{Content, Part, Role};
use parallax_protocol::ids::{CallId, ItemId};
use parallax_protocol::store::{Record, ResultRecord, RoundRecord, assemble_round};
use serde_json::value::RawValue;

use crate::agents::{INVOKE_AGENT, resume_hint};
use crate::function_response;
use crate::history::{ContentMetadata, History, now};
use crate::planning::ApprovedPlan;
use crate::prompts::Prompts;
use crate::tool_batch::BatchResult;

/// The conversation of a session.
pub(crate) struct Conversation {
    pub(crate) history: History,
    pub(crate) prompts: Prompts,
    /// The turn, counted over all processes of the session.
    pub(crate) turn: u64,
    /// Context for the first prompt of this process.
    pub(crate) preface: Option<String>,
    /// Results of the last, unfinished batch of a resumed session, by call index.
    pub(crate) pending: BTreeMap<usize, Box<RawValue>>,
    /// Whether the newest response may be partial.
    pub(crate) is_last_answer_partial: bool,
    /// The last approved plan.
    pub(crate) plan: Option<ApprovedPlan>,
    /// The additional directories that the journal has recorded.
    pub(crate) directories: Vec<PathBuf>,
    /// Subagent runs that an earlier process left interrupted.
    pub(crate) interrupted_work: Vec<KeptWork>,
    pub(crate) ids: IdGenerator,
}

impl Conversation {
    /// Makes the history ready for a user content: every call answered, the model last. Neither
    /// holds after a crash or an interrupt.
    pub(crate) fn close_open_calls(&mut self, remark: &str) {
        if self.history.last_role() == Some(Role::Model) {
            let calls = self.open_calls();
            if !calls.is_empty() {
                self.answer_lost_calls(&calls);
            }
        }
        if self.history.last_role() == Some(Role::User) {
            let note = Content::model(vec![Part::text(remark)]);
            self.history.push(&note, ContentMetadata::synthetic());
        }
    }

    /// Commits an interrupted batch: finished results are used, the others are reported as lost.
    pub(crate) fn answer_lost_calls(&mut self, calls: &[(Option<String>, String)]) {
        let mut finished = std::mem::take(&mut self.pending);
        let mut results = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            if let Some(result) = finished.remove(&index) {
                results.push(result);
                continue;
            }
            let Some(wire) = lost_result(call, self.resume_hint_for(index).as_deref()) else {
                continue;
            };
            self.history.record(&Record::Result(ResultRecord {
                time: now(),
                call: CallId::new(call.0.clone().unwrap_or_else(|| format!("{}_{index}", call.1))),
                index,
                name: call.1.clone(),
                wire: wire.clone(),
                status: "cancelled".into(),
                display: None,
                told: None,
            }));
            results.push(wire);
        }
        let round = BatchResult {
            results,
            texts: Vec::new(),
            injected: Vec::new(),
            fatal: None,
            stopped: None,
            declined: false,
        };
        self.commit_batch(round, &[], Vec::new());
    }

    /// Returns how to resume the subagent that a call of the newest content started.
    pub(crate) fn resume_hint_for(&self, index: usize) -> Option<String> {
        if self.interrupted_work.is_empty() {
            return None;
        }
        let last = self.history.contents().last()?.open().ok()?;
        let call = last.calls().nth(index)?;
        let text = |name: &str| call.args?.get(name)?.as_str().map(str::trim);
        let (agent, task, resumed) = (text("agent_name")?, text("prompt")?, text("resume"));
        let is_it = |kept: &&KeptWork| match resumed {
            Some(id) => kept.id == id,
            None => kept.agent == agent && kept.task == task,
        };
        let kept =
            self.interrupted_work.iter().find(is_it).filter(|_| call.name == INVOKE_AGENT)?;
        Some(resume_hint(&kept.id))
    }

    /// Returns the unanswered calls of the newest content.
    pub(crate) fn open_calls(&self) -> Vec<(Option<String>, String)> {
        let last = self.history.contents().last().and_then(|content| content.open().ok());
        last.map_or_else(Vec::new, |content| {
            content.calls().map(|call| (call.id.map(str::to_owned), call.name.to_owned())).collect()
        })
    }

    /// Journals the end of a batch and appends its content.
    pub(crate) fn commit_batch(&mut self, round: BatchResult, tail: &[Part], said: Vec<String>) {
        let results: Vec<&RawValue> = round.results.iter().map(AsRef::as_ref).collect();
        let tail = if tail.is_empty() { None } else { serde_json::value::to_raw_value(tail).ok() };
        let content = assemble_round(&results, tail.as_deref());
        self.history.record(&Record::Round(RoundRecord {
            results: results.len(),
            tail,
            said: Some(said),
        }));
        self.history.keep(content);
        if !round.injected.is_empty() {
            for content in function_response::injection(round.injected) {
                self.history.push(&content, ContentMetadata::synthetic());
            }
        }
    }
}

/// Returns the result of a call whose own result is lost (the program was killed).
fn lost_result(call: &(Option<String>, String), more: Option<&str>) -> Option<Box<RawValue>> {
    let mut response = Object::new();
    let mut text = "[Operation Cancelled] The run was interrupted before this call finished; its result is lost.".to_owned();
    if let Some(more) = more {
        text.push(' ');
        text.push_str(more);
    }
    response.insert("error".into(), serde_json::Value::String(text));
    let part = Part::function_response(call.0.as_deref(), &call.1, response, Vec::new());
    serde_json::value::to_raw_value(&[part]).ok()
}

/// Generates ids of items and calls.
#[derive(Default)]
pub(crate) struct IdGenerator {
    items: u64,
    calls: u64,
    /// Call ids from the server, to detect duplicates.
    known: HashSet<String>,
}

impl IdGenerator {
    /// Returns an id for an item.
    pub(crate) fn item(&mut self, kind: &str) -> ItemId {
        self.items += 1;
        ItemId::new(format!("{kind}-{}", self.items))
    }

    /// Returns an id for a call: the id of the service if it is unique, otherwise a generated one.
    pub(crate) fn call(&mut self, wire_id: Option<&str>, name: &str) -> CallId {
        self.calls += 1;
        match wire_id {
            Some(id) if self.known.insert(id.to_owned()) => CallId::new(id),
            _ => {
                let milliseconds = jiff::Timestamp::now().as_millisecond();
                CallId::new(format!("{name}_{milliseconds}_{}", self.calls))
            }
        }
    }
}
