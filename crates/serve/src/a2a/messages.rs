//! Messages, tasks, and events, in the formats of both versions.

use serde_json::{Value, json};

use super::agent_settings::AgentSettings;
use super::errors::A2aError;
use super::task::{Artifact, TaskEvent, TaskMessage, TaskPart, TaskSnapshot, TaskState};
use super::version::A2aVersion;

/// A message from a client.
#[derive(Debug, Default)]
pub(super) struct ClientMessage {
    pub(super) id: String,
    /// The task or context that it belongs to.
    pub(super) task: Option<String>,
    pub(super) text: String,
    /// The answer to an approval request.
    pub(super) decision: Option<Value>,
    pub(super) is_blocking: bool,
    /// Settings for a new task.
    pub(super) settings: AgentSettings,
}

/// Reads the parameters of `SendMessage`.
pub(super) fn client_message(params: &Value) -> Result<ClientMessage, A2aError> {
    let invalid = |text: &str| A2aError::InvalidParams(text.to_owned());
    let message = params.get("message").and_then(Value::as_object);
    let message = message.ok_or_else(|| invalid("`message` is missing"))?;
    let text = |name: &str| message.get(name).and_then(Value::as_str).filter(|it| !it.is_empty());
    for name in ["messageId", "taskId", "contextId", "role"] {
        if message.get(name).is_some_and(|value| !value.is_string() && !value.is_null()) {
            return Err(invalid(&format!("`message.{name}` must be a string")));
        }
    }
    if text("role").is_some_and(|role| role.to_ascii_lowercase().ends_with("agent")) {
        return Err(invalid("`message.role` must be `ROLE_USER`"));
    }
    // A task is its own context.
    if let (Some(task), Some(context)) = (text("taskId"), text("contextId"))
        && task != context
    {
        return Err(invalid("`contextId` does not match the task"));
    }
    let parts = message.get("parts").and_then(Value::as_array);
    let parts = parts.ok_or_else(|| invalid("`message.parts` is missing"))?;
    let settings = message.get("metadata").and_then(|metadata| metadata.get("coderAgent"));
    let mut read = ClientMessage {
        id: text("messageId").unwrap_or_default().to_owned(),
        task: text("taskId").or_else(|| text("contextId")).map(str::to_owned),
        is_blocking: true,
        settings: AgentSettings::read(settings)?,
        ..ClientMessage::default()
    };
    for part in parts {
        let kinds = ["text", "data", "raw", "url", "file"];
        if kinds.iter().filter(|kind| part.get(**kind).is_some()).count() > 1 {
            return Err(invalid(
                "a part must have exactly one of `text`, `data`, `raw`, and `url`",
            ));
        }
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            if !read.text.is_empty() {
                read.text.push('\n');
            }
            read.text.push_str(text);
        } else if let Some(data) = part.get("data") {
            if data.get("outcome").is_some() {
                read.decision = Some(data.clone());
            } else if data.get("kind").is_none() {
                // This is data for the model, unlike the settings that older clients send.
                read.text.push_str(&format!("\n```json\n{data}\n```"));
            }
        } else {
            return Err(A2aError::ContentTypeNotSupported);
        }
    }
    if read.text.trim().is_empty() && read.decision.is_none() {
        return Err(invalid("the message has no text"));
    }
    let configuration = params.get("configuration");
    let flag = |name: &str| configuration.and_then(|it| it.get(name)?.as_bool());
    if flag("returnImmediately") == Some(true) || flag("blocking") == Some(false) {
        read.is_blocking = false;
    }
    let has_push = |name: &str| configuration.is_some_and(|it| it.get(name).is_some());
    if has_push("taskPushNotificationConfig") || has_push("pushNotificationConfig") {
        return Err(A2aError::PushNotificationNotSupported);
    }
    Ok(read)
}

impl TaskState {
    fn word(self, version: A2aVersion) -> &'static str {
        let v10 = version == A2aVersion::V10;
        match self {
            Self::Submitted => {
                if v10 {
                    "TASK_STATE_SUBMITTED"
                } else {
                    "submitted"
                }
            }
            Self::Working => {
                if v10 {
                    "TASK_STATE_WORKING"
                } else {
                    "working"
                }
            }
            Self::InputRequired => {
                if v10 {
                    "TASK_STATE_INPUT_REQUIRED"
                } else {
                    "input-required"
                }
            }
            Self::Completed => {
                if v10 {
                    "TASK_STATE_COMPLETED"
                } else {
                    "completed"
                }
            }
            Self::Cancelled => {
                if v10 {
                    "TASK_STATE_CANCELED"
                } else {
                    "canceled"
                }
            }
            Self::Failed => {
                if v10 {
                    "TASK_STATE_FAILED"
                } else {
                    "failed"
                }
            }
        }
    }

    /// Returns the state that a client filters by.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let all = [
            Self::Submitted,
            Self::Working,
            Self::InputRequired,
            Self::Completed,
            Self::Cancelled,
            Self::Failed,
        ];
        all.into_iter().find(|state| {
            [A2aVersion::V03, A2aVersion::V10].iter().any(|it| state.word(*it) == word)
        })
    }
}

