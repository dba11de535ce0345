//! Configures the MCP servers of a session from settings.

mod confine;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_checkpoints::CheckpointManager;
use parallax_config::mcp::{
    EMBEDDER, Endpoint, ExtensionServers, McpChoice, McpServer, McpServers, StartBlock,
    is_rejected_variable, is_same_name, server_names,
};
use parallax_devtools::SessionTap;
use parallax_engine::EventBus;
use parallax_exec::Processes;
use parallax_files::Workspace;
use parallax_mcp::{SchemaFormat, Servers, ServersOptions, Status, ToolBudget};
use parallax_protocol::observer::Observer;
use parallax_tools::SandboxOptions;

use crate::sandbox;
use crate::session_config::SessionConfig;
use crate::toolbox::{clear, redaction};

/// Timeout of a probe.
const PROBE: Duration = Duration::from_secs(5);
/// File that records the server variables which the user was warned about.
const WARNED_FILE: &str = ".told-of-server-variables";

/// Returns the workspace directories to tell servers about.
type Roots = Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>;

/// Returns the servers whose tools need no approval: trusted ones, and those allowed by name.
pub(crate) fn implicitly_allowed_servers(launch: &SessionConfig) -> (Vec<String>, Vec<String>) {
    let found = launch.mcp_manager().servers();
    let settings = &launch.config.settings;
    let allowed = match (&launch.config.exempt_servers, &launch.options.allowed_mcp_servers) {
        (None, named) if named.is_empty() => settings.list("mcp.allowed"),
        (Some(spared), named) if named.is_empty() => spared.clone(),
        (_, named) => named.clone(),
    };
    let names = |counts: &dyn Fn(&parallax_config::mcp::McpServer) -> bool| -> Vec<String> {
        found.open().filter(|it| counts(it)).map(|it| it.name.clone()).collect()
    };
    let is_allowed = |name: &str| allowed.iter().any(|entry| is_same_name(entry, name));
    (names(&|server| server.trust), names(&|server| is_allowed(&server.name)))
}

/// Creates the servers of a session without starting them. Also returns warnings for the user.
pub(crate) fn open_servers(
    launch: &SessionConfig,
    workspace: &Arc<Workspace>,
    processes: Processes,
    sandbox: Option<SandboxOptions>,
    checkpoint_manager: &Option<Arc<CheckpointManager>>,
    bus: &EventBus,
    tap: Option<&Arc<SessionTap>>,
) -> (Option<Servers>, Vec<String>) {
    let found = launch.mcp_manager().servers();
    let mut warnings = found.warnings;
    warnings.extend(found.errors.iter().map(ToString::to_string));
    for server in found.servers.iter().filter(|server| server.source.is_foreign()) {
        let of = &server.name;
        warnings.extend(server.notes.iter().map(|note| format!("MCP server `{of}`: {note}")));
    }
    if found.servers.is_empty() {
        return (None, warnings);
    }
    warnings.extend(unreported_variables(launch, &found.servers));
    let directories = Arc::clone(workspace);
    let roots: Roots = Arc::new(move || directories.roots());
    let options =
        servers_options(launch, found.servers, processes, roots, sandbox, checkpoint_manager);
    let server_context = confine::ServerContext {
        directory: launch.options.directory.clone(),
        variables: children_variables(launch),
    };
    let watch =
        confine::watch(launch.mode, checkpoint_manager.clone(), server_context, bus.clone());
    let observer = tap.cloned().map(|tap| tap as Arc<dyn Observer>);
    let options = ServersOptions { watch, observer, ..options };
    (Some(Servers::new(options)), warnings)
}

/// Warns once about variables of the user's own servers that change which program runs.
fn unreported_variables(launch: &SessionConfig, servers: &[McpServer]) -> Vec<String> {
    let own = servers.iter().filter(|server| !server.source.is_foreign());
    let sets: Vec<(&str, &str)> = own.flat_map(dangerous_variables).collect();
    if sets.is_empty() {
        return Vec::new();
    }
    let file = launch.config.dirs.parallax.join(WARNED_FILE);
    let warned = std::fs::read_to_string(&file).unwrap_or_default();
    let line = |(server, name): &(&str, &str)| format!("{name} {server:?}");
    let (old, new): (Vec<_>, Vec<_>) =
        sets.into_iter().partition(|set| warned.lines().any(|known| known == line(set)));
    if new.is_empty() {
        return Vec::new();
    }
    let lines: Vec<String> = old.iter().chain(&new).map(line).collect();
    // If the file cannot be written, the warning is repeated.
    let _ = parallax_store::create_private_dir(&launch.config.dirs.parallax)
        .and_then(|()| std::fs::write(&file, lines.join("\n") + "\n"));
    let words = |(server, name): (&str, &str)| {
        format!(
            "MCP server `{server}`: it receives the variable `{name}` from your settings, which \
             changes what a program runs (shown once)"
        )
    };
    new.into_iter().map(words).collect()
}

