//! A task: its state, and its followers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;
use tokio::sync::{broadcast, watch};

/// Maximum number of events kept for a slow follower; it misses older ones.
const EVENTS: usize = 1024;
/// Maximum number of messages of a task kept in memory; the session has all of them.
const MAX_HISTORY: usize = 200;
/// Maximum number of changed files kept.
const MAX_ARTIFACTS: usize = 500;

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Cancelled,
    Failed,
}

impl TaskState {
    /// Whether nothing happens until the next message.
    pub(super) fn is_over(self) -> bool {
        !matches!(self, Self::Submitted | Self::Working)
    }

    /// Whether the turn ended.
    fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Failed)
    }
}

/// How the last turn of a task of an earlier process ended.
#[derive(Debug, Clone)]
pub(super) struct EndedTurn {
    pub(super) state: TaskState,
    /// The time, if it is known.
    pub(super) time: Option<String>,
    /// Whether another process has the session open.
    pub(super) is_in_use: bool,
}

impl Default for EndedTurn {
    fn default() -> Self {
        Self { state: TaskState::Completed, time: None, is_in_use: false }
    }
}

/// A piece of a message or an artifact.
#[derive(Debug, Clone)]
pub(super) enum TaskPart {
    Text(String),
    Data(Value),
    File { name: String, text: String },
}

/// A message from the user or the agent.
#[derive(Debug, Clone)]
pub(super) struct TaskMessage {
    pub(super) id: String,
    pub(super) is_agent: bool,
    pub(super) parts: Vec<TaskPart>,
}

/// A changed file.
#[derive(Debug, Clone)]
pub(super) struct Artifact {
    pub(super) id: String,
    pub(super) part: TaskPart,
}

/// What happened to a task.
#[derive(Debug, Clone)]
pub(super) enum TaskEvent {
    Status { state: TaskState, message: Option<TaskMessage>, time: String },
    Artifact(Artifact),
}

/// A task as it is now.
#[derive(Debug, Clone)]
pub(super) struct TaskSnapshot {
    pub(super) id: String,
    pub(super) state: TaskState,
    /// The message of the state.
    pub(super) message: Option<TaskMessage>,
    pub(super) time: String,
    pub(super) history: Vec<TaskMessage>,
    pub(super) artifacts: Vec<Artifact>,
}

/// An approval request that waits for an answer.
pub(super) struct PendingApproval {
    /// The id of the ACP request.
    pub(super) id: Value,
    /// The parameters.
    pub(super) params: Value,
}

impl PendingApproval {
    /// Returns the id of the tool call that needs it.
    fn tool_call(&self) -> Option<&str> {
        self.params.get("toolCall")?.get("toolCallId")?.as_str()
    }
}

struct Inner {
    snapshot: TaskSnapshot,
    /// Whether a message of this protocol is being answered.
    runs_own_turn: bool,
    /// Whether another client of the session, such as an editor, began a turn.
    runs_other_turn: bool,
    /// What the agent has said in this turn.
    text: String,
    /// Pending approvals. Clients see the first one.
    pending: VecDeque<PendingApproval>,
    messages: u64,
    changed: Instant,
}

/// A task.
pub(super) struct Task {
    inner: Mutex<Inner>,
    events: broadcast::Sender<TaskEvent>,
    /// Whether its session was loaded. If loading failed, the connection is closed.
    loaded: watch::Receiver<bool>,
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

impl Task {
    pub(super) fn new(id: &str, state: TaskState) -> Self {
        Self::with_state(id, state, watch::channel(true).1)
    }

    /// Creates a task whose session is being loaded, and a signal for when that is done.
    pub(super) fn new_loading(id: &str) -> (Self, watch::Sender<bool>) {
        let (sender, loaded) = watch::channel(false);
        (Self::with_state(id, TaskState::Completed, loaded), sender)
    }

    /// Waits until the session is loaded. Returns `false` if it cannot be loaded.
    pub(super) async fn is_loaded(&self) -> bool {
        self.loaded.clone().wait_for(|loaded| *loaded).await.is_ok()
    }

