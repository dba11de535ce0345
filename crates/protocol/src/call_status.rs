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
