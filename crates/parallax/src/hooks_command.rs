//! `parallax hooks`: lists, accepts, and tests hooks, and explains why some do not run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use parallax_config::hooks::{Hook, HookSource};
use parallax_config::other_agents::parallax_event;
use parallax_headless::one_line;
use parallax_protocol::Object;
use parallax_protocol::code_text::code_text;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::hooks::{HookDecision, HookEvent};
use parallax_sdk::SessionConfig;
use serde_json::{Value, json};

use crate::command_result::{CommandResult, input_failure, switch_result};
use crate::scope_option::{Scope, UserScopeOption};

/// Why the hooks of the project are not listed.
const UNTRUSTED: &str = "The folder is not trusted, so its hooks are neither read nor run. Run \
                         `parallax trust add` to trust it and `parallax hooks accept` to accept \
                         its hooks.";

#[derive(Debug, Subcommand)]
pub(crate) enum HooksAction {
    /// List the hooks by event
    List,
    /// Accept the current hooks of the project, so that they run
    #[command(alias = "trust")]
    Accept,
    /// Run the hooks of an event with a test input, and show their results
    Test {
        /// Event: `BeforeTool`, or another agent's name for it
        event: String,
        /// File with the JSON input of the hooks [default: an empty object]
        #[arg(long)]
        input: Option<PathBuf>,
        /// Value for the matchers, such as a tool name [default: `tool_name` or `source` of
        /// the input]
        #[arg(long)]
        subject: Option<String>,
    },
    /// Show which hooks ran, how long they took, and their results
    Trace {
        /// Session to show [default: the last one in which a hook ran]
        #[arg(long)]
        session: Option<String>,
    },
    /// Copy the hooks of another agent
    Migrate {
        /// Copy Claude Code hooks (`.claude/settings.json`)
        #[arg(long, required = true)]
        from_claude: bool,
        /// Settings to copy from and to [default: the project's, or yours if the project
        /// has none]
        #[arg(long, value_enum)]
        scope: Option<Scope>,
    },
    /// Enable a hook
    Enable {
        /// Name or command of the hook
        name: String,
        #[command(flatten)]
        scope: UserScopeOption,
    },
    /// Disable a hook
    Disable {
        /// Name or command of the hook
        name: String,
        #[command(flatten)]
        scope: UserScopeOption,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// Fails on settings that cannot be read or written.
pub(crate) fn run(launch: &SessionConfig, action: &HooksAction) -> Result<CommandResult, Failure> {
    match action {
        HooksAction::List => list(launch),
        HooksAction::Accept => {
            if !launch.is_trusted() {
                let message = UNTRUSTED.to_owned();
                return Err(Failure { kind: FailureKind::Untrusted, message, status: None });
            }
            let count = launch.hook_library().accept()?;
            let text = format!("Accepted {count} hook(s) of the project.\n");
            Ok(CommandResult::new(text, json!({"accepted": count})))
        }
        HooksAction::Test { event, input, subject } => {
            test(launch, event, input.as_deref(), subject.as_deref())
        }
        HooksAction::Trace { session } => trace(launch, session.as_deref()),
        HooksAction::Migrate { scope, .. } => migrate(launch, *scope),
        HooksAction::Enable { name, scope } => set_enabled(launch, name, true, *scope),
        HooksAction::Disable { name, scope } => set_enabled(launch, name, false, *scope),
    }
}

fn list(launch: &SessionConfig) -> Result<CommandResult, Failure> {
    let found = launch.hook_library().list()?;
    let mut text = String::new();
    for hook in &found.hooks {
        let matcher = if hook.matcher.is_empty() { "*" } else { &hook.matcher };
        let name = code_text(hook.title());
        let (event, source) = (hook.event.as_str(), hook.source.as_str());
        let _ =
            writeln!(text, "{event} {}: {name} ({source}, {})", code_text(matcher), state(hook));
        let _ = writeln!(text, "  {}", code_text(&hook.display_command()));
        let _ = writeln!(text, "  {}", one_line(&hook.file.display().to_string()));
    }
    if text.is_empty() {
        text.push_str("No hooks.\n");
    }
    if !launch.is_trusted() {
        let _ = writeln!(text, "note: {UNTRUSTED}");
    }
    for warning in &found.warnings {
        let _ = writeln!(text, "note: {}", one_line(warning));
    }
    let hooks: Vec<Value> = found.hooks.iter().map(to_json).collect();
    Ok(CommandResult::new(
        text,
        json!({"hooks": hooks, "warnings": found.warnings, "trusted": launch.is_trusted()}),
    ))
}

fn trace(launch: &SessionConfig, session: Option<&str>) -> Result<CommandResult, Failure> {
    let entries = parallax_hooks::hook_trace(&launch.dirs(), launch.directory(), session)?;
    let mut text = String::new();
    for entry in &entries {
        let _ = writeln!(text, "{}  {}", entry.time, one_line(&entry.line()));
    }
    Ok(CommandResult::new(text, json!(entries)))
}

/// Returns whether the hook runs, or why not.
fn state(hook: &Hook) -> &'static str {
    match hook {
        Hook { disabled: true, .. } => "off",
        Hook { accepted: false, source: HookSource::Extension, .. } => "changed since installed",
        Hook { accepted: false, .. } => "not accepted",
        _ => "on",
    }
}

fn to_json(hook: &Hook) -> Value {
    json!({
        "event": hook.event.as_str(),
        "name": hook.name,
        "type": hook.kind.as_str(),
        "command": hook.command,
        "variables": hook.env.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "description": hook.description,
        "matcher": hook.matcher,
        "source": hook.source.as_str(),
        "file": hook.file.to_string_lossy(),
        "timeout": u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX),
        "failClosed": hook.fail_closed,
        "state": state(hook),
    })
}

