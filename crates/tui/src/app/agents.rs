//! `/agents`: lists the subagents and enables or disables them.

mod accept;
mod config;

use std::sync::Arc;

use parallax_protocol::event::Failure;
use parallax_screen::Line;
use parallax_sdk::agents::{Agent, AgentSet, SessionAgents};

use super::App;
use crate::clean::clean;
use crate::effect::Effect;

impl App {
    /// Lists the subagents with their descriptions.
    pub(super) fn list_agents(&mut self) {
        let Some(agents) = self.session_agents() else { return };
        let set = agents.set();
        let mut rows: Vec<Line> =
            set.agents.iter().flat_map(|agent| self.agent_rows(agent, true)).collect();
        rows.extend(set.unacknowledged.iter().flat_map(|agent| self.agent_rows(agent, false)));
        self.say_wrapped(rows);
        self.offer_to_accept(&set);
        self.agent_warnings(&set);
    }

    /// Reloads the agent definitions.
    pub(super) fn reload_agents(&mut self) {
        let Some(agents) = self.session_agents() else { return };
        self.effect(Effect::Run(Box::new(move || {
            let told = agents.reload().map(|set| {
                let on = set.agents.iter().filter(|agent| !agent.disabled).count();
                (format!("{on} of {} agents are enabled.", set.agents.len()), set)
            });
            Box::new(move |app| app.agents_changed(told))
        })));
    }

    /// Enables or disables an agent and saves the setting.
    pub(super) fn switch_agent(&mut self, name: &str, on: bool) {
        if name.is_empty() {
            return self.error("No agent given; `/agents` lists them.");
        }
        let Some(agents) = self.session_agents() else { return };
        let name = name.to_owned();
        self.effect(Effect::Run(Box::new(move || {
            let told = agents.switch(&name, on).map(|(file, set)| {
                let word = if on { "is enabled" } else { "is disabled" };
                (format!("`{name}` {word} ({}).", file.display()), set)
            });
            Box::new(move |app| app.agents_changed(told))
        })));
    }

    /// Returns the agents of the session, or shows an error if agents are disabled.
    fn session_agents(&mut self) -> Option<Arc<SessionAgents>> {
        let agents = self.extensions.agents().cloned();
        if agents.is_none() {
            self.error("Agents are disabled (`experimental.enableAgents`).");
        }
        agents
    }

    /// Submits a goal for coordination by subagents only.
    pub(super) fn coordinate(&mut self, goal: &str) {
        if goal.is_empty() {
            return self.error("No goal given: use `/parallax GOAL`.");
        }
        self.submit_for_command(parallax_sdk::commands::coordination(goal));
    }

    /// Takes over the agents of the session that was opened.
    pub(super) fn learn_agents(&mut self) {
        let set = self.extensions.agent_set().unwrap_or_default();
        self.mention_agents(&set);
        self.offer_to_accept(&set);
    }

    /// Updates the agent names that `@` completes.
    pub(super) fn mention_agents(&mut self, set: &AgentSet) {
        let enabled = set.agents.iter().filter(|agent| !agent.disabled);
        let mentions = enabled.map(|agent| (agent.name.clone(), clean(&agent.description)));
        self.completion.mention_agents(mentions.collect());
    }

    fn agents_changed(&mut self, changed: Result<(String, Arc<AgentSet>), Failure>) {
        match changed {
            Ok((text, set)) => {
                self.info(text);
                self.mention_agents(&set);
                self.agent_warnings(&set);
            }
            Err(failure) => self.error(failure.message),
        }
    }

    fn agent_warnings(&mut self, set: &AgentSet) {
        for warning in set.warnings.summary("parallax agents list") {
            self.warn(warning);
        }
    }

    fn agent_rows(&self, agent: &Agent, counts: bool) -> Vec<Line> {
        let state = match (counts, agent.disabled) {
            (false, _) => " · not accepted",
            (true, true) => " · off",
            (true, false) => "",
        };
        let head = Line::styled(format!("  {}", agent.name), self.theme.accent)
            .and(format!(" ({}{state})", agent.tier.as_str()), self.theme.secondary);
        vec![head, Line::raw(format!("    {}", clean(&agent.description)))]
    }
}
