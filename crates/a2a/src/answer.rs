//! Assembles the answer of an agent from the messages, states, and artifacts that it sends, in the
//! formats of both versions.

use std::fmt::Write as _;

use serde_json::Value;

/// Maximum number of bytes of text kept per task.
const MAX_TEXT: usize = 2 << 20;
/// Maximum number of artifacts kept per task.
const MAX_ARTIFACTS: usize = 200;

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteTaskState {
    Working,
    Completed,
    Failed,
    Rejected,
    Cancelled,
    InputRequired,
    AuthRequired,
}

impl RemoteTaskState {
    /// Reads `TASK_STATE_WORKING` (1.0) or `working` (0.3). Unknown states count as working.
    fn read(text: &str) -> Self {
        let word = text.to_ascii_lowercase().replace('_', "-");
        match word.trim_start_matches("task-state-") {
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "rejected" => Self::Rejected,
            "canceled" | "cancelled" => Self::Cancelled,
            "input-required" => Self::InputRequired,
            "auth-required" => Self::AuthRequired,
            _ => Self::Working,
        }
    }

    /// Whether nothing more comes before the next message.
    pub(crate) fn is_final(self) -> bool {
        self != Self::Working
    }

    /// Whether the next message belongs to the same task.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// A result of an agent.
#[derive(Debug)]
struct Artifact {
    id: String,
    name: String,
    text: String,
}

/// What an agent has answered so far.
#[derive(Debug, Default)]
pub(crate) struct RemoteAnswer {
    pub(crate) context: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) state: Option<RemoteTaskState>,
    /// A direct answer, or the message of the final state.
    message: String,
    /// The messages of a working task: some agents answer with nothing else.
    working: String,
    /// The id of the newest of these messages.
    working_id: String,
    artifacts: Vec<Artifact>,
    size: usize,
}

impl RemoteAnswer {
    /// Adds an event or a result. Returns a report for the user, if it is one.
    pub(crate) fn add(&mut self, item: &Value) -> Option<String> {
        let kind = item.get("kind").and_then(Value::as_str).unwrap_or_default();
        let member = |name: &str, of: &str| item.get(name).or((kind == of).then_some(item));
        if let Some(update) = member("statusUpdate", "status-update") {
            self.note_ids(update, "taskId");
            return self.status(update.get("status")?);
        }
        if let Some(update) = member("artifactUpdate", "artifact-update") {
            self.note_ids(update, "taskId");
            let appends = update.get("append").and_then(Value::as_bool) == Some(true);
            self.add_artifact(update.get("artifact")?, appends);
            return None;
        }
        if let Some(message) = member("message", "message").or(item.get("msg")) {
            self.note_ids(message, "taskId");
            self.message = self.limit_size(text_of(message));
            self.state.get_or_insert(RemoteTaskState::Completed);
            return None;
        }
        // `GetTask` answers with the task itself.
        let task = member("task", "task").or(item.get("status").map(|_| item))?;
        self.note_ids(task, "id");
        for artifact in task.get("artifacts").and_then(Value::as_array).into_iter().flatten() {
            self.add_artifact(artifact, false);
        }
        let state_text = task.get("status").and_then(|status| self.status(status));
        if self.message.is_empty() && self.state.is_some_and(RemoteTaskState::is_final) {
            let history = task.get("history").and_then(Value::as_array);
            let is_own = |message: &&Value| {
                message
                    .get("role")
                    .and_then(Value::as_str)
                    .is_some_and(|role| role.eq_ignore_ascii_case("agent") || role == "ROLE_AGENT")
            };
            if let Some(newest) = history.and_then(|list| list.iter().rev().find(is_own)) {
                self.message = self.limit_size(text_of(newest));
            }
        }
        state_text
    }

