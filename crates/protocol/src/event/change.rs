//! Changes to the conversation and to files: undo, rewind, steering.

use serde::{Deserialize, Serialize};

use crate::ids::SteerId;

/// The result of an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UndoResult {
    /// The turn whose changes were reverted ([`crate::store::RewindTarget::turn`]).
    #[serde(skip)]
    pub turn: u64,
    /// The number of its prompt, starting at 1; `None` if the prompt was removed or is unknown.
    #[serde(rename = "turn", default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Files that were reverted.
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<std::path::PathBuf>")]
    pub restored: Vec<std::path::PathBuf>,
    /// Files that were left unchanged, each with the reason.
    #[serde(rename = "kept", with = "crate::path_text::remarks")]
    #[schemars(with = "Vec<(std::path::PathBuf, String)>")]
    pub skipped: Vec<(std::path::PathBuf, String)>,
    /// Whether forcing the undo would revert some of these files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force_helps: bool,
    /// Why nothing was undone, if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl UndoResult {
    /// Describes a restore that was done, before the lists of files.
    pub fn restore_summary(&self) -> &'static str {
        match self.restored.is_empty() && !self.skipped.is_empty() {
            true => "No file was reverted; the change is tried again",
            false => "Reverted to before the change; it requires approval again",
        }
    }
}

/// The result of a [`crate::op::SteeringMessage`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SteeringResult {
    /// The id of the message.
    pub id: SteerId,
    /// The text of the message; empty if no message with this id was waiting.
    pub text: String,
    /// What happened to the message.
    pub outcome: SteeringOutcome,
}

/// What happened to a steering message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SteeringOutcome {
    /// The model receives it with its next request. Its item follows immediately.
    Delivered,
    /// No turn could take it, so it became a prompt, whose turn starts immediately after.
    Prompted,
    /// It was withdrawn.
    Withdrawn,
    /// No message with this id was waiting: the request to withdraw it came too late.
    #[serde(rename = "gone")]
    NotFound,
}

/// The result of a rewind to an earlier prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindResult {
    /// The number of the prompt that the session is now before, from 1.
    pub number: u64,
    /// The text of that prompt, for the prompt editor.
    pub prompt: String,
    /// Whether the conversation was rewound.
    pub chat: bool,
    /// The result for the files, if they were to be reverted.
    pub files: Option<UndoResult>,
}

/// A prompt that the session can be rewound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptEntry {
    /// The turn, which identifies the prompt in a rewind request
    /// ([`crate::store::RewindTarget::turn`]).
    pub turn: u64,
    /// The number for display: the position among the current prompts, from 1.
    pub number: u64,
    /// When it was sent, RFC 3339; empty if unknown.
    pub time: String,
    /// The text as typed.
    pub text: String,
    /// Lines added by edits of its turn.
    pub lines_added: u64,
    /// Lines removed by edits of its turn.
    pub lines_removed: u64,
    /// Files that its turn changed, including by commands, and that can be reverted.
    #[serde(with = "crate::path_text::list")]
    pub files: Vec<std::path::PathBuf>,
}
