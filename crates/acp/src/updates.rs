//! Converts events of a session to `session/update` notifications.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parallax_protocol::Object;
use parallax_protocol::agent::AgentProgress;
use parallax_protocol::event::{
    CallPhase, Compaction, Event, EventBody, ItemDone, ItemStart, Level,
};
use parallax_protocol::ids::{CallId, ItemId};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::Display;
use serde_json::{Value, json};

use crate::options::mode_id;
use crate::tool_updates;

/// Minimum interval between output updates of a running command.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(250);

/// The client's optional capabilities.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientFeatures {
    pub(crate) notices: bool,
    pub(crate) elicitation: bool,
    /// Whether the client opens URLs for its user.
    pub(crate) opens_urls: bool,
    pub(crate) compaction: bool,
    /// Whether the client runs a setup in a terminal.
    pub(crate) sets_up: bool,
    pub(crate) supports_forks: bool,
    pub(crate) runs_commands: bool,
    pub(crate) reads_files: bool,
    pub(crate) writes_files: bool,
    /// Whether the client follows the turns that other clients begin.
    pub(crate) follows_turns: bool,
}

impl ClientFeatures {
    /// Reads `clientCapabilities`.
    pub(crate) fn read(capabilities: &Value) -> Self {
        let offers = |value: &Value| !value.is_null() && *value != json!(false);
        Self {
            notices: offers(&capabilities["session"]["notices"]),
            reads_files: offers(&capabilities["fs"]["readTextFile"]),
            writes_files: offers(&capabilities["fs"]["writeTextFile"]),
            elicitation: offers(&capabilities["elicitation"]["form"]),
            opens_urls: offers(&capabilities["elicitation"]["url"]),
            compaction: offers(&capabilities["session"]["compaction"]),
            // Clients made before the capability was stable state it below `_meta`.
            sets_up: offers(&capabilities["auth"]["terminal"])
                || offers(&capabilities["_meta"]["terminal-auth"]),
            supports_forks: offers(&capabilities["session"]["fork"]),
            runs_commands: offers(&capabilities["terminal"]),
            follows_turns: offers(&capabilities["_meta"]["parallax/turns"]),
        }
    }
}

/// An item in progress.
enum ItemInProgress {
    Text { has_deltas: bool },
    Thought { has_deltas: bool },
    Call(CallId),
}

/// A tool call in progress.
struct OpenCall {
    name: String,
    arguments: Object,
    /// What the clients know about it, with its current status.
    announced: Option<Value>,
    /// The position among the announced calls.
    number: u64,
    output: String,
    sent_at: Option<Instant>,
}

/// Accumulates events of a session and converts them to updates.
pub(crate) struct UpdateBuilder {
    directory: PathBuf,
    features: ClientFeatures,
    items: HashMap<ItemId, ItemInProgress>,
    calls: HashMap<CallId, OpenCall>,
    /// The number of announced calls so far.
    announced: u64,
    pub(crate) mode: ApprovalMode,
    pub(crate) model: String,
    /// US dollars, as far as prices are known.
    cost: Option<f64>,
    /// The number of compactions so far.
    compactions: u32,
}

/// Returns the update for a piece of a message.
pub(crate) fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

impl UpdateBuilder {
    pub(crate) fn new(
        directory: PathBuf,
        features: ClientFeatures,
        mode: ApprovalMode,
        model: String,
    ) -> Self {
        Self {
            directory,
            features,
            items: HashMap::new(),
            calls: HashMap::new(),
            announced: 0,
            mode,
            model,
            cost: None,
            compactions: 0,
        }
    }

    /// Returns the files that a tool call refers to.
    pub(crate) fn locations(&self, call: &CallId) -> Value {
        let call = self.calls.get(call);
        call.map_or_else(
            || json!([]),
            |call| tool_updates::locations(&call.arguments, &self.directory),
        )
    }

    /// Returns the announced calls that have not ended, as they are now, for a client that joins.
    pub(crate) fn open_calls(&self) -> Vec<Value> {
        let mut calls: Vec<&OpenCall> = self.calls.values().collect();
        calls.sort_by_key(|call| call.number);
        let known = calls.into_iter().filter_map(|call| {
            let mut update = call.announced.clone()?;
            if !call.output.is_empty() {
                update["content"] = json!([tool_updates::text_content(&call.output)]);
            }
            Some(update)
        });
        known.collect()
    }

