//! `/agents accept`: project agents are enabled after the user has accepted them.

use parallax_protocol::code_text::code_text;
use parallax_screen::Line;
use parallax_sdk::agents::{Agent, AgentSet};

use crate::app::App;
use crate::app::commands::agents;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::layout::truncate_text;
use crate::sanitize::sanitize;

/// Maximum number of rows of an agent's prompt in the dialog; the file contains all of it.
const ROWS: usize = 10;
/// Maximum number of characters in each row.
const MAX_LENGTH: usize = 200;

/// Notifies the user that project agents are waiting for acceptance.
pub(crate) fn notify_waiting(app: &mut App, set: &AgentSet) {
    let names: Vec<String> =
        set.unacknowledged.iter().map(|agent| format!("`{}`", agent.name)).collect();
    if names.is_empty() {
        return;
    }
    let (word, them) = if names.len() == 1 { ("agent", "it") } else { ("agents", "them") };
    app.info(format!(
        "New or changed {word} of this project, not enabled yet: {}. Run `/agents accept` to \
         review {them}.",
        names.join(", ")
    ));
}

/// Asks whether to accept one project agent, or all of them one after the other.
pub(crate) fn ask(app: &mut App, name: &str) {
    let Some(agents) = agents::session_agents(app) else { return };
    let mut waiting = agents.set().unacknowledged.clone();
    if !name.is_empty() {
        waiting.retain(|agent| agent.name == name);
    }
    match (waiting.is_empty(), name) {
        (true, "") => app.info("No agents of this project need to be accepted."),
        (true, name) => {
            app.error(format!("Agent `{}` does not need to be accepted.", sanitize(name)))
        }
        (false, _) => ask_for_consent(app, waiting),
    }
}

fn ask_for_consent(app: &mut App, waiting: Vec<Agent>) {
    let Some(agent) = waiting.first() else { return };
    let items = vec![
        ListItem::new("no", "Not now", ""),
        ListItem::new(
            "yes",
            "Enable the agent as it is now",
            "approval is requested again if its file changes",
        ),
    ];
    let title = format!("Enable the agent `{}` of this project?", agent.name);
    let list = ListDialog::new(title, items).intro(preview(app, agent));
    app.open(Overlay::list(DialogPurpose::AcceptAgents(waiting), list));
}

/// Returns the rows shown before the user accepts an agent. All text comes from the project.
fn preview(app: &App, agent: &Agent) -> Vec<Line> {
    let fact = |label: &str, value: &str| {
        Line::styled(format!("  {label}: "), app.theme.secondary)
            .with_span(sanitize(value), app.theme.text)
    };
    let mut rows = vec![Line::styled(sanitize(&agent.description), app.theme.text)];
    if let Some(file) = &agent.file {
        rows.push(fact("file", &file.display().to_string()));
    }
    if let Some(remote) = &agent.remote {
        rows.push(fact("remote", &remote.address()));
        if remote.auth.is_some() {
            rows.push(fact("sends", &code_text(&remote.credentials())));
        }
        return rows;
    }
    let tools = agent.tools.as_ref().map_or_else(|| "all".to_owned(), |tools| tools.join(", "));
    rows.push(fact("tools", &tools));
    for (name, server) in &agent.mcp_servers {
        rows.push(fact(&format!("MCP server {}", sanitize(name)), &server.to_string()));
    }
    let lines = agent.prompt.lines().filter(|line| !line.trim().is_empty());
    let count = lines.clone().count();
    for line in lines.take(ROWS) {
        let line = truncate_text(&sanitize(line), MAX_LENGTH);
        rows.push(Line::styled(format!("  {line}"), app.theme.secondary));
    }
    if count > ROWS {
        let more = format!("  … {} more lines in the file", count - ROWS);
        rows.push(Line::styled(more, app.theme.secondary));
    }
    rows
}

/// Handles the answer and opens the dialog for the next agent.
pub(crate) fn handle_answer(app: &mut App, mut waiting: Vec<Agent>, yes: bool) {
    app.dialogs.close();
    if waiting.is_empty() {
        return;
    }
    let agent = waiting.remove(0);
    if yes && let Some(agents) = agents::session_agents(app) {
        app.queue_effect(Effect::Run(Box::new(move || {
            let result = agents.acknowledge(&agent).map(|set| {
                let still = set.agents.iter().any(|known| known.hash == agent.hash);
                let text = match still {
                    true => format!("`{}` is enabled.", agent.name),
                    false => {
                        format!("The file of `{}` has changed in the meantime.", agent.name)
                    }
                };
                (text, set)
            });
            Box::new(move |app| agents::handle_change(app, result))
        })));
    }
    ask_for_consent(app, waiting);
}
