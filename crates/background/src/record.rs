//! What is known of a background session, from its stream-json lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Characters of the last line.
const LAST_LINE: usize = 160;

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// A turn runs.
    #[serde(rename = "working")]
    Working,
    /// It waits for an answer of the user.
    #[serde(rename = "awaiting approval")]
    AwaitingApproval,
    /// It waits for a prompt.
    #[serde(rename = "idle")]
    Idle,
    /// It has ended, and its last turn succeeded.
    #[serde(rename = "done")]
    Done,
    /// It has ended, and its last turn failed.
    #[serde(rename = "failed")]
    Failed,
    /// It was stopped.
    #[serde(rename = "stopped")]
    Stopped,
    /// Its process is gone without an end.
    #[serde(rename = "dead")]
    Dead,
}

impl SessionState {
    /// Its name.
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

    /// Whether its process should be there.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Working | Self::AwaitingApproval | Self::Idle)
    }
}

/// `state.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The session.
    pub id: String,
    /// Its working directory.
    pub project: String,
    /// What it does.
    pub state: SessionState,
    /// Its process.
    pub pid: u32,
    /// The model that answered last.
    pub model: Option<String>,
    /// Tokens so far.
    pub tokens: u64,
    /// US dollars so far.
    pub cost: f64,
    /// When it started.
    pub started: String,
    /// When it ended.
    pub ended: Option<String>,
    /// The newest line of the answer, or what the agent does; from the model, so not safe to
    /// print.
    pub last_line: String,
    /// Requests that wait for an answer, oldest first: `ask` lines of stream-json.
    pub asks: Vec<Value>,
}

impl SessionRecord {
    /// A session that starts.
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
            ended: None,
            last_line: String::new(),
            asks: Vec::new(),
        }
    }

    /// Counts a line of stream-json; whether the turn ended with it.
    pub(crate) fn take(&mut self, line: &Value) -> bool {
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
                self.asks.push(line.clone());
                let title = text("title").to_owned();
                self.show(&title);
            }
            "ask_closed" => {
                let id = text("id").to_owned();
                self.asks.retain(|ask| ask.get("id").and_then(Value::as_str) != Some(&id));
            }
            "result" => {
                self.asks.clear();
                if let Some(why) = line.pointer("/error/message").and_then(Value::as_str) {
                    self.show(why);
                }
                self.state = SessionState::Idle;
                return true;
            }
            _ => {}
        }
        if self.state.is_running() && self.state != SessionState::Idle {
            self.state = match self.asks.is_empty() {
                true => SessionState::Working,
                false => SessionState::AwaitingApproval,
            };
        }
        false
    }

    /// The process ends with this exit code.
    pub(crate) fn end(&mut self, code: u8) {
        self.state = match code {
            0 => SessionState::Done,
            129..=143 => SessionState::Stopped,
            _ => SessionState::Failed,
        };
        self.asks.clear();
        self.ended = Some(now());
    }

    fn show(&mut self, text: &str) {
        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            self.last_line = line.trim().chars().take(LAST_LINE).collect();
        }
    }
}

/// The time as in RFC 3339.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_change_the_state() {
        let mut record = SessionRecord::new("s", "/p");
        record.take(&json!({"type": "message", "role": "assistant", "content": "First\nSecond\n"}));
        assert_eq!((record.state, record.last_line.as_str()), (SessionState::Working, "Second"));
        record.take(&json!({"type": "ask", "id": "a", "title": "Run it"}));
        assert_eq!(record.state, SessionState::AwaitingApproval);
        record.take(&json!({"type": "ask_closed", "id": "a"}));
        assert_eq!(record.state, SessionState::Working);
        record
            .take(&json!({"type": "usage", "model": "m", "tokens": {"total": 5}, "cost_usd": 0.5}));
        assert!(record.take(&json!({"type": "result", "status": "success"})));
        assert_eq!((record.state, record.tokens, record.cost), (SessionState::Idle, 5, 0.5));
        record.end(143);
        assert_eq!(record.state, SessionState::Stopped);
    }
}
