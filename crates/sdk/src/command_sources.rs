//! The agents and skills of a session as the slash commands see them.

use std::sync::Arc;

use parallax_agents::{SessionAgents, SessionSkills};
use parallax_commands::{SkillCommand, SkillSource, StartableAgents};
use parallax_protocol::agent::Agents as _;

/// The agents that a command or a prompt may name.
pub(crate) struct AgentNames(pub(crate) Arc<SessionAgents>);

impl StartableAgents for AgentNames {
    fn has(&self, name: &str) -> bool {
        self.0.list().iter().any(|agent| agent.name == name)
    }

    fn names(&self) -> Vec<String> {
        self.0.list().iter().map(|agent| agent.name.clone()).collect()
    }
}

/// The skills that are also commands.
pub(crate) struct SkillCommands(pub(crate) Arc<SessionSkills>);

impl SkillSource for SkillCommands {
    fn commands(&self) -> Vec<SkillCommand> {
        let command = |(name, entry): (String, parallax_tools::activate_skill::SkillEntry)| {
            SkillCommand { name, description: entry.description.clone(), entry }
        };
        self.0.commands().into_iter().map(command).collect()
    }
}