fn test(
    launch: &SessionConfig,
    event: &str,
    input: Option<&Path>,
    subject: Option<&str>,
) -> Result<CommandResult, Failure> {
    let event = HookEvent::parse(event).or_else(|| parallax_event(event)).ok_or_else(|| {
        let names = HookEvent::ALL.map(HookEvent::as_str).join("`, `");
        input_failure(format!("Unknown event `{}`. Events: `{names}`", one_line(event)))
    })?;
    let input = match input {
        None => Object::new(),
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                input_failure(format!("Failed to read `{}`: {error}", file.display()))
            })?;
            serde_json::from_str(&text).map_err(|error| {
                input_failure(format!("Failed to parse `{}`: {error}", file.display()))
            })?
        }
    };
    let input_keys = ["tool_name", "source", "reason", "trigger", "notification_type"]
        .into_iter()
        .find_map(|name| input.get(name)?.as_str());
    let subject = subject.or(input_keys).unwrap_or_default().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| input_failure(error.to_string()))?;
    let trial = runtime.block_on(parallax_sdk::try_hooks(launch, event, &subject, input))?;
    let outcome = &trial.outcome;
    let decision = outcome.decision.map(|decision| match decision {
        HookDecision::Allow => "allow",
        HookDecision::Ask => "ask",
        HookDecision::Deny => "deny",
    });
    let mut text = String::new();
    for name in &trial.hook_names {
        let _ = writeln!(text, "ran: {}", one_line(name));
    }
    if trial.hook_names.is_empty() {
        let _ = writeln!(text, "no enabled hook of `{}` matches", event.as_str());
    }
    let _ = writeln!(text, "decision: {}", decision.unwrap_or("none"));
    if !outcome.reason.is_empty() {
        let _ = writeln!(text, "reason: {}", one_line(&outcome.reason));
    }
    if let Some(stop) = &outcome.stop {
        let _ = writeln!(text, "stop: {}", one_line(stop));
    }
    for message in &outcome.messages {
        let _ = writeln!(text, "message: {}", one_line(&message.text));
    }
    if let Some(context) = &outcome.context {
        let _ = writeln!(text, "context: {}", one_line(context));
    }
    for (name, value) in &outcome.output {
        let _ = writeln!(text, "{}: {}", one_line(name), one_line(&value.to_string()));
    }
    for warning in &trial.warnings {
        let _ = writeln!(text, "note: {}", one_line(warning));
    }
    let messages: Vec<&String> = outcome.messages.iter().map(|message| &message.text).collect();
    let json = json!({
        "event": event.as_str(),
        "ran": trial.hook_names,
        "decision": decision,
        "reason": outcome.reason,
        "stop": outcome.stop,
        "messages": messages,
        "context": outcome.context,
        "output": outcome.output,
        "warnings": trial.warnings,
    });
    Ok(CommandResult::new(text, json))
}

fn migrate(
    launch: &SessionConfig,
    requested_scope: Option<Scope>,
) -> Result<CommandResult, Failure> {
    let mut scope = requested_scope.unwrap_or(Scope::Workspace);
    let mut done = parallax_hooks::migrate_hooks(launch.config(), scope.into())?;
    if requested_scope.is_none() && done.read.is_empty() {
        scope = Scope::User;
        done = parallax_hooks::migrate_hooks(launch.config(), scope.into())?;
    }
    let mut text = String::new();
    for (event, count) in &done.added {
        let _ = writeln!(text, "{event}: {count} hook(s) added");
    }
    match &done.file {
        Some(file) => {
            let _ = writeln!(text, "written: {}", one_line(&file.display().to_string()));
        }
        None => text.push_str("No hooks to copy.\n"),
    }
    if done.file.is_some() && matches!(scope, Scope::Workspace) {
        text.push_str("Run `parallax hooks accept` to accept them; they do not run until then.\n");
    }
    for reason in &done.skipped {
        let _ = writeln!(text, "skipped: {}", one_line(reason));
    }
    let shown = |file: &PathBuf| file.to_string_lossy().into_owned();
    let added: serde_json::Map<String, Value> =
        done.added.iter().map(|(event, count)| (event.clone(), json!(count))).collect();
    let json = json!({
        "file": done.file.as_ref().map(shown),
        "read": done.read.iter().map(shown).collect::<Vec<_>>(),
        "added": added,
        "leftOut": done.skipped,
    });
    Ok(CommandResult::new(text, json))
}

fn set_enabled(
    launch: &SessionConfig,
    name: &str,
    on: bool,
    scope: UserScopeOption,
) -> Result<CommandResult, Failure> {
    let file = launch.hook_library().set_enabled(name, on, scope.into())?;
    Ok(switch_result("hook", name, on, &file))
}
