//! What the steps of opening a session pass on.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_agents::{SessionAgents, SessionSkills};
use parallax_checkpoints::CheckpointManager;
use parallax_commands::StartableAgents;
use parallax_context_files::{InitialContext, NestedContext};
use parallax_engine::{Budget, SharedPolicyEngine, SystemPrompt};
use parallax_files::{SeenFiles, Workspace};
use parallax_mcp::Servers;
use parallax_protocol::hooks::Hooks;
use parallax_protocol::model::Model;
use parallax_protocol::tool::Tool;
use parallax_tools::ShellOptions;

use crate::command_sources::AgentNames;
use crate::discovery::DiscoveredTools;
use crate::toolbox::Toolbox;

/// The workspace of the session.
pub(super) struct WorkspaceSetup {
    pub(super) workspace: Arc<Workspace>,
    /// The file contents that the model has seen.
    pub(super) seen_files: Arc<SeenFiles>,
    /// The session's directory for temporary files.
    pub(super) artifacts: PathBuf,
}

/// The model and its budget.
pub(super) struct ModelSetup {
    pub(super) model: Arc<dyn Model>,
    /// The same model for requests outside the conversation, which are reported and counted.
    pub(super) metered: Arc<dyn Model>,
    /// The requested model name.
    pub(super) name: String,
    pub(super) budget: Budget,
}

/// The tools of the session and the policy for them.
pub(super) struct ToolSetup {
    pub(super) shell: ShellOptions,
    pub(super) skills: Arc<SessionSkills>,
    /// Directory for plans.
    pub(super) plans: PathBuf,
    pub(super) toolbox: Toolbox,
    pub(super) checkpoint_manager: Option<Arc<CheckpointManager>>,
    pub(super) agents: Option<Arc<SessionAgents>>,
    pub(super) policy_engine: SharedPolicyEngine,
    pub(super) servers: Option<Servers>,
}

impl ToolSetup {
    /// Returns the agents that a command or a prompt may name.
    pub(super) fn startable_agents(&self) -> Option<Arc<dyn StartableAgents>> {
        let agents = self.agents.clone()?;
        Some(Arc::new(AgentNames(agents)))
    }

    /// Returns the tools that exist from the beginning, including the skill tool.
    pub(super) fn declared_tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.toolbox.tools();
        tools.extend(self.skills.tool());
        tools
    }
}

/// What the model reads before the first prompt.
pub(super) struct PromptInputs {
    pub(super) system: SystemPrompt,
    pub(super) memory: InitialContext,
}

/// Sources of additional context, tools, and hooks while the session runs.
pub(super) struct RuntimeSources {
    pub(super) nested_context: Arc<NestedContext>,
    pub(super) discovered: Option<Arc<DiscoveredTools>>,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
}
