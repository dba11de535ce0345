//! The mode and the model of a session in its journal.

use serde::{Deserialize, Serialize};

use crate::approval_mode::ApprovalMode;

/// The approval mode and the model of a session, after one of them changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectionRecord {
    /// When, RFC 3339.
    pub time: String,
    /// The approval mode.
    pub mode: ApprovalMode,
    /// The configured model: a name or an alias.
    pub model: String,
}
