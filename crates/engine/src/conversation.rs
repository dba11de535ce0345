//! The conversation of a session: the history with its journal, the prompts, and the ids of items
//! and calls. Only the owner of this state appends to the history.

mod ended_processes;
mod resume;
mod rewind;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use parallax_protocol::agent::InterruptedRun;
use parallax_protocol::content::{
    Content, FunctionCall, Part, Role, SYNTHETIC_SIGNATURE, SealedContent,
};
use parallax_protocol::event::{Level, NOT_SAVED};
use parallax_protocol::ids::{CallId, ItemId};
use parallax_protocol::session_selection::SelectionRecord;
use parallax_protocol::store::{
    DirectoriesRecord, HookContinuation, Record, ResultRecord, RewindTarget, StepRecord,
    UnfinishedAnswer, assemble_step,
};
use parallax_protocol::tool::FileDiff;
use serde_json::value::RawValue;

use crate::agents::{INVOKE_AGENT, resume_hint};
use crate::approved_plan::ApprovedPlan;
use crate::call_arguments::call_arguments;
use crate::closing_notes::PARTIAL_NOTE;
use crate::function_response;
use crate::history::{ContentMetadata, History, now};
use crate::inbox::Inbox;
use crate::notices::Notices;
use crate::prompts::Prompts;
use crate::tool_call::ToolCall;

/// The conversation of a session.
pub(crate) struct Conversation {
    history: History,
    prompts: Prompts,
    /// The position of the text with which hooks continued the turn of the newest prompt, if they
    /// did in this process.
    continued_at: Option<usize>,
    /// The turn, counted over all processes of the session.
    turn: u64,
    /// Context for the first prompt of this process.
    preface: Option<String>,
    /// Results of the last, unfinished batch of a resumed session, by call index.
    pending: BTreeMap<usize, Box<RawValue>>,
    /// Whether the newest response may be partial.
    is_last_answer_partial: bool,
    /// Whether the user cancelled the newest turn of this process.
    is_cancelled: bool,
    /// The last approved plan.
    plan: Option<ApprovedPlan>,
    /// The additional directories that the journal has recorded.
    directories: Vec<PathBuf>,
    /// Subagent runs that an earlier process left interrupted.
    interrupted_work: Vec<InterruptedRun>,
    ids: IdGenerator,
}

/// What a conversation continues with.
pub(crate) struct ConversationStart {
    pub(crate) history: History,
    pub(crate) prompts: Prompts,
    /// The number of the last turn.
    pub(crate) turn: u64,
    /// Context for the first prompt of this process.
    pub(crate) preface: Option<String>,
    /// Results of the last, unfinished batch, by call index.
    pub(crate) pending: BTreeMap<usize, Box<RawValue>>,
    /// Whether the newest response may be partial.
    pub(crate) is_last_answer_partial: bool,
    pub(crate) plan: Option<ApprovedPlan>,
    /// The additional directories that the journal has recorded.
    pub(crate) directories: Vec<PathBuf>,
}

impl Conversation {
    pub(crate) fn new(start: ConversationStart) -> Self {
        Self {
            history: start.history,
            prompts: start.prompts,
            continued_at: None,
            turn: start.turn,
            preface: start.preface,
            pending: start.pending,
            is_last_answer_partial: start.is_last_answer_partial,
            is_cancelled: false,
            plan: start.plan,
            directories: start.directories,
            interrupted_work: Vec::new(),
            ids: IdGenerator::default(),
        }
    }

    /// Returns the history.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Returns the history, to append to it or to change its view.
    pub(crate) fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    /// Returns the prompts in the history, oldest first.
    pub(crate) fn prompts(&self) -> &[RewindTarget] {
        self.prompts.marks()
    }

    /// Returns the number of the turn, counted over all processes of the session.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// Starts another turn.
    pub(crate) fn start_turn(&mut self) {
        self.turn += 1;
    }

    /// Counts the lines of an edit in the running turn.
    pub(crate) fn count_lines(&mut self, diff: &FileDiff) {
        self.prompts.count_lines(diff);
    }

    /// Returns an id for an item.
    pub(crate) fn next_item(&mut self, kind: &str) -> ItemId {
        self.ids.item(kind)
    }

