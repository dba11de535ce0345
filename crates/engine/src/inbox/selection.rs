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
    /// The mode that the journal has, or with which the session began.
    recorded_mode: ApprovalMode,
    /// The model that the journal has; `None` before the first prompt of the process.
    recorded_model: Option<String>,
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
        Self {
            bus,
            subagents,
            model_changed,
            mode,
            model,
            recorded_mode: mode,
            recorded_model: None,
            thinking_level: None,
        }
    }

    pub(super) fn mode(&self) -> ApprovalMode {
        self.mode
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Returns the model, and the mode if it changed, unless the journal has them.
    pub(super) fn take_change(&mut self) -> Option<(Option<ApprovalMode>, String)> {
        let has_mode = self.mode == self.recorded_mode;
        if has_mode && self.recorded_model.as_ref() == Some(&self.model) {
            return None;
        }
        // The model that a process begins with says nothing about the mode.
        let is_first = self.recorded_model.is_none();
        self.recorded_mode = self.mode;
        self.recorded_model = Some(self.model.clone());
        Some(((!is_first || !has_mode).then_some(self.mode), self.model.clone()))
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
