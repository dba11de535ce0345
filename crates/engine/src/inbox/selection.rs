//! The mode, the model, and the thinking level that the user chose.

use std::sync::Arc;

use parallax_protocol::event::EventBody;
use parallax_protocol::policy::ApprovalMode;

use crate::agents::SubagentManager;
use crate::event_bus::EventBus;
use crate::options::ModelChanged;

/// The mode and the model of a session. Subagents follow them.
pub(super) struct Selection {
    bus: EventBus,
    subagents: Option<Arc<SubagentManager>>,
    model_changed: ModelChanged,
    mode: ApprovalMode,
    model: String,
    /// The mode and the model that the journal has, or those that the session began with.
    recorded: (ApprovalMode, String),
    /// The thinking level; `None`: as configured.
    pub(super) thinking_level: Option<String>,
}

impl Selection {
    pub(super) fn new(
        bus: EventBus,
        subagents: Option<Arc<SubagentManager>>,
        model_changed: ModelChanged,
        (mode, model): (ApprovalMode, String),
    ) -> Self {
        let recorded = (mode, model.clone());
        Self { bus, subagents, model_changed, mode, model, recorded, thinking_level: None }
    }

    pub(super) fn mode(&self) -> ApprovalMode {
        self.mode
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Returns the mode and the model if the journal does not have them yet.
    pub(super) fn take_change(&mut self) -> Option<(ApprovalMode, String)> {
        if (self.mode, self.model.as_str()) == (self.recorded.0, self.recorded.1.as_str()) {
            return None;
        }
        self.recorded = (self.mode, self.model.clone());
        Some(self.recorded.clone())
    }

    pub(super) fn set_mode(&mut self, mode: ApprovalMode) {
        self.mode = mode;
        self.emit();
    }

    pub(super) fn set_model(&mut self, model: &str) {
        (self.model_changed)(model);
        model.clone_into(&mut self.model);
        self.emit();
    }

    /// Reports that another model responds, though none was set.
    pub(super) fn notify_model_changed(&self, model: &str) {
        self.set_subagent_model(model);
        (self.model_changed)(model);
    }

    fn set_subagent_model(&self, model: &str) {
        if let Some(subagents) = &self.subagents {
            subagents.follow(self.mode, model);
        }
    }

    fn emit(&self) {
        self.set_subagent_model(&self.model);
        self.bus.send(EventBody::StateChanged { model: self.model.clone(), mode: self.mode });
    }
}
