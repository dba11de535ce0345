//! Reviews the agents of an extension.

use std::path::Path;

use parallax_config::agents::{Agent, AgentTier, agent_files, read_agents};

use super::Review;
use super::capability::Capability;
use super::servers::servers;

/// Adds a line for each agent and for each MCP server of an agent.
pub(super) fn agents(directory: &Path, review: &mut Review) -> Result<(), String> {
    for file in agent_files(&directory.join("agents")) {
        match read_agents(&file, &AgentTier::User) {
            Ok(agents) => {
                for agent in agents {
                    add(&agent, review)?;
                }
            }
            Err(reason) => {
                let name = file.strip_prefix(directory).unwrap_or(&file).display().to_string();
                review.notes.push(format!("invalid agent `{name}`: {reason}"));
            }
        }
    }
    Ok(())
}

fn add(agent: &Agent, review: &mut Review) -> Result<(), String> {
    if let Some(remote) = &agent.remote {
        let mut line =
            format!("remote agent `{}`: receives its tasks at {}", agent.name, remote.address());
        let credentials = remote.credentials();
        if !credentials.is_empty() {
            line.push_str(&format!("; sends {credentials}"));
        }
        review.lines.push(line);
        return Ok(());
    }
    let line = format!("agent `{}`: can use {}", agent.name, tools(agent));
    let (name, tools) = (agent.name.clone(), agent.tools.clone());
    review.add_capability(&line, Capability::Agent { name, tools });
    review.lines.push(line);
    servers(&agent.mcp_servers, Some(&agent.name), review)
}

fn tools(agent: &Agent) -> String {
    match agent.tools.as_deref() {
        None => "all tools".to_owned(),
        Some([]) => "no tools".to_owned(),
        Some(tools) => format!("`{}`", tools.join("`, `")),
    }
}
