//! `parallax hooks`: which hooks there are, which run, and why others do not.

use std::fmt::Write as _;

use clap::Subcommand;
use parallax_config::hooks::{Hook, HookSource};
use parallax_headless::one_line;
use parallax_protocol::event::Failure;
use parallax_sdk::Launch;
use serde_json::{Value, json};

use crate::extending::{InScope, Said, switched};

#[derive(Debug, Subcommand)]
pub(crate) enum HooksAction {
    /// List the hooks by event
    List,
    /// Accept the project's hooks as they are now, so that they run
    #[command(alias = "trust")]
    Accept,
    /// Switch a hook on
    Enable {
        /// Its name, or its command
        name: String,
        #[command(flatten)]
        scope: InScope,
    },
    /// Switch a hook off
    Disable {
        /// Its name, or its command
        name: String,
        #[command(flatten)]
        scope: InScope,
    },
}

/// Does it.
///
/// # Errors
/// Settings that cannot be read or written.
pub(crate) fn run(launch: &Launch, action: &HooksAction) -> Result<Said, Failure> {
    match action {
        HooksAction::List => list(launch),
        HooksAction::Accept => {
            let count = launch.accept_hooks()?;
            let text = format!("{count} hook(s) of the project are accepted as they are now\n");
            Ok(Said::new(text, json!({"accepted": count})))
        }
        HooksAction::Enable { name, scope } => switch(launch, name, true, *scope),
        HooksAction::Disable { name, scope } => switch(launch, name, false, *scope),
    }
}

fn list(launch: &Launch) -> Result<Said, Failure> {
    let found = launch.hook_list()?;
    let mut text = String::new();
    for hook in &found.hooks {
        let matcher = if hook.matcher.is_empty() { "*" } else { &hook.matcher };
        let name = one_line(hook.title());
        let (event, source) = (hook.event.as_str(), hook.source.as_str());
        // Writing into a text cannot fail.
        let _ = writeln!(text, "{event} {}: {name} ({source}, {})", one_line(matcher), state(hook));
        let _ = writeln!(text, "  {}", one_line(&hook.command));
        let _ = writeln!(text, "  {}", one_line(&hook.file.display().to_string()));
    }
    if text.is_empty() {
        text.push_str("There are no hooks\n");
    }
    for warning in &found.warnings {
        let _ = writeln!(text, "note: {}", one_line(warning));
    }
    let hooks: Vec<Value> = found.hooks.iter().map(to_json).collect();
    Ok(Said::new(text, json!({"hooks": hooks, "warnings": found.warnings})))
}

/// Whether it runs, or why not.
fn state(hook: &Hook) -> &'static str {
    match hook {
        Hook { disabled: true, .. } => "off",
        Hook { accepted: false, source: HookSource::Project, .. } => "not accepted",
        _ => "on",
    }
}

fn to_json(hook: &Hook) -> Value {
    json!({
        "event": hook.event.as_str(),
        "name": hook.name,
        "command": hook.command,
        "description": hook.description,
        "matcher": hook.matcher,
        "source": hook.source.as_str(),
        "file": hook.file.to_string_lossy(),
        "timeout": u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX),
        "failClosed": hook.fail_closed,
        "state": state(hook),
    })
}

fn switch(launch: &Launch, name: &str, on: bool, scope: InScope) -> Result<Said, Failure> {
    let file = launch.switch_hook(name, on, scope.into())?;
    Ok(switched("hook", name, on, &file))
}
