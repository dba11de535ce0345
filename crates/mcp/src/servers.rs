//! All servers of a session, and their tools.

mod sign_ins;

use std::collections::{HashMap, HashSet};
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
use parallax_protocol::BoxFuture;
use parallax_protocol::tool::{Tool, ToolSource};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::ask::Asker;
use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::connect::{Confine, Surroundings, Watch};
use crate::instructions;
use crate::names::full_name;
use crate::oauth::TokenFiles;
use crate::pins::Pins;
use crate::resource_tools::{ListResources, ReadResource};
use crate::sampling::Sampling;
use crate::schema::SchemaForm;
use crate::search_tool::SearchTools;
use crate::server::Server;
use crate::status::ServerStatus;
use crate::tool::McpTool;
pub use sign_ins::WantedSignIn;

/// How long a call of a tool that is not known yet waits for its server.
const LOOKING: Duration = Duration::from_secs(60);

/// How long servers that nothing waits for are not started, and then the time
/// between two of them: many programs that start at once slow everything down.
const QUIET: Duration = Duration::from_millis(400);
const STEP: Duration = Duration::from_millis(20);

/// Characters that are taken for one token of a declaration.
const CHARACTERS_OF_TOKEN: u64 = 4;

/// How long the end waits for what is being written into the cache.
const KEEPING: Duration = Duration::from_secs(2);

/// What the servers of a session are made of.
pub struct ServersOptions {
    /// The servers, also those that may not start.
    pub servers: Vec<McpServer>,
    /// `~/.parallax`, for what servers offered and what was approved.
    pub home: PathBuf,
    /// Other homes whose tokens of sign-ins are read.
    pub tokens_of_others: Vec<PathBuf>,
    /// Where tokens are kept, where there is one.
    pub keychain: Keychain,
    /// Where servers run when they say nothing.
    pub directory: PathBuf,
    /// The variables of this program.
    pub variables: Vec<(OsString, OsString)>,
    /// Which of them stay here.
    pub redaction: Redaction,
    /// Starts the servers, and ends them with the session.
    pub processes: Processes,
    /// Whether programs are confined that say nothing of it (`mcp.sandbox`).
    pub sandboxed: bool,
    /// Confines programs that are to be.
    pub confine: Confine,
    /// Looks after what confined ones do when they start and are called.
    pub watch: Option<Watch>,
    /// How the network is reached.
    pub http: ClientOptions,
    /// The folders of the workspace.
    pub roots: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Who can be asked.
    pub asker: Option<Arc<dyn Asker>>,
    /// What answers for them, if they may have the model answer.
    pub sampling: Option<Sampling>,
    /// Whether a server that is known starts only when it is called (`mcp.lazy`).
    pub lazy: bool,
    /// How long the first request waits at most for servers that were never seen
    /// before.
    pub first_wait: Duration,
    /// How schemas are declared (`mcp.schemas`).
    pub schemas: SchemaForm,
    /// Characters of one text of a result; 0: all.
    pub longest_text: usize,
    /// How many tokens the declarations of all tools may need together. With more
    /// they are not declared but looked for; `None`: there is no such limit.
    pub tool_budget: ToolBudget,
}

/// Tells how many tokens declarations may need now.
pub type ToolBudget = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// What all servers share.
pub(crate) struct Shared {
    pub(crate) around: Surroundings,
    pub(crate) cache: Cache,
    pub(crate) pins: Pins,
    pub(crate) roots: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    pub(crate) asker: Option<Arc<dyn Asker>>,
    pub(crate) sampling: Option<Sampling>,
    pub(crate) schemas: SchemaForm,
    pub(crate) longest_text: usize,
    version: AtomicU64,
    news: watch::Sender<()>,
    /// What is being written into the cache.
    keeping: TaskTracker,
}

impl Shared {
    /// Keeps what a server offers, or why it does not answer, on a thread.
    pub(crate) fn keep(self: &Arc<Self>, key: &str, known: Result<Arc<Catalog>, String>) {
        let (shared, key) = (Arc::clone(self), key.to_owned());
        self.keeping.spawn_blocking(move || {
            shared.cache.put(&key, known.as_deref().map_err(String::as_str));
        });
    }

