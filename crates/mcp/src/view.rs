//! The MCP servers of an open session, for display and control by a front end.

use std::sync::Arc;

use parallax_config::UserDirs;
use parallax_config::mcp::{EnablementFiles, McpServers, McpSource, is_same_name};
use parallax_http::ClientOptions;
use parallax_protocol::BoxFuture;
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

use crate::{
    ChangeNotifier, PendingSignIn, ServerStatus, Servers, SignInUi, Status, TokenFiles, sign_in,
};

/// The MCP servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct McpView {
    servers: Servers,
    access: McpAccess,
}

/// What the view needs to enable servers and to sign in to them. Cheap to clone.
#[derive(Clone)]
pub struct McpAccess {
    /// The user's directories.
    pub dirs: UserDirs,
    /// The storage of OAuth tokens.
    pub tokens: TokenFiles,
    /// The port for OAuth callbacks, if the user chose one.
    pub port: Option<u16>,
    /// Options for connections.
    pub http: ClientOptions,
    /// Whether URLs may be opened in a browser.
    pub opens_browser: bool,
    /// Returns the configured servers. Blocking.
    pub configured: Arc<dyn Fn() -> McpServers + Send + Sync>,
}

/// Simplified status of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpState {
    /// Its tools can be called.
    Ready,
    /// It is starting.
    Starting,
    /// It should be running but is not.
    Down,
    /// It is not allowed to run.
    Off,
}

/// A tool, prompt, or resource of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpItem {
    /// The name or URI.
    pub name: String,
    /// The description.
    pub description: String,
    /// JSON Schema of its arguments; null if it has none.
    pub schema: Value,
}

/// A server in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct McpRow {
    /// Name of the server.
    pub name: String,
    /// The simplified status.
    pub state: McpState,
    /// The status in words.
    pub status: &'static str,
    /// The extension that provides it.
    pub extension: Option<String>,
    /// The description.
    pub description: String,
    /// `stdio`, `http`, or `sse`.
    pub kind: &'static str,
    /// The command line or URL.
    pub target: String,
    /// The name and version that it reports.
    pub implementation: String,
    /// The last error.
    pub error: Option<String>,
    /// Duration of its start in milliseconds.
    pub handshake: Option<u128>,
    /// Its last line on stderr.
    pub last_stderr_line: String,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The tools.
    pub tools: Vec<McpItem>,
    /// The prompts, which are slash commands.
    pub prompts: Vec<McpItem>,
    /// The resources, which can be referenced as `@server:uri`.
    pub resources: Vec<McpItem>,
}

impl McpView {
    /// Shows and controls these servers.
    pub fn new(servers: Servers, access: McpAccess) -> Self {
        Self { servers, access }
    }

    /// Returns all servers with their tools, prompts, and resources.
    pub fn rows(&self) -> Vec<McpRow> {
        self.servers.status().into_iter().map(row).collect()
    }

    /// Returns the servers that are still starting and whose tools are not known from earlier. A
    /// request sent now lacks their tools.
    pub fn starting(&self) -> Vec<String> {
        self.servers.starting()
    }

    /// Returns the resources of all servers as `server:uri` with descriptions.
    pub fn resources(&self) -> Vec<(String, String)> {
        self.servers.resources()
    }

    /// Returns the servers that require authentication. Each is returned once; the caller notifies
    /// the user.
    pub fn sign_ins(&self) -> Vec<PendingSignIn> {
        self.servers.sign_ins()
    }

    /// Restarts all connections. Blocking; must be called on a blocking thread of a runtime.
    ///
    /// # Errors
    /// Returns an error if called outside a runtime.
    pub fn reload(&self) -> Result<(), Failure> {
        block(self.servers.reload())
    }

