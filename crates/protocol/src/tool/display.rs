//! What the user sees of a tool call: before it runs, and when it is done.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::agent_progress::AgentProgress;
use crate::budget::ExhaustedBudget;
use crate::question::UserQuestion;

/// What the user sees before a call runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Preview {
    /// A change to one file.
    Diff(FileDiff),
    /// A command line.
    Command {
        /// The text for the shell.
        command: String,
        /// The working directory.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        directory: PathBuf,
    },
    /// URLs to be fetched.
    Urls {
        /// The prompt about their contents.
        prompt: String,
        /// The URLs.
        urls: Vec<String>,
    },
    /// A tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool, by the server's own name.
        tool: String,
        /// The server's description of the tool.
        description: String,
        /// The arguments.
        arguments: Object,
    },
    /// A skill to be activated.
    Skill {
        /// Its description.
        description: String,
        /// Its directory, absolute.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        folder: PathBuf,
        /// The files in the directory, with relative paths; truncated if there are many.
        files: Vec<String>,
    },
    /// A plan to be approved.
    Plan {
        /// The file, absolute.
        #[serde(with = "crate::path_text::one")]
        #[schemars(with = "PathBuf")]
        path: PathBuf,
        /// The plan in Markdown.
        text: String,
    },
    /// Questions from the model. Calls with questions always need an answer from the user.
    Questions {
        /// One to four questions.
        questions: Vec<UserQuestion>,
    },
    /// A budget that is used up. Not for a tool call.
    Budget(ExhaustedBudget),
}

/// A change to one file, as a unified diff with line counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// The absolute path.
    #[serde(with = "crate::path_text::one")]
    #[schemars(with = "PathBuf")]
    pub file_path: PathBuf,
    /// The unified diff with three lines of context, limited in size.
    pub diff: String,
    /// Lines added.
    pub lines_added: u64,
    /// Lines removed.
    pub lines_removed: u64,
    /// Whether the file did not exist before.
    pub is_new_file: bool,
    /// The whole file before and after the change, for hooks. Front ends and journals do not use
    /// it.
    #[serde(skip)]
    #[schemars(skip)]
    pub texts: Option<Arc<FileContents>>,
}

/// The contents of a file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContents {
    /// The contents before; empty if the file did not exist.
    pub old: String,
    /// The contents after.
    pub new: String,
}

/// One item of the model's todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What is to be done.
    pub description: String,
    /// The status.
    pub status: TodoStatus,
}

/// The status of a [`Todo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// In progress; at most one item has this status.
    InProgress,
    /// Done.
    Completed,
    /// No longer needed.
    Cancelled,
    /// Blocked by something else.
    Blocked,
}

impl TodoStatus {
    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Blocked => "blocked",
        }
    }
}

/// What the user sees of a finished call. Limited in size by the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Display {
    /// Plain text. The front end sanitizes control sequences.
    Text {
        /// The text.
        text: String,
    },
    /// A file was changed.
    Diff(FileDiff),
    /// The todo list was replaced.
    Todos {
        /// The new list.
        todos: Vec<Todo>,
    },
    /// The work of a subagent.
    Agent(AgentProgress),
    /// A heading for the following items.
    Topic {
        /// The heading; empty if only the intent changed.
        title: String,
        /// The summary.
        summary: String,
        /// The next goal, in one sentence.
        intent: String,
    },
}

impl Display {
    /// Creates a text display.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}
