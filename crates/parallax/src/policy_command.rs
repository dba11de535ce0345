//! `parallax policy`: lists policy rules, explains decisions, and checks rule files.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parallax_files::real_path;
use parallax_headless::{ExitCode, OutputFormat, json_document, one_line};
use parallax_policy::{EvaluatedRule, Explanation, Problem, RuleFile, Severity, Tier, lint};
use parallax_protocol::Object;
use parallax_protocol::event::Failure;
use parallax_protocol::policy::{Decision, Origin, Query, Taint};
use parallax_protocol::tool::{Effects, ToolKind};
use parallax_sdk::{LaunchOptions, SessionConfig};
use parallax_tools::run_shell_command::{GeminiIgnore, command_effects};
use serde_json::{Value, json};

use crate::arguments::{ExplainArguments, PolicyAction, RuleArguments};
use crate::command_result::input_failure;
use crate::extension_commands::{launch, launch_options, prepare, warn};
use crate::list_flags::paths;

const SHELL: &str = "run_shell_command";

/// Maximum size of a rule file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Runs the subcommand, prints its result, and returns the exit code.
///
/// # Errors
/// Returns an error if arguments are invalid or settings cannot be read.
pub(crate) fn run(action: &PolicyAction) -> Result<ExitCode, Failure> {
    match action {
        PolicyAction::List { rules, json } => {
            let (policy, warnings) = parallax_sdk::policy(&launch_with(rules)?);
            let rules = policy.list();
            warn(&warnings);
            Ok(print_text(&if *json {
                pretty_json(serde_json::to_value(&rules))
            } else {
                format_rules(&rules)
            }))
        }
        PolicyAction::Explain(typed) => explain(typed),
        PolicyAction::Lint { files, tier, json } => Ok(lint_files(files, *tier, *json)),
        PolicyAction::Accept => {
            let count = launch()?.policy_sources().accept_project_rules().map_err(input_failure)?;
            Ok(print_text(&format!("Accepted the project's rules ({count} files).\n")))
        }
    }
}

/// Returns the format in which failures are printed.
pub(crate) fn format(action: &PolicyAction) -> OutputFormat {
    let json = match action {
        PolicyAction::List { json, .. } | PolicyAction::Lint { json, .. } => *json,
        PolicyAction::Explain(typed) => typed.json,
        PolicyAction::Accept => false,
    };
    if json { OutputFormat::Json } else { OutputFormat::Text }
}

/// Prepares the configuration of a session with the rules that the command line names.
fn launch_with(rules: &RuleArguments) -> Result<SessionConfig, Failure> {
    prepare(LaunchOptions {
        policy_paths: paths(&rules.policy),
        admin_policy_paths: paths(&rules.admin_policy),
        ..launch_options()?
    })
}

fn explain(arguments: &ExplainArguments) -> Result<ExitCode, Failure> {
    let launch = launch_with(&arguments.rules)?;
    let (policy, warnings) = parallax_sdk::policy(&launch);
    warn(&warnings);
    let (tool, args) = tool_and_arguments(arguments)?;
    let root = std::env::current_dir()
        .and_then(|directory| directory.canonicalize())
        .map_err(|error| input_failure(format!("Failed to read the current directory: {error}")))?;
    let kind = kind_of(tool);
    let effects = effects(tool, kind, &args, &root);
    let roots = [root];
    let explained = |interactive| {
        policy.explain(&Query {
            tool,
            aliases: &[],
            kind,
            args: &args,
            effects: &effects,
            mode: arguments.mode,
            interactive,
            workspace: &roots,
            trusted: launch.is_trusted(),
            created_paths: &[],
            taint: &Taint::default(),
            origin: Origin::default(),
        })
    };
    let (terminal, headless) = (explained(true), explained(false));
    if !arguments.json {
        return Ok(print_text(&format_explanation(&terminal, &headless, arguments)));
    }
    let details = if arguments.interactive { &terminal } else { &headless };
    let value = serde_json::to_value(details).map(|mut value| {
        let decision = |explanation: &Explanation| {
            let policy_decision = &explanation.policy_decision;
            json!({"decision": policy_decision.kind, "rule": policy_decision.rule, "why": policy_decision.reason})
        };
        if let Some(object) = value.as_object_mut() {
            object.insert("interactive".to_owned(), decision(&terminal));
            object.insert("headless".to_owned(), decision(&headless));
        }
        value
    });
    Ok(print_text(&pretty_json(value)))
}

/// Returns the tool and its arguments.
fn tool_and_arguments(arguments: &ExplainArguments) -> Result<(&str, Object), Failure> {
    if let Some(command) = &arguments.command {
        let mut args = Object::new();
        args.insert("command".to_owned(), command.clone().into());
        return Ok((SHELL, args));
    }
    let Some(tool) = arguments.tool.as_deref() else {
        return Err(input_failure(
            "Specify the tool call: `--command \"…\"`, or `--tool NAME` with `--args JSON`"
                .to_owned(),
        ));
    };
    let args = match arguments.args.as_deref().map(serde_json::from_str) {
        None => Object::new(),
        Some(Ok(Value::Object(args))) => args,
        Some(Ok(_)) => return Err(input_failure("`--args` must be a JSON object".to_owned())),
        Some(Err(error)) => {
            return Err(input_failure(format!("Invalid JSON in `--args`: {error}")));
        }
    };
    Ok((tool, args))
}

