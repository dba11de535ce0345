//! `exit_plan_mode`: presents a plan to the user. After approval, the work starts in the mode that
//! the user chose.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::{Access, AllowedPath, Workspace, read_capped};
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, Preview, RunContext, SessionChange,
    Tool, ToolError, ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::{invalid_params, path_failure, read_failure};

/// Maximum size in bytes of a plan that a user can be expected to read.
const MAX_BYTES: u64 = 256 * 1024;

/// The plan directory and the mode after plan mode.
#[derive(Debug, Clone)]
pub struct PlanLocation {
    /// The plan directory, with links resolved.
    pub folder: PathBuf,
    /// The mode to switch to if no user can choose one.
    pub unattended_mode: ApprovalMode,
}

/// The tool.
#[derive(Debug)]
pub struct ExitPlanMode {
    spec: ToolSpec,
    location: PlanLocation,
    workspace: Arc<Workspace>,
}

impl ExitPlanMode {
    /// Creates the tool for plans in that directory.
    pub fn new(location: PlanLocation, workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "exit_plan_mode".into(),
            display_name: "ExitPlanMode".into(),
            description: include_str!("exit_plan_mode/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "plan_filename": {
                        "type": "string",
                        "description": "The name of the plan file in the plan directory."
                    }
                },
                "required": ["plan_filename"]
            }),
            kind: ToolKind::Plan,
            concurrency: Concurrency::Exclusive,
            aliases: vec!["ExitPlanModeTool".into()],
        };
        Self { spec, location, workspace }
    }

    /// Returns the plan, given by its name or by its path.
    fn find(&self, name: &str) -> Result<AllowedPath, ToolError> {
        let directory = &self.location.folder;
        if name.trim().is_empty() {
            return Err(invalid_params("`plan_filename` must not be empty"));
        }
        let in_directory = directory.join(name);
        let resolve = |path: &Path| {
            self.workspace.confine(path, Access::Read).map_err(|error| path_failure(&error))
        };
        let mut plan = resolve(&in_directory)?;
        if !plan.exists() {
            // A path relative to the project root.
            let from_root = resolve(&self.workspace.root().join(name));
            plan = from_root.ok().filter(AllowedPath::exists).unwrap_or(plan);
        }
        match plan.path().strip_prefix(directory) {
            Ok(rest) if !rest.as_os_str().is_empty() => Ok(plan),
            _ => Err(ToolError::new(
                ToolErrorKind::PathNotInWorkspace,
                format!("`{name}` is not in the plan directory `{}`", directory.display()),
            )),
        }
    }
}

impl Tool for ExitPlanMode {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_declared(&self, mode: ApprovalMode) -> bool {
        mode == ApprovalMode::Plan
    }

    fn prepare(
        &self,
        args: Object,
        scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let plan = self.find(args.text("plan_filename"))?;
        let (bytes, _) = read_capped(&plan, MAX_BYTES).map_err(|error| read_failure(&error))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.trim().is_empty() {
            let path = plan.path().display();
            return Err(invalid_params(format!("the plan `{path}` is empty: write it first")));
        }
        let mode_by_rule = match scope.interactive {
            true => ApprovalMode::Default,
            false => self.location.unattended_mode,
        };
        let path = plan.path().to_owned();
        let effects = Effects { reads: vec![path.clone()], ..Effects::default() };
        Ok(Box::new(ExitPlanModeCall { path, text, mode_by_rule, effects }))
    }
}

struct ExitPlanModeCall {
    path: PathBuf,
    text: String,
    /// The mode to switch to if a policy rule approved the plan.
    mode_by_rule: ApprovalMode,
    effects: Effects,
}

impl Invocation for ExitPlanModeCall {
    fn title(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("Start working on the plan `{name}`")
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Plan { path: self.path.clone(), text: self.text.clone() })
    }

    fn decline(self: Box<Self>, feedback: Option<&str>) -> Option<ToolResult> {
        let plan = self.path.display();
        let text = match feedback {
            Some(words) => format!(
                "Plan rejected. User feedback: {words}\n\nThe plan is in `{plan}`. Revise it as \
                 the user asks and call `exit_plan_mode` again."
            ),
            None => format!(
                "Plan rejected. No feedback was given.\n\nThe plan is in `{plan}`. Ask the user \
                 what should be different."
            ),
        };
        let shown = match feedback {
            Some(words) => format!("Plan rejected: {words}"),
            None => "Plan rejected".to_owned(),
        };
        let mut outcome = ToolResult::text(text).with_display(Display::text(shown));
        outcome.data = Some(json!({"plan": self.path, "approved": false, "feedback": feedback}));
        outcome.change = Some(SessionChange::PlanRejected {
            plan: self.path.clone(),
            feedback: feedback.map(str::to_owned),
        });
        Some(outcome)
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        let mode = match run.response {
            Some(ApprovalResponse::ProceedAlways) => ApprovalMode::AutoEdit,
            Some(_) => ApprovalMode::Default,
            None => self.mode_by_rule,
        };
        Box::pin(async move {
            let (plan, what) = (self.path.display(), describe(mode));
            let mut outcome = ToolResult::text(format!(
                "Plan approved. Switching to {what}.\n\nThe approved plan is in `{plan}`. Read \
                 it and follow it strictly."
            ))
            .with_display(Display::text(format!(
                "Plan approved; switching to `{}` mode",
                mode.as_str()
            )));
            outcome.data =
                Some(json!({"plan": self.path, "approved": true, "mode": mode.as_str()}));
            outcome.change = Some(SessionChange::PlanApproved { plan: self.path, mode });
            outcome
        })
    }
}

