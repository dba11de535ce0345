//! MCP servers of a subagent, which start and end with it.

use std::sync::Arc;
use std::time::Duration;

use parallax_config::agents::{Agent, AgentTier};
use parallax_config::mcp::{McpServer, McpSource, same_name};
use parallax_exec::Processes;
use parallax_files::Workspace;
use parallax_mcp::Servers;
use parallax_protocol::tool::{Tool, ToolSource as _};
use parallax_tools::SandboxOptions;

use crate::launch::Launch;
use parallax_checkpoints::Versions;

/// How long a subagent waits for its servers.
const WAIT: Duration = Duration::from_secs(10);

impl Launch {
    /// Returns the MCP servers of an agent without starting them, and the reasons why others are
    /// ignored. Blocking.
    pub(super) fn agent_servers(
        &self,
        agent: &Agent,
        workspace: &Arc<Workspace>,
        processes: Processes,
        sandbox: Option<SandboxOptions>,
        versions: &Option<Arc<Versions>>,
    ) -> (Option<Servers>, Vec<String>) {
        let known = self.mcp_servers();
        let settings = &self.config.settings;
        let allowed = settings.get("mcp.allowed").map(|_| settings.list("mcp.allowed"));
        let excluded = settings.list("mcp.excluded");
        let names = |list: &[String], name: &str| list.iter().any(|entry| same_name(entry, name));
        let source = match &agent.tier {
            AgentTier::Project => McpSource::Workspace,
            AgentTier::Extension(name) => McpSource::Extension(name.clone()),
            AgentTier::User | AgentTier::BuiltIn => McpSource::User,
        };
        let (mut servers, mut problems) = (Vec::new(), Vec::new());
        for (name, value) in &agent.mcp_servers {
            // Rules and pins of a session's server must not apply to a different server.
            let taken = known.servers.iter().any(|server| same_name(&server.name, name));
            let blocked = names(&excluded, name)
                || allowed.as_ref().is_some_and(|allowed| !names(allowed, name));
            let why = match McpServer::read(name, value, source.clone()) {
                _ if taken => "a server of the session has the same name".to_owned(),
                _ if blocked => "the settings block it".to_owned(),
                Err(error) => error.why,
                Ok(server) => {
                    servers.push(server);
                    continue;
                }
            };
            problems.push(format!("the MCP server `{name}` of `{}`: {why}", agent.name));
        }
        if servers.is_empty() {
            return (None, problems);
        }
        let folders = Arc::clone(workspace);
        let roots = Arc::new(move || folders.roots());
        let mut options = self.servers_options(servers, processes, roots, sandbox, versions);
        // An agent's own tools are always declared, never deferred.
        options.tool_budget = Arc::new(|| None);
        (Some(Servers::new(options)), problems)
    }
}

/// Starts servers and returns the tools of those that start in time, and the errors of the others.
pub(super) async fn tools_of(servers: &Servers) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
    let connecting = servers.status().into_iter().map(|status| {
        let (servers, name) = (servers.clone(), status.config.name);
        async move {
            let why = match tokio::time::timeout(WAIT, servers.connect(&name)).await {
                Ok(Ok(())) => return None,
                Ok(Err(why)) => why,
                Err(_) => format!("no response within {} s", WAIT.as_secs()),
            };
            Some((name, why))
        }
    });
    let failed = futures_util::future::join_all(connecting).await.into_iter().flatten();
    let problems =
        failed.map(|(name, why)| format!("the MCP server `{name}` is unavailable: {why}"));
    let problems = problems.collect();
    (servers.tools(), problems)
}
