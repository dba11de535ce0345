//! The servers of a session, and their tools.

mod sign_ins;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use parallax_config::mcp::McpServer;
use parallax_exec::Processes;
use parallax_exec::environment::Redaction;
use parallax_http::ClientOptions;
use parallax_keychain::Keychain;
use parallax_protocol::observer::Observer;
use parallax_protocol::tool::Tool;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::cache::Cache;
use crate::catalog::ToolEntry;
use crate::connect::{ConfineFn, ServerEnvironment, Watch};
use crate::names::unique_names;
use crate::oauth::TokenFiles;
use crate::sampling::Sampling;
use crate::schema::SchemaFormat;
use crate::server::Server;
use crate::shared_servers::SharedServers;
use crate::status::ServerStatus;
use crate::tool::McpTool;
use crate::tool_pinning::ToolPins;
use crate::user_requests::UserRequestHandler;
pub use sign_ins::PendingSignIn;

/// Delay before starting servers that nothing waits for, and (below) between two of them: many
/// simultaneous process starts slow down the machine.
const QUIET: Duration = Duration::from_millis(400);
const STEP: Duration = Duration::from_millis(20);

/// Estimated characters per token of a declaration.
const CHARACTERS_OF_TOKEN: u64 = 4;

/// How long the end of the session waits for cache writes.
const CACHE_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The options of the servers of a session.
pub struct ServersOptions {
    /// The servers, including those that may not start.
    pub servers: Vec<McpServer>,
    /// `~/.parallax`, for the cache and the approved tool definitions.
    pub home: PathBuf,
    /// Other home directories whose sign-in tokens are read.
    pub tokens_of_others: Vec<PathBuf>,
    /// The keychain, if there is one.
    pub keychain: Keychain,
    /// The default working directory of servers.
    pub directory: PathBuf,
    /// The environment variables of Parallax.
    pub variables: Vec<(OsString, OsString)>,
    /// Which of these variables are not passed on.
    pub redaction: Redaction,
    /// Starts the servers, and ends them with the session.
    pub processes: Processes,
    /// Whether servers without their own setting run in the sandbox (`mcp.sandbox`).
    pub sandboxed: bool,
    /// Puts a server into the sandbox.
    pub confine: ConfineFn,
    /// Watches confined servers during starts and calls.
    pub watch: Option<Watch>,
    /// The network options.
    pub http: ClientOptions,
    /// Returns the workspace directories.
    pub roots: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Asks the user, if possible.
    pub prompter: Option<Arc<dyn UserRequestHandler>>,
    /// Answers sampling requests, if they are allowed.
    pub sampling: Option<Sampling>,
    /// Whether a cached server starts only when it is called (`mcp.lazy`).
    pub lazy: bool,
    /// How long the first request waits at most for servers that are not cached.
    pub first_wait: Duration,
    /// How schemas are declared (`mcp.schemas`).
    pub schemas: SchemaFormat,
    /// Maximum characters of one string of a result; 0: unlimited.
    pub longest_text: usize,
    /// The token limit for the declarations of all tools. Beyond it, tools are searched for instead
    /// of declared.
    pub tool_budget: ToolBudget,
    /// Sees the messages to and from servers.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Returns the current token limit for declarations; `None`: no limit.
pub type ToolBudget = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// The servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct Servers {
    pub(crate) inner: Arc<Inner>,
}

/// Notifies when the tools, prompts, or resources of the servers change.
pub struct ChangeNotifier {
    receiver: watch::Receiver<()>,
    servers: Weak<Inner>,
}

impl ChangeNotifier {
    /// Waits for a change; `None` if the servers are gone.
    pub async fn next(&mut self) -> Option<Servers> {
        self.receiver.changed().await.ok()?;
        self.servers.upgrade().map(|inner| Servers { inner })
    }
}

/// Starts a server in the background.
fn begin(server: Arc<Server>) {
    tokio::spawn(async move {
        if let Err(error) = server.link().await {
            tracing::debug!(server = server.config.name, %error, "no MCP server");
        }
    });
}

/// The tools that are declared at a version.
pub(crate) type DeclaredTools = (u64, Vec<Arc<dyn Tool>>);

/// The tools of all servers.
#[derive(Clone, Default)]
pub(crate) struct ServerTools {
    /// Tools that are declared.
    pub(crate) declared: Vec<Arc<McpTool>>,
    /// Tools that must be searched for.
    pub(crate) deferred_tools: Vec<Arc<McpTool>>,
    /// Whether there are too many to declare them all.
    pub(crate) too_many: bool,
    /// Whether a server offers resources.
    pub(crate) resources: bool,
}

