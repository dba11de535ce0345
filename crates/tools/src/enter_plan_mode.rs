//! `enter_plan_mode`: switches to plan mode, in which the model only reads and plans.

use std::path::PathBuf;

use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, SessionChange, Tool,
    ToolError, ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;

/// Maximum number of characters of a reason shown to the user.
const MAX_SHOWN: usize = 200;

/// The tool.
#[derive(Debug)]
pub struct EnterPlanMode {
    spec: ToolSpec,
    plans: PathBuf,
}

impl EnterPlanMode {
    /// Creates the tool; `plans` is the plan directory.
    pub fn new(plans: PathBuf) -> Self {
        let spec = ToolSpec {
            name: "enter_plan_mode".into(),
            display_name: "EnterPlanMode".into(),
            description: include_str!("enter_plan_mode/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "reason": {"type": "string"}
                }
            }),
            kind: ToolKind::Plan,
            // Later calls are checked against the rules of plan mode.
            concurrency: Concurrency::Exclusive,
            aliases: vec!["EnterPlanModeTool".into()],
        };
        Self { spec, plans }
    }
}

impl Tool for EnterPlanMode {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_declared(&self, mode: ApprovalMode) -> bool {
        !matches!(mode, ApprovalMode::Plan | ApprovalMode::Yolo)
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let reason = args.text("reason").split_whitespace().collect::<Vec<_>>().join(" ");
        let reason = reason.chars().take(MAX_SHOWN).collect();
        Ok(Box::new(EnterPlanModeCall {
            reason,
            plans: self.plans.clone(),
            effects: Effects::default(),
        }))
    }
}

struct EnterPlanModeCall {
    reason: String,
    plans: PathBuf,
    effects: Effects,
}

impl Invocation for EnterPlanModeCall {
    fn title(&self) -> String {
        match self.reason.is_empty() {
            true => "Plan before anything is changed".to_owned(),
            false => format!("Plan before anything is changed: {}", self.reason),
        }
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let plans = self.plans;
            let created = tokio::task::spawn_blocking(move || make_private(&plans)).await;
            match created {
                Ok(Ok(())) => {
                    let mut outcome = ToolResult::text("Switching to Plan mode.")
                        .with_display(Display::text("Plan mode is on"));
                    outcome.change = Some(SessionChange::Planning);
                    outcome
                }
                Ok(Err(error)) => error_result(format!(
                    "failed to create the directory for plans: \
                    {error}"
                )),
                Err(error) => error_result(error.to_string()),
            }
        })
    }
}

fn error_result(reason: String) -> ToolResult {
    ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, reason))
}

/// Creates the directory; a new one is accessible only to its owner.
fn make_private(directory: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{object, run, scope};

    #[tokio::test]
    async fn enter_plan_mode_creates_the_directory_and_requests_the_mode() {
        let directory = tempfile::tempdir().expect("tempdir");
        let plans = directory.path().join("a/plans");
        let tool = EnterPlanMode::new(plans.clone());
        let args = object(json!({"reason": "many\n files"}));
        let call = tool.prepare(args, &scope("enter_plan_mode")).expect("prepared");
        assert_eq!(call.title(), "Plan before anything is changed: many files");
        let outcome = run(&tool, json!({})).await;
        assert_eq!(outcome.change, Some(SessionChange::Planning));
        assert_eq!(outcome.for_model.output, "Switching to Plan mode.");
        assert!(plans.is_dir());
    }
}
