//! The lines of stream-json without `type` and `timestamp`.

use parallax_protocol::agent::AgentProgress;
use parallax_protocol::event::Question;
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::SuggestedRule;
use parallax_protocol::tool::{Advance, Preview, ToolKind};
use parallax_sessions::stats::{StreamStats, Tokens};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::failure::ErrorObject;

/// The first line.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Init<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) model: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) scripted: bool,
}

/// A prompt, or a piece of the answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MessageLine<'a> {
    pub(crate) role: &'static str,
    pub(crate) content: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) delta: bool,
}

/// A tool call, before it runs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolUse<'a> {
    pub(crate) tool_name: &'a str,
    pub(crate) tool_id: &'a str,
    pub(crate) parameters: &'a parallax_protocol::Object,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
}

/// The result of a tool call.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolResultLine {
    pub(crate) tool_id: String,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ToolFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
}

/// Why a tool call failed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolFailure {
    pub(crate) r#type: &'static str,
    pub(crate) message: String,
}

/// A notice: retries, loops, limits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NoticeLine<'a> {
    pub(crate) severity: &'static str,
    pub(crate) message: &'a str,
}

/// The end of a turn.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ResultLine<'a> {
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a ErrorObject>,
    pub(crate) stats: StreamStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) structured: Option<&'a Value>,
}

/// A thought of the model (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct Thought<'a> {
    pub(crate) subject: &'a str,
    pub(crate) description: &'a str,
}

/// Live output of a tool call (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProgressLine<'a> {
    pub(crate) tool_id: &'a str,
    pub(crate) output: &'a str,
    #[serde(flatten)]
    pub(crate) advance: Option<&'a Advance>,
}

/// A request to a model, with its tokens (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct UsageLine<'a> {
    pub(crate) model: &'a str,
    pub(crate) role: &'a str,
    pub(crate) tokens: Tokens,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
    pub(crate) latency_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
}

/// The state of the session, at its start and after a change (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionLine<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) model: &'a str,
    pub(crate) mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<bool>,
}

/// A retry (version 2). The last `dropChars` characters of the answer are invalid.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetryLine<'a> {
    pub(crate) drop_chars: usize,
    #[serde(flatten)]
    pub(crate) wait: Option<&'a parallax_protocol::model::Retry>,
}

/// An approval request, or a question of the model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ApprovalRequestLine<'a> {
    pub(crate) id: &'a str,
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<&'a str>,
    pub(crate) tool_id: &'a str,
    pub(crate) tool_name: &'a str,
    pub(crate) tool_kind: ToolKind,
    pub(crate) title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preview: Option<&'a Preview>,
    pub(crate) reason: &'a str,
    pub(crate) rule: &'a str,
    pub(crate) outcomes: &'a [ApprovalResponse],
    pub(crate) question: Question,
    #[serde(skip_serializing_if = "<[SuggestedRule]>::is_empty")]
    pub(crate) rules: &'a [SuggestedRule],
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub(crate) permissions: &'a Permissions,
    #[serde(rename = "wider")]
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub(crate) broader_permissions: &'a Permissions,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) not_undoable: &'a [String],
}

/// The progress of a subagent.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentLine<'a> {
    pub(crate) tool_id: &'a str,
    #[serde(flatten)]
    pub(crate) progress: &'a AgentProgress,
}

/// An approval request or question that was answered or is obsolete.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ApprovalClosedLine<'a> {
    pub(crate) id: &'a str,
    pub(crate) outcome: Option<ApprovalResponse>,
}
