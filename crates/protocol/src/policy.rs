//! The question "may this happen?" and its answer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::tool::{Effects, ToolKind};

/// How much the agent may do without asking, from strict to free.
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
    /// Reads and plans; changes nothing.
    Plan,
    /// Asks before edits and commands.
    #[default]
    Default,
    /// Edits files of the workspace without asking.
    AutoEdit,
    /// Asks nothing.
    Yolo,
}

impl ApprovalMode {
    /// The name in flags, settings and rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AutoEdit => "auto_edit",
            Self::Yolo => "yolo",
        }
    }
    /// Reads a name as flags, settings and rules write it (`autoEdit` too).
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

/// What is decided about a call.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run; the model reads why.
    Deny,
}

/// A decision with the rule that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Verdict {
    /// What is decided.
    pub decision: Decision,
    /// The name of the rule that decided, with where it stands.
    pub rule: String,
    /// Why, in one sentence; for a denial also which flag or rule would allow it.
    pub why: String,
}

/// A prepared call to be judged. All paths are resolved by the caller; judging
/// does no I/O.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// The registered name of the tool.
    pub tool: &'a str,
    /// Its other names.
    pub aliases: &'a [String],
    /// What the tool is for.
    pub kind: ToolKind,
    /// The arguments.
    pub args: &'a Object,
    /// What the call would touch.
    pub effects: &'a Effects,
    /// The mode in force.
    pub mode: ApprovalMode,
    /// Whether questions can be answered; if not, ask becomes deny.
    pub interactive: bool,
    /// The workspace folders, resolved.
    pub workspace: &'a [PathBuf],
    /// Whether the folder is trusted.
    pub trusted: bool,
}

/// Who judges. The one implementation is the `policy` crate's.
pub trait Judge: Send + Sync {
    /// Decides. Pure: the same query gets the same verdict.
    fn judge(&self, query: &Query<'_>) -> Verdict;
    /// Whether the tool is denied whatever its arguments, so that it is not
    /// even declared to the model.
    fn hides(&self, tool: &str, aliases: &[String], mode: ApprovalMode, interactive: bool) -> bool;
}