    /// Returns the updates for an event.
    pub(crate) fn updates_for(&mut self, event: &Event) -> Vec<Value> {
        match &event.body {
            EventBody::ItemStarted { item, start } => self.report_start(item, start),
            EventBody::ItemDelta { item, text } => self.delta(item, text),
            EventBody::ItemDone { item, done } => self.done(item, done),
            EventBody::CallState(state) => self.call_state(
                &state.call,
                state.phase,
                state.title.as_deref(),
                state.kind.map(tool_updates::kind),
            ),
            EventBody::ContextUsed(used) => {
                let mut update = json!({"sessionUpdate": "usage_update", "used": used.tokens, "size": used.window});
                if let Some(cost) = self.cost {
                    update["cost"] = json!({"amount": cost, "currency": "USD"});
                }
                vec![update]
            }
            EventBody::ModelCall(call) => {
                if let Some(cost) = &call.cost {
                    *self.cost.get_or_insert(0.0) += cost.total();
                }
                Vec::new()
            }
            EventBody::Compaction(compaction) => self.report_compaction(compaction),
            EventBody::Agent { item, progress } => self.handle_progress(item, progress),
            EventBody::Retry(retry) => self.notice(Level::Warning, &retry.message),
            EventBody::Aside { text } => self.notice(Level::Warning, text),
            EventBody::StateChanged { model, mode } => self.report_change(model, *mode),
            _ => Vec::new(),
        }
    }

    fn report_start(&mut self, item: &ItemId, start: &ItemStart) -> Vec<Value> {
        let entry = match start {
            ItemStart::Text => ItemInProgress::Text { has_deltas: false },
            ItemStart::Thought => ItemInProgress::Thought { has_deltas: false },
            ItemStart::Tool(tool) => {
                let call = OpenCall {
                    name: tool.name.clone(),
                    arguments: tool.args.clone(),
                    announced: None,
                    number: 0,
                    output: String::new(),
                    sent_at: None,
                };
                self.calls.insert(tool.call.clone(), call);
                ItemInProgress::Call(tool.call.clone())
            }
            // The client already shows what its user typed.
            ItemStart::User { .. } | ItemStart::Shell(_) => return Vec::new(),
        };
        self.items.insert(item.clone(), entry);
        Vec::new()
    }

    fn delta(&mut self, item: &ItemId, text: &str) -> Vec<Value> {
        match self.items.get_mut(item) {
            Some(ItemInProgress::Text { has_deltas }) => {
                *has_deltas = true;
                vec![chunk("agent_message_chunk", text)]
            }
            Some(ItemInProgress::Thought { has_deltas }) => {
                *has_deltas = true;
                vec![chunk("agent_thought_chunk", text)]
            }
            Some(ItemInProgress::Call(id)) => {
                let Some(call) = self.calls.get_mut(id) else { return Vec::new() };
                call.output.push_str(&text.replace("\r\n", "\n"));
                let tail = tool_updates::last_bytes(&call.output);
                if tail.len() * 2 < call.output.len() {
                    call.output = tail.to_owned();
                }
                let is_due = call.sent_at.is_none_or(|at| at.elapsed() >= OUTPUT_INTERVAL);
                if call.announced.is_none() || !is_due {
                    return Vec::new();
                }
                call.sent_at = Some(Instant::now());
                vec![json!({"sessionUpdate": "tool_call_update", "toolCallId": id.as_str(),
                    "content": [tool_updates::text_content(&call.output)]})]
            }
            None => Vec::new(),
        }
    }

    /// Shows what a subagent does as the content of the call that started it.
    fn handle_progress(&mut self, item: &ItemId, progress: &AgentProgress) -> Vec<Value> {
        let Some(ItemInProgress::Call(id)) = self.items.get(item) else { return Vec::new() };
        let Some(call) = self.calls.get_mut(id) else { return Vec::new() };
        // Its end comes with the result of the call.
        if call.announced.is_none() || progress.end.is_some() {
            return Vec::new();
        }
        let text = tool_updates::progress_text(progress);
        if text.is_empty() || text == call.output {
            return Vec::new();
        }
        call.output = text;
        vec![json!({"sessionUpdate": "tool_call_update", "toolCallId": id.as_str(),
            "status": "in_progress", "content": [tool_updates::text_content(&call.output)]})]
    }