pub(crate) struct Inner {
    pub(crate) shared_servers: Arc<SharedServers>,
    pub(crate) servers: Vec<Arc<Server>>,
    lazy: bool,
    pub(crate) first_wait: Duration,
    tool_budget: ToolBudget,
    /// The tools, and the version that they belong to.
    current_tools: Mutex<Option<(u64, ServerTools)>>,
    /// The declared tools, including those about all servers, and their version.
    pub(crate) declared: Mutex<Option<DeclaredTools>>,
    /// The names of tools that were found by a search.
    found_tools: Mutex<HashSet<String>>,
    /// The servers whose problems were reported.
    reported_servers: Mutex<HashSet<String>>,
}

impl Servers {
    /// Creates the servers from the cache without starting them. Blocking: reads small files.
    pub fn new(options: ServersOptions) -> Self {
        let shared_servers = Arc::new(SharedServers {
            environment: ServerEnvironment {
                processes: options.processes,
                variables: options.variables,
                redaction: options.redaction,
                directory: options.directory,
                sandboxed: options.sandboxed,
                confine: options.confine,
                watch: options.watch,
                http: options.http,
                tokens: TokenFiles::new(&options.home, &options.tokens_of_others, options.keychain),
                observer: options.observer,
            },
            cache: Cache::new(&options.home),
            pins: ToolPins::new(&options.home),
            roots: options.roots,
            prompter: options.prompter,
            sampling: options.sampling,
            schemas: options.schemas,
            longest_text: options.longest_text,
            version: AtomicU64::new(0),
            change_sender: watch::channel(()).0,
            cache_writes: TaskTracker::new(),
        });
        let server = |config| Arc::new(Server::new(config, Arc::clone(&shared_servers)));
        let mut servers: Vec<Arc<Server>> = options.servers.into_iter().map(server).collect();
        // Determines the order of declarations, regardless of where a server is configured.
        servers.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        Self {
            inner: Arc::new(Inner {
                shared_servers,
                servers,
                lazy: options.lazy,
                first_wait: options.first_wait,
                tool_budget: options.tool_budget,
                current_tools: Mutex::new(None),
                declared: Mutex::new(None),
                found_tools: Mutex::default(),
                reported_servers: Mutex::default(),
            }),
        }
    }

    /// Starts, in the background, the servers whose offers are not known yet. Servers that nothing
    /// waits for are delayed until after the first frame and the first request. Must be called on a
    /// tokio runtime.
    pub fn start(&self) {
        let needed = self.inner.servers.iter().filter(|server| server.needs_start(self.inner.lazy));
        let waits = !self.inner.first_wait.is_zero();
        let (awaited, others): (Vec<_>, Vec<_>) =
            needed.cloned().partition(|server| waits && server.is_starting());
        awaited.into_iter().for_each(begin);
        if others.is_empty() {
            return;
        }
        tokio::spawn(async move {
            tokio::time::sleep(QUIET).await;
            for server in others {
                begin(server);
                tokio::time::sleep(STEP).await;
            }
        });
    }

    /// Whether a server about which nothing is known may become ready soon.
    pub fn are_starting(&self) -> bool {
        self.open().any(|server| server.is_starting())
    }

    /// Makes the next [`ToolSource::wait_until_ready`] also wait for servers that failed in an
    /// earlier session, because something is required that no other server offers.
    pub fn require_all(&self) {
        self.open().for_each(|server| server.wait_again());
        self.start();
    }

    /// Waits until every server is connected or has failed, as long as the first request would
    /// wait.
    pub async fn wait_until_connected(&self) {
        let links = self.open().map(|server| async move { server.link().await.is_ok() });
        let links = futures_util::future::join_all(links);
        drop(tokio::time::timeout(self.inner.first_wait, links).await);
    }

    /// Returns the servers about which nothing is known yet but may be soon.
    pub fn starting(&self) -> Vec<String> {
        let starting_servers = self.open().filter(|server| server.is_starting());
        starting_servers.map(|server| server.config.name.clone()).collect()
    }