/// `sandbox` confines the servers that require it; without it they do not start.
pub(crate) fn servers_options(
    launch: &SessionConfig,
    servers: Vec<McpServer>,
    processes: Processes,
    roots: Roots,
    sandbox: Option<SandboxOptions>,
    checkpoint_manager: &Option<Arc<CheckpointManager>>,
) -> ServersOptions {
    let settings = &launch.config.settings;
    let confine =
        confine::confine(sandbox, launch.mode, Arc::clone(&roots), checkpoint_manager.clone());
    ServersOptions {
        servers,
        home: launch.config.dirs.parallax.clone(),
        tokens_of_others: vec![launch.config.dirs.gemini.clone()],
        keychain: launch.config.keychain.clone(),
        directory: launch.options.directory.clone(),
        variables: children_variables(launch),
        redaction: redaction(launch),
        processes,
        sandboxed: settings.flag("mcp.sandbox"),
        confine,
        watch: None,
        http: launch.client_options(),
        roots,
        prompter: launch.prompter.clone(),
        sampling: launch.sampling.clone(),
        lazy: settings.flag("mcp.lazy"),
        first_wait: initial_wait(launch),
        schemas: match settings.text("mcp.schemas").as_deref() {
            Some("openapi") => SchemaFormat::OpenApi,
            _ => SchemaFormat::Verbatim,
        },
        longest_text: settings.truncate_tool_output_threshold().unwrap_or(0),
        tool_budget: tool_budget(launch),
        observer: None,
    }
}

/// Returns the variables of this process and of the user's own `.env` file.
fn children_variables(launch: &SessionConfig) -> Vec<(OsString, OsString)> {
    let pairs = launch.config.environment.user_file_variables();
    let more = pairs.map(|(name, value)| (name.into(), value.into()));
    launch.options.variables.iter().cloned().chain(more).collect()
}

/// Returns the share of the context window that tool declarations may use (`mcp.toolBudget`).
/// Outside a session, the number of tools is not limited.
fn tool_budget(launch: &SessionConfig) -> ToolBudget {
    let percent = launch.config.settings.count("mcp.toolBudget").unwrap_or(0);
    let sampling = launch.sampling.clone();
    Arc::new(move || {
        let sampling = sampling.as_ref().filter(|_| percent > 0)?;
        let window = sampling.model.catalog().limits(&(sampling.main)()).context;
        Some(window / 100 * percent.min(100))
    })
}

/// Returns how long the first prompt waits for servers. In an interactive session it does not
/// wait; a headless run needs the tools.
fn initial_wait(launch: &SessionConfig) -> Duration {
    let set = launch.config.settings.number("mcp.firstWaitMs").unwrap_or(0.0);
    match launch.options.interactive && !launch.options.waits_for_servers {
        true => Duration::ZERO,
        false => Duration::try_from_secs_f64(set / 1000.0).unwrap_or_default(),
    }
}

/// Returns the variables of a server that make a program load or run something else.
fn dangerous_variables(server: &McpServer) -> Vec<(&str, &str)> {
    let Endpoint::Stdio { env, .. } = &server.endpoint else { return Vec::new() };
    let names = env.iter().map(|(name, _)| name.as_str()).filter(|name| is_rejected_variable(name));
    names.map(|name| (server.name.as_str(), name)).collect()
}

/// Result of probing a server.
#[derive(Debug, Clone)]
pub struct McpProbe {
    /// The server's configuration.
    pub server: McpServer,
    /// The outcome.
    pub state: ProbeState,
    /// Why the server is not connected.
    pub error: Option<String>,
    /// Number of its tools.
    pub tools: usize,
}

/// Outcome of probing a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeState {
    /// The server answers.
    Connected,
    /// The server does not answer.
    Disconnected,
    /// The server requires authentication.
    NeedsSignIn,
    /// The server is disabled, or the directory is not trusted.
    Disabled,
    /// The server is not allowed.
    Blocked,
}

/// The configured MCP servers outside of a session.
#[derive(Clone, Copy)]
pub struct McpManager<'a> {
    pub(crate) launch: &'a SessionConfig,
}

