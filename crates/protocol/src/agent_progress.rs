//! The progress of subagents.

use serde::{Deserialize, Serialize};

use crate::call_status::ToolStatus;

/// Why a subagent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AgentEnd {
    /// It submitted its result.
    Goal,
    /// It failed.
    Error,
    /// It reached its time limit.
    Timeout,
    /// It reached its limit of model requests.
    MaxTurns,
    /// It was interrupted.
    Aborted,
    /// It stopped without submitting the required structured result.
    ErrorNoCompleteTaskCall,
}

impl AgentEnd {
    /// Returns the serialized name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Goal => "GOAL",
            Self::Error => "ERROR",
            Self::Timeout => "TIMEOUT",
            Self::MaxTurns => "MAX_TURNS",
            Self::Aborted => "ABORTED",
            Self::ErrorNoCompleteTaskCall => "ERROR_NO_COMPLETE_TASK_CALL",
        }
    }
}

/// The progress of a subagent, and finally its result. Limited in size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentProgress {
    /// Its name.
    pub agent: String,
    /// Whether it resumes an interrupted run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Model requests it made.
    pub turns: u32,
    /// Finished tool calls.
    pub calls: u64,
    /// Tokens used.
    pub tokens: u64,
    /// How long it has been running, in milliseconds.
    pub duration_ms: u64,
    /// The subject of its current thought, in one line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thought: String,
    /// The newest tool calls, oldest first.
    pub steps: Vec<AgentStep>,
    /// Whether it waits for the user.
    #[serde(rename = "waiting", skip_serializing_if = "std::ops::Not::not")]
    pub is_waiting: bool,
    /// Why it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<AgentEnd>,
    /// The beginning of its result.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
}

/// A tool call of a subagent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStep {
    /// The tool name.
    pub name: String,
    /// What the call does, in one line.
    pub title: String,
    /// The status; `None` while the call runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// The error, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// When the model requested it, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// How long it ran, in milliseconds; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_reasons_serialize_to_their_names() {
        for end in [AgentEnd::Goal, AgentEnd::MaxTurns, AgentEnd::ErrorNoCompleteTaskCall] {
            assert_eq!(serde_json::to_value(end).expect("json"), end.as_str());
        }
    }
}