fn kind_of(tool: &str) -> ToolKind {
    match tool {
        SHELL => ToolKind::Execute,
        "replace" | "write_file" => ToolKind::Edit,
        "web_fetch" => ToolKind::Fetch,
        "invoke_agent" => ToolKind::Agent,
        "glob" | "grep_search" | "google_web_search" => ToolKind::Search,
        "read_file" | "read_many_files" | "list_directory" => ToolKind::Read,
        _ => ToolKind::Other,
    }
}

/// Returns the effects of such a tool call, as far as its arguments show.
fn effects(tool: &str, kind: ToolKind, args: &Object, root: &Path) -> Effects {
    let text = |key: &str| args.get(key).and_then(Value::as_str);
    if tool == SHELL {
        let command = text("command").unwrap_or_default();
        let real = resolve_links(root);
        let directory =
            text("dir_path").map_or_else(|| real.clone(), |path| resolve_links(&real.join(path)));
        let roots = [real];
        return command_effects(command, &directory, &roots, GeminiIgnore::load(&roots).as_ref());
    }
    let mut effects = Effects::default();
    for key in ["file_path", "absolute_path", "path", "dir_path"] {
        let Some(path) = text(key).map(|path| resolve_links(&root.join(path))) else { continue };
        if kind == ToolKind::Edit {
            if !path.exists() {
                effects.creates.push(path.clone());
            }
            effects.writes.push(path);
        } else {
            effects.reads.push(path);
        }
    }
    effects
}

/// Resolves the links of a path, which need not exist.
fn resolve_links(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    real_path(&absolute).unwrap_or(absolute)
}

fn lint_files(files: &[PathBuf], tier: Tier, json: bool) -> ExitCode {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let problems: Vec<Problem> = files
        .iter()
        .flat_map(|path| {
            let file = RuleFile { tier, path: path.clone(), text: read(path) };
            lint(&file, home.as_deref())
        })
        .collect();
    let text = if json {
        pretty_json(serde_json::to_value(&problems))
    } else if problems.is_empty() {
        "No problems found.\n".to_owned()
    } else {
        problems.iter().fold(String::new(), |mut text, problem| {
            let severity = match problem.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{severity} [{}] {}",
                problem.kind.as_str(),
                one_line(&problem.to_string())
            );
            text
        })
    };
    let code = print_text(&text);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return ExitCode::GENERAL;
    }
    code
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let count =
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if count as u64 > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    Ok(text)
}

fn format_rules(rules: &[EvaluatedRule]) -> String {
    rules.iter().fold(String::new(), |mut text, rule| {
        let _ = writeln!(
            text,
            "{}  {:<5}  {}",
            rule.priority,
            decision_name(rule.decision),
            one_line(&rule.rule)
        );
        text
    })
}

fn format_explanation(
    terminal: &Explanation,
    headless: &Explanation,
    arguments: &ExplainArguments,
) -> String {
    let mut text = String::new();
    for (run, explanation) in [("interactive", terminal), ("headless", headless)] {
        let policy_decision = &explanation.policy_decision;
        let decision = decision_name(policy_decision.kind);
        let _ = writeln!(text, "{run}: {decision}, by {}", one_line(&policy_decision.rule));
        let _ = writeln!(text, "  {}", one_line(&policy_decision.reason));
    }
    let explanation = if arguments.interactive { terminal } else { headless };
    let policy_decision = &explanation.policy_decision;
    if let Some(reason) = &explanation.unanalyzable_reason {
        let _ = writeln!(text, "The command line cannot be analyzed: {}", one_line(reason));
    }
    if !policy_decision.grants.is_empty() {
        let _ = writeln!(
            text,
            "Permissions beyond the sandbox: {}",
            policy_decision.grants.descriptions().join(", ")
        );
    }
    if !explanation.checks.is_empty() {
        text.push_str("\nChecks:\n");
        for fired in &explanation.checks {
            let _ = writeln!(text, "  {}: {}", one_line(&fired.check), one_line(&fired.reason));
        }
    }
    for command in &explanation.commands {
        let _ = writeln!(
            text,
            "\n`{}` → {}: {}",
            one_line(&command.command),
            decision_name(command.decision),
            one_line(&command.rule)
        );
        write_evaluated_rules(&mut text, &command.rules, arguments.verbose);
    }
    if explanation.commands.is_empty() {
        text.push_str(if arguments.verbose { "\nRules:\n" } else { "\nMatching rules:\n" });
        write_evaluated_rules(&mut text, &explanation.rules, arguments.verbose);
    }
    if !arguments.verbose {
        text.push_str("\nUse -v to also list the rules that do not match.\n");
    }
    text
}

fn write_evaluated_rules(text: &mut String, rules: &[EvaluatedRule], all: bool) {
    for rule in rules.iter().filter(|rule| all || rule.mismatch.is_none()) {
        let outcome = rule.mismatch.unwrap_or("matches");
        let _ = writeln!(text, "  {}: {outcome}", one_line(&rule.rule));
    }
}

fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

fn pretty_json(value: Result<Value, serde_json::Error>) -> String {
    let value = value.unwrap_or_else(|error| json!(error.to_string()));
    json_document(&value)
}

/// Prints text. A closed pipe is not an error.
fn print_text(text: &str) -> ExitCode {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::GENERAL,
        _ => ExitCode::SUCCESS,
    }
}
