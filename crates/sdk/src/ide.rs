//! The connection to the companion extension of an editor.

use std::sync::Arc;

use crate::launch::Launch;
use crate::open::OpenSession;

pub use parallax_ide::{
    Companion, CompanionSnapshot, CompanionStatus, DiffDecision, DisconnectReason, HostEditor,
    OpenDiff,
};

impl Launch {
    /// Whether the settings ask for the connection (`ide.enabled`).
    pub fn wants_companion(&self) -> bool {
        self.config.settings.flag("ide.enabled")
    }

    /// A companion for this launch, which connects in the background if the settings ask for it.
    /// Must run on a tokio runtime.
    pub fn start_companion(&self) -> Companion {
        let options = &self.options;
        // Only variables of the process: a project could bring the others.
        let variables = options.variables.clone();
        let enabled = self.wants_companion();
        Companion::start(&options.directory, variables, options.version, enabled)
    }

    /// The same launch with a companion, if the settings ask for one. Must run on a tokio runtime.
    #[must_use]
    pub fn with_companion(mut self) -> Self {
        if self.wants_companion() && self.options.companion.is_none() {
            self.options.companion = Some(self.start_companion());
        }
        self
    }

    /// Whether edits are reviewed in an editor, which needs whole files.
    pub(crate) fn shows_diffs_in_editor(&self) -> bool {
        self.options.interactive && self.options.companion.is_some() && self.wants_companion()
    }

    pub(crate) fn editor_context(&self) -> Option<Arc<parallax_ide::CompanionContext>> {
        let companion = self.options.companion.clone()?;
        Some(Arc::new(parallax_ide::CompanionContext::new(companion)))
    }
}

impl OpenSession {
    /// The connection to the editor.
    pub fn companion(&self) -> Option<&Companion> {
        self.launch.options.companion.as_ref()
    }
}
