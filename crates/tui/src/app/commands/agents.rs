//! `/agents`: lists the subagents and enables or disables them.

pub(crate) mod accept;
pub(crate) mod config;

use std::sync::Arc;

use parallax_protocol::event::Failure;
use parallax_screen::Line;
use parallax_sdk::agents::{Agent, AgentSet, SessionAgents};

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::sanitize::sanitize;

/// Lists the subagents with their descriptions.
pub(crate) fn list(app: &mut App) {
    let Some(agents) = session_agents(app) else { return };
    let set = agents.set();
    let mut rows: Vec<Line> =
        set.agents.iter().flat_map(|agent| agent_rows(app, agent, true)).collect();
    rows.extend(set.unacknowledged.iter().flat_map(|agent| agent_rows(app, agent, false)));
    app.show_wrapped_rows(rows);
    accept::notify_waiting(app, &set);
    show_warnings(app, &set);
}

/// Opens the list of subagents: Enter enables or disables one, or opens the review of one that the
/// user has not accepted.
pub(crate) fn open_dialog(app: &mut App) {
    if app.settings.screen_reader {
        return list(app);
    }
    let Some(agents) = session_agents(app) else { return };
    let set = agents.set();
    let list = ListDialog::new("Subagents", items(&set))
        .with_search()
        .with_empty_text("No agents. Define one with a Markdown file in `.parallax/agents`.")
        .hint("enter enable or disable · esc close");
    app.open(Overlay::list(DialogPurpose::Agents, list));
    accept::notify_waiting(app, &set);
    show_warnings(app, &set);
}

fn items(set: &AgentSet) -> Vec<ListItem> {
    let item = |agent: &Agent, state: &str| {
        let suffix = if agent.remote.is_some() { ", remote" } else { "" };
        let detail = format!("{}{suffix} · {state}", agent.tier.as_str());
        ListItem::new(agent.name.clone(), &agent.name, detail).with_description(&agent.description)
    };
    let accepted = set.agents.iter().map(|agent| item(agent, ListItem::state(!agent.disabled)));
    accepted.chain(set.unacknowledged.iter().map(|agent| item(agent, "not accepted"))).collect()
}

/// Enables or disables a subagent from the list, which stays open.
pub(crate) fn chosen(app: &mut App, name: &str) {
    let Some(agents) = session_agents(app) else { return };
    let set = agents.set();
    let Some(on) = set.agents.iter().find(|agent| agent.name == name).map(|it| it.disabled) else {
        app.dialogs.close();
        return accept::ask(app, name);
    };
    let name = name.to_owned();
    app.queue_effect(Effect::Run(Box::new(move || {
        let changed = agents.set_enabled(&name, on);
        Box::new(move |app| match changed {
            Ok((_, set)) => {
                mention(app, &set);
                if let Some(list) = app.dialogs.list_for(&DialogPurpose::Agents) {
                    list.replace(items(&set));
                }
            }
            Err(failure) => app.error(failure.message),
        })
    })));
}

/// Reloads the agent definitions.
pub(crate) fn reload(app: &mut App) {
    let Some(agents) = session_agents(app) else { return };
    app.queue_effect(Effect::Run(Box::new(move || {
        let result = agents.reload().map(|set| {
            let on = set.agents.iter().filter(|agent| !agent.disabled).count();
            (format!("{on} of {} agents are enabled.", set.agents.len()), set)
        });
        Box::new(move |app| handle_change(app, result))
    })));
}

/// Enables or disables an agent and saves the setting.
pub(crate) fn set_enabled(app: &mut App, name: &str, on: bool) {
    if name.is_empty() {
        return app.error("No agent given; `/agents` lists them.");
    }
    let Some(agents) = session_agents(app) else { return };
    let name = name.to_owned();
    app.queue_effect(Effect::Run(Box::new(move || {
        let result = agents.set_enabled(&name, on).map(|(file, set)| {
            let word = if on { "is enabled" } else { "is disabled" };
            (format!("`{name}` {word} ({}).", file.display()), set)
        });
        Box::new(move |app| handle_change(app, result))
    })));
}

/// Returns the agents of the session, or shows an error if agents are disabled.
fn session_agents(app: &mut App) -> Option<Arc<SessionAgents>> {
    let agents = app.extensions.agents().cloned();
    if agents.is_none() {
        app.error("Agents are disabled (`experimental.enableAgents`).");
    }
    agents
}

/// Submits a goal for coordination by subagents only.
pub(crate) fn coordinate(app: &mut App, goal: &str) {
    if goal.is_empty() {
        return app.error("No goal given: use `/parallax GOAL`.");
    }
    app.submit_for_command(parallax_commands::built_in::coordination(goal));
}

/// Takes over the agents of the session that was opened.
pub(crate) fn adopt_session(app: &mut App) {
    let set = app.extensions.agent_set().unwrap_or_default();
    mention(app, &set);
    accept::notify_waiting(app, &set);
}

/// Updates the agent names that `@` completes.
pub(crate) fn mention(app: &mut App, set: &AgentSet) {
    let enabled = set.agents.iter().filter(|agent| !agent.disabled);
    let mentions = enabled.map(|agent| (agent.name.clone(), sanitize(&agent.description)));
    app.completion.mention_agents(mentions.collect());
}

fn handle_change(app: &mut App, changed: Result<(String, Arc<AgentSet>), Failure>) {
    match changed {
        Ok((text, set)) => {
            app.info(text);
            mention(app, &set);
            show_warnings(app, &set);
        }
        Err(failure) => app.error(failure.message),
    }
}

fn show_warnings(app: &mut App, set: &AgentSet) {
    for warning in set.warnings.summary("parallax agents list") {
        app.warn(warning);
    }
}

fn agent_rows(app: &App, agent: &Agent, counts: bool) -> Vec<Line> {
    let state = match (counts, agent.disabled) {
        (false, _) => " · not accepted",
        (true, true) => " · off",
        (true, false) => "",
    };
    let suffix = if agent.remote.is_some() { ", remote" } else { "" };
    let head = Line::styled(format!("  {}", agent.name), app.theme.accent)
        .with_span(format!(" ({}{suffix}{state})", agent.tier.as_str()), app.theme.secondary);
    vec![head, Line::raw(format!("    {}", sanitize(&agent.description)))]
}
