//! How full the context window is, and compactions.

use serde::{Deserialize, Serialize};

/// The context usage of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextUsed {
    /// Tokens of the next request: the provider's last count plus an estimate of what was added
    /// since.
    pub tokens: u64,
    /// The context window, in tokens.
    pub window: u64,
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Compaction {
    /// What triggered it.
    pub cause: CompactionCause,
    /// How the history was shortened; `None` if it is unchanged.
    pub how: Option<CompactionMethod>,
    /// Estimated tokens of the next request before the compaction.
    pub before: u64,
    /// Estimated tokens of the next request after the compaction.
    pub after: u64,
    /// Why the history is not (much) shorter, or other information for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// The first words of the remark when a compaction found nothing to shorten. Programs wait for
/// these words on the screen.
pub const NOTHING_TO_COMPRESS: &str = "Nothing to compress.";

/// The notice about an answer that the model's output limit cut off.
pub const TRUNCATED: &str = "The response was truncated at the model's output limit (`MAX_TOKENS`)";

/// What triggered a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The user.
    Manual,
    /// A threshold was reached.
    Threshold,
    /// The next request would exceed the context window, or the service rejected it as too long.
    Overflow,
    /// The user undid a compaction.
    Undo,
}

/// How a history was shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CompactionHow")]
pub enum CompactionMethod {
    /// Old tool results were masked; no messages were removed.
    Results,
    /// The model summarized the older part.
    Snapshot,
    /// Parallax summarized the older part without the model, because the model request failed.
    Mechanical,
}
