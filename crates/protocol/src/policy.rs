//! The question "may this happen?" and its answer.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::permissions::Permissions;
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
    /// What the call may do beyond the sandbox when it runs on this verdict.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub grants: Permissions,
    /// Whether a person must look each time: no answer holds for the next call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_time: bool,
    /// Of a shell line that a person is asked about: what it runs and writes,
    /// part by part, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// If the user must confirm the call: the paths with keys, tokens or passwords
    /// that it would read or write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
}

impl Verdict {
    /// A verdict that grants nothing beyond the sandbox.
    pub fn new(decision: Decision, rule: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            decision,
            rule: rule.into(),
            why: why.into(),
            grants: Permissions::default(),
            each_time: false,
            parts: Vec::new(),
            sensitive: Vec::new(),
        }
    }
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
    /// Files and folders that the agent itself made in this session.
    pub made: &'a [PathBuf],
    /// What the session has met that makes later commands doubtful.
    pub taint: &'a Taint,
    /// Who calls, and what is said of the tool.
    pub origin: Origin<'a>,
}

/// Who makes a call, and what the maker of the tool says of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// The subagent that calls; `None` is the session itself.
    pub agent: Option<&'a str>,
    /// The MCP server whose tool it is.
    pub server: Option<&'a str>,
    /// The annotations of an MCP tool, as its server sent them.
    pub annotations: Option<&'a Object>,
}

/// What a session has met that makes commands doubtful that would run
/// otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taint {
    /// Words of untrusted text (web pages, MCP results), in lower case: flags,
    /// paths and addresses of a command that stand in here were perhaps put
    /// into the model's mouth.
    pub words: std::collections::HashSet<String>,
    /// Build files that changed in the session.
    pub build_files: Vec<PathBuf>,
}

/// A rule that would allow a call from now on, as a person sees it before it is
/// kept, and may change it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleDraft {
    /// The tool.
    pub tool_name: String,
    /// The MCP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_name: Option<String>,
    /// The first words of commands; every command of a line must begin with one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command_prefix: Vec<String>,
    /// A pattern over the arguments as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_pattern: Option<String>,
    /// A glob that every path of the call matches; relative to the workspace or
    /// absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_glob: Option<String>,
    /// Commands may redirect to and from files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_redirection: bool,
    /// What the call may do beyond the sandbox.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// The modes it holds in; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ApprovalMode>,
    /// Of several that are offered: the one that is meant unless the user chooses
    /// another.
    #[serde(skip)]
    pub suggested: bool,
}

/// How long a rule holds that a person agreed to, and for which projects.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// To the end of the session.
    #[default]
    Session,
    /// In this project, from now on.
    Project,
    /// In all projects of the user, from now on.
    Always,
}

/// Keeps rules that a person agreed to.
pub trait RuleKeeper: Send + Sync {
    /// Writes the rule where it is found again; tells the file.
    ///
    /// # Errors
    /// Why it could not be kept, for people.
    fn keep(&self, rule: &RuleDraft, scope: RuleScope) -> Result<PathBuf, String>;
}

/// Who judges. The one implementation is the `policy` crate's.
pub trait Judge: Send + Sync {
    /// Decides. Pure: the same query gets the same verdict.
    fn judge(&self, query: &Query<'_>) -> Verdict;
    /// Whether the tool is denied whatever its arguments, so that it is not
    /// even declared to the model.
    fn hides(&self, tool: &str, aliases: &[String], mode: ApprovalMode, interactive: bool) -> bool;
    /// Rules that would let the call through without a question from now on,
    /// from the narrowest to the widest. Empty when there must be none.
    fn drafts(&self, _query: &Query<'_>, _permissions: &Permissions) -> Vec<RuleDraft> {
        Vec::new()
    }
    /// Why there are no such rules, for people.
    fn why_no_drafts(&self, _query: &Query<'_>, _permissions: &Permissions) -> String {
        "there is no rule that would let it through".to_owned()
    }
    /// The same judge with one more rule of the session.
    ///
    /// # Errors
    /// Why the rule cannot be used, for people.
    fn with_rule(&self, _rule: &RuleDraft) -> Result<Arc<dyn Judge>, String> {
        Err("rules cannot be added here".to_owned())
    }
}
