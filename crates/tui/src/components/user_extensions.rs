//! What extends the agent in the open session: subagents, skills, hooks, and extensions.

use std::sync::Arc;

use parallax_sdk::agents::{AgentSet, SessionAgents};
use parallax_sdk::skills::SessionSkills;

use super::consent_queue::ConsentQueue;

/// The subagents and skills of the session, and changes of extensions and hooks in progress.
#[derive(Default)]
pub(crate) struct UserExtensions {
    /// The subagents, unless they are disabled.
    agents: Option<Arc<SessionAgents>>,
    skills: Option<Arc<SessionSkills>>,
    /// The version of the skills whose names are offered for completion.
    skills_version: Option<u64>,
    /// Consent requests about extensions.
    pub(crate) consents: ConsentQueue,
    /// Whether hooks were enabled or disabled in their dialog.
    changed_hooks: bool,
    has_checked_updates: bool,
}

impl UserExtensions {
    /// Takes over the subagents and skills of a session that was opened.
    pub(crate) fn adopt_session(
        &mut self,
        agents: Option<Arc<SessionAgents>>,
        skills: Arc<SessionSkills>,
    ) {
        self.agents = agents;
        self.skills = Some(skills);
        self.skills_version = self.skills.as_ref().map(|skills| skills.version());
    }

    /// Returns the subagents, unless they are disabled.
    pub(crate) fn agents(&self) -> Option<&Arc<SessionAgents>> {
        self.agents.as_ref()
    }

    /// Returns the definitions of the subagents as they are now.
    pub(crate) fn agent_set(&self) -> Option<Arc<AgentSet>> {
        self.agents.as_ref().map(|agents| agents.set())
    }

    /// Returns the skills.
    pub(crate) fn skills(&self) -> Option<&Arc<SessionSkills>> {
        self.skills.as_ref()
    }

    /// Whether the skills have changed since this was last asked.
    pub(crate) fn skills_changed(&mut self) -> bool {
        let version = self.skills.as_ref().map(|skills| skills.version());
        std::mem::replace(&mut self.skills_version, version) != version
    }

    /// Records that a hook was enabled or disabled in the dialog.
    pub(crate) fn note_hook_change(&mut self) {
        self.changed_hooks = true;
    }

    /// Whether hooks were changed in the dialog, which is closed.
    pub(crate) fn take_hook_change(&mut self) -> bool {
        std::mem::take(&mut self.changed_hooks)
    }

    /// Whether Parallax checked for updates in this run. Marks the check as done.
    pub(crate) fn take_update_check(&mut self) -> bool {
        std::mem::replace(&mut self.has_checked_updates, true)
    }
}
