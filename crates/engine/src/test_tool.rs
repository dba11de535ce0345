//! A tool and a policy engine for unit tests.

use parallax_protocol::Object;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision, Judge, Query, RuleDraft, Verdict};
use parallax_protocol::tool::{
    Invocation, Scope, Sharing, Tool, ToolError, ToolErrorKind, ToolKind, ToolSpec,
};
use serde_json::json;

/// A tool that is declared and never runs.
pub(crate) struct TestTool(ToolSpec);

impl TestTool {
    pub(crate) fn new(name: &str, kind: ToolKind, sharing: Sharing) -> Self {
        Self(ToolSpec {
            name: name.to_owned(),
            display_name: name.to_owned(),
            description: "A tool.".to_owned(),
            parameters: json!({"type": "object"}),
            kind,
            sharing,
            aliases: vec![format!("{name}_alias")],
        })
    }
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(&self, _args: Object, _scope: &Scope) -> Result<Box<dyn Invocation>, ToolError> {
        Err(ToolError::new(ToolErrorKind::ExecutionFailed, "not in this test".to_owned()))
    }
}

/// Gives every call the same decision, and suggests one rule.
pub(crate) struct TestJudge(pub(crate) Decision);

impl Judge for TestJudge {
    fn judge(&self, _query: &Query<'_>) -> Verdict {
        Verdict::new(self.0, "test", "because")
    }

    fn hides(&self, _: &str, _: &[String], _: ApprovalMode, _: bool) -> bool {
        false
    }

    fn drafts(&self, _: &Query<'_>, _: &Permissions) -> Vec<RuleDraft> {
        vec![RuleDraft::default()]
    }
}