impl McpManager<'_> {
    /// Returns the configured MCP servers, and which of them may start.
    pub fn servers(self) -> McpServers {
        let allowed = self.launch.options.allowed_mcp_servers.clone();
        let choice = McpChoice { allowed, disabled: Vec::new() };
        let mut servers = self.launch.extensions().servers();
        if !self.launch.options.mcp_servers.is_empty() {
            servers.push(ExtensionServers {
                extension: EMBEDDER.to_owned(),
                servers: self.launch.options.mcp_servers.clone(),
            });
        }
        self.launch.config.mcp_servers(&servers, &choice)
    }

    /// Returns the settings files that define a server, lowest precedence first.
    pub fn files_of(self, name: &str) -> Vec<PathBuf> {
        let origins = self.launch.config.settings.origins(&format!("mcpServers.{name}"));
        origins.iter().map(|origin| origin.file.clone()).collect()
    }

    /// Returns the servers of the project's settings files that are ignored because the directory
    /// is not trusted, each with its file. Blocking: reads the files.
    pub fn ignored_servers(self) -> Vec<(String, PathBuf)> {
        if self.launch.is_trusted() {
            return Vec::new();
        }
        let files = [".gemini", ".parallax"]
            .map(|directory| self.launch.options.directory.join(directory).join("settings.json"));
        let of =
            |file: PathBuf| server_names(&file).into_iter().map(move |name| (name, file.clone()));
        files.into_iter().flat_map(of).collect()
    }

    /// Returns the storage of OAuth tokens for servers.
    pub fn token_files(self) -> parallax_mcp::TokenFiles {
        let dirs = &self.launch.config.dirs;
        let theirs = std::slice::from_ref(&dirs.gemini);
        parallax_mcp::TokenFiles::new(&dirs.parallax, theirs, self.launch.config.keychain.clone())
    }

    /// Returns whether to print URLs instead of opening a browser (`NO_BROWSER`).
    pub fn without_browser(self) -> bool {
        let set = self.launch.config.user_variable("NO_BROWSER");
        set.is_some_and(|value| !matches!(value.trim(), "" | "0" | "false"))
    }

    /// Returns the port for OAuth callbacks (`OAUTH_CALLBACK_PORT`).
    pub fn oauth_port(self) -> Option<u16> {
        self.launch.config.user_variable("OAUTH_CALLBACK_PORT")?.trim().parse().ok()
    }

    /// Probes all servers that may start, in parallel, with a timeout of five seconds or the
    /// server's own `timeout`. Must be called on a tokio runtime.
    pub async fn probe(self) -> (Vec<McpProbe>, Vec<String>) {
        let private = probe_directory(self.launch);
        let (found, servers, processes, warnings) = start_standalone_servers(self.launch, &private);
        let probe_futures = found.into_iter().map(|server| {
            let servers = servers.clone();
            async move { probe(server, &servers).await }
        });
        let probes = futures_util::future::join_all(probe_futures).await;
        servers.close().await;
        processes.shutdown().await;
        let clear_task = tokio::task::spawn_blocking(move || {
            ["sandbox", "overlays"].iter().for_each(|name| clear(&private.join(name)));
            let _ = std::fs::remove_dir(private);
        });
        drop(clear_task.await);
        (probes, warnings)
    }
}

/// Returns the private sandbox directory for probed servers.
fn probe_directory(launch: &SessionConfig) -> PathBuf {
    let project = parallax_store::project_folder(&launch.options.directory);
    let name = format!("mcp-{}", std::process::id());
    launch.config.dirs.parallax.join("tmp").join(project).join(name)
}

/// Returns the servers outside a session and the process manager for them.
fn start_standalone_servers(
    launch: &SessionConfig,
    private: &Path,
) -> (Vec<McpServer>, Servers, Processes, Vec<String>) {
    let found = launch.mcp_manager().servers();
    let mut warnings = found.warnings;
    warnings.extend(found.errors.iter().map(ToString::to_string));
    let processes = Processes::new(launch.config.dirs.parallax.join("tmp"));
    let directory = &launch.options.directory;
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
    let roots: Roots = Arc::new(move || vec![directory.clone()]);
    let sandbox = sandbox::sandbox_options(launch, private);
    let servers = found.servers.clone();
    let options = servers_options(launch, servers, processes.clone(), roots, sandbox, &None);
    let servers = Servers::new(options);
    (found.servers, servers, processes, warnings)
}

async fn probe(server: McpServer, servers: &Servers) -> McpProbe {
    let state = match server.start_block {
        StartBlock::Open => None,
        StartBlock::Blocked => Some(ProbeState::Blocked),
        StartBlock::Disabled | StartBlock::Untrusted => Some(ProbeState::Disabled),
    };
    if let Some(state) = state {
        return McpProbe { server, state, error: None, tools: 0 };
    }
    let limit = if server.timeout_set { server.timeout } else { PROBE };
    let connected = tokio::time::timeout(limit, servers.connect(&server.name)).await;
    let status = servers.status().into_iter().find(|status| status.config.name == server.name);
    let tools = status.as_ref().map_or(0, |status| status.catalog.tools.len());
    let (state, error) = match connected {
        Ok(Ok(())) => (ProbeState::Connected, None),
        Ok(Err(error)) => match status.map(|status| status.status) {
            Some(Status::NeedsSignIn) => (ProbeState::NeedsSignIn, None),
            _ => (ProbeState::Disconnected, Some(error)),
        },
        Err(_) => {
            let reason = format!("no response within {} ms", limit.as_millis());
            (ProbeState::Disconnected, Some(reason))
        }
    };
    McpProbe { server, state, error, tools }
}