    fn note_ids(&mut self, item: &Value, task: &str) {
        let text = |key: &str| {
            let id = item.get(key).and_then(Value::as_str);
            id.filter(|id| !id.is_empty() && id.len() < 1_000).map(str::to_owned)
        };
        self.task = text(task).or(self.task.take());
        self.context = text("contextId").or(self.context.take());
    }

    fn status(&mut self, status: &Value) -> Option<String> {
        let state =
            RemoteTaskState::read(status.get("state").and_then(Value::as_str).unwrap_or_default());
        self.state = Some(state);
        // 0.3 over HTTP had another name.
        let message = status.get("message").or(status.get("update"))?;
        let text = self.limit_size(text_of(message));
        if text.is_empty() {
            return None;
        }
        if state.is_final() {
            self.message = text;
            return None;
        }
        let id = message.get("messageId").and_then(Value::as_str).unwrap_or_default();
        if !self.working.is_empty() && id != self.working_id {
            self.working.push('\n');
        }
        id.clone_into(&mut self.working_id);
        self.working.push_str(&text);
        Some(text)
    }

    fn add_artifact(&mut self, artifact: &Value, appends: bool) {
        let text = self.limit_size(text_of(artifact));
        let word = |key: &str| artifact.get(key).and_then(Value::as_str).unwrap_or_default();
        let (id, name) = (word("artifactId").to_owned(), word("name").to_owned());
        let is_full = self.artifacts.len() >= MAX_ARTIFACTS;
        match self.artifacts.iter_mut().find(|known| known.id == id) {
            Some(known) if appends => known.text.push_str(&text),
            Some(known) => *known = Artifact { id, name, text },
            None if is_full => {}
            None => self.artifacts.push(Artifact { id, name, text }),
        }
    }

    /// Returns the part of text that still fits the limit.
    fn limit_size(&mut self, mut text: String) -> String {
        let remaining = MAX_TEXT.saturating_sub(self.size);
        if text.len() > remaining {
            text.truncate(text.floor_char_boundary(remaining));
        }
        self.size += text.len();
        text
    }

    /// Returns the answer as text: what was said, then the artifacts.
    pub(crate) fn text(&self) -> String {
        let output = match (self.message.is_empty(), self.artifacts.is_empty()) {
            (true, true) => &self.working,
            _ => &self.message,
        };
        let mut text = output.trim().to_owned();
        for artifact in &self.artifacts {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            if !artifact.name.is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}:", artifact.name);
            }
            text.push_str(artifact.text.trim_end());
        }
        text
    }
}

