//! `/agents accept`: project agents are enabled after the user has accepted them.

use parallax_screen::Line;
use parallax_sdk::agents::{Agent, AgentSet};

use crate::app::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;

/// Maximum number of rows of an agent's prompt in the dialog; the file contains all of it.
const ROWS: usize = 10;
/// Maximum number of characters in each row.
const LONGEST: usize = 200;

impl App {
    /// Tells the user that project agents are waiting for acceptance.
    pub(super) fn offer_to_accept(&mut self, set: &AgentSet) {
        let names: Vec<String> =
            set.unacknowledged.iter().map(|agent| format!("`{}`", agent.name)).collect();
        if names.is_empty() {
            return;
        }
        let (word, them) = if names.len() == 1 { ("agent", "it") } else { ("agents", "them") };
        self.info(format!(
            "New or changed {word} of this project, not enabled yet: {}. Run `/agents accept` to \
             review {them}.",
            names.join(", ")
        ));
    }

    /// Asks whether to accept one project agent, or all of them one after the other.
    pub(in crate::app) fn accept_agents(&mut self, name: &str) {
        let Some(agents) = self.session_agents() else { return };
        let mut waiting = agents.set().unacknowledged.clone();
        if !name.is_empty() {
            waiting.retain(|agent| agent.name == name);
        }
        match (waiting.is_empty(), name) {
            (true, "") => self.info("No agents of this project need to be accepted."),
            (true, name) => {
                self.error(format!("Agent `{}` does not need to be accepted.", clean(name)))
            }
            (false, _) => self.ask_for_agent(waiting),
        }
    }

    fn ask_for_agent(&mut self, waiting: Vec<Agent>) {
        let Some(agent) = waiting.first() else { return };
        let items = vec![
            ListItem::new("no", "Not now", ""),
            ListItem::new(
                "yes",
                "Enable the agent as it is now",
                "if its file changes, you are asked again",
            ),
        ];
        let title = format!("Enable the agent `{}` of this project?", agent.name);
        let list = ListDialog::new(title, items).intro(self.agent_to_see(agent));
        self.open(Overlay::list(Purpose::AcceptAgents(waiting), list));
    }

    /// The rows shown before the user accepts an agent. All text comes from the project.
    fn agent_to_see(&self, agent: &Agent) -> Vec<Line> {
        let fact = |label: &str, value: &str| {
            Line::styled(format!("{label}: "), self.theme.secondary)
                .and(clean(value), self.theme.text)
        };
        let mut rows = vec![Line::styled(clean(&agent.description), self.theme.text)];
        if let Some(file) = &agent.file {
            rows.push(fact("file", &file.display().to_string()));
        }
        let tools = agent.tools.as_ref().map_or_else(|| "all".to_owned(), |tools| tools.join(", "));
        rows.push(fact("tools", &tools));
        for (name, server) in &agent.mcp_servers {
            rows.push(fact(&format!("MCP server {}", clean(name)), &server.to_string()));
        }
        let lines = agent.prompt.lines().filter(|line| !line.trim().is_empty());
        let count = lines.clone().count();
        for line in lines.take(ROWS) {
            let line: String = line.chars().take(LONGEST).collect();
            rows.push(Line::styled(format!("  {}", clean(&line)), self.theme.secondary));
        }
        if count > ROWS {
            let more = format!("  … {} more lines in the file", count - ROWS);
            rows.push(Line::styled(more, self.theme.secondary));
        }
        rows
    }

    /// Handles the answer and opens the dialog for the next agent.
    pub(in crate::app) fn agent_answer(&mut self, mut waiting: Vec<Agent>, yes: bool) {
        self.dialogs.close();
        if waiting.is_empty() {
            return;
        }
        let agent = waiting.remove(0);
        if yes && let Some(agents) = self.session_agents() {
            self.effect(Effect::Run(Box::new(move || {
                let told = agents.acknowledge(&agent).map(|set| {
                    let still = set.agents.iter().any(|known| known.hash == agent.hash);
                    let text = match still {
                        true => format!("`{}` is enabled.", agent.name),
                        false => {
                            format!("The file of `{}` has changed in the meantime.", agent.name)
                        }
                    };
                    (text, set)
                });
                Box::new(move |app| app.agents_changed(told))
            })));
        }
        self.ask_for_agent(waiting);
    }
}
