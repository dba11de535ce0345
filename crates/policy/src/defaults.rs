//! The built-in rules (tier 1, and the denials of plan mode).

use std::path::Path;

use parallax_protocol::policy::ApprovalMode::{self, AutoEdit, Default, Plan, Yolo};
use parallax_protocol::policy::Decision::{self, Allow, Ask, Deny};

use crate::rule::{PathScope, Rule, ToolPattern};

const LOOK: &[&str] = &[
    "glob",
    "grep_search",
    "list_directory",
    "read_file",
    "read_many_files",
    "google_web_search",
    "codebase_investigator",
    "cli_help",
    "get_internal_docs",
    "tracker_*",
    "update_topic",
    "complete_task",
    "write_todos",
    "read_mcp_resource",
    "list_mcp_resources",
    "list_background_processes",
    "read_background_output",
];
const EDIT: &[&str] = &["replace", "write_file"];
const NOT_PLAN: &[ApprovalMode] = &[Default, AutoEdit, Yolo];

/// One line of the table: name, tools, modes (empty = all), with somebody to
/// ask, decision, own priority, message of a denial.
struct Line(
    &'static str,
    &'static [&'static str],
    &'static [ApprovalMode],
    Option<bool>,
    Decision,
    u32,
    &'static str,
);

const TABLE: &[Line] = &[
    Line("reading and searching", LOOK, &[], None, Allow, 50, ""),
    Line("edits ask", EDIT, &[Default, AutoEdit], None, Ask, 10, ""),
    Line("commands ask", &["run_shell_command"], &[Default, AutoEdit], None, Ask, 10, ""),
    Line("fetching asks", &["web_fetch"], &[Default], None, Ask, 10, ""),
    Line("fetching while edits are free", &["web_fetch"], &[AutoEdit], None, Allow, 15, ""),
    Line(
        "fetching while planning",
        &["web_fetch", "activate_skill", "ask_user"],
        &[Plan],
        None,
        Ask,
        50,
        "",
    ),
    Line("memory asks", &["save_memory"], &[Default], None, Ask, 10, ""),
    Line("memory while edits are free", &["save_memory"], &[AutoEdit], None, Allow, 15, ""),
    Line("skills ask", &["activate_skill"], &[Default, AutoEdit], None, Ask, 10, ""),
    Line("agents", &["invoke_agent"], NOT_PLAN, None, Allow, 50, ""),
    Line(
        "questions need somebody",
        &["ask_user"],
        &[],
        Some(false),
        Deny,
        999,
        "Nobody can answer questions in this run: decide yourself and say what you assumed",
    ),
    Line("questions", &["ask_user"], NOT_PLAN, Some(true), Allow, 999, ""),
    Line("entering plan mode", &["enter_plan_mode"], &[Default, AutoEdit], Some(true), Ask, 50, ""),
    Line(
        "entering plan mode unattended",
        &["enter_plan_mode"],
        &[Default, AutoEdit],
        Some(false),
        Allow,
        50,
        "",
    ),
    Line(
        "already planning",
        &["enter_plan_mode"],
        &[Plan],
        None,
        Deny,
        70,
        "Plan mode is already on",
    ),
    Line("leaving plan mode", &["exit_plan_mode"], &[Plan], Some(true), Ask, 70, ""),
    Line("leaving plan mode unattended", &["exit_plan_mode"], &[Plan], Some(false), Allow, 70, ""),
    Line(
        "not planning",
        &["exit_plan_mode"],
        &[Default, AutoEdit],
        None,
        Deny,
        50,
        "Plan mode is not on",
    ),
    Line(
        "no plan mode in yolo",
        &["enter_plan_mode", "exit_plan_mode"],
        &[Yolo],
        None,
        Deny,
        999,
        "Mode `yolo` has no plan mode: go on with the work",
    ),
    Line("yolo", &["*"], &[Yolo], None, Allow, 998, ""),
];

/// The built-in rules; `plans` is the folder for plans, if there is one.
pub(crate) fn rules(plans: Option<&Path>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = TABLE
        .iter()
        .map(|&Line(name, tools, modes, interactive, decision, priority, deny_message)| {
            let mut rule = Rule::new(name, 1000 + priority, decision);
            rule.tools = tools.iter().map(|tool| ToolPattern::parse(tool)).collect();
            rule.modes = modes.to_vec();
            rule.interactive = interactive;
            rule.allow_redirection = modes == [Yolo];
            rule.deny_message = (!deny_message.is_empty()).then(|| deny_message.to_owned());
            rule
        })
        .collect();

    let edits = || EDIT.iter().map(|tool| ToolPattern::parse(tool)).collect();
    let mut inside = Rule::new("edits inside the workspace", 1015, Allow);
    inside.tools = edits();
    inside.modes = vec![AutoEdit];
    inside.paths = PathScope::Workspace;
    rules.push(inside);

    let possible = match plans {
        Some(folder) => {
            let mut plan_files = Rule::new("plan files", 1070, Allow);
            plan_files.tools = edits();
            plan_files.modes = vec![Plan];
            plan_files.paths = PathScope::MarkdownIn(folder.to_owned());
            rules.push(plan_files);
            format!(
                "read and search the project, and write the plan as an `.md` file in `{}`",
                folder.display()
            )
        }
        None => "read and search the project, and give the plan as your answer".to_owned(),
    };
    let mut rest = Rule::new("plan mode changes nothing", 1040, Deny);
    rest.tools = vec![ToolPattern::Any];
    rest.modes = vec![Plan];
    rest.deny_message = Some(format!("Plan mode changes nothing: {possible}"));
    rules.push(rest);
    rules
}
