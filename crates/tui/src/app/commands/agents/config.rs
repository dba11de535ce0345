//! `/agents config`: shows and changes the settings of an agent.

use parallax_screen::Line;
use parallax_sdk::agents::{Agent, AgentSetting};
use serde_json::Value;

use crate::app::App;
use crate::app::commands::agents;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};
use crate::sanitize::sanitize;

/// The value that resets a setting.
const DEFAULT: &str = "default";

/// `NAME` opens the dialog; `NAME SETTING VALUE` changes a setting.
pub(crate) fn configure(app: &mut App, arguments: &str) {
    let mut words = arguments.splitn(3, char::is_whitespace).map(str::trim);
    let name = words.next().unwrap_or_default();
    let (setting, value) = (words.next(), words.next());
    let Some(agent) = find_agent(app, name) else { return };
    let Some(setting) = setting.filter(|word| !word.is_empty()) else {
        return open(app, &agent);
    };
    let names: Vec<&str> = AgentSetting::ALL.map(AgentSetting::as_str).to_vec();
    match (AgentSetting::parse(setting), value.filter(|value| !value.is_empty())) {
        (None, _) => app.error(format!(
            "Unknown agent setting `{}`. Settings: {}.",
            sanitize(setting),
            names.join(", ")
        )),
        (Some(setting), None) => open_field(app, &agent, setting),
        (Some(setting), Some(value)) => {
            if let Err(reason) = set(app, name, setting, value) {
                app.error(format!("`{}`: {reason}.", setting.as_str()));
            }
        }
    }
}

fn find_agent(app: &mut App, name: &str) -> Option<Agent> {
    let agents = agents::session_agents(app)?;
    let set = agents.set();
    let found = set.agents.iter().find(|agent| agent.name == name).cloned();
    match (&found, name) {
        (Some(_), _) => {}
        (None, "") => app.error("No agent given; `/agents` lists them."),
        (None, name) => {
            app.error(format!("Unknown agent `{}`; `/agents` lists the agents.", sanitize(name)));
        }
    }
    found
}

fn open(app: &mut App, agent: &Agent) {
    let items = AgentSetting::ALL
        .map(|setting| {
            ListItem::new(setting.as_str(), setting.as_str(), current_value(agent, setting))
        })
        .to_vec();
    let title = format!("Agent `{}`", agent.name);
    let list = ListDialog::new(title, items)
        .intro(definition_rows(app, agent))
        .hint("enter change · ctrl+l reset · esc close");
    app.open(Overlay::list(DialogPurpose::AgentSettings(agent.name.clone()), list));
}

/// Returns the rows that describe the agent's definition.
fn definition_rows(app: &App, agent: &Agent) -> Vec<Line> {
    let fact = |label: &str, value: String| {
        Line::styled(format!("{label:<9}"), app.theme.secondary)
            .with_span(sanitize(&value), app.theme.text)
    };
    let file = match &agent.file {
        Some(file) => file.display().to_string(),
        None => "built-in".to_owned(),
    };
    let tools = agent.tools.as_ref().map_or_else(|| "all".to_owned(), |tools| tools.join(", "));
    vec![
        Line::styled(sanitize(&agent.description), app.theme.text),
        fact("file", file),
        fact("tools", tools),
        fact("saved in", format!("agents.overrides.{}", agent.name)),
    ]
}

/// Handles Enter on a setting: toggles a boolean or opens an input field.
pub(crate) fn handle_choice(app: &mut App, name: &str, setting: &str) {
    let Some(setting) = AgentSetting::parse(setting) else { return };
    let Some(agent) = find_agent(app, name) else { return };
    if setting == AgentSetting::Enabled {
        let value = if agent.disabled { "true" } else { "false" };
        // The value is always valid.
        let _ = set(app, name, setting, value);
        return;
    }
    open_field(app, &agent, setting);
}

fn open_field(app: &mut App, agent: &Agent, setting: AgentSetting) {
    let intro = vec![format!("`{DEFAULT}` or empty: the value in the agent's file")];
    let title = format!("{}: {}", agent.name, setting.as_str());
    let dialog = FieldDialog::new(title, intro, Field::with(current_value(agent, setting)));
    let purpose = DialogPurpose::AgentSetting(agent.name.clone(), setting);
    app.open(Overlay::field(purpose, dialog));
}

/// Handles a value typed for a setting.
pub(crate) fn handle_typed(app: &mut App, name: &str, setting: AgentSetting, input: &str) {
    let value = if input.trim().is_empty() { DEFAULT } else { input };
    match set(app, name, setting, value) {
        Ok(()) => app.dialogs.close(),
        Err(reason) => {
            if let Some(field) = app.dialogs.field_mut() {
                field.problem = Some(reason.to_owned());
            }
        }
    }
}

/// Resets a setting to its default.
pub(crate) fn reset(app: &mut App, name: &str, setting: &str) {
    if let Some(setting) = AgentSetting::parse(setting) {
        // Resetting parses no value, so it cannot fail.
        let _ = set(app, name, setting, DEFAULT);
    }
}

/// Saves a value in the user settings and refreshes the dialog if it is open.
fn set(app: &mut App, name: &str, setting: AgentSetting, value: &str) -> Result<(), &'static str> {
    let value = match value.trim() {
        DEFAULT => None,
        value => Some(setting.read(value)?),
    };
    let Some(agents) = agents::session_agents(app) else { return Ok(()) };
    let name = name.to_owned();
    app.queue_effect(Effect::Run(Box::new(move || {
        let message = change_message(&name, setting, value.as_ref());
        let result = agents
            .change(&name, setting, value)
            .map(|(file, set)| (format!("{message} ({}).", file.display()), set));
        Box::new(move |app| {
            agents::handle_change(app, result);
            refresh(app);
        })
    })));
    Ok(())
}

fn refresh(app: &mut App) {
    let Some(DialogPurpose::AgentSettings(name)) = app.dialogs.purpose() else {
        return;
    };
    let name = name.clone();
    let Some(agent) = find_agent(app, &name) else { return };
    if let Some(list) = app.dialogs.list_mut() {
        let items = AgentSetting::ALL.map(|setting| {
            ListItem::new(setting.as_str(), setting.as_str(), current_value(&agent, setting))
        });
        list.replace(items.to_vec());
    }
}

fn change_message(name: &str, setting: AgentSetting, value: Option<&Value>) -> String {
    match (setting, value) {
        (AgentSetting::Enabled, Some(Value::Bool(false))) => format!("`{name}` is disabled"),
        (AgentSetting::Enabled, _) => format!("`{name}` is enabled"),
        (setting, None) => {
            format!("`{}` of `{name}` was reset to the value in its file", setting.as_str())
        }
        (setting, Some(value)) => {
            let value = value.as_str().map_or_else(|| value.to_string(), sanitize);
            format!("`{}` of `{name}` is now {value}", setting.as_str())
        }
    }
}

/// Returns the current value of a setting.
fn current_value(agent: &Agent, setting: AgentSetting) -> String {
    match setting {
        AgentSetting::Enabled => (!agent.disabled).to_string(),
        AgentSetting::Model => agent.model.clone().unwrap_or_else(|| "inherit".to_owned()),
        AgentSetting::MaxTurns => agent.max_turns.to_string(),
        AgentSetting::MaxTimeMinutes => (agent.time.as_secs() / 60).to_string(),
    }
}
