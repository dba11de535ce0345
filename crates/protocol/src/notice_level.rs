//! The severity of notices.

use serde::{Deserialize, Serialize};

/// The severity of a notice.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Information.
    Info,
    /// Something did not work as requested, but the run continues.
    Warning,
    /// Something failed.
    Error,
}
