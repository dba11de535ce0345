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
    /// The model that the journal has, or with which the session began.
    recorded_model: String,
    /// Whether this process has recorded the model.
    is_model_recorded: bool,
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
            recorded_model: model.clone(),
            model,
            recorded_mode: mode,
            is_model_recorded: false,
            thinking_level: None,
        }
    }

    pub(super) fn mode(&self) -> ApprovalMode {
        self.mode
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Returns the model, and the mode if it changed, unless the journal has them. With the first
    /// prompt of a process (`is_prompt`), the model is always returned.
    pub(super) fn take_change(
        &mut self,
        is_prompt: bool,
    ) -> Option<(Option<ApprovalMode>, String)> {
        let has_mode = self.mode == self.recorded_mode;
        let has_model = self.model == self.recorded_model;
        let is_first = is_prompt && !self.is_model_recorded;
        if has_mode && has_model && !is_first {
            return None;
        }
        self.is_model_recorded = true;
        self.recorded_mode = self.mode;
        self.recorded_model.clone_from(&self.model);
        // The model that a process begins with says nothing about the mode.
        Some(((!has_mode || !has_model).then_some(self.mode), self.model.clone()))
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
            subagents.propagate_selection(self.mode, model);
        }
    }

    fn emit(&self) {
        self.set_subagent_model(&self.model);
        self.bus.send(EventBody::StateChanged { model: self.model.clone(), mode: self.mode });
    }
}
