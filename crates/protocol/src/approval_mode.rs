//! Approval modes: what the agent may do without approval.

use serde::{Deserialize, Serialize};

/// What the agent may do without approval, from strict to permissive.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// Only reads and plans; changes nothing.
    Plan,
    /// Requires approval for edits and commands.
    #[default]
    Default,
    /// Edits files of the workspace without approval.
    AutoEdit,
    /// Does not require approval.
    Yolo,
}

impl ApprovalMode {
    /// Returns the name used in flags, settings, and rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AutoEdit => "auto_edit",
            Self::Yolo => "yolo",
        }
    }
    /// Parses a name as used in flags, settings, and rules (including `autoEdit`).
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "plan" => Some(Self::Plan),
            "default" => Some(Self::Default),
            "auto_edit" | "autoEdit" => Some(Self::AutoEdit),
            "yolo" => Some(Self::Yolo),
            _ => None,
        }
    }
}
