//! The state of a background session, derived from its stream-json lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of characters of the last line.
const LAST_LINE: usize = 160;

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// A turn is running.
    #[serde(rename = "working")]
    Working,
    /// The session waits for a response from the user.
    #[serde(rename = "awaiting approval")]
    AwaitingApproval,
    /// The session waits for a prompt.
    #[serde(rename = "idle")]
    Idle,
    /// The session ended, and its last turn succeeded.
    #[serde(rename = "done")]
    Done,
    /// The session ended, and its last turn failed.
    #[serde(rename = "failed")]
    Failed,
    /// The session was stopped.
    #[serde(rename = "stopped")]
    Stopped,
    /// Its process ended unexpectedly.
    #[serde(rename = "dead")]
    Dead,
}

impl SessionState {
    /// Returns the name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::AwaitingApproval => "awaiting approval",
            Self::Idle => "idle",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Dead => "dead",
        }
    }

    /// Whether the process of the session should be running.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Working | Self::AwaitingApproval | Self::Idle)
    }
}

/// The contents of `state.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The session ID.
    pub id: String,
    /// The working directory.
    pub project: String,
    /// The state.
    pub state: SessionState,
    /// The process ID.
    pub pid: u32,
    /// The model that answered last.
    pub model: Option<String>,
    /// Tokens used so far.
    pub tokens: u64,
    /// Cost so far, in US dollars.
    pub cost: f64,
    /// When the session started.
    pub started: String,
    /// When the session ended.
    #[serde(rename = "ended")]
    pub ended_at: Option<String>,
    /// The newest line of the answer, or what the agent is doing. It comes from the model, so it
    /// must be sanitized before printing.
    pub last_line: String,
    /// Requests that wait for a response, oldest first: `ask` lines of stream-json.
    #[serde(rename = "asks")]
    pub pending_approvals: Vec<Value>,
}

impl SessionRecord {
    /// Creates the record of a new session.
    pub fn new(id: &str, project: &str) -> Self {
        Self {
            id: id.to_owned(),
            project: project.to_owned(),
            state: SessionState::Working,
            pid: std::process::id(),
            model: None,
            tokens: 0,
            cost: 0.0,
            started: now(),
            ended_at: None,
            last_line: String::new(),
            pending_approvals: Vec::new(),
        }
    }

    /// Processes a line of stream-json and returns whether it ended the turn.
    pub(crate) fn process_line(&mut self, line: &Value) -> bool {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "message" if text("role") == "user" => self.state = SessionState::Working,
            "message" => self.show(text("content")),
            "tool_use" => {
                let name = text("tool_name").to_owned();
                self.show(&name);
            }
            "usage" => {
                self.model = Some(text("model").to_owned()).filter(|model| !model.is_empty());
                let tokens = line.pointer("/tokens/total").and_then(Value::as_u64);
                self.tokens = self.tokens.saturating_add(tokens.unwrap_or_default());
                self.cost += line.get("cost_usd").and_then(Value::as_f64).unwrap_or_default();
            }
            "ask" => {
                self.pending_approvals.push(line.clone());
                let title = text("title").to_owned();
                self.show(&title);
            }
            "ask_closed" => {
                let id = text("id").to_owned();
                self.pending_approvals
                    .retain(|ask| ask.get("id").and_then(Value::as_str) != Some(&id));
            }
            "result" => {
                self.pending_approvals.clear();
                if let Some(reason) = line.pointer("/error/message").and_then(Value::as_str) {
                    self.show(reason);
                }
                self.state = SessionState::Idle;
                return true;
            }
            _ => {}
        }
        if self.state.is_running() && self.state != SessionState::Idle {
            self.state = match self.pending_approvals.is_empty() {
                true => SessionState::Working,
                false => SessionState::AwaitingApproval,
            };
        }
        false
    }

    /// Records that the process ends with this exit code.
    pub(crate) fn record_end(&mut self, code: u8) {
        self.state = match code {
            0 => SessionState::Done,
            129..=143 => SessionState::Stopped,
            _ => SessionState::Failed,
        };
        self.pending_approvals.clear();
        self.ended_at = Some(now());
    }

    fn show(&mut self, text: &str) {
        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            self.last_line = line.trim().chars().take(LAST_LINE).collect();
        }
    }
}

/// Returns the current time in RFC 3339 format.
fn now() -> String {
    format_time(jiff::Timestamp::now())
}

/// Returns a time in RFC 3339 format.
pub(crate) fn format_time(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stream_lines_update_the_state() {
        let mut record = SessionRecord::new("s", "/p");
        record.process_line(
            &json!({"type": "message", "role": "assistant", "content": "First\nSecond\n"}),
        );
        assert_eq!((record.state, record.last_line.as_str()), (SessionState::Working, "Second"));
        record.process_line(&json!({"type": "ask", "id": "a", "title": "Run it"}));
        assert_eq!(record.state, SessionState::AwaitingApproval);
        record.process_line(&json!({"type": "ask_closed", "id": "a"}));
        assert_eq!(record.state, SessionState::Working);
        record.process_line(
            &json!({"type": "usage", "model": "m", "tokens": {"total": 5}, "cost_usd": 0.5}),
        );
        assert!(record.process_line(&json!({"type": "result", "status": "success"})));
        assert_eq!((record.state, record.tokens, record.cost), (SessionState::Idle, 5, 0.5));
        record.record_end(143);
        assert_eq!(record.state, SessionState::Stopped);
    }
}