    /// Appends a prompt of the running turn. `display_text` is what the user typed.
    pub(crate) fn push_prompt(
        &mut self,
        parts: Vec<Part>,
        display_text: String,
        labeled_text: Option<String>,
    ) {
        self.prompts.add(self.turn, self.history.len(), &display_text);
        self.continued_at = None;
        let (display, turn) = (Some(display_text), Some(self.turn));
        let metadata = ContentMetadata { display, labeled_text, turn, ..Default::default() };
        self.history.push(&Content::user(parts), metadata);
    }

    /// Appends the text with which hooks continue the running turn. It is not a prompt to which the
    /// user could rewind.
    pub(crate) fn push_continuation(&mut self, parts: Vec<Part>, continuation: HookContinuation) {
        self.continued_at = Some(self.history.len());
        let continuation = Some(continuation);
        let metadata = ContentMetadata { continuation, ..ContentMetadata::synthetic() };
        self.history.push(&Content::user(parts), metadata);
    }

    /// Returns the position of what the model is working on: the newest prompt, or the text with
    /// which hooks continued its turn.
    pub(crate) fn newest_input(&self) -> Option<usize> {
        let prompt = self.prompts.marks().last().map(|mark| mark.at);
        prompt.max(self.continued_at.filter(|at| *at < self.history.len()))
    }

    /// Removes a prompt that got no response, with what follows it. `preface` is for the next one.
    pub(crate) fn remove_prompt(&mut self, at: usize, preface: Option<String>) {
        self.history.truncate(at);
        self.prompts.truncate(at);
        self.preface = preface;
    }