    /// Enables or disables a server for the session only, or for later sessions too. Blocking; must
    /// be called on a blocking thread of a runtime.
    ///
    /// # Errors
    /// Returns an error if the server is not found or may not run, or if the file cannot be
    /// written.
    pub fn set_enabled(&self, name: &str, on: bool, session: bool) -> Result<String, Failure> {
        let name = self.name_of(name)?;
        if !session {
            EnablementFiles::for_user(&self.access.dirs)
                .set(&name, on)
                .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))?;
        }
        let switched = block(self.servers.set_enabled(&name, on))?;
        switched.map_err(|reason| input_failure(format!("the MCP server `{name}`: {reason}")))?;
        Ok(name)
    }

    /// Authenticates to a server with the browser and connects. `show` receives the URL, which is
    /// also opened on this machine if possible. Blocking; must be called on a blocking thread of a
    /// runtime.
    ///
    /// # Errors
    /// Returns an error if the server is not found or authentication fails.
    pub fn sign_in(
        &self,
        name: &str,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<String, Failure> {
        self.sign_in_with(name, Arc::new(show), self.access.opens_browser)
    }

    /// Like [`Self::sign_in`], but only `show` opens the URL. Blocking, as well.
    ///
    /// # Errors
    /// Returns the errors of [`Self::sign_in`].
    pub fn sign_in_by_url(
        &self,
        name: &str,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<String, Failure> {
        self.sign_in_with(name, Arc::new(show), false)
    }

    fn sign_in_with(
        &self,
        name: &str,
        show: Arc<dyn Fn(&str) + Send + Sync>,
        opens_browser: bool,
    ) -> Result<String, Failure> {
        let name = self.name_of(name)?;
        let to_failure =
            |reason: String| input_failure(format!("the MCP server `{name}`: {reason}"));
        let found = (self.access.configured)();
        let server = found.servers.into_iter().find(|server| server.name == name);
        let server = server.ok_or_else(|| to_failure("its settings no longer exist".to_owned()))?;
        let McpAccess { tokens, port, http, .. } = &self.access;
        let ui = BrowserSignIn { show, opens_browser };
        block(async {
            sign_in(&server, tokens, *port, http, &ui).await?;
            self.servers.reconnect(&name).await
        })?
        .map_err(to_failure)?;
        Ok(name)
    }

    /// Returns all servers that require authentication.
    pub fn servers_requiring_sign_in(&self) -> Vec<String> {
        let status = self.servers.status().into_iter();
        status
            .filter(|server| server.status == Status::NeedsSignIn)
            .map(|server| server.config.name)
            .collect()
    }

    fn name_of(&self, name: &str) -> Result<String, Failure> {
        let names: Vec<String> =
            self.servers.status().into_iter().map(|server| server.config.name).collect();
        names
            .iter()
            .find(|known| *known == name)
            .or_else(|| names.iter().find(|known| is_same_name(name, known)))
            .cloned()
            .ok_or_else(|| input_failure(format!("unknown MCP server `{name}`")))
    }

    /// Returns a stream of changes. It ends with the session and does not keep it alive.
    pub fn updates(&self) -> McpUpdates {
        McpUpdates { notifier: self.servers.subscribe() }
    }
}

/// The current resources and authentication requests of the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpUpdate {
    /// Resources of all servers as `server:uri` with descriptions.
    pub resources: Vec<(String, String)>,
    /// Servers that require authentication and were not reported yet.
    pub sign_ins: Vec<PendingSignIn>,
}

/// Waits for changes of what servers offer.
pub struct McpUpdates {
    notifier: ChangeNotifier,
}

impl McpUpdates {
    /// Waits for the next change. Returns `None` when the servers are gone.
    pub async fn next(&mut self) -> Option<McpUpdate> {
        let servers = self.notifier.next().await?;
        Some(McpUpdate { resources: servers.resources(), sign_ins: servers.sign_ins() })
    }
}

fn row(status: ServerStatus) -> McpRow {
    let item =
        |name: String, description: String, schema: Value| McpItem { name, description, schema };
    let catalog = status.catalog;
    McpRow {
        state: match status.status {
            Status::Cached | Status::Connected => McpState::Ready,
            Status::Connecting => McpState::Starting,
            Status::Disconnected | Status::NeedsSignIn => McpState::Down,
            Status::Disabled | Status::Blocked | Status::Untrusted => McpState::Off,
        },
        status: status.status.as_str(),
        extension: match &status.config.source {
            McpSource::Extension(name) => Some(name.clone()),
            _ => None,
        },
        description: status.config.description.clone().unwrap_or_default(),
        kind: status.config.endpoint.kind(),
        target: status.config.endpoint.target(),
        implementation: status.implementation.unwrap_or_default(),
        error: status.error,
        handshake: status.handshake.map(|time| time.as_millis()),
        last_stderr_line: status.stderr_tail.lines().next_back().unwrap_or_default().to_owned(),
        notes: status.notes,
        name: status.config.name,
        tools: catalog
            .tools
            .into_iter()
            .map(|tool| item(tool.name, tool.description, tool.schema))
            .collect(),
        prompts: catalog
            .prompts
            .into_iter()
            .map(|prompt| item(prompt.command(), prompt.description, Value::Null))
            .collect(),
        resources: catalog
            .resources
            .into_iter()
            .map(|it| item(it.uri, it.description.unwrap_or(it.name), Value::Null))
            .collect(),
    }
}

/// Shows the URL to the user and opens their browser.
struct BrowserSignIn {
    show: Arc<dyn Fn(&str) + Send + Sync>,
    opens_browser: bool,
}

impl SignInUi for BrowserSignIn {
    fn show(&self, address: &str) {
        (self.show)(address);
        if self.opens_browser {
            parallax_exec::program::open_address(address);
        }
    }

    fn wait_for_pasted_url(&self) -> BoxFuture<'static, Option<String>> {
        Box::pin(std::future::pending())
    }
}

/// Blocks on a future, on a thread where blocking is allowed.
fn block<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
    Ok(runtime.block_on(work))
}

fn input_failure(message: String) -> Failure {
    Failure::new(FailureKind::Input, message)
}
