//! The lines of stream-json without `type` and `timestamp`.

use parallax_protocol::agent::AgentProgress;
use parallax_protocol::event::Question;
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::SuggestedRule;
use parallax_protocol::tool::{Preview, ProgressUpdate, ToolKind};
use parallax_sessions::stats::{StreamStats, Tokens};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::failure::ErrorObject;

/// The first line.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Init<'a> {
    /// The session.
    pub(crate) session_id: &'a str,
    /// The requested model.
    pub(crate) model: &'a str,
    /// Whether the answers come from a script or a recording.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) scripted: bool,
}

/// A prompt, or a piece of the answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MessageLine<'a> {
    /// `user` (the prompt as given) or `assistant`.
    pub(crate) role: &'static str,
    /// The text.
    pub(crate) content: &'a str,
    /// Whether it is a piece of the answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) delta: bool,
}

/// A tool call, before it runs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolUse<'a> {
    /// The tool.
    pub(crate) tool_name: &'a str,
    /// The id of the call.
    pub(crate) tool_id: &'a str,
    /// The arguments of the call.
    pub(crate) parameters: &'a parallax_protocol::Object,
    /// A number that increases with each call and result (version 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
}

/// The result of a tool call.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolResultLine {
    /// The id of the call.
    pub(crate) tool_id: String,
    /// `success` or `error`.
    pub(crate) status: &'static str,
    /// The text shown to the user, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ToolFailure>,
    /// A number that increases with each call and result (version 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
}

/// Why a tool call failed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolFailure {
    /// The class of the failure.
    pub(crate) r#type: &'static str,
    /// What happened.
    pub(crate) message: String,
}

/// A notice: retries, loops, limits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NoticeLine<'a> {
    /// `warning` or `error`.
    pub(crate) severity: &'static str,
    /// What happened, to which thing, and what to do.
    pub(crate) message: &'a str,
    /// The number of the input line, starting at 1, that could not be processed. If the line was
    /// a message, neither a turn nor a `result` follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
}

/// The end of a turn.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ResultLine<'a> {
    /// `success` or `error`.
    pub(crate) status: &'static str,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a ErrorObject>,
    /// Token counts and durations.
    pub(crate) stats: StreamStats,
    /// With `--output-schema`, the answer as JSON; for a command, its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) structured: Option<&'a Value>,
}

/// A thought of the model (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct Thought<'a> {
    /// The subject.
    pub(crate) subject: &'a str,
    /// The text.
    pub(crate) description: &'a str,
}

/// Live output of a tool call (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProgressLine<'a> {
    /// The id of the call.
    pub(crate) tool_id: &'a str,
    /// New output.
    pub(crate) output: &'a str,
    #[serde(flatten)]
    pub(crate) advance: Option<&'a ProgressUpdate>,
}

/// A request to a model, with its tokens (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct UsageLine<'a> {
    /// The model that answered.
    pub(crate) model: &'a str,
    /// What the request was for (`main`, `web_search`, …).
    pub(crate) role: &'a str,
    /// Token counts.
    pub(crate) tokens: Tokens,
    /// The cost in US dollars, if the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
    /// The duration in milliseconds.
    pub(crate) latency_ms: u64,
    /// The class of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
}

/// The state of the session, at its start and after a change (version 2).
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionLine<'a> {
    /// The session.
    pub(crate) session_id: &'a str,
    /// The selected model.
    pub(crate) model: &'a str,
    /// The approval mode.
    pub(crate) mode: &'static str,
    /// Whether the session was resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<bool>,
}

/// A retry (version 2). The last `dropChars` characters of the answer are invalid.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetryLine<'a> {
    /// The number of characters to remove from the end of the answer.
    pub(crate) drop_chars: usize,
    #[serde(flatten)]
    pub(crate) retry: Option<&'a parallax_protocol::model::Retry>,
}

/// An approval request, or a question from the model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ApprovalRequestLine<'a> {
    /// The id for `decide` and `answer`.
    pub(crate) id: &'a str,
    /// `approval`: answer with `decide`. `question`: a question from the model in `preview`; answer
    /// with `answer`.
    pub(crate) kind: &'static str,
    /// The subagent that made the call; `tool_id` is then the call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<&'a str>,
    /// The id of the call.
    pub(crate) tool_id: &'a str,
    /// The tool.
    pub(crate) tool_name: &'a str,
    /// The kind of the tool.
    pub(crate) tool_kind: ToolKind,
    /// What the call would do, in one line.
    pub(crate) title: &'a str,
    /// A diff, a command with its directory, URLs, or a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preview: Option<&'a Preview>,
    /// Why approval is needed.
    pub(crate) reason: &'a str,
    /// The rule that requires it.
    pub(crate) rule: &'a str,
    /// The possible answers.
    pub(crate) outcomes: &'a [ApprovalResponse],
    /// What is requested.
    pub(crate) question: Question,
    /// Suggested rules, the narrowest first.
    #[serde(skip_serializing_if = "<[SuggestedRule]>::is_empty")]
    pub(crate) rules: &'a [SuggestedRule],
    /// What would be granted beyond the sandbox.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub(crate) permissions: &'a Permissions,
    /// The permissions that `proceed_once` with `"wider": true` grants instead, for this call
    /// only: for the directories that contain the files.
    #[serde(rename = "wider")]
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub(crate) broader_permissions: &'a Permissions,
    /// Changes that the command may make and that cannot be undone.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) not_undoable: &'a [String],
}

/// The progress of a subagent.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentLine<'a> {
    /// The call that started it.
    pub(crate) tool_id: &'a str,
    #[serde(flatten)]
    pub(crate) progress: &'a AgentProgress,
}

/// An approval request or question that was answered or is obsolete.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ApprovalClosedLine<'a> {
    /// The id of the request.
    pub(crate) id: &'a str,
    /// The answer, unless the request is obsolete.
    pub(crate) outcome: Option<ApprovalResponse>,
}
