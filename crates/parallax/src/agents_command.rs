//! `parallax agents`: lists the subagents and accepts those of the project.

use std::fmt::Write as _;

use clap::Subcommand;
use parallax_headless::one_line;
use parallax_protocol::code_text::code_text;
use parallax_protocol::event::Failure;
use parallax_sdk::SessionConfig;
use parallax_sdk::agents::Agent;
use serde_json::{Value, json};

use crate::command_result::{CommandResult, input_failure};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsAction {
    /// List the agents
    List,
    /// Accept the project's agents with their current files
    #[command(alias = "acknowledge")]
    Accept {
        /// Names of the agents [default: all]
        names: Vec<String>,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// Fails on an unknown name or a file that cannot be written.
pub(crate) fn run(launch: &SessionConfig, action: &AgentsAction) -> Result<CommandResult, Failure> {
    match action {
        AgentsAction::List => Ok(list(launch)),
        AgentsAction::Accept { names } => accept(launch, names),
    }
}

fn list(launch: &SessionConfig) -> CommandResult {
    let set = launch.agent_library().agents();
    let (mut text, mut json) = (String::new(), Vec::new());
    for (agents, counts) in [(&set.agents, true), (&set.unacknowledged, false)] {
        for agent in agents {
            let state = match (counts, agent.disabled) {
                (false, _) => "not accepted",
                (true, true) => "off",
                (true, false) => "on",
            };
            let _ = writeln!(text, "{} ({}, {state})", agent.name, agent.tier.as_str());
            let _ = writeln!(text, "  {}", one_line(&agent.description));
            if let Some(remote) = &agent.remote {
                let _ = writeln!(text, "  remote: {}", one_line(&remote.address()));
                if remote.auth.is_some() {
                    let _ = writeln!(text, "  sends: {}", code_text(&remote.credentials()));
                }
            }
            if let Some(file) = &agent.file {
                let _ = writeln!(text, "  {}", one_line(&file.display().to_string()));
            }
            json.push(to_json(agent, state));
        }
    }
    for warning in set.warnings.all() {
        let _ = writeln!(text, "note: {}", one_line(warning));
    }
    CommandResult::new(
        text,
        json!({"agents": json, "warnings": set.warnings.all().collect::<Vec<_>>()}),
    )
}

fn to_json(agent: &Agent, state: &str) -> Value {
    json!({
        "name": agent.name,
        "description": agent.description,
        "source": agent.tier.as_str(),
        "file": agent.file.as_ref().map(|file| file.to_string_lossy()),
        "sha256": agent.hash,
        "state": state,
        "remote": agent.remote.as_ref().map(|remote| json!({
            "address": remote.address(),
            "credentials": remote.auth.is_some().then(|| remote.credentials()),
        })),
    })
}

fn accept(launch: &SessionConfig, names: &[String]) -> Result<CommandResult, Failure> {
    let set = launch.agent_library().agents();
    for name in names {
        if !set.unacknowledged.iter().chain(&set.agents).any(|agent| agent.name == *name) {
            let name = one_line(name);
            return Err(input_failure(format!(
                "Unknown agent `{name}`. Run `parallax agents list` to list the agents."
            )));
        }
    }
    let (mut text, mut accepted) = (String::new(), Vec::new());
    for agent in &set.unacknowledged {
        if names.is_empty() || names.contains(&agent.name) {
            launch.agent_library().acknowledge(agent)?;
            let _ = writeln!(text, "accepted: {}", agent.name);
            accepted.push(agent.name.clone());
        }
    }
    if accepted.is_empty() {
        text.push_str("No agents to accept.\n");
    }
    Ok(CommandResult::new(text, json!({"accepted": accepted})))
}