    fn done(&mut self, item: &ItemId, done: &ItemDone) -> Vec<Value> {
        let entry = self.items.remove(item);
        match (done, entry) {
            (
                ItemDone::Text { text, is_dropped: false },
                Some(ItemInProgress::Text { has_deltas: false }),
            ) => {
                vec![chunk("agent_message_chunk", text)]
            }
            (ItemDone::Thought { text }, Some(ItemInProgress::Thought { has_deltas: false })) => {
                vec![chunk("agent_thought_chunk", text)]
            }
            (ItemDone::Tool(done), _) => {
                let mut updates = self.announce(&done.call, "pending", Some(&done.title), None);
                let mut update = tool_updates::finished_fields(done);
                update["sessionUpdate"] = json!("tool_call_update");
                update["toolCallId"] = json!(done.call.as_str());
                updates.push(update);
                if let Some(Display::Todos { todos }) = &done.display {
                    updates.push(tool_updates::plan(todos));
                }
                self.calls.remove(&done.call);
                updates
            }
            (ItemDone::Notice { level, text, .. }, _) => self.notice(*level, text),
            _ => Vec::new(),
        }
    }

    /// Returns the first update about a call, if it was not sent yet.
    fn announce(
        &mut self,
        id: &CallId,
        status: &str,
        title: Option<&str>,
        kind: Option<&str>,
    ) -> Vec<Value> {
        let directory = &self.directory;
        let Some(call) = self.calls.get_mut(id).filter(|call| call.announced.is_none()) else {
            return Vec::new();
        };
        self.announced += 1;
        call.number = self.announced;
        let title = tool_updates::title(title.unwrap_or_default(), &call.name);
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": id.as_str(), "title": title,
            "kind": kind.unwrap_or("other"), "status": status, "content": [],
            "locations": tool_updates::locations(&call.arguments, directory),
            "rawInput": call.arguments});
        call.announced = Some(update.clone());
        vec![update]
    }

    fn call_state(
        &mut self,
        id: &CallId,
        phase: CallPhase,
        title: Option<&str>,
        kind: Option<&str>,
    ) -> Vec<Value> {
        let status = match phase {
            CallPhase::Validating | CallPhase::AwaitingApproval => "pending",
            CallPhase::Executing => "in_progress",
        };
        // The title is known only after the arguments are checked.
        if phase == CallPhase::Validating && title.is_none() {
            return Vec::new();
        }
        let announced = self.announce(id, status, title, kind);
        if !announced.is_empty() || phase == CallPhase::Validating {
            return announced;
        }
        if let Some(known) = self.calls.get_mut(id).and_then(|call| call.announced.as_mut()) {
            known["status"] = json!(status);
        }
        vec![json!({"sessionUpdate": "tool_call_update", "toolCallId": id.as_str(),
            "status": status})]
    }

    /// Sends a notice, as a thought if the client does not support notices.
    fn notice(&self, level: Level, text: &str) -> Vec<Value> {
        if self.features.notices {
            let severity = match level {
                Level::Info => "info",
                Level::Warning => "warning",
                Level::Error => "error",
            };
            return vec![json!({"sessionUpdate": "notice", "severity": severity, "title": text})];
        }
        match level {
            Level::Info => Vec::new(),
            Level::Warning | Level::Error => {
                vec![chunk("agent_thought_chunk", &format!("{text}\n"))]
            }
        }
    }

    /// Reports a compaction, as a notice if the client does not support it.
    fn report_compaction(&mut self, compaction: &Compaction) -> Vec<Value> {
        let text = match (compaction.how, &compaction.remark) {
            (None, Some(remark)) => remark.clone(),
            (None, None) => return Vec::new(),
            (Some(_), _) => format!(
                "The conversation was compacted from about {} to {} tokens",
                compaction.before, compaction.after
            ),
        };
        if !self.features.compaction || compaction.how.is_none() {
            return self.notice(Level::Info, &text);
        }
        self.compactions += 1;
        vec![json!({"sessionUpdate": "compaction_update",
            "compactionId": format!("compaction-{}", self.compactions), "status": "completed",
            "summary": [{"type": "text", "text": text}]})]
    }

    fn report_change(&mut self, model: &str, mode: ApprovalMode) -> Vec<Value> {
        let has_new_mode = self.mode != mode;
        self.mode = mode;
        model.clone_into(&mut self.model);
        match has_new_mode {
            true => vec![json!({"sessionUpdate": "current_mode_update",
                "currentModeId": mode_id(mode)})],
            false => Vec::new(),
        }
    }
}