    /// Something is known that was not.
    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.news.send_replace(());
    }
}

/// The servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct Servers {
    inner: Arc<Inner>,
}

/// Tells when servers offer something else.
pub struct News {
    told: watch::Receiver<()>,
    servers: Weak<Inner>,
}

impl News {
    /// Waits for news; `None` when the servers are gone.
    pub async fn next(&mut self) -> Option<Servers> {
        self.told.changed().await.ok()?;
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

/// The tools of all servers.
#[derive(Clone, Default)]
struct Tools {
    declared: Vec<Arc<dyn Tool>>,
    /// Those that must be looked for.
    deferred: Vec<Arc<McpTool>>,
}

struct Inner {
    shared: Arc<Shared>,
    servers: Vec<Arc<Server>>,
    lazy: bool,
    first_wait: Duration,
    tool_budget: ToolBudget,
    /// The tools, and the version that they are of.
    made: Mutex<Option<(u64, Tools)>>,
    /// The tools that were looked for, by name.
    found: Mutex<HashSet<String>>,
    /// The servers whose trouble was told.
    told: Mutex<HashSet<String>>,
}

impl Servers {
    /// Reads what is known from earlier. Nothing is started. Blocking: it reads
    /// small files.
    pub fn new(options: ServersOptions) -> Self {
        let shared = Arc::new(Shared {
            around: Surroundings {
                processes: options.processes,
                variables: options.variables,
                redaction: options.redaction,
                directory: options.directory,
                sandboxed: options.sandboxed,
                confine: options.confine,
                watch: options.watch,
                http: options.http,
                tokens: TokenFiles::new(&options.home, &options.tokens_of_others, options.keychain),
            },
            cache: Cache::new(&options.home),
            pins: Pins::new(&options.home),
            roots: options.roots,
            asker: options.asker,
            sampling: options.sampling,
            schemas: options.schemas,
            longest_text: options.longest_text,
            version: AtomicU64::new(0),
            news: watch::channel(()).0,
            keeping: TaskTracker::new(),
        });
        let server = |config| Arc::new(Server::new(config, Arc::clone(&shared)));
        let mut servers: Vec<Arc<Server>> = options.servers.into_iter().map(server).collect();
        // The order of declarations, wherever a server is configured.
        servers.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        Self {
            inner: Arc::new(Inner {
                shared,
                servers,
                lazy: options.lazy,
                first_wait: options.first_wait,
                tool_budget: options.tool_budget,
                made: Mutex::new(None),
                found: Mutex::default(),
                told: Mutex::default(),
            }),
        }
    }

    /// Starts, in the background, the servers of which it must be learnt what
    /// they offer. Those that nothing waits for leave the machine to the first
    /// frame and the first request. Must run on a tokio runtime.
    pub fn start(&self) {
        let needed = self.inner.servers.iter().filter(|server| server.needs_start(self.inner.lazy));
        let waits = !self.inner.first_wait.is_zero();
        let (awaited, others): (Vec<_>, Vec<_>) =
            needed.cloned().partition(|server| waits && server.is_awaited());
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

    /// Whether something may soon be known of a server of which nothing is.
    pub fn are_starting(&self) -> bool {
        self.open().any(|server| server.is_awaited())
    }

    /// Waits in the next [`ToolSource::settled`] for servers, too, that did not answer an
    /// earlier session: something is wanted that no other server has.
    pub fn expect_all(&self) {
        self.open().for_each(|server| server.expect_again());
        self.start();
    }

    /// Those of which nothing is known yet, and may be soon.
    pub fn starting(&self) -> Vec<String> {
        let starting = self.open().filter(|server| server.is_awaited());
        starting.map(|server| server.config.name.clone()).collect()
    }

    /// How all servers stand.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.inner.servers.iter().map(|server| server.status()).collect()
    }

    /// Starts a server now, whatever is known of it.
    ///
    /// # Errors
    /// There is none of that name, or it cannot be started.
    pub async fn connect(&self, name: &str) -> Result<(), String> {
        let server = self.find(name).ok_or_else(|| format!("there is no MCP server `{name}`"))?;
        server.forgive();
        server.link().await.map(drop).map_err(|error| error.with_command(name))
    }

    /// The servers whose trouble was told.
    fn told(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections and opens them again.
    pub async fn reload(&self) {
        let ends = self.inner.servers.iter().map(|server| async {
            server.disconnect().await;
            server.forgive();
        });
        futures_util::future::join_all(ends).await;
        let starts = self.inner.servers.iter().filter(|server| server.is_open());
        let starts = starts.map(|server| async move { server.link().await.is_ok() });
        futures_util::future::join_all(starts).await;
    }

    /// Switches a server on or off for the rest of the session.
    ///
    /// # Errors
    /// There is none of that name, or it must stay out.
    pub async fn switch(&self, name: &str, on: bool) -> Result<(), String> {
        let server = self.find(name).ok_or_else(|| format!("there is no MCP server `{name}`"))?;
        server.switch(on).await
    }

    /// News of what servers offer, for one who shows it. It keeps no server
    /// alive.
    pub fn news(&self) -> News {
        News { told: self.inner.shared.news.subscribe(), servers: Arc::downgrade(&self.inner) }
    }

    /// What is known of all resources: `server:uri` and what it is.
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

    /// Tells servers that the folders of the workspace are others now.
    pub async fn roots_changed(&self) {
        let told = self.inner.servers.iter().map(|server| server.roots_changed());
        futures_util::future::join_all(told).await;
    }

    /// Ends all servers.
    pub async fn close(&self) {
        let ends = self.inner.servers.iter().map(|server| server.close());
        futures_util::future::join_all(ends).await;
        // A session may be over before what it learnt is on the disk.
        let keeping = &self.inner.shared.keeping;
        keeping.close();
        drop(tokio::time::timeout(KEEPING, keeping.wait()).await);
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Server>> {
        self.inner.servers.iter().find(|server| server.config.name == name)
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.inner.servers.iter().filter(|server| server.is_open())
    }

    /// Waits until every server that was never seen before is ready or has failed.
    /// Not bounded in time.
    async fn all_known(&self) {
        let mut news = self.inner.shared.news.subscribe();
        while self.are_starting() {
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    /// The tools that are there and not declared.
    pub(crate) fn deferred(&self) -> Vec<Arc<McpTool>> {
        self.made().deferred
    }

    /// Declares these from now on.
    pub(crate) fn declare(&self, names: Vec<String>) {
        self.found().extend(names);
        self.inner.shared.changed();
    }

    fn found(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> Tools {
        let version = self.version();
        let mut made = self.inner.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((known, tools)) if *known == version => tools.clone(),
            _ => {
                let tools = self.make();
                *made = Some((version, tools.clone()));
                tools
            }
        }
    }

    fn make(&self) -> Tools {
        let mut tools: Vec<Arc<McpTool>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut resources = false;
        for server in self.open() {
            let catalog = server.catalog();
            resources |= !catalog.resources.is_empty() || !catalog.templates.is_empty();
            for entry in catalog.tools.iter().filter(|entry| server.config.counts(&entry.name)) {
                let tool = McpTool::new(Arc::clone(server), entry.clone());
                let name = tool.spec().name.clone();
                // Of two with one name the later counts.
                match places.get(&name).and_then(|place| tools.get_mut(*place)) {
                    Some(place) => *place = Arc::new(tool),
                    None => {
                        places.insert(name, tools.len());
                        tools.push(Arc::new(tool));
                    }
                }
            }
        }
        let size: usize = tools.iter().map(|tool| tool.size()).sum();
        let tokens = u64::try_from(size).unwrap_or(u64::MAX) / CHARACTERS_OF_TOKEN;
        let too_many = (self.inner.tool_budget)().is_some_and(|budget| tokens > budget);
        let deferred = if too_many { self.defer(&mut tools) } else { Vec::new() };
        let mut declared: Vec<Arc<dyn Tool>> = Vec::new();
        if too_many {
            declared.push(Arc::new(SearchTools::new(self.clone(), &self.offered(&deferred))));
        }
        declared.extend(tools.into_iter().map(|tool| tool as Arc<dyn Tool>));
        if resources {
            declared.push(Arc::new(ListResources::new(self.clone())));
            declared.push(Arc::new(ReadResource::new(self.clone())));
        }
        Tools { declared, deferred }
    }

    /// Takes out the tools that nobody looked for.
    fn defer(&self, tools: &mut Vec<Arc<McpTool>>) -> Vec<Arc<McpTool>> {
        let found = self.found();
        let (declared, deferred) =
            std::mem::take(tools).into_iter().partition(|tool| found.contains(&tool.spec().name));
        *tools = declared;
        deferred
    }

    /// How many tools of which servers are not declared, and what each is for.
    fn offered(&self, deferred: &[Arc<McpTool>]) -> Vec<(String, usize, String)> {
        let of = |server: &Arc<Server>| {
            let name = server.config.name.clone();
            // What was found stays counted: the text must not change with each search.
            let catalog = server.catalog();
            let count = catalog.tools.iter().filter(|it| server.config.counts(&it.name)).count();
            let about = server.config.description.clone().unwrap_or_default();
            let has_some = deferred.iter().any(|tool| tool.server() == name);
            has_some.then_some((name, count, about))
        };
        self.open().filter_map(of).collect()
    }
}

impl ToolSource for Servers {
    fn version(&self) -> u64 {
        self.inner.shared.version.load(Ordering::Acquire)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.made().declared
    }

    fn deferred(&self) -> Vec<Arc<dyn Tool>> {
        self.made().deferred.into_iter().map(|tool| tool as Arc<dyn Tool>).collect()
    }

    fn trouble(&self) -> Option<String> {
        // Where nothing waits for servers, one may just be starting.
        let late = !self.inner.first_wait.is_zero();
        let mut told = self.told();
        let mut words = Vec::new();
        for server in &self.inner.servers {
            let name = &server.config.name;
            if let Some(why) = server.trouble(late).filter(|_| !told.contains(name)) {
                told.insert(name.clone());
                words.push(format!("`{name}`: {why}"));
            }
            if let Some(note) = server.tail.skipped_note()
                && server.is_open()
                && told.insert(format!("{name}\nskipped lines"))
            {
                words.push(format!("`{name}`: {note}"));
            }
        }
        (!words.is_empty()).then(|| {
            format!(
                "MCP servers with trouble: {} (see `/mcp`, `parallax mcp list`)",
                words.join("; ")
            )
        })
    }

    fn settled(&self) -> BoxFuture<'static, ()> {
        let servers = self.clone();
        let limit = self.inner.first_wait;
        Box::pin(async move {
            if !limit.is_zero() {
                drop(tokio::time::timeout(limit, servers.all_known()).await);
                // Nobody waits for these again, in later sessions neither.
                servers.open().for_each(|server| server.give_up_waiting());
            }
        })
    }

    fn context(&self) -> Option<String> {
        let block = |server: &Arc<Server>| {
            instructions::block(&server.config.name, server.catalog().instructions.as_deref()?)
        };
        let blocks: Vec<String> = self.open().filter_map(block).collect();
        (!blocks.is_empty()).then(|| blocks.join("\n\n"))
    }

    fn look_for(&self, name: &str) -> BoxFuture<'static, ()> {
        // The model knows it all the same: from an earlier session, or a rule.
        if Servers::deferred(self).iter().any(|tool| tool.spec().name == name) {
            self.declare(vec![name.to_owned()]);
            return Box::pin(std::future::ready(()));
        }
        let mine: Vec<Arc<Server>> = self
            .open()
            .filter(|server| name.starts_with(&full_name(&server.config.name, "")))
            .cloned()
            .collect();
        Box::pin(async move {
            let looking = mine.iter().map(|server| async move { server.link().await.is_ok() });
            let looking = futures_util::future::join_all(looking);
            drop(tokio::time::timeout(LOOKING, looking).await);
        })
    }
}