fn part(part: &TaskPart, version: A2aVersion) -> Value {
    match (part, version) {
        (TaskPart::Text(text), A2aVersion::V10) => json!({"text": text}),
        (TaskPart::Text(text), A2aVersion::V03) => json!({"kind": "text", "text": text}),
        (TaskPart::Data(data), A2aVersion::V10) => json!({"data": data}),
        (TaskPart::Data(data), A2aVersion::V03) => {
            json!({"kind": "data", "data": with_confirmation(data)})
        }
        (TaskPart::File { name, text }, A2aVersion::V10) => {
            json!({"text": text, "filename": name, "mediaType": "text/plain"})
        }
        (TaskPart::File { name, text }, A2aVersion::V03) => {
            json!({"kind": "text", "text": text, "metadata": {"filename": name}})
        }
    }
}

/// Adds the fields that clients of Gemini CLI's server read from an approval request.
fn with_confirmation(request: &Value) -> Value {
    let mut request = request.clone();
    let call = request.get("toolCall").cloned().unwrap_or_default();
    let (Some(fields), Some(id)) = (request.as_object_mut(), call.get("toolCallId")) else {
        return request;
    };
    let kind = match call.get("kind").and_then(Value::as_str) {
        Some("edit" | "delete" | "move") => "edit",
        Some("execute") => "exec",
        _ => "info",
    };
    let named = json!({"callId": id, "name": call.get("title"), "args": call.get("rawInput")});
    fields.insert("request".to_owned(), named);
    fields.insert("status".to_owned(), json!("awaiting_approval"));
    let details = json!({"type": kind, "title": call.get("title"), "content": call.get("content")});
    fields.insert("confirmationDetails".to_owned(), details);
    request
}

fn message(task: &str, message: &TaskMessage, version: A2aVersion) -> Value {
    let parts: Vec<Value> = message.parts.iter().map(|it| part(it, version)).collect();
    let role = match (message.is_agent, version) {
        (true, A2aVersion::V10) => "ROLE_AGENT",
        (false, A2aVersion::V10) => "ROLE_USER",
        (true, A2aVersion::V03) => "agent",
        (false, A2aVersion::V03) => "user",
    };
    let mut value = json!({
        "messageId": message.id, "taskId": task, "contextId": task, "role": role, "parts": parts,
    });
    if version == A2aVersion::V03 {
        value["kind"] = json!("message");
    }
    value
}

fn artifact(artifact: &Artifact, version: A2aVersion) -> Value {
    json!({
        "artifactId": artifact.id, "name": artifact.id,
        "parts": [part(&artifact.part, version)],
    })
}

fn status(
    task: &str,
    state: TaskState,
    output: Option<&TaskMessage>,
    time: &str,
    version: A2aVersion,
) -> Value {
    let mut status = json!({"state": state.word(version), "timestamp": time});
    if let Some(output) = output {
        status["message"] = message(task, output, version);
    }
    status
}

/// Returns a task as JSON; `history` is how many of its messages are included, newest last.
pub(super) fn task(task: &TaskSnapshot, history: Option<usize>, version: A2aVersion) -> Value {
    let skipped = task.history.len().saturating_sub(history.unwrap_or(usize::MAX));
    let messages = task.history.iter().skip(skipped).map(|it| message(&task.id, it, version));
    let mut value = json!({
        "id": task.id, "contextId": task.id,
        "status": status(&task.id, task.state, task.message.as_ref(), &task.time, version),
        "history": messages.collect::<Vec<_>>(),
        "artifacts": task.artifacts.iter().map(|it| artifact(it, version)).collect::<Vec<_>>(),
    });
    if version == A2aVersion::V03 {
        value["kind"] = json!("task");
    }
    value
}

/// Returns a task as JSON in an answer or in a stream: in 1.0 it is a member named `task`.
pub(super) fn task_result(snapshot: &TaskSnapshot, version: A2aVersion) -> Value {
    let task = task(snapshot, None, version);
    match version {
        A2aVersion::V10 => json!({"task": task}),
        A2aVersion::V03 => task,
    }
}

/// Returns an event of a stream.
pub(super) fn event(task: &str, event: &TaskEvent, version: A2aVersion) -> Value {
    match event {
        TaskEvent::Status { state, message, time } => {
            let status = status(task, *state, message.as_ref(), time, version);
            match version {
                A2aVersion::V10 => json!({
                    "statusUpdate": {"taskId": task, "contextId": task, "status": status},
                }),
                A2aVersion::V03 => json!({
                    "kind": "status-update", "taskId": task, "contextId": task, "status": status,
                    "final": state.is_over(),
                    "metadata": {"coderAgent": {"kind": update_kind(*state, message.as_ref())}},
                }),
            }
        }
        TaskEvent::Artifact(found) => {
            let artifact = artifact(found, version);
            match version {
                A2aVersion::V10 => json!({
                    "artifactUpdate": {"taskId": task, "contextId": task, "artifact": artifact},
                }),
                A2aVersion::V03 => json!({
                    "kind": "artifact-update", "taskId": task, "contextId": task,
                    "artifact": artifact,
                }),
            }
        }
    }
}

/// Returns what an update is about, as Gemini CLI's server names it.
fn update_kind(state: TaskState, output: Option<&TaskMessage>) -> &'static str {
    match (state, output.and_then(|output| output.parts.first())) {
        (TaskState::InputRequired, _) => "tool-call-confirmation",
        (TaskState::Working, Some(TaskPart::Data(_))) => "tool-call-update",
        (TaskState::Working, Some(_)) => "text-content",
        _ => "state-change",
    }
}
