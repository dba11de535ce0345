//! The interface to the policy engine: queries, decisions, and rules.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::permissions::Permissions;
use crate::tool::{Effects, ToolKind};

pub use crate::approval_mode::ApprovalMode;

/// The decision about a tool call.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call runs.
    Allow,
    /// The user is asked for approval.
    Ask,
    /// The call does not run, and the model is given the reason.
    Deny,
}

/// A decision and the rule behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PolicyDecision {
    /// The decision.
    #[serde(rename = "decision")]
    pub kind: Decision,
    /// The name of the deciding rule and its source.
    pub rule: String,
    /// The reason in one sentence; for a denial, including which flag or rule would allow the call.
    #[serde(rename = "why")]
    pub reason: String,
    /// The permissions beyond the sandbox that the call has when it runs because of this decision.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub grants: Permissions,
    /// Whether approval is always required: no response applies to later calls.
    #[serde(rename = "each_time")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always_ask: bool,
    /// For a shell command that needs approval: what it runs and writes, part by part, for the
    /// user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// If the user must approve the call: the paths with keys, tokens, or passwords that it would
    /// read or write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// If the user must approve the call: the commands of the line that destroy data, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destructive: Vec<String>,
}

impl PolicyDecision {
    /// Creates a decision that grants nothing beyond the sandbox.
    pub fn new(kind: Decision, rule: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            kind,
            rule: rule.into(),
            reason: reason.into(),
            grants: Permissions::default(),
            always_ask: false,
            parts: Vec::new(),
            sensitive: Vec::new(),
            destructive: Vec::new(),
        }
    }
}

/// A prepared call to be evaluated. The caller resolves all paths; evaluation does no I/O.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// The registered name of the tool.
    pub tool: &'a str,
    /// Other names of the tool.
    pub aliases: &'a [String],
    /// The tool kind.
    pub kind: ToolKind,
    /// The arguments.
    pub args: &'a Object,
    /// What the call would access.
    pub effects: &'a Effects,
    /// The approval mode in effect.
    pub mode: ApprovalMode,
    /// Whether the user can respond to approval requests; if not, ask becomes deny.
    pub interactive: bool,
    /// The workspace directories, resolved.
    pub workspace: &'a [PathBuf],
    /// Whether the directory is trusted.
    pub trusted: bool,
    /// Files and directories that the agent created in this session.
    pub created_paths: &'a [PathBuf],
    /// Untrusted input of the session that makes later commands suspicious.
    pub taint: &'a Taint,
    /// The caller and the origin of the tool.
    pub origin: Origin<'a>,
}

/// The caller of a tool, and the origin of the tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// The subagent that calls; `None`: the session itself.
    pub agent: Option<&'a str>,
    /// The MCP server that provides the tool.
    pub server: Option<&'a str>,
    /// The annotations of an MCP tool, as its server sent them.
    pub annotations: Option<&'a Object>,
}

/// Untrusted input of a session that makes otherwise allowed commands suspicious.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taint {
    /// Words of untrusted text (web pages, MCP results), in lower case. Flags, paths, and URLs of a
    /// command that occur here may result from prompt injection.
    pub words: std::collections::HashSet<String>,
    /// Build files that changed in the session.
    pub build_files: Vec<PathBuf>,
}

/// A rule that would allow similar calls, which the user sees and may edit before it is saved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RuleDraft")]
pub struct SuggestedRule {
    /// The tool name.
    pub tool_name: String,
    /// The MCP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_name: Option<String>,
    /// The first words of commands; every command of a command line must start with one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command_prefix: Vec<String>,
    /// A pattern for the arguments as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_pattern: Option<String>,
    /// A glob that every path of the call must match; relative to the workspace or absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_glob: Option<String>,
    /// Whether commands may redirect input and output to files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_redirection: bool,
    /// The permissions beyond the sandbox.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// The approval modes in which the rule applies; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ApprovalMode>,
    /// Whether this is the default among several suggested rules.
    #[serde(skip)]
    pub is_default: bool,
}

impl SuggestedRule {
    /// Returns the tool name as the tool's MCP server has it, without the prefix for the model.
    pub fn unprefixed_tool_name(&self) -> &str {
        let server = self.mcp_name.as_deref().unwrap_or_default();
        let own = self.tool_name.strip_prefix("mcp_").and_then(|name| name.strip_prefix(server));
        own.and_then(|name| name.strip_prefix('_')).unwrap_or(&self.tool_name)
    }
}

/// Serde functions for suggested rules that keep which one is the default, for `#[serde(with)]`.
/// Files and output formats have no such field.
pub mod rules_with_default {
    use super::SuggestedRule;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serializes the rules.
    pub fn serialize<S: Serializer>(
        rules: &[SuggestedRule],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(rules.iter().map(|rule| (rule, rule.is_default)))
    }

    /// Deserializes the rules.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<SuggestedRule>, D::Error> {
        let rules = Vec::<(SuggestedRule, bool)>::deserialize(deserializer)?;
        Ok(rules
            .into_iter()
            .map(|(rule, is_default)| SuggestedRule { is_default, ..rule })
            .collect())
    }
}

/// How long, and in which projects, a rule that the user approved applies.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// Until the end of the session.
    #[default]
    Session,
    /// In this project, permanently.
    Project,
    /// In all projects of the user, permanently.
    Always,
}

/// Saves rules that the user approved.
pub trait RuleStore: Send + Sync {
    /// Saves the rule permanently and returns the path of the file.
    ///
    /// # Errors
    /// Returns a message for the user if the rule could not be saved.
    fn save(&self, rule: &SuggestedRule, scope: RuleScope) -> Result<PathBuf, String>;
}

/// The policy engine. The `policy` crate contains its only implementation.
pub trait PolicyEngine: Send + Sync {
    /// Evaluates a query. Deterministic: the same query gets the same decision.
    fn evaluate(&self, query: &Query<'_>) -> PolicyDecision;
    /// Whether the tool is denied for all arguments, so that it is not declared to the model.
    fn is_tool_denied(
        &self,
        tool: &str,
        aliases: &[String],
        mode: ApprovalMode,
        interactive: bool,
    ) -> bool;
    /// Returns suggested rules that would allow the call without approval, from the narrowest to
    /// the broadest. Empty if there must be none.
    fn suggested_rules(
        &self,
        _query: &Query<'_>,
        _permissions: &Permissions,
    ) -> Vec<SuggestedRule> {
        Vec::new()
    }
    /// Returns why there are no suggested rules, for the user.
    fn no_rule_reason(&self, _query: &Query<'_>, _permissions: &Permissions) -> String {
        "no rule would allow it".to_owned()
    }
    /// Returns the same policy engine with one more session rule.
    ///
    /// # Errors
    /// Returns a message for the user if the rule is unusable.
    fn with_rule(&self, _rule: &SuggestedRule) -> Result<Arc<dyn PolicyEngine>, String> {
        Err("rules cannot be added in this session".to_owned())
    }
}
