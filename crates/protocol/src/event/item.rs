//! Items of a turn: text, tool calls, user commands, and notices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;
use crate::call_status::{CallDecision, ToolStatus};
use crate::ids::{CallId, ItemId};
use crate::notice_level::Level;
use crate::policy::PolicyDecision;
use crate::shell::ShellEnding;
use crate::tool::{Display, ToolErrorKind, ToolKind};

/// The kind of an item that starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStart {
    /// A message of the user.
    User {
        /// The text as typed.
        text: String,
    },
    /// An answer of the model.
    Text,
    /// A thought summary.
    Thought,
    /// A function call of the model. All calls of one answer start before any of them runs.
    Tool(ToolStart),
    /// A shell command that the user entered.
    Shell(ShellStart),
}

/// A shell command of the user that starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellStart {
    /// The command line.
    pub command: String,
    /// Whether it runs in the background.
    pub background: bool,
}

/// The phase of a tool call, with its title and kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallState {
    /// The item of the call.
    pub item: ItemId,
    /// The tool call.
    pub call: CallId,
    /// The phase.
    pub phase: CallPhase,
    /// What the call will do, in one line; known once the arguments are checked.
    pub title: Option<String>,
    /// The tool kind; `None` for an unknown tool.
    pub kind: Option<ToolKind>,
}

/// The phase of a tool call. A call may enter a phase more than once (after its arguments changed,
/// or when it is rerun with more permissions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallPhase {
    /// The arguments and the policy are being checked.
    Validating,
    /// The call waits for an approval response ([`ApprovalRequest::call`]).
    AwaitingApproval,
    /// The call is running.
    Executing,
}

/// A function call that starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolStart {
    /// The tool call.
    pub call: CallId,
    /// The index among the calls of the answer, from 0.
    pub index: usize,
    /// The tool name that the model used.
    pub name: String,
    /// The arguments as the model wrote them.
    pub args: Object,
}

/// The final state of an item.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemDone {
    /// A message of the user.
    User,
    /// An answer of the model.
    Text {
        /// The complete text. Shared, because an answer may be large.
        text: Arc<String>,
        /// Whether the attempt failed. Front ends remove the text; a retry sends it again.
        is_dropped: bool,
    },
    /// A thought summary.
    Thought {
        /// The complete text. The first bold span is the subject.
        text: String,
    },
    /// A tool call.
    Tool(Box<ToolDone>),
    /// A shell command of the user.
    Shell(Box<ShellDone>),
    /// A message for the user.
    Notice {
        /// The severity.
        level: Level,
        /// One line of text.
        text: String,
        /// What notices of one kind have in common although their wording differs, such as the hook
        /// that they come from. Without it, notices with the same text are of one kind.
        kind: Option<String>,
    },
}

impl ItemDone {
    /// Creates a notice without a kind.
    pub fn notice(level: Level, text: impl Into<String>) -> Self {
        Self::Notice { level, text: text.into(), kind: None }
    }
}

/// A finished tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolDone {
    /// The tool call.
    pub call: CallId,
    /// The index among the calls of the answer.
    pub index: usize,
    /// The tool name that the model used.
    pub name: String,
    /// The tool kind; `None` for an unknown tool.
    pub kind: Option<ToolKind>,
    /// What the call did, in one line.
    pub title: String,
    /// The status.
    pub status: ToolStatus,
    /// How the call was decided; `None` if no decision was made.
    pub decision: Option<CallDecision>,
    /// The policy decision and the rule behind it, if the policy was evaluated.
    pub policy_decision: Option<PolicyDecision>,
    /// What the user sees.
    pub display: Option<Display>,
    /// The error kind and message.
    pub error: Option<(ToolErrorKind, String)>,
    /// The text for the model: `response.output` or `response.error`.
    pub for_model: String,
    /// Structured data for machine-readable output.
    pub data: Option<Value>,
    /// How long the call ran, in milliseconds.
    pub duration_ms: u64,
}

impl ToolDone {
    /// Returns the status as users see it.
    pub fn shown_status(&self) -> ToolStatus {
        self.status.for_exit_code(self.exit_code())
    }

    /// Returns the exit code of the command that the call ran, if any.
    pub fn exit_code(&self) -> Option<i64> {
        self.data.as_ref()?.get("exitCode")?.as_i64()
    }
}

/// A shell command of the user that ended or moved to the background.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellDone {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub ending: ShellEnding,
    /// The end of the output with its colors, limited in size.
    pub output: String,
    /// The final working directory of the shell if it differs from the first, so that users learn
    /// that the next command starts in the project directory again.
    #[serde(default, with = "crate::path_text::option")]
    pub directory: Option<std::path::PathBuf>,
    /// How long the command ran, in milliseconds.
    pub duration_ms: u64,
}
