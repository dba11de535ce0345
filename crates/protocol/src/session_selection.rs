//! The mode and the model of a session in its journal.

use serde::{Deserialize, Serialize};

use crate::approval_mode::ApprovalMode;

/// The approval mode and the model of a session: the model with its first prompt in a process, both
/// after one of them changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectionRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// The approval mode; `None` if the user did not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ApprovalMode>,
    /// The configured model: a name or an alias.
    pub model: String,
}
