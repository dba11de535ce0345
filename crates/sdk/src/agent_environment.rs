//! What a session provides for its subagents: prompts, context files, skills, and MCP servers.

mod isolated;

use std::sync::Arc;

use parallax_a2a::{A2aAgent, A2aAgentOptions};
use parallax_agents::{AgentEnvironment, AgentMemory, IsolatedAgent};
use parallax_checkpoints::CheckpointManager;
use parallax_config::agents::{Agent, AgentTier, RemoteDefinition};
use parallax_config::mcp::{McpServer, McpSource, is_same_name};
use parallax_config::skills::Skills;
use parallax_context_files::build_context;
use parallax_engine::prompt::SAFETY;
use parallax_exec::Processes;
use parallax_files::Workspace;
use parallax_mcp::Servers;
use parallax_protocol::agent::{AgentTask, RemoteAgent};
use parallax_tools::SandboxOptions;

use crate::mcp;
use crate::session_config::SessionConfig;
use crate::system;

pub(crate) use isolated::IsolationInputs;
use isolated::isolate;

/// The session of subagents.
pub(crate) struct SessionEnvironment {
    pub(crate) launch: SessionConfig,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) processes: Processes,
    /// For MCP servers of agents that run in the sandbox.
    pub(crate) sandbox: Option<SandboxOptions>,
    pub(crate) checkpoint_manager: Option<Arc<CheckpointManager>>,
    /// For agents that work in their own worktree.
    pub(crate) isolation: IsolationInputs,
}

impl AgentEnvironment for SessionEnvironment {
    fn memory(&self) -> AgentMemory {
        let memory = build_context(&self.launch.context_sources(), &self.workspace, &[]);
        AgentMemory { system: memory.system, preface: memory.preface }
    }

    fn session_prompt(&self, tools: &[String]) -> String {
        system::subagent_prompt(&self.launch, self.workspace.root(), tools)
    }

    fn safety_rules(&self) -> &'static str {
        SAFETY
    }

    fn skills(&self) -> Skills {
        self.launch.skill_library().skills()
    }

    fn servers(&self, agent: &Agent) -> (Option<Servers>, Vec<String>) {
        let (processes, sandbox) = (self.processes.clone(), self.sandbox.clone());
        servers(&self.launch, agent, &self.workspace, processes, sandbox, &self.checkpoint_manager)
    }

    fn isolate(&self, agent: &Agent, task: AgentTask<'_>) -> Result<IsolatedAgent, String> {
        isolate(&self.launch, &self.isolation, agent, task)
    }

    fn remote(&self, definition: &RemoteDefinition) -> Arc<dyn RemoteAgent> {
        let config = Arc::clone(&self.launch.config);
        let variables = move |name: &str| config.environment.get(name).map(str::to_owned);
        Arc::new(A2aAgent::new(A2aAgentOptions {
            definition: definition.clone(),
            http: self.launch.client_options(),
            variables: Arc::new(variables),
            google: self.launch.provider_manager().google_variables(),
            directory: self.launch.config.dirs.user.clone(),
        }))
    }
}

/// Returns the MCP servers of an agent without starting them, and the reasons why others are
/// ignored. Blocking.
fn servers(
    launch: &SessionConfig,
    agent: &Agent,
    workspace: &Arc<Workspace>,
    processes: Processes,
    sandbox: Option<SandboxOptions>,
    checkpoint_manager: &Option<Arc<CheckpointManager>>,
) -> (Option<Servers>, Vec<String>) {
    let known = launch.mcp_manager().servers();
    let settings = &launch.config.settings;
    let allowed = settings.get("mcp.allowed").map(|_| settings.list("mcp.allowed"));
    let excluded = settings.list("mcp.excluded");
    let names = |list: &[String], name: &str| list.iter().any(|entry| is_same_name(entry, name));
    let source = match &agent.tier {
        AgentTier::Project => McpSource::Workspace,
        AgentTier::Extension(name) => McpSource::Extension(name.clone()),
        AgentTier::User | AgentTier::BuiltIn => McpSource::User,
    };
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in &agent.mcp_servers {
        // Rules and pins of a session's server must not apply to a different server.
        let is_used = known.servers.iter().any(|server| is_same_name(&server.name, name));
        let blocked =
            names(&excluded, name) || allowed.as_ref().is_some_and(|allowed| !names(allowed, name));
        let reason = match McpServer::read(name, value, source.clone()) {
            _ if is_used => "a server of the session has the same name".to_owned(),
            _ if blocked => "the settings block it".to_owned(),
            Err(error) => error.reason,
            Ok(server) => {
                servers.push(server);
                continue;
            }
        };
        problems.push(format!(
            "the MCP server `{name}` of the agent `{}` is ignored: {reason}",
            agent.name
        ));
    }
    if servers.is_empty() {
        return (None, problems);
    }
    let directories = Arc::clone(workspace);
    let roots = Arc::new(move || directories.roots());
    let mut options =
        mcp::servers_options(launch, servers, processes, roots, sandbox, checkpoint_manager);
    // An agent's own tools are always declared, never deferred.
    options.tool_budget = Arc::new(|| None);
    (Some(Servers::new(options)), problems)
}

#[cfg(test)]
mod tests {
    use super::SAFETY;

    #[test]
    fn safety_rules_cover_denied_calls_and_untrusted_content() {
        assert!(SAFETY.contains("Do not work around a denied call"), "{SAFETY}");
        assert!(SAFETY.contains("<untrusted_context>"), "{SAFETY}");
    }
}