    fn with_state(id: &str, state: TaskState, loaded: watch::Receiver<bool>) -> Self {
        let snapshot = TaskSnapshot {
            id: id.to_owned(),
            state,
            message: None,
            time: now(),
            history: Vec::new(),
            artifacts: Vec::new(),
        };
        let inner = Inner {
            snapshot,
            runs_own_turn: false,
            runs_other_turn: false,
            text: String::new(),
            pending: VecDeque::new(),
            messages: 0,
            changed: Instant::now(),
        };
        Self { inner: Mutex::new(inner), events: broadcast::Sender::new(EVENTS), loaded }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot(&self) -> TaskSnapshot {
        self.lock().snapshot.clone()
    }

    pub(super) fn state(&self) -> TaskState {
        self.lock().snapshot.state
    }

    /// Returns the task as it is now, and all later events.
    pub(super) fn follow(&self) -> (TaskSnapshot, broadcast::Receiver<TaskEvent>) {
        let inner = self.lock();
        (inner.snapshot.clone(), self.events.subscribe())
    }

    /// Begins a turn with a message from the user. Returns `false` if one is running.
    pub(super) fn begin(&self, id: &str, text: &str) -> bool {
        let mut inner = self.lock();
        if matches!(inner.snapshot.state, TaskState::Working | TaskState::InputRequired) {
            return false;
        }
        inner.text.clear();
        inner.runs_own_turn = true;
        let message = TaskMessage {
            id: id.to_owned(),
            is_agent: false,
            parts: vec![TaskPart::Text(text.to_owned())],
        };
        inner.snapshot.history.push(message);
        let excess = inner.snapshot.history.len().saturating_sub(MAX_HISTORY);
        inner.snapshot.history.drain(..excess);
        self.enter(&mut inner, TaskState::Working, None);
        true
    }

    /// Records that another client of the session began a turn.
    pub(super) fn record_other_turn_start(&self) {
        let mut inner = self.lock();
        inner.runs_other_turn = true;
        if !inner.runs_own_turn {
            inner.text.clear();
            self.enter(&mut inner, TaskState::Working, None);
        }
    }

    /// Records that the turn of another client ended.
    pub(super) fn record_other_turn_end(&self, state: TaskState, problem: Option<String>) {
        let mut inner = self.lock();
        inner.runs_other_turn = false;
        self.end_turn(&mut inner, state, problem);
    }

    /// Sets the state of a loaded session, unless a turn is running. A failed one says so.
    pub(super) fn restore(&self, ended: &EndedTurn) {
        let mut inner = self.lock();
        if inner.runs_other_turn || !inner.pending.is_empty() {
            return;
        }
        let state = ended.state;
        inner.snapshot.state = state;
        if let Some(time) = &ended.time {
            inner.snapshot.time.clone_from(time);
        }
        if state == TaskState::Failed {
            let text = "the last turn failed, or its process ended".to_owned();
            inner.snapshot.message =
                Some(Self::agent_message(&mut inner, vec![TaskPart::Text(text)]));
        }
    }

    /// Adds a message of a loaded session.
    pub(super) fn remember(&self, is_agent: bool, text: &str) {
        let mut inner = self.lock();
        let id = Self::next_id(&mut inner);
        let joined = match inner.snapshot.history.last_mut() {
            Some(last) if last.is_agent == is_agent => match last.parts.last_mut() {
                Some(TaskPart::Text(known)) => {
                    known.push_str(text);
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if !joined && inner.snapshot.history.len() < MAX_HISTORY {
            let parts = vec![TaskPart::Text(text.to_owned())];
            inner.snapshot.history.push(TaskMessage { id, is_agent, parts });
        }
    }

    /// Appends text to the answer.
    pub(super) fn append_text(&self, text: &str) {
        let mut inner = self.lock();
        inner.text.push_str(text);
        let message = Self::agent_message(&mut inner, vec![TaskPart::Text(text.to_owned())]);
        self.report(TaskState::Working, Some(message));
    }

    /// Shows an update of a tool call.
    pub(super) fn add_update(&self, update: &Value) {
        let mut inner = self.lock();
        let message = Self::agent_message(&mut inner, vec![TaskPart::Data(update.clone())]);
        self.report(TaskState::Working, Some(message));
    }

    /// Reports a changed file.
    pub(super) fn report_changed_file(&self, path: &str, text: &str) {
        let mut inner = self.lock();
        let part = TaskPart::File { name: path.to_owned(), text: text.to_owned() };
        let artifact = Artifact { id: path.to_owned(), part };
        let artifacts = &mut inner.snapshot.artifacts;
        artifacts.retain(|known| known.id != artifact.id);
        if artifacts.len() < MAX_ARTIFACTS {
            artifacts.push(artifact.clone());
        }
        // Without followers it is not needed.
        let _ = self.events.send(TaskEvent::Artifact(artifact));
    }

    /// Returns when a task without a running turn was last used; `None` while a turn runs.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let inner = self.lock();
        inner.snapshot.state.is_terminal().then_some(inner.changed)
    }

    /// Adds an approval request; requests are shown one after the other.
    pub(super) fn ask(&self, pending: PendingApproval) {
        let mut inner = self.lock();
        inner.pending.push_back(pending);
        if inner.pending.len() == 1 {
            self.require_input(&mut inner);
        }
    }

    /// Takes the request of this tool call, or the first one when no call is named.
    pub(super) fn take_pending(&self, tool_call: Option<&str>) -> Option<PendingApproval> {
        let mut inner = self.lock();
        let named = tool_call.and_then(|id| {
            inner.pending.iter().position(|pending| pending.tool_call() == Some(id))
        });
        let at = match tool_call {
            Some(_) => named?,
            None => 0,
        };
        let pending = inner.pending.remove(at)?;
        if inner.pending.is_empty() {
            self.enter(&mut inner, TaskState::Working, None);
        } else if at == 0 {
            self.require_input(&mut inner);
        }
        Some(pending)
    }

    /// Takes all requests that wait.
    pub(super) fn take_all_pending(&self) -> VecDeque<PendingApproval> {
        let mut inner = self.lock();
        let all = std::mem::take(&mut inner.pending);
        if !all.is_empty() {
            self.enter(&mut inner, TaskState::Working, None);
        }
        all
    }

    /// Shows the first request that waits.
    fn require_input(&self, inner: &mut Inner) {
        let Some(first) = inner.pending.front() else { return };
        let params = first.params.clone();
        let title = params.get("toolCall").and_then(|call| call.get("title"));
        let title = title.and_then(Value::as_str).unwrap_or("Approval required").to_owned();
        let parts = vec![TaskPart::Text(title), TaskPart::Data(params)];
        let message = Self::agent_message(inner, parts);
        self.enter(inner, TaskState::InputRequired, Some(message));
    }

    /// Ends the turn; `problem` replaces the answer.
    pub(super) fn end(&self, state: TaskState, problem: Option<String>) {
        let mut inner = self.lock();
        inner.runs_own_turn = false;
        self.end_turn(&mut inner, state, problem);
    }

    /// Ends a turn. If the next one has replaced it already, the task continues to work.
    fn end_turn(&self, inner: &mut Inner, mut state: TaskState, problem: Option<String>) {
        inner.pending.clear();
        let answer = std::mem::take(&mut inner.text);
        let text = problem.unwrap_or(answer);
        let mut message = (!text.is_empty()).then(|| {
            let message = Self::agent_message(inner, vec![TaskPart::Text(text)]);
            inner.snapshot.history.push(message.clone());
            message
        });
        if inner.runs_own_turn || inner.runs_other_turn {
            (state, message) = (TaskState::Working, None);
        }
        self.enter(inner, state, message);
    }

    fn enter(&self, inner: &mut Inner, state: TaskState, message: Option<TaskMessage>) {
        inner.snapshot.state = state;
        inner.snapshot.message.clone_from(&message);
        inner.snapshot.time = now();
        inner.changed = Instant::now();
        self.report(state, message);
    }

    fn report(&self, state: TaskState, message: Option<TaskMessage>) {
        // Without followers it is not needed.
        let _ = self.events.send(TaskEvent::Status { state, message, time: now() });
    }

    fn agent_message(inner: &mut Inner, parts: Vec<TaskPart>) -> TaskMessage {
        TaskMessage { id: Self::next_id(inner), is_agent: true, parts }
    }

    fn next_id(inner: &mut Inner) -> String {
        inner.messages += 1;
        format!("{}-{}", inner.snapshot.id, inner.messages)
    }
}
