//! Reviews the agents of an extension.

use std::path::Path;

use parallax_config::agents::{Agent, AgentTier, agent_files, read_agent};

use super::Review;
use super::capability::Capability;
use super::servers::servers;

/// Adds a line for each agent and for each MCP server of an agent.
pub(super) fn agents(folder: &Path, review: &mut Review) -> Result<(), String> {
    for file in agent_files(&folder.join("agents")) {
        match read_agent(&file, &AgentTier::User) {
            Ok(agent) => {
                let line = format!("agent `{}`: can use {}", agent.name, tools(&agent));
                let (name, tools) = (agent.name.clone(), agent.tools.clone());
                review.can(&line, Capability::Agent { name, tools });
                review.lines.push(line);
                servers(&agent.mcp_servers, Some(&agent.name), review)?;
            }
            Err(why) => {
                let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
                review.notes.push(format!("invalid agent `{name}`: {why}"));
            }
        }
    }
    Ok(())
}

fn tools(agent: &Agent) -> String {
    match agent.tools.as_deref() {
        None => "all tools".to_owned(),
        Some([]) => "no tools".to_owned(),
        Some(tools) => format!("`{}`", tools.join("`, `")),
    }
}
