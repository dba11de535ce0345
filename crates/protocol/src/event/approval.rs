//! Approval requests.

use serde::{Deserialize, Serialize};

use crate::approval_response::ApprovalResponse;
use crate::ids::{ApprovalId, CallId};
use crate::permissions::Permissions;
use crate::policy::{PolicyDecision, SuggestedRule};
use crate::tool::{Preview, ToolKind};

/// A request for a user decision, usually whether a tool call may run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The request id.
    pub id: ApprovalId,
    /// The tool call; for a request of a subagent, the call that started the subagent.
    pub call: CallId,
    /// The subagent that made the call.
    pub agent: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The tool kind.
    pub kind: ToolKind,
    /// What the call will do, in one line.
    pub title: String,
    /// The preview to show.
    pub preview: Option<Preview>,
    /// Why approval is required, and by which rule.
    pub policy_decision: PolicyDecision,
    /// The possible responses.
    pub outcomes: Vec<ApprovalResponse>,
    /// The kind of the request.
    pub question: Question,
    /// Suggested rules that would make this request unnecessary in the future, from the narrowest
    /// to the broadest. A response that names none selects the suggested one, otherwise the first.
    /// Empty if no response may apply beyond this call.
    #[serde(with = "crate::policy::rules_with_default")]
    pub rules: Vec<SuggestedRule>,
    /// Why there are no rules, for the user; `None` where none are expected.
    pub no_rule_reason: Option<String>,
    /// The permissions beyond the sandbox that approval grants.
    pub permissions: Permissions,
    /// Broader permissions that can be granted instead, for a command that does more around the
    /// named files than write them: the directories that contain them. Empty if there is nothing
    /// broader to offer.
    pub broader_permissions: Permissions,
    /// Changes by the call that could not be undone, for the user.
    pub not_undoable: Vec<String>,
}

impl ApprovalRequest {
    /// Creates a request about the session itself: no tool call waits for it, and no rule can
    /// answer it.
    pub fn for_session(
        id: ApprovalId,
        name: &str,
        title: String,
        policy_decision: PolicyDecision,
        question: Question,
        outcomes: Vec<ApprovalResponse>,
    ) -> Self {
        Self {
            id,
            call: CallId::new(String::new()),
            agent: None,
            name: name.to_owned(),
            kind: ToolKind::Other,
            title,
            preview: None,
            policy_decision,
            outcomes,
            question,
            rules: Vec::new(),
            no_rule_reason: None,
            permissions: Permissions::default(),
            broader_permissions: Permissions::default(),
            not_undoable: Vec::new(),
        }
    }
}

/// The kind of an approval request. The serialized names match those of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// A file change.
    Edit,
    /// A shell command.
    Exec,
    /// A tool of an MCP server.
    Mcp,
    /// A command to which the sandbox denied access.
    SandboxExpansion,
    /// A plan, and the approval mode for carrying it out.
    ExitPlanMode,
    /// An unavailable model, and a fallback model. Not about a tool call.
    Fallback,
    /// A detected loop, and whether to continue with loop detection off for the rest of the
    /// session. Not about a tool call.
    Loop,
    /// An exhausted budget ([`Preview::Budget`]), and whether to increase it. Not about a tool
    /// call.
    Budget,
    /// Questions from the model ([`Preview::Questions`]). The answers come with
    /// the decision to proceed.
    AskUser,
    /// Anything else.
    Info,
}
