//! Coordinator mode: for one prompt the model only delegates to subagents. It may read, keep
//! task lists, and ask the user; tools that change anything are neither declared nor run.

use parallax_protocol::agent::COORDINATION;
use parallax_protocol::tool::{ToolError, ToolErrorKind, ToolKind, ToolSpec};

use crate::current_turn::CurrentTurn;
use crate::session::Session;

/// Whether a coordinator may use the tool.
pub(crate) fn has(spec: &ToolSpec) -> bool {
    let keeps_lists = spec.name == "write_todos" || spec.name.starts_with("tracker_");
    keeps_lists
        || matches!(
            spec.kind,
            ToolKind::Agent
                | ToolKind::Read
                | ToolKind::Search
                | ToolKind::Fetch
                | ToolKind::Think
                | ToolKind::Communicate
        )
}

impl Session {
    /// Enables coordinator mode if the prompt starts with its marker.
    pub(crate) fn update_coordinator_mode(&mut self, prompt: &str) {
        let coordinates = self.agents.role.is_none() && prompt.starts_with(COORDINATION);
        if self.current.is_coordinator != coordinates {
            self.current.is_coordinator = coordinates;
            self.client.declared = None;
        }
    }
}

impl CurrentTurn {
    /// Returns the error for a tool that a coordinator may not use.
    pub(crate) fn coordinator_denial(&self, spec: &ToolSpec) -> Option<ToolError> {
        (self.is_coordinator && !has(spec)).then(|| {
            let name = &spec.name;
            let message = format!(
                "`{name}` is not available in coordinator mode. Delegate the work to a subagent \
                    with `invoke_agent`"
            );
            ToolError::new(ToolErrorKind::PolicyViolation, message)
        })
    }
}