/// Returns the parts of a message or artifact as text.
fn text_of(item: &Value) -> String {
    // 0.3 over HTTP calls the parts of a message `content`.
    let parts = item.get("parts").or(item.get("content")).and_then(Value::as_array);
    let mut text = String::new();
    for part in parts.into_iter().flatten() {
        let word = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let piece = if let Some(piece) = part.get("text").and_then(Value::as_str) {
            piece.to_owned()
        } else if let Some(data) = part.get("data") {
            format!("```json\n{}\n```", serde_json::to_string_pretty(data).unwrap_or_default())
        } else {
            let file = part.get("file").unwrap_or(part);
            let first = |keys: &[&str]| {
                keys.iter().map(|key| word(file, key)).find(|it| !it.is_empty()).unwrap_or_default()
            };
            let (name, media) = (first(&["filename", "name"]), first(&["mediaType", "mimeType"]));
            match first(&["url", "uri", "fileWithUri"]) {
                url if url.is_empty() => format!("[file {name} ({media}), not shown]"),
                url => format!("[file {name} ({media}): {url}]"),
            }
        };
        if !text.is_empty() && !piece.is_empty() {
            text.push('\n');
        }
        text.push_str(&piece);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(items: &[Value]) -> RemoteAnswer {
        let mut answer = RemoteAnswer::default();
        for item in items {
            answer.add(item);
        }
        answer
    }

    #[test]
    fn both_versions_give_the_same_answer() {
        let v10 = answer(&[
            json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}}),
            json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING",
                "message": {"messageId": "m", "parts": [{"text": "looking"}]}}}}),
            json!({"artifactUpdate": {"taskId": "t", "artifact":
                {"artifactId": "a", "name": "r.md", "parts": [{"text": "one "}]}}}),
            json!({"artifactUpdate": {"taskId": "t", "append": true, "artifact":
                {"artifactId": "a", "parts": [{"text": "two"}]}}}),
            json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED",
                "message": {"parts": [{"text": "done"}]}}}}),
        ]);
        let v03 = answer(&[
            json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}}),
            json!({"kind": "status-update", "taskId": "t", "status": {"state": "working",
                "message": {"messageId": "m", "parts": [{"kind": "text", "text": "looking"}]}}}),
            json!({"kind": "artifact-update", "taskId": "t", "artifact":
                {"artifactId": "a", "name": "r.md", "parts": [{"kind": "text", "text": "one "}]}}),
            json!({"kind": "artifact-update", "taskId": "t", "append": true, "artifact":
                {"artifactId": "a", "parts": [{"kind": "text", "text": "two"}]}}),
            json!({"kind": "status-update", "taskId": "t", "final": true, "status":
                {"state": "completed", "message": {"parts": [{"kind": "text", "text": "done"}]}}}),
        ]);
        for answer in [v10, v03] {
            assert_eq!(answer.text(), "done\n\nr.md:\none two");
            assert_eq!(answer.state, Some(RemoteTaskState::Completed));
            assert_eq!((answer.task.as_deref(), answer.context.as_deref()), (Some("t"), Some("c")));
        }
    }

    #[test]
    fn direct_message_is_the_answer() {
        for message in [
            json!({"message": {"contextId": "c", "parts": [{"text": "hi"}]}}),
            json!({"kind": "message", "contextId": "c", "parts": [{"kind": "text", "text": "hi"}]}),
        ] {
            let answer = answer(&[message]);
            assert_eq!(
                (answer.text().as_str(), answer.state),
                ("hi", Some(RemoteTaskState::Completed))
            );
        }
    }

    #[test]
    fn answer_text_falls_back_to_chunks_of_a_working_task() {
        let chunk = |id: &str, text: &str| {
            json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING",
                "message": {"messageId": id, "parts": [{"text": text}]}}}})
        };
        let end = json!({"statusUpdate": {"status": {"state": "TASK_STATE_COMPLETED"}}});
        let answer = answer(&[chunk("1", "Hel"), chunk("1", "lo"), chunk("2", "you"), end]);
        assert_eq!(answer.text(), "Hello\nyou");
    }

    #[test]
    fn finished_task_answers_with_its_newest_message() {
        let task = json!({"id": "t", "status": {"state": "completed"}, "history": [
            {"role": "user", "parts": [{"text": "do"}]},
            {"role": "agent", "parts": [{"text": "old"}]},
            {"role": "agent", "parts": [{"text": "new"}, {"data": {"n": 1}},
                {"file": {"name": "a.pdf", "mimeType": "application/pdf", "uri": "https://x/a"}}]},
        ]});
        let text = answer(&[task]).text();
        assert!(text.starts_with("new\n```json\n{\n  \"n\": 1\n}\n```"), "{text}");
        assert!(text.ends_with("[file a.pdf (application/pdf): https://x/a]"), "{text}");
    }

    #[test]
    fn oversized_answer_is_truncated_and_unknown_items_are_ignored() {
        let long = json!({"message": {"parts": [{"text": "é".repeat(MAX_TEXT)}]}});
        assert!(answer(&[long]).text().len() <= MAX_TEXT);
        let odd = [
            json!(null),
            json!(5),
            json!({"kind": "status-update"}),
            json!({"task": 1}),
            json!({"artifactUpdate": {"artifact": {"parts": "x"}}}),
        ];
        assert_eq!(answer(&odd).text(), "");
    }
}
