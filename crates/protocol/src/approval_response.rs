//! Responses to approval requests.

use serde::{Deserialize, Serialize};

/// A response to an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AskOutcome")]
pub enum ApprovalResponse {
    /// Run the call.
    ProceedOnce,
    /// Run the call, and allow similar calls for the rest of the session.
    ProceedAlways,
    /// Run the call, and save the rule on disk.
    ProceedAlwaysAndSave,
    /// Run the call, and always allow this tool of the MCP server.
    ProceedAlwaysTool,
    /// Run the call, and always allow all tools of the MCP server.
    ProceedAlwaysServer,
    /// Use the edited arguments, and request approval again.
    ModifyWithEditor,
    /// Retry.
    Retry,
    /// Do not run the call.
    Cancel,
}

impl ApprovalResponse {
    /// Whether the response applies to future calls, too.
    pub fn is_lasting(self) -> bool {
        match self {
            Self::ProceedAlways
            | Self::ProceedAlwaysAndSave
            | Self::ProceedAlwaysTool
            | Self::ProceedAlwaysServer => true,
            Self::ProceedOnce | Self::ModifyWithEditor | Self::Retry | Self::Cancel => false,
        }
    }
}
