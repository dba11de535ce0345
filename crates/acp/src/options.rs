//! Modes, models, and configuration options of a session.

use parallax_protocol::policy::ApprovalMode;
use parallax_sdk::SessionConfig;
use serde_json::{Value, json};

/// An approval mode as shown by clients.
struct ModeEntry {
    mode: ApprovalMode,
    name: &'static str,
    description: &'static str,
}

const MODES: &[ModeEntry] = &[
    ModeEntry {
        mode: ApprovalMode::Default,
        name: "Default",
        description: "Requires approval for edits and commands",
    },
    ModeEntry {
        mode: ApprovalMode::AutoEdit,
        name: "Auto edit",
        description: "Auto-approves edits",
    },
    ModeEntry {
        mode: ApprovalMode::Yolo,
        name: "YOLO",
        description: "Auto-approves everything except destructive calls",
    },
    ModeEntry { mode: ApprovalMode::Plan, name: "Plan", description: "Read-only planning" },
];

/// The value of the option `thought_level` that selects the configured level.
pub(crate) const DEFAULT_LEVEL: &str = "default";

/// The modes and models that a session offers.
pub(crate) struct SessionChoices {
    launch: SessionConfig,
    modes: Vec<&'static ModeEntry>,
    /// Names and descriptions.
    models: Vec<(String, String)>,
}

/// Returns the id of a mode, as clients know it.
pub(crate) fn mode_id(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::AutoEdit => "autoEdit",
        mode => mode.as_str(),
    }
}

impl SessionChoices {
    pub(crate) fn new(launch: &SessionConfig) -> Self {
        let is_offered = |entry: &&ModeEntry| launch.mode_unavailable_reason(entry.mode).is_none();
        let automatic = std::iter::once(("auto".to_owned(), "Selected automatically".to_owned()));
        let known = launch
            .provider_manager()
            .models_without_request()
            .into_iter()
            .map(|it| (it.name, it.description));
        let models = automatic.chain(known);
        Self {
            launch: launch.clone(),
            modes: MODES.iter().filter(is_offered).collect(),
            models: models.collect(),
        }
    }

    /// Returns the mode with an id, if it is offered.
    pub(crate) fn mode(&self, id: &str) -> Option<ApprovalMode> {
        // Some clients send the value of the setting.
        let id = if id == "auto_edit" { "autoEdit" } else { id };
        self.modes.iter().map(|entry| entry.mode).find(|mode| mode_id(*mode) == id)
    }

    /// Returns the error for a model name that no provider can have.
    pub(crate) fn model_error(&self, model: &str) -> Option<String> {
        self.launch.provider_manager().model_error(model)
    }

    pub(crate) fn modes_json(&self, current: ApprovalMode) -> Value {
        let modes = self.modes.iter().map(|entry| {
            json!({"id": mode_id(entry.mode), "name": entry.name,
                "description": entry.description})
        });
        json!({"availableModes": modes.collect::<Vec<_>>(), "currentModeId": mode_id(current)})
    }

    /// Returns the models, including the current one even if it is not in the list.
    fn models<'a>(&'a self, current: &'a str) -> Vec<(&'a str, &'a str)> {
        let known = self.models.iter().map(|(name, doc)| (name.as_str(), doc.as_str()));
        let mut models: Vec<_> = known.collect();
        if !models.iter().any(|(name, _)| *name == current) {
            models.insert(0, (current, ""));
        }
        models
    }

    pub(crate) fn models_json(&self, current: &str) -> Value {
        let models = self.models(current).into_iter().map(|(name, description)| {
            json!({"modelId": name, "name": name, "description": description})
        });
        json!({"availableModels": models.collect::<Vec<_>>(), "currentModelId": current})
    }

    /// Returns the thinking levels of a model; none if they are unknown.
    pub(crate) fn thinking_levels(&self, model: &str) -> Vec<String> {
        self.launch.provider_manager().thinking_levels(model)
    }

    /// Returns all configuration options. `level`: the thinking level, if one was chosen.
    pub(crate) fn config_json(
        &self,
        mode: ApprovalMode,
        model: &str,
        level: Option<&str>,
    ) -> Value {
        let modes = self.modes.iter().map(|entry| {
            json!({"value": mode_id(entry.mode), "name": entry.name,
                "description": entry.description})
        });
        let models = self.models(model).into_iter().map(
            |(name, description)| json!({"value": name, "name": name, "description": description}),
        );
        let mut options = vec![
            json!({"id": "mode", "name": "Approval mode", "category": "mode", "type": "select",
                "currentValue": mode_id(mode), "options": modes.collect::<Vec<_>>()}),
            json!({"id": "model", "name": "Model", "category": "model", "type": "select",
                "currentValue": model, "options": models.collect::<Vec<_>>()}),
        ];
        let levels = self.thinking_levels(model);
        if !levels.is_empty() {
            let values = std::iter::once(DEFAULT_LEVEL).chain(levels.iter().map(String::as_str));
            let values: Vec<Value> =
                values.map(|level| json!({"value": level, "name": level})).collect();
            options.push(json!({"id": "thought_level", "name": "Thinking",
                "category": "thought_level", "type": "select",
                "currentValue": level.unwrap_or(DEFAULT_LEVEL), "options": values}));
        }
        Value::Array(options)
    }
}
