//! All tasks of the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::acp_client::{AcpClient, AgentMessage};
use super::agent_settings::{AgentSettings, served_directory};
use super::errors::A2aError;
use super::messages::ClientMessage;
use super::task::{EndedTurn, PendingApproval, Task, TaskState};
use crate::backend::AgentHost;

/// Maximum number of tasks kept.
const MAX_TASKS: usize = 1000;
/// Maximum number of pending messages from the agent.
const MESSAGES: usize = 256;

/// The tasks, and the agent that runs them, which starts with the first.
pub(crate) struct A2aTasks {
    host: AgentHost,
    client: OnceLock<AcpClient>,
    tasks: Mutex<HashMap<String, Arc<Task>>>,
    /// Slash commands that a session offered.
    commands: Mutex<Vec<Value>>,
}

/// A task whose session is being loaded. It is forgotten if that fails, or if the request ends
/// before.
struct LoadingTask {
    tasks: Arc<A2aTasks>,
    id: String,
    loaded: watch::Sender<bool>,
}

impl Drop for LoadingTask {
    fn drop(&mut self) {
        if !*self.loaded.borrow() {
            self.tasks.lock().remove(&self.id);
        }
    }
}

/// Converts an error of ACP to one of this server.
fn internal_error(error: &Value) -> A2aError {
    let text = error.get("message").and_then(Value::as_str).unwrap_or("unknown error");
    A2aError::Internal(text.to_owned())
}

fn in_use_error(id: &str) -> A2aError {
    A2aError::UnsupportedOperation(format!(
        "the session `{id}` is in use by another process: close it there first"
    ))
}

