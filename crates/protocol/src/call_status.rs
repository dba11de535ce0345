//! How tool calls are decided and how they end.

use serde::{Deserialize, Serialize};

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The call succeeded.
    Success,
    /// The call failed or was denied.
    Error,
    /// The call was interrupted or rejected by the user.
    Cancelled,
}

impl ToolStatus {
    /// Returns the status that a journal records as `text`.
    pub fn from_record(text: &str) -> Self {
        match text {
            "success" => Self::Success,
            "cancelled" => Self::Cancelled,
            _ => Self::Error,
        }
    }

    /// Returns the status as users see it: a command that ran and reported a failure failed, although
    /// the call itself succeeded.
    #[must_use]
    pub fn for_exit_code(self, exit_code: Option<i64>) -> Self {
        match (self, exit_code) {
            (Self::Success, Some(code)) if code != 0 => Self::Error,
            _ => self,
        }
    }
}

/// How a tool call was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallDecision {
    /// A rule or the user approved the call.
    Accept,
    /// The user or a rule rejected the call.
    Reject,
    /// The user approved this call and similar ones.
    AutoAccept,
}