fn describe(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::AutoEdit => "Auto-Edit mode (edits are applied automatically)",
        ApprovalMode::Yolo => "YOLO mode (all actions are auto-approved)",
        ApprovalMode::Default | ApprovalMode::Plan => {
            "Default mode (edits and commands require approval)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{object, scope};

    struct TestProject {
        _folder: tempfile::TempDir,
        root: PathBuf,
        tool: ExitPlanMode,
    }

    fn test_project() -> TestProject {
        let directory = tempfile::tempdir().expect("tempdir");
        let base = directory.path().canonicalize().expect("real");
        let (root, temp) = (base.join("project"), base.join("session"));
        std::fs::create_dir_all(&root).expect("project");
        std::fs::create_dir_all(temp.join("plans")).expect("plans");
        let options =
            parallax_files::WorkspaceOptions { root: root.clone(), temp, ..Default::default() };
        let workspace = Arc::new(Workspace::new(options).expect("workspace"));
        let plans = workspace.temporary_directory().join("plans");
        let location = PlanLocation { folder: plans, unattended_mode: ApprovalMode::AutoEdit };
        TestProject { _folder: directory, root, tool: ExitPlanMode::new(location, workspace) }
    }

    fn prepare(
        project: &TestProject,
        name: &str,
        attended: bool,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let mut scope = scope("exit_plan_mode");
        scope.interactive = attended;
        project.tool.prepare(object(json!({"plan_filename": name})), &scope)
    }

    fn run(call: Box<dyn Invocation>, answer: Option<ApprovalResponse>) -> ToolResult {
        use parallax_protocol::tool::NoProgress;
        let cancel = parallax_protocol::CancellationToken::new();
        let run = RunContext { response: answer, ..RunContext::new(cancel, Arc::new(NoProgress)) };
        futures_util::FutureExt::now_or_never(call.run(run)).expect("at once")
    }

    #[test]
    fn approval_response_selects_the_mode() {
        let project = test_project();
        let plan = project.tool.location.folder.join("p.md");
        std::fs::write(&plan, "# Plan\n").expect("plan");
        for (answer, attended, mode) in [
            (Some(ApprovalResponse::ProceedOnce), true, ApprovalMode::Default),
            (Some(ApprovalResponse::ProceedAlways), true, ApprovalMode::AutoEdit),
            (None, true, ApprovalMode::Default),
            (None, false, ApprovalMode::AutoEdit),
        ] {
            for name in ["p.md", plan.to_str().expect("UTF-8")] {
                let call = prepare(&project, name, attended).expect("prepared");
                let expected = Preview::Plan { path: plan.clone(), text: "# Plan\n".into() };
                assert_eq!(call.preview(), Some(expected));
                let outcome = run(call, answer);
                let change = SessionChange::PlanApproved { plan: plan.clone(), mode };
                assert_eq!(outcome.change, Some(change), "{answer:?} {attended}");
            }
        }
    }

    #[test]
    fn plan_rejection_is_a_result() {
        let project = test_project();
        std::fs::write(project.tool.location.folder.join("p.md"), "x").expect("plan");
        let output = |feedback: Option<&str>| {
            let call = prepare(&project, "p.md", true).expect("prepared");
            call.decline(feedback).expect("an outcome")
        };
        assert!(output(Some("smaller steps")).for_model.output.contains("smaller steps"));
        assert!(output(None).for_model.output.contains("Ask the user"));
        assert!(output(None).error.is_none());
    }

    #[test]
    fn only_existing_plans_of_the_directory_are_accepted() {
        let project = test_project();
        let directory = project.tool.location.folder.clone();
        std::fs::write(directory.join("blank.md"), " \n").expect("blank");
        std::fs::write(project.root.join("README.md"), "text").expect("readme");
        std::os::unix::fs::symlink(project.root.join("README.md"), directory.join("link.md"))
            .expect("link");
        let long = std::fs::File::create(directory.join("long.md")).expect("long");
        long.set_len(MAX_BYTES + 1).expect("length");
        for name in [
            "",
            " ",
            ".",
            "..",
            "../plans",
            "missing.md",
            "blank.md",
            "README.md",
            "../../x.md",
            "link.md",
            "/etc/passwd",
            "long.md",
            "\0",
        ] {
            assert!(prepare(&project, name, true).is_err(), "{name:?}");
        }
    }
}
