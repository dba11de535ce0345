//! A session that coordinates: for one prompt its model only hands work to
//! sub-agents. It reads, keeps its list and asks the person; what changes
//! anything is neither declared nor run.

use parallax_protocol::agent::COORDINATION;
use parallax_protocol::tool::{ToolError, ToolErrorKind, ToolKind, ToolSpec};

use crate::session::Session;

/// Whether a coordinator has that tool.
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
    /// A prompt begins: whether its model only coordinates stands at its front.
    pub(crate) fn note_coordination(&mut self, prompt: &str) {
        let coordinates = self.role.is_none() && prompt.starts_with(COORDINATION);
        if self.coordinating != coordinates {
            self.coordinating = coordinates;
            self.declared = None;
        }
    }

    /// Why a call cannot be, when it is none of a coordinator's.
    pub(crate) fn no_coordination(&self, spec: &ToolSpec) -> Option<ToolError> {
        (self.coordinating && !has(spec)).then(|| {
            let name = &spec.name;
            let message = format!(
                "`{name}` cannot be called while you coordinate: hand the work to a sub-agent \
                 with `invoke_agent`"
            );
            ToolError::new(ToolErrorKind::PolicyViolation, message)
        })
    }
}
