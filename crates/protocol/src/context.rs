//! What fills the model's window: where it comes from, and what of it a person
//! may leave out or hold on to.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::Sealed;

/// A text of the session's beginning that a person knows by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its file.
    pub name: String,
    /// About how many tokens it takes.
    pub tokens: u64,
    /// Whether it is in the system prompt; else it goes with the first prompt.
    pub in_system: bool,
}

/// Context files of folders, told when a tool first touches something there.
pub trait FolderContext: Send + Sync {
    /// What the model should know of the folders of these files, and was not
    /// told yet. Blocking.
    fn discover(&self, touched: &[PathBuf]) -> Option<String>;

    /// These contents are what goes out from now on: what they no longer hold
    /// may be told again.
    fn keep_what_is_in(&self, contents: &[Sealed]);

    /// The same for another conversation in the same folders (a sub-agent's).
    fn anew(&self) -> Arc<dyn FolderContext>;

    /// The session goes on with these contents: what they hold is known.
    fn resume(&self, contents: &[Sealed]);
}

/// What the user has open in an editor, for the model to know.
pub trait EditorContext: Send + Sync {
    /// What the model should be told with the next prompt; `None`: nothing is new, or nothing is
    /// known. Never waits for the editor.
    fn message(&self) -> Option<String>;

    /// The history may not contain the earlier messages any more: the next one has everything.
    fn reset(&self);
}

/// One result of a tool in the history.
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
pub struct ResultPlace {
    /// The content that holds it, counted from 0 over all that the session had.
    pub content: usize,
    /// Its place among the parts of that content.
    pub part: usize,
}

/// A part of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContextBlock {
    /// What it is.
    pub kind: BlockKind,
    /// Its file or tool, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// About how many tokens it takes.
    pub tokens: u64,
    /// How many pieces it is made of (files, prompts, results).
    pub count: u64,
}

/// Kinds of parts of the window, in the order of a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// The system prompt without memory.
    System,
    /// Declarations of tools.
    Tools,
    /// A memory file.
    Memory,
    /// Date, folders, tree.
    Environment,
    /// Accounts of older parts that compactions left.
    Accounts,
    /// What people said, files in prompts included.
    Prompts,
    /// What the model said, its calls included.
    Answers,
    /// Results of one tool.
    Results,
}

impl BlockKind {
    /// What people read for it; the name of what is told of may follow.
    pub fn words(self) -> &'static str {
        match self {
            Self::System => "system prompt",
            Self::Tools => "tools",
            Self::Memory => "memory",
            Self::Environment => "environment",
            Self::Accounts => "accounts of older parts",
            Self::Prompts => "prompts",
            Self::Answers => "answers and calls",
            Self::Results => "results of",
        }
    }
}

/// A result in the history, as a person chooses among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContextItem {
    /// Where it is.
    pub place: ResultPlace,
    /// The tool.
    pub tool: String,
    /// The call's arguments, short.
    pub title: String,
    /// About how many tokens it takes now.
    pub tokens: u64,
    /// Whether a note stands in its place already.
    pub dropped: bool,
    /// Whether it stays whatever happens.
    pub pinned: bool,
}

/// What fills the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContextBreakdown {
    /// Tokens that the next request would have, by the service's last count and
    /// an estimate of what came since.
    pub tokens: u64,
    /// What the model takes.
    pub window: u64,
    /// From how many tokens the history is made shorter.
    pub mark: u64,
    /// The parts in the order of a request; their tokens are estimates, which
    /// need not add up to the service's count.
    pub blocks: Vec<ContextBlock>,
    /// The results in the history, the newest first.
    pub items: Vec<ContextItem>,
}