impl A2aTasks {
    /// Creates an empty set of tasks. The agent runs on this host.
    pub(crate) fn new(host: AgentHost) -> Self {
        Self { host, client: OnceLock::new(), tasks: Mutex::default(), commands: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: &str) -> Option<Arc<Task>> {
        self.lock().get(id).cloned()
    }

    /// Returns the agent; it is started once.
    pub(super) fn client(self: &Arc<Self>) -> AcpClient {
        let start = || {
            let (sender, receiver) = mpsc::channel(MESSAGES);
            let client = AcpClient::start(
                &self.host.backend,
                &self.host.connections.tasks,
                &self.host.connections.stopping,
                sender,
            );
            self.host.connections.tasks.spawn(receive(Arc::clone(self), client.clone(), receiver));
            client
        };
        self.client.get_or_init(start).clone()
    }

    /// Closes the task that has been idle for longest when the limit is reached; its session is
    /// loaded again on demand.
    async fn evict_idle(self: &Arc<Self>) -> Result<(), A2aError> {
        let closed = {
            let mut tasks = self.lock();
            if tasks.len() < MAX_TASKS {
                return Ok(());
            }
            let idle = tasks.iter().filter_map(|(id, task)| Some((task.idle_since()?, id)));
            let oldest = idle.min().map(|(_, id)| id.clone());
            oldest.inspect(|id| drop(tasks.remove(id)))
        };
        let Some(id) = closed else {
            let text = format!("all {MAX_TASKS} task slots are in use: try again later");
            return Err(A2aError::UnsupportedOperation(text));
        };
        let client = self.client();
        let closed = client.request("session/close", json!({"sessionId": id})).await;
        closed.map(drop).map_err(|error| internal_error(&error))
    }

    /// Opens a session for a new task.
    pub(super) async fn create(
        self: &Arc<Self>,
        settings: AgentSettings,
    ) -> Result<Arc<Task>, A2aError> {
        self.evict_idle().await?;
        let params = json!({"cwd": served_directory(), "mcpServers": []});
        let opened = self.client().request("session/new", params).await;
        let opened = opened.map_err(|error| internal_error(&error))?;
        let id = opened.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
        if settings.auto_execute {
            let params = json!({"sessionId": id, "modeId": "yolo"});
            if let Err(error) = self.client().request("session/set_mode", params).await {
                let close_params = json!({"sessionId": id});
                let _ = self.client().request("session/close", close_params).await;
                return Err(A2aError::UnsupportedOperation(format!("`autoExecute`: {error}")));
            }
        }
        let task = Arc::new(Task::new(&id, TaskState::Submitted));
        self.lock().insert(id, Arc::clone(&task));
        Ok(task)
    }

    /// Returns the task of this id; one of an earlier process is loaded from its session.
    pub(super) async fn find(self: &Arc<Self>, id: &str) -> Result<Arc<Task>, A2aError> {
        let missing = || A2aError::TaskNotFound(id.to_owned());
        // Ids are names of files.
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
        if id.is_empty() || id.len() > 128 || !id.chars().all(is_plain) {
            return Err(missing());
        }
        if self.get(id).is_none() {
            self.evict_idle().await?;
        }
        // If several requests arrive at the same time, one loads the session.
        let (task, loading) = {
            let mut tasks = self.lock();
            match tasks.get(id) {
                Some(task) => (Arc::clone(task), None),
                None => {
                    let (task, loaded) = Task::new_loading(id);
                    let task = Arc::new(task);
                    tasks.insert(id.to_owned(), Arc::clone(&task));
                    let tasks = Arc::clone(self);
                    (task, Some(LoadingTask { tasks, id: id.to_owned(), loaded }))
                }
            }
        };
        let Some(loading) = loading else {
            if task.is_loaded().await {
                return Ok(task);
            }
            let turn = self.ended_turns(&[id]).await.remove(id);
            let is_in_use = turn.is_some_and(|turn| turn.is_in_use);
            return Err(if is_in_use { in_use_error(id) } else { missing() });
        };
        let ended = self.ended_turns(&[id]).await.remove(id);
        if ended.as_ref().is_some_and(|ended| ended.is_in_use) {
            return Err(in_use_error(id));
        }
        let params = json!({"sessionId": id, "cwd": served_directory(), "mcpServers": []});
        let loaded = self.client().request("session/load", params).await.map_err(|_| missing())?;
        let state = state_of(&loaded["_meta"]);
        let time = ended.and_then(|ended| ended.time);
        task.restore(&EndedTurn { state, time, is_in_use: false });
        loading.loaded.send_replace(true);
        Ok(task)
    }

    /// Returns how the last turns of tasks ended, by id, without opening their sessions.
    pub(super) async fn ended_turns(self: &Arc<Self>, ids: &[&str]) -> HashMap<String, EndedTurn> {
        let params = json!({"cwd": served_directory(), "sessionIds": ids});
        let found = self.client().request("_parallax/last_turns", params).await;
        let found = found.unwrap_or_default();
        let turns = found.get("turns").and_then(Value::as_object);
        let turn = |(id, turn): (&String, &Value)| {
            let time = turn.get("updatedAt").and_then(Value::as_str).map(milliseconds);
            let is_in_use = turn["isInUse"] == true;
            (id.clone(), EndedTurn { state: state_of(turn), time, is_in_use })
        };
        turns.into_iter().flatten().map(turn).collect()
    }

    /// Returns the ids of all tasks, newest first.
    pub(super) async fn list(self: &Arc<Self>) -> Result<Vec<String>, A2aError> {
        let mut ids = Vec::new();
        let mut cursor = Value::Null;
        loop {
            // Those open in an editor or a terminal are not tasks: they cannot be read or
            // continued.
            let meta = json!({"parallax/notInUse": true});
            let params = json!({"cwd": served_directory(), "cursor": cursor, "_meta": meta});
            let page = self.client().request("session/list", params).await;
            let page = page.map_err(|error| internal_error(&error))?;
            let sessions = page.get("sessions").and_then(Value::as_array);
            let found = sessions.into_iter().flatten().filter_map(|session| {
                session.get("sessionId").and_then(Value::as_str).map(str::to_owned)
            });
            ids.extend(found);
            match page.get("nextCursor") {
                Some(next @ Value::String(_)) if ids.len() < 10_000 => cursor = next.clone(),
                _ => break,
            }
        }
        let open: Vec<String> = self.lock().keys().cloned().collect();
        let new: Vec<String> = open.into_iter().filter(|id| !ids.contains(id)).collect();
        Ok(new.into_iter().chain(ids).collect())
    }

    /// Returns the part of a task that is in memory.
    pub(super) fn loaded_task(&self, id: &str) -> Option<Arc<Task>> {
        self.get(id)
    }

    /// Gives a message to the task it belongs to: a prompt, or the answer to a request for
    /// approval.
    pub(super) async fn send(
        self: &Arc<Self>,
        message: &ClientMessage,
    ) -> Result<Arc<Task>, A2aError> {
        let task = match &message.task {
            Some(id) => self.find(id).await?,
            None => self.create(message.settings).await?,
        };
        let call = message.decision.as_ref().and_then(|decision| {
            decision.get("toolCallId").or_else(|| decision.get("callId"))?.as_str()
        });
        if let Some(pending) = task.take_pending(call) {
            let result = decision(message, &pending.params);
            let outcome = &result["outcome"];
            let is_rejection = outcome["outcome"] == "cancelled" || outcome["optionId"] == "cancel";
            if message.decision.is_some() && !message.text.trim().is_empty() && !is_rejection {
                task.ask(pending);
                return Err(A2aError::InvalidParams(
                    "text is delivered only with a rejection: send it as a new message after the \
                     task"
                        .into(),
                ));
            }
            self.client().answer(&pending.id, Ok(result)).await;
            return Ok(task);
        }
        if message.text.trim().is_empty() {
            return Err(A2aError::InvalidParams("the task is not waiting for an answer".into()));
        }
        if !task.begin(&message.id, &message.text) {
            let text = "the task is working: wait for it, or cancel it".to_owned();
            return Err(A2aError::UnsupportedOperation(text));
        }
        let (client, id) = (self.client(), task.snapshot().id);
        let prompt = json!([{"type": "text", "text": message.text}]);
        let params = json!({"sessionId": id, "prompt": prompt});
        let running = Arc::clone(&task);
        self.host.connections.tasks.spawn(async move {
            match client.request("session/prompt", params).await {
                Ok(result) => {
                    let (state, problem) = stopped_state(&result);
                    running.end(state, problem);
                }
                Err(error) => {
                    running.end(TaskState::Failed, Some(internal_error(&error).to_string()))
                }
            }
        });
        Ok(task)
    }

    /// Cancels the turn of a task.
    pub(super) async fn cancel(self: &Arc<Self>, id: &str) -> Result<Arc<Task>, A2aError> {
        let task = self.find(id).await?;
        let client = self.client();
        let pending = task.take_all_pending();
        if pending.is_empty() && task.state() != TaskState::Working {
            return Err(A2aError::TaskNotCancelable);
        }
        for pending in pending {
            let cancelled = json!({"outcome": {"outcome": "cancelled"}});
            client.answer(&pending.id, Ok(cancelled)).await;
        }
        let (_, mut events) = task.follow();
        client.notify("session/cancel", json!({"sessionId": id})).await;
        let ended = async { while !task.state().is_over() && events.recv().await.is_ok() {} };
        // It ends within seconds; if not, the answer shows that it still works.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(10), ended).await;
        Ok(task)
    }

    /// Returns the slash commands, even before a session has announced them.
    pub(super) fn known_commands(&self) -> Vec<Value> {
        let announced = self.commands();
        match announced.is_empty() {
            true => self
                .host
                .backend
                .commands()
                .into_iter()
                .map(|(name, description)| json!({"name": name, "description": description}))
                .collect(),
            false => announced,
        }
    }

    /// Returns the slash commands that sessions have announced.
    pub(super) fn commands(&self) -> Vec<Value> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns a time in the format of tasks.
fn milliseconds(time: &str) -> String {
    time.parse::<jiff::Timestamp>().map_or_else(|_| time.to_owned(), |time| format!("{time:.3}"))
}

/// Returns the state of a task of an earlier process, by how its last turn ended.
fn state_of(turn: &Value) -> TaskState {
    match turn["lastTurn"].as_str() {
        None | Some("done" | "max_turns" | "budget" | "loop" | "stopped") => TaskState::Completed,
        Some("none") => TaskState::Submitted,
        Some("cancelled") => TaskState::Cancelled,
        // It failed, or its process ended while it ran.
        Some(_) => TaskState::Failed,
    }
}

/// Returns the answer to an approval request: the data part, otherwise the text as the name or id
/// of an option; any other text rejects.
fn decision(message: &ClientMessage, params: &Value) -> Value {
    let options = params.get("options").and_then(Value::as_array);
    let ids = || options.into_iter().flatten().filter_map(|it| it.get("optionId")?.as_str());
    let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
    if let Some(decision) = &message.decision {
        // Gemini CLI's clients answer `{outcome: "proceed_once", callId}`.
        let mut result = match decision.get("outcome") {
            Some(Value::String(id)) => match ids().find(|it| it == id) {
                Some(id) => selected(id),
                None => json!({"outcome": {"outcome": "cancelled"}}),
            },
            outcome => json!({"outcome": outcome}),
        };
        // The model reads why.
        if !message.text.trim().is_empty() {
            result["_meta"] = json!({"feedback": message.text.trim()});
        }
        return result;
    }
    let text = message.text.trim();
    let named = options.into_iter().flatten().find(|option| {
        ["optionId", "name"].iter().any(|field| {
            option
                .get(*field)
                .and_then(Value::as_str)
                .is_some_and(|it| it.eq_ignore_ascii_case(text))
        })
    });
    match named.and_then(|option| option.get("optionId")?.as_str()) {
        Some(id) => selected(id),
        // The model reads why.
        None => json!({"outcome": {"outcome": "cancelled"}, "_meta": {"feedback": text}}),
    }
}

/// Takes what the agent sends.
async fn receive(
    all: Arc<A2aTasks>,
    client: AcpClient,
    mut messages: mpsc::Receiver<AgentMessage>,
) {
    while let Some(message) = messages.recv().await {
        match message {
            AgentMessage::Notification { method, params } if method == "session/update" => {
                update(&all, &params);
            }
            AgentMessage::Notification { method, params } if method == "_parallax/turn" => {
                follow_turn(&all, &params);
            }
            AgentMessage::Notification { .. } => {}
            // The request may be given up.
            AgentMessage::Answer { to, answer } => drop(to.send(answer)),
            AgentMessage::Request { id, method, params } => {
                let task = params.get("sessionId").and_then(Value::as_str);
                let task = task.and_then(|id| all.get(id));
                match task.filter(|_| method == "session/request_permission") {
                    Some(task) => task.ask(PendingApproval { id, params }),
                    None => {
                        let error = json!({"code": -32601, "message": "not supported"});
                        client.answer(&id, Err(error)).await;
                    }
                }
            }
        }
    }
}

/// Returns the state after a turn, by its stop reason, and what replaces the answer.
fn stopped_state(result: &Value) -> (TaskState, Option<String>) {
    match result.get("stopReason").and_then(Value::as_str) {
        Some("cancelled") => (TaskState::Cancelled, None),
        Some("refusal") => (TaskState::Failed, Some("the request was rejected".to_owned())),
        _ => (TaskState::Completed, None),
    }
}

/// Follows a turn of the session of a task that another client began, for example an editor.
fn follow_turn(all: &A2aTasks, turn: &Value) {
    let Some(task) = turn["sessionId"].as_str().and_then(|id| all.get(id)) else { return };
    if turn["state"] == "started" {
        return task.record_other_turn_start();
    }
    let (state, problem) = match turn.get("error") {
        Some(error) => (TaskState::Failed, Some(internal_error(error).to_string())),
        None => stopped_state(turn),
    };
    task.record_other_turn_end(state, problem);
}

fn update(all: &A2aTasks, params: &Value) {
    let Some(update) = params.get("update") else { return };
    let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default();
    if kind == "available_commands_update" {
        let commands = update.get("availableCommands").and_then(Value::as_array);
        let mut known = all.commands.lock().unwrap_or_else(PoisonError::into_inner);
        *known = commands.cloned().unwrap_or_default();
        return;
    }
    let task = params.get("sessionId").and_then(Value::as_str);
    let Some(task) = task.and_then(|id| all.get(id)) else { return };
    let text = update.get("content").and_then(|content| content.get("text"));
    let text = text.and_then(Value::as_str);
    match (kind, text) {
        // Outside of a turn it is the history of a loaded session.
        ("agent_message_chunk", Some(text)) if task.state() == TaskState::Working => {
            task.append_text(text);
        }
        ("agent_message_chunk", Some(text)) => task.remember(true, text),
        ("user_message_chunk", Some(text)) if task.state() != TaskState::Working => {
            task.remember(false, text);
        }
        ("tool_call" | "tool_call_update", _) => {
            let content = update.get("content").and_then(Value::as_array);
            let is_done = update.get("status").and_then(Value::as_str) == Some("completed");
            let diffs = content
                .into_iter()
                .flatten()
                // Only a whole text is the content of a file.
                .filter(|it| is_done && it["type"] == "diff" && it["_meta"]["partial"] != true);
            for diff in diffs {
                let field = |name: &str| diff.get(name).and_then(Value::as_str);
                if let (Some(path), Some(text)) = (field("path"), field("newText")) {
                    task.report_changed_file(path, text);
                }
            }
            if task.state() == TaskState::Working {
                task.add_update(update);
            }
        }
        _ => {}
    }
}