    /// Returns the status of all servers.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.inner.servers.iter().map(|server| server.status()).collect()
    }

    /// Starts a server now, regardless of what is cached.
    ///
    /// # Errors
    /// Returns a message if there is no server with this name or it cannot be started.
    pub async fn connect(&self, name: &str) -> Result<(), String> {
        let server = self.find(name).ok_or_else(|| format!("unknown MCP server `{name}`"))?;
        server.clear_failures();
        server.link().await.map(drop).map_err(|error| error.with_command(name))
    }

    /// Returns the servers whose problems were reported.
    pub(crate) fn lock_reported(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner.reported_servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes all connections and opens them again.
    pub async fn reload(&self) {
        let ends = self.inner.servers.iter().map(|server| async {
            server.disconnect().await;
            server.clear_failures();
        });
        futures_util::future::join_all(ends).await;
        let starts = self.inner.servers.iter().filter(|server| server.is_open());
        let starts = starts.map(|server| async move { server.link().await.is_ok() });
        futures_util::future::join_all(starts).await;
    }

    /// Enables or disables a server for the rest of the session.
    ///
    /// # Errors
    /// Returns a message if there is no server with this name or it must stay disabled.
    pub async fn set_enabled(&self, name: &str, on: bool) -> Result<(), String> {
        let server = self.find(name).ok_or_else(|| format!("unknown MCP server `{name}`"))?;
        server.set_enabled(on).await
    }

    /// Returns a subscription to changes. It does not keep servers alive.
    pub fn subscribe(&self) -> ChangeNotifier {
        ChangeNotifier {
            receiver: self.inner.shared_servers.change_sender.subscribe(),
            servers: Arc::downgrade(&self.inner),
        }
    }

    /// Returns all known resources: `server:uri` and a description.
    pub fn resources(&self) -> Vec<(String, String)> {
        let of = |server: &Arc<Server>| {
            let name = server.config.name.clone();
            let resources = server.catalog().resources.clone();
            resources
                .into_iter()
                .map(move |entry| {
                    let what = entry.description.unwrap_or(entry.name);
                    (format!("{name}:{}", entry.uri), what)
                })
                .collect::<Vec<_>>()
        };
        self.open().flat_map(of).collect()
    }

    /// Notifies servers that the workspace directories changed.
    pub async fn roots_changed(&self) {
        let notifications = self.inner.servers.iter().map(|server| server.roots_changed());
        futures_util::future::join_all(notifications).await;
    }

    /// Stops all servers.
    pub async fn close(&self) {
        let ends = self.inner.servers.iter().map(|server| server.close());
        futures_util::future::join_all(ends).await;
        // The session may end before the cache is written.
        let cache_writes = &self.inner.shared_servers.cache_writes;
        cache_writes.close();
        drop(tokio::time::timeout(CACHE_WRITE_TIMEOUT, cache_writes.wait()).await);
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Server>> {
        self.inner.servers.iter().find(|server| server.config.name == name)
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.inner.servers.iter().filter(|server| server.is_open())
    }

    /// Waits until every server that is not cached is ready or has failed. Not limited in time.
    pub(crate) async fn wait_until_all_known(&self) {
        let mut news = self.inner.shared_servers.change_sender.subscribe();
        while self.are_starting() {
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the tools that are available but not declared.
    pub(crate) fn deferred(&self) -> Vec<Arc<McpTool>> {
        self.current_tools().deferred_tools
    }

    /// Declares these tools from now on.
    pub(crate) fn declare(&self, names: Vec<String>) {
        self.lock_discovered().extend(names);
        self.inner.shared_servers.notify_changed();
    }

    fn lock_discovered(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner.found_tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tools that the servers offer now.
    pub(crate) fn current_tools(&self) -> ServerTools {
        let version = self.inner.shared_servers.version.load(Ordering::Acquire);
        let mut current_tools =
            self.inner.current_tools.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current_tools {
            Some((known, tools)) if *known == version => tools.clone(),
            _ => {
                let tools = self.build_tools();
                *current_tools = Some((version, tools.clone()));
                tools
            }
        }
    }

    fn build_tools(&self) -> ServerTools {
        let mut offered: Vec<(&Arc<Server>, ToolEntry)> = Vec::new();
        let mut resources = false;
        for server in self.open() {
            let catalog = server.catalog();
            resources |= !catalog.resources.is_empty() || !catalog.templates.is_empty();
            let tools = catalog.tools.iter().filter(|tool| server.config.includes_tool(&tool.name));
            offered.extend(tools.map(|tool| (server, tool.clone())));
        }
        let named: Vec<(&str, &str)> = offered
            .iter()
            .map(|(server, tool)| (server.config.name.as_str(), tool.name.as_str()))
            .collect();
        let names = unique_names(&named);
        let mut tools: Vec<Arc<McpTool>> = offered
            .into_iter()
            .zip(names)
            .map(|((server, tool), name)| Arc::new(McpTool::new(Arc::clone(server), tool, name)))
            .collect();
        let size: usize = tools.iter().map(|tool| tool.size()).sum();
        let tokens = u64::try_from(size).unwrap_or(u64::MAX) / CHARACTERS_OF_TOKEN;
        let too_many = (self.inner.tool_budget)().is_some_and(|budget| tokens > budget);
        let deferred_tools = if too_many { self.defer(&mut tools) } else { Vec::new() };
        ServerTools { declared: tools, deferred_tools, too_many, resources }
    }

    /// Removes and returns the tools that no search found.
    fn defer(&self, tools: &mut Vec<Arc<McpTool>>) -> Vec<Arc<McpTool>> {
        let found = self.lock_discovered();
        let (declared, deferred) =
            std::mem::take(tools).into_iter().partition(|tool| found.contains(&tool.spec().name));
        *tools = declared;
        deferred
    }
}
