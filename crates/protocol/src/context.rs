//! The contents of the context window: their sources, and what the user can drop or pin.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::SealedContent;

/// A named source at the beginning of the session's context, such as a memory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub name: String,
    /// Estimated tokens.
    pub tokens: u64,
    /// Whether it is part of the system prompt; otherwise it precedes the first prompt.
    pub in_system: bool,
}

/// A context file of a directory that a call uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundContextFile {
    /// The path.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

/// Context files of directories, sent to the model when a tool first accesses a file there.
pub trait FolderContext: Send + Sync {
    /// Returns the context files for the directories of these files that were not sent yet.
    /// Blocking.
    fn find(&self, touched: &[PathBuf]) -> Vec<FoundContextFile>;

    /// Returns the text of those of the files that were not sent since they were found, and marks
    /// them as sent.
    fn send(&self, found: Vec<FoundContextFile>) -> Option<String>;

    /// Marks context that is not in `contents`, the new history, as not sent.
    fn retain_sent(&self, contents: &[SealedContent]);

    /// Returns a new instance for another conversation in the same directories (a subagent).
    fn new_instance(&self) -> Arc<dyn FolderContext>;

    /// Marks context that is in `contents`, the resumed history, as sent.
    fn resume(&self, contents: &[SealedContent]);
}

/// The files that the user has open in an editor, as context for the model.
pub trait EditorContext: Send + Sync {
    /// Returns the message for the next prompt; `None` if nothing changed or nothing is known.
    /// Never waits for the editor.
    fn message(&self) -> Option<String>;

    /// Makes the next message complete, because the history may no longer contain earlier messages.
    fn reset(&self);
}

/// The position of a tool result in the history.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub struct ResultLocation {
    /// The index of its content, starting at 0, among all contents of the session, including
    /// removed ones.
    pub content: usize,
    /// The index of the part in that content.
    pub part: usize,
}

/// A component of the context window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContextBlock {
    /// The kind.
    pub kind: BlockKind,
    /// The file or tool, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Estimated tokens.
    pub tokens: u64,
    /// The number of pieces (files, prompts, results).
    pub count: u64,
}

/// Kinds of components of the context window, in the order of a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// The system prompt without memory.
    System,
    /// Tool declarations.
    Tools,
    /// A memory file.
    Memory,
    /// Date, directories, directory tree.
    Environment,
    /// Summaries that compactions made of older parts.
    Accounts,
    /// Messages from the user, including files in prompts.
    Prompts,
    /// Answers of the model, including tool calls.
    Answers,
    /// Results of one tool.
    Results,
}

impl BlockKind {
    /// Returns the display name; the name of the component may follow.
    pub fn display_name(self) -> &'static str {
        match self {
            Self::System => "system prompt",
            Self::Tools => "tools",
            Self::Memory => "memory",
            Self::Environment => "environment",
            Self::Accounts => "summaries of older parts",
            Self::Prompts => "prompts",
            Self::Answers => "responses and tool calls",
            Self::Results => "results of",
        }
    }
}

/// A tool result in the history, as listed for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContextItem {
    /// The position.
    pub place: ResultLocation,
    /// The tool name.
    pub tool: String,
    /// The arguments of the call, truncated.
    pub title: String,
    /// Estimated tokens at present.
    pub tokens: u64,
    /// Whether it was already replaced with a note.
    #[serde(rename = "dropped")]
    pub is_dropped: bool,
    /// Whether it is pinned. A pinned result is never masked.
    pub pinned: bool,
}

/// The components of the context window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContextBreakdown {
    /// Tokens of the next request: the provider's last count plus an estimate of what was added
    /// since.
    pub tokens: u64,
    /// The context window, in tokens.
    pub window: u64,
    /// The number of tokens at which the history is compacted.
    pub mark: u64,
    /// The components in the order of a request. Their token counts are estimates and may not add
    /// up to the count of the service.
    pub blocks: Vec<ContextBlock>,
    /// The tool results in the history, newest first.
    pub items: Vec<ContextItem>,
}