    /// Returns the calls of a content of the model, with the ids that Parallax uses.
    pub(crate) fn calls_of(&mut self, content: &Content) -> Vec<ToolCall> {
        let call = |call: FunctionCall<'_>| {
            let wire_id = call.id.map(str::to_owned);
            let id = self.ids.call(call.id, call.name);
            let args = call_arguments(&call);
            ToolCall { id, wire_id, name: call.name.to_owned(), args, replaced_name: None }
        };
        content.calls().map(call).collect()
    }

    /// Takes the context for the next prompt.
    pub(crate) fn take_preface(&mut self) -> Option<String> {
        self.preface.take()
    }

    /// Adds context to the next prompt if it has some already.
    pub(crate) fn extend_preface(&mut self, text: &str) {
        if self.preface.is_some() {
            self.add_to_preface(text);
        }
    }

    /// Whether the user cancelled the newest turn of this process.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Records whether the user cancelled the newest turn.
    pub(crate) fn set_cancelled(&mut self, is_cancelled: bool) {
        self.is_cancelled = is_cancelled;
    }

    /// Returns whether the newest response may be partial, and treats it as complete from now on.
    pub(crate) fn take_partial(&mut self) -> bool {
        std::mem::take(&mut self.is_last_answer_partial)
    }

    /// Sets the subagent runs that an earlier process left interrupted.
    pub(crate) fn set_interrupted_work(&mut self, work: Vec<InterruptedRun>) {
        self.interrupted_work = work;
    }

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
                details: None,
            }));
            results.push(wire);
        }
        self.commit_batch(&results, Vec::new(), &[], Vec::new());
    }

    /// Returns how to resume the subagent that a call of the newest content started.
    fn resume_hint_for(&self, index: usize) -> Option<String> {
        if self.interrupted_work.is_empty() {
            return None;
        }
        let last = self.history.contents().last()?.open().ok()?;
        let call = last.calls().nth(index)?;
        let text = |name: &str| call.args?.get(name)?.as_str().map(str::trim);
        let (agent, task, resumed) = (text("agent_name")?, text("prompt")?, text("resume"));
        let is_it = |kept: &&InterruptedRun| match resumed {
            Some(id) => kept.id == id,
            None => kept.agent == agent && kept.task == task,
        };
        let interrupted =
            self.interrupted_work.iter().find(is_it).filter(|_| call.name == INVOKE_AGENT)?;
        Some(resume_hint(&interrupted.id))
    }

    /// Returns the unanswered calls of the newest content.
    pub(crate) fn open_calls(&self) -> Vec<(Option<String>, String)> {
        let last = self.history.contents().last().and_then(|content| content.open().ok());
        last.map_or_else(Vec::new, |content| {
            content.calls().map(|call| (call.id.map(str::to_owned), call.name.to_owned())).collect()
        })
    }

    /// Journals the end of a batch and appends its content. `injected` is media that follows it,
    /// `tail` are parts after the results, and `output` are the steering messages among them.
    pub(crate) fn commit_batch(
        &mut self,
        results: &[Box<RawValue>],
        injected: Vec<Part>,
        tail: &[Part],
        output: Vec<String>,
    ) {
        let results: Vec<&RawValue> = results.iter().map(AsRef::as_ref).collect();
        let parts_after_results =
            if tail.is_empty() { None } else { serde_json::value::to_raw_value(tail).ok() };
        let content = assemble_step(&results, parts_after_results.as_deref());
        self.history.record(&Record::Round(StepRecord {
            results: results.len(),
            parts_after_results,
            user_texts: Some(output),
        }));
        self.history.append(content);
        if !injected.is_empty() {
            for content in function_response::injection(injected) {
                self.history.push(&content, ContentMetadata::synthetic());
            }
        }
    }

    /// Gives up on an answer that the service does not continue: the received text becomes a
    /// content, and a note asks for the rest.
    pub(crate) fn give_up_continuation(&mut self, unfinished: &UnfinishedAnswer) {
        let content = unfinished.content();
        if !content.parts.is_empty() {
            let model = Some(unfinished.model.clone());
            let metadata = ContentMetadata { model, partial: true, ..ContentMetadata::default() };
            self.history.push(&content, metadata);
            self.history.push_note(PARTIAL_NOTE);
        }
    }

    /// Keeps the text of an unfinished answer that may be continued later.
    pub(crate) fn record_partial(&mut self, unfinished: &UnfinishedAnswer) {
        let content = unfinished.content();
        if !content.parts.is_empty() {
            self.history.append(content.seal_for(&unfinished.model));
        }
        self.is_last_answer_partial = true;
    }

    /// Replaces every signature in the history with the synthetic one.
    pub(crate) fn replace_signatures(&mut self) {
        let contents = self.history.contents().iter().map(with_synthetic_signatures).collect();
        self.history.replace(contents);
    }

    /// Adds context to the next prompt.
    pub(crate) fn add_to_preface(&mut self, text: &str) {
        self.preface = Some(match self.preface.take() {
            Some(before) => format!("{before}\n\n{text}"),
            None => text.to_owned(),
        });
    }

    /// Returns the approved plan that the work follows, if any.
    pub(crate) fn plan(&self) -> Option<&Path> {
        let plan = self.plan.as_ref().filter(|plan| plan.at < self.history.len());
        plan.map(|plan| plan.path.as_path())
    }

    /// Sets the plan that the work follows from now on.
    pub(crate) fn approve_plan(&mut self, path: PathBuf) {
        self.plan = Some(ApprovedPlan { path, at: self.history.len() });
    }

    /// Returns the model's text since the newest prompt, or since hooks continued its turn.
    pub(crate) fn current_response(&self) -> String {
        let at = self.newest_input().unwrap_or(0);
        let contents = self.history.contents().get(at..).unwrap_or_default();
        let output = contents.iter().filter(|content| content.role() == Role::Model);
        let texts = output.filter_map(|content| Some(content.open().ok()?.visible_text()));
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Records the additional workspace directories in the journal if they changed. A session
    /// without a prompt is not on disk yet, so this follows one.
    pub(crate) fn record_directories(&mut self, directories: Vec<PathBuf>) {
        if directories != self.directories {
            self.directories.clone_from(&directories);
            let record = DirectoriesRecord { time: now(), directories };
            self.history.record(&Record::Directories(record));
        }
    }

    /// Records limits that the user set, so that a resumed session has them. A session without a
    /// prompt has no journal yet; its limits wait.
    pub(crate) fn record_limits(&mut self, inbox: &mut Inbox) {
        if self.history.len() > 0 {
            for record in inbox.take_set_limits() {
                self.history.record(&Record::Budget(record));
            }
        }
    }

    /// Records the mode and the model if they changed. A session without a prompt has no journal
    /// yet.
    pub(crate) fn record_selection(&mut self, inbox: &mut Inbox) {
        self.record_selection_of(inbox, false);
    }

    /// Records the model with a prompt, so that a session without an answer continues with it.
    pub(crate) fn record_model_of_prompt(&mut self, inbox: &mut Inbox) {
        self.record_selection_of(inbox, true);
    }

    fn record_selection_of(&mut self, inbox: &mut Inbox, is_prompt: bool) {
        if self.history.len() > 0
            && let Some((mode, model)) = inbox.take_changed_selection(is_prompt)
        {
            let record = SelectionRecord { time: now(), mode, model };
            self.history.record(&Record::Selection(record));
        }
    }

    /// Writes the journal to disk.
    pub(crate) async fn sync(&mut self, inbox: &mut Inbox) {
        let store = self.history.store();
        let synced = tokio::task::spawn_blocking(move || store.sync());
        if let Ok(Err(error)) = inbox.while_receiving(synced).await {
            self.history.record_storage_error(error.message);
        }
        self.report_storage_error(inbox.notices());
    }

    /// Reports a journal that cannot be written once; the session continues.
    pub(crate) fn report_storage_error(&mut self, notices: &Notices) {
        if let Some(notice) = self.history.store().notice() {
            notices.show(Level::Warning, notice);
        }
        if let Some(storage_error) = self.history.take_storage_error() {
            let text = format!("{NOT_SAVED}: {storage_error}");
            notices.show(Level::Warning, text);
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

/// Returns the content with synthetic signatures.
fn with_synthetic_signatures(content: &SealedContent) -> SealedContent {
    if !content.json().contains("thoughtSignature") {
        return content.clone();
    }
    let Ok(mut opened) = content.open() else { return content.clone() };
    for part in &mut opened.parts {
        if part.signature().is_some() {
            *part = part.with_signature(SYNTHETIC_SIGNATURE);
        }
    }
    opened.seal()
}

/// Generates ids of items and calls.
#[derive(Default)]
struct IdGenerator {
    items: u64,
    calls: u64,
    /// Call ids from the server, to detect duplicates.
    server_ids: HashSet<String>,
}

impl IdGenerator {
    /// Returns an id for an item.
    fn item(&mut self, kind: &str) -> ItemId {
        self.items += 1;
        ItemId::new(format!("{kind}-{}", self.items))
    }

    /// Returns an id for a call: the id of the service if it is unique, otherwise a generated one.
    fn call(&mut self, wire_id: Option<&str>, name: &str) -> CallId {
        self.calls += 1;
        match wire_id {
            Some(id) if self.server_ids.insert(id.to_owned()) => CallId::new(id),
            _ => {
                let milliseconds = jiff::Timestamp::now().as_millisecond();
                CallId::new(format!("{name}_{milliseconds}_{}", self.calls))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_parts::conversation;

    #[test]
    fn removed_prompt_leaves_its_preface_for_the_next_one() {
        let mut conversation = conversation();
        conversation.start_turn();
        conversation.add_to_preface("<session_context>one</session_context>");
        let preface = conversation.take_preface();
        conversation.push_prompt(vec![Part::text("go")], "go".to_owned(), None);
        assert_eq!((conversation.prompts().len(), conversation.turn()), (1, 1));
        conversation.remove_prompt(0, preface.clone());
        assert_eq!((conversation.prompts().len(), conversation.history().len()), (0, 0));
        conversation.add_to_preface("two");
        let both = conversation.take_preface().expect("a preface");
        assert_eq!(both, format!("{}\n\ntwo", preface.expect("a preface")));
    }

    #[test]
    fn open_calls_are_closed_before_a_prompt() {
        let mut conversation = conversation();
        conversation.push_prompt(vec![Part::text("go")], "go".to_owned(), None);
        let call = r#"{"role":"model","parts":[{"functionCall":{"name":"x","args":{}}}]}"#;
        let content: Content = serde_json::from_str(call).expect("a content");
        conversation.history_mut().push(&content, ContentMetadata::default());
        assert!(conversation.is_interrupted());
        assert_eq!(conversation.calls_of(&content).len(), 1);
        conversation.close_open_calls("closed");
        assert!(!conversation.is_interrupted());
        assert_eq!(conversation.history().last_role(), Some(Role::Model));
        assert_eq!(conversation.current_response(), "closed");
    }

    #[test]
    fn unique_ids_of_the_service_are_kept() {
        let mut ids = IdGenerator::default();
        assert_eq!(ids.call(Some("a"), "x"), CallId::new("a"));
        assert_ne!(ids.call(Some("a"), "x"), CallId::new("a"));
        assert_ne!(ids.item("text"), ids.item("text"));
    }
}
