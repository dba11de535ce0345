//! One server: started when it is needed, started again when it is gone.

mod key;
mod signed_out;
mod state;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parallax_config::mcp::{Gate, McpServer};
use parallax_protocol::untrusted::wrap;
use rmcp::model::{ClientRequest, ProtocolVersion};
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ask::Asker;
use crate::asking::Asking;
use crate::call::{Bounds, Listeners, request};
use crate::catalog::Catalog;
use crate::connect::Connection;
use crate::error::McpError;
use crate::handler::Handler;
use crate::names::shown_name;
use crate::sampling::Allowance;
use crate::servers::Shared;
use crate::starts::WAITS;
use crate::status::{ServerStatus, Status};
use crate::tail::Tail;
use state::{Link, State};

/// How long a server may take to begin, whatever its `timeout` says.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// A failure is told again without a new attempt for so long.
const STALE: Duration = Duration::from_secs(2);
/// How long the end of a session waits for a server.
const PARTING: Duration = Duration::from_millis(2_000);

/// A server of the session.
pub(crate) struct Server {
    pub(crate) config: McpServer,
    pub(crate) shared: Arc<Shared>,
    pub(crate) listeners: Listeners,
    pub(crate) tail: Tail,
    /// What the model answered for it.
    pub(crate) allowance: Allowance,
    /// Its questions to the person.
    pub(crate) asking: Arc<Asking>,
    /// The server told that its lists are others now.
    pub(crate) changed: Notify,
    key: String,
    state: Mutex<State>,
    /// Held by the one who starts it.
    starting: tokio::sync::Mutex<()>,
    closing: AtomicBool,
}

impl Server {
    /// A server that is not started. What it offered earlier counts at once.
    pub(crate) fn new(config: McpServer, shared: Arc<Shared>) -> Self {
        let key = key::key(&config, &shared.around);
        let known = (config.gate == Gate::Open).then(|| shared.cache.get(&key));
        let state = State::new(&config, known);
        Self {
            config,
            shared,
            listeners: Listeners::default(),
            tail: Tail::default(),
            allowance: Allowance::default(),
            asking: Arc::default(),
            changed: Notify::new(),
            key,
            state: Mutex::new(state),
            starting: tokio::sync::Mutex::new(()),
            closing: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may run.
    pub(crate) fn is_open(&self) -> bool {
        !self.closing.load(Ordering::Acquire) && self.state().gate == Gate::Open
    }

    /// Lets it run for the rest of the session, or keeps it from that. One that
    /// is not allowed, or whose folder is not trusted, stays out.
    ///
    /// # Errors
    /// Why it stays out.
    pub(crate) async fn switch(self: &Arc<Self>, on: bool) -> Result<(), String> {
        {
            let mut state = self.state();
            match (on, state.gate) {
                (_, Gate::Blocked | Gate::Untrusted) => {
                    return Err(format!("it is {}", Status::of_gate(state.gate).as_str()));
                }
                (true, _) => {
                    state.gate = Gate::Open;
                    if state.link.is_none() {
                        state.status = Status::Disconnected;
                    }
                }
                (false, _) => {
                    state.gate = Gate::Disabled;
                    // What it offered is offered no more.
                    state.catalog = Arc::default();
                }
            }
        }
        if on {
            self.forgive();
            let server = Arc::clone(self);
            drop(tokio::spawn(async move { server.link().await.is_ok() }));
        } else {
            self.disconnect().await;
            self.set_status(Status::Disabled);
        }
        self.shared.changed();
        Ok(())
    }

    /// What it offers, as far as is known.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.state().catalog)
    }

    /// Whether nothing is known of it yet, and may be soon.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_open() && self.state().unknown
    }

    /// One that did not answer an earlier session may have been repaired since: it is
    /// waited for again.
    pub(crate) fn expect_again(&self) {
        let mut state = self.state();
        if state.earlier.is_some() && state.link.is_none() {
            state.unknown = true;
        }
    }

    /// It was waited for long enough. It may still come.
    pub(crate) fn give_up_waiting(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().unknown, false) {
            self.store(Err(String::new()));
        }
    }

    /// Whether it must be started to know what it offers.
    pub(crate) fn needs_start(&self, lazy: bool) -> bool {
        let state = self.state();
        state.gate == Gate::Open && !(lazy && state.status == Status::Cached)
    }

    /// The folders that it may know of.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        (self.shared.roots)()
    }

    pub(crate) fn asker(&self) -> Option<Arc<dyn Asker>> {
        self.shared.asker.clone()
    }

    /// How it stands, for people.
    pub(crate) fn status(&self) -> ServerStatus {
        let state = self.state();
        let mut catalog = Catalog::clone(&state.catalog);
        catalog.tools.retain(|tool| self.config.counts(&tool.name));
        ServerStatus {
            config: self.config.clone(),
            status: state.status,
            error: match &state.error {
                Some(error @ McpError::SignIn { .. }) => {
                    Some(error.with_command(&self.config.name))
                }
                error => error.as_ref().map(ToString::to_string).or_else(|| state.earlier()),
            },
            handshake: state.handshake,
            implementation: state.catalog.implementation.clone(),
            tail: self.tail.text(),
            catalog,
            notes: {
                let notes = state.notes.iter().cloned();
                notes.chain(state.catalog.cut.clone()).chain(self.tail.skipped_note()).collect()
            },
        }
    }

    /// What a person should know of it though nobody asked: it is not there, or
    /// not all of it. `late`: also when it gave no answer yet.
    pub(crate) fn trouble(&self, late: bool) -> Option<String> {
        let state = self.state();
        if state.gate != Gate::Open {
            return None;
        }
        match (state.status, &state.error) {
            (Status::Disconnected | Status::NeedsSignIn, Some(error)) => Some(match error {
                McpError::SignIn { .. } => error.with_command(&self.config.name),
                error => error.to_string(),
            }),
            (Status::Connecting | Status::Disconnected, _) if state.earlier.is_some() => {
                state.earlier()
            }
            (Status::Connecting, _) if late && !state.live => Some("no answer yet".to_owned()),
            _ => state.catalog.cut.clone(),
        }
    }

    /// The open connection; opens it when there is none.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Peer<RoleClient>, McpError> {
        if let Some(peer) = self.open_link() {
            return Ok(peer);
        }
        // In a task of its own: whoever waits may go away.
        let server = Arc::clone(self);
        let starting = tokio::spawn(async move {
            let _turn = server.starting.lock().await;
            match server.open_link() {
                Some(peer) => Ok(peer),
                None => server.start().await,
            }
        });
        starting.await.unwrap_or(Err(McpError::Lost))
    }

    pub(crate) fn open_link(&self) -> Option<Peer<RoleClient>> {
        let state = self.state();
        let link = state.link.as_ref()?;
        (!link.peer.is_transport_closed()).then(|| link.peer.clone())
    }

    /// Forgets failures, so that the next start is tried at once.
    pub(crate) fn forgive(&self) {
        let mut state = self.state();
        state.starts.forget();
        state.failed_at = None;
    }

    async fn start(self: &Arc<Self>) -> Result<Peer<RoleClient>, McpError> {
        self.may_start()?;
        self.set_status(Status::Connecting);
        let rest = self.state().starts.rest();
        tokio::time::sleep(rest).await;
        if !self.is_open() {
            return Err(McpError::Closed { why: "it was switched off".to_owned() });
        }
        self.state().starts.note();
        let begun = Instant::now();
        let limit = match self.config.timeout_set {
            true => self.config.timeout.min(HANDSHAKE),
            false => HANDSHAKE,
        };
        let opening = tokio::time::timeout(limit, self.open());
        let (opened, _) = self.watched(opening).await;
        let opened = opened.unwrap_or(Err(McpError::Timeout { after: limit }));
        let opened = match opened {
            Err(McpError::Lost) => Err(McpError::Start { why: self.last_words() }),
            other => other,
        };
        match opened {
            Ok((connection, catalog, notes)) => {
                Ok(self.adopt(connection, catalog, notes, begun.elapsed()))
            }
            Err(error) => {
                self.failed(error.clone());
                Err(error)
            }
        }
    }

    fn may_start(&self) -> Result<(), McpError> {
        if !self.is_open() {
            let why = format!("it is {}", self.state().status.as_str());
            return Err(McpError::Closed { why });
        }
        let mut state = self.state();
        if let (Some(at), Some(error)) = (state.failed_at, &state.error)
            && at.elapsed() < STALE
        {
            return Err(error.clone());
        }
        state.starts.check()
    }

    /// A failure of it, for the model: what it said itself is a stranger's text.
    pub(crate) fn failure(&self, error: &McpError) -> String {
        let name = &self.config.name;
        let last = self.tail.last_line();
        match (error.is_quoted(), last) {
            (true, Some(line)) if !error.to_string().contains(&line) => format!(
                "The MCP server `{name}` failed:\n{}",
                wrap(&format!("{error}\nits last words: {line}"))
            ),
            (true, _) => {
                format!("The MCP server `{name}` failed:\n{}", wrap(&error.to_string()))
            }
            (false, Some(line)) => {
                format!("The MCP server `{name}` failed: {error}; its last words:\n{}", wrap(&line))
            }
            (false, None) => format!("The MCP server `{name}` failed: {error}"),
        }
    }

    /// What it said last, for a failure that says nothing itself.
    fn last_words(&self) -> String {
        match self.tail.last_line() {
            Some(line) => format!("it ended at once; its last words: {line}"),
            None => "it ended at once and said nothing".to_owned(),
        }
    }

    async fn open(self: &Arc<Self>) -> Result<(Connection, Catalog, Vec<String>), McpError> {
        let shared = &self.shared;
        let samples = shared.sampling.as_ref().is_some_and(|sampling| sampling.tokens > 0);
        let handler = Handler::new(Arc::downgrade(self), shared.asker.is_some(), samples);
        let around = &shared.around;
        let connection = around.connect(&self.config, handler, &self.tail).await?;
        let info = connection.peer().peer_info();
        let version = info.as_deref().map(|info| &info.protocol_version);
        if let Some(version) = version.filter(|it| !ProtocolVersion::KNOWN_VERSIONS.contains(*it)) {
            let message = format!(
                "it answered `initialize` with protocol version `{}`, which is not published",
                shown_name(version.as_str())
            );
            return Err(McpError::Protocol { message });
        }
        let (catalog, notes) = self.list(connection.peer()).await?;
        if catalog.is_empty() {
            let mut why = vec!["it offers no tools, prompts or resources".to_owned()];
            why.extend(catalog.cut);
            why.extend(notes);
            let why = why.join("; ");
            drop(connection);
            return Err(McpError::Start { why });
        }
        Ok((connection, catalog, notes))
    }

    /// Takes over a connection that is open, and watches it.
    fn adopt(
        self: &Arc<Self>,
        connection: Connection,
        catalog: Catalog,
        notes: Vec<String>,
        handshake: Duration,
    ) -> Peer<RoleClient> {
        let peer = connection.peer().clone();
        let stop = connection.cancellation_token();
        let generation = {
            let mut state = self.state();
            state.generation += 1;
            state.link = Some(Link { peer: peer.clone(), stop });
            state.status = Status::Connected;
            state.error = None;
            state.earlier = None;
            state.failed_at = None;
            state.handshake = Some(handshake);
            state.notes = self.config.notes.clone();
            state.notes.extend(notes);
            state.generation
        };
        self.offer(catalog);
        let watched = Arc::downgrade(self);
        let watch = tokio::spawn(async move {
            let reason = connection.waiting().await;
            tracing::debug!(?reason, "an MCP connection ended");
            if let Some(server) = watched.upgrade() {
                server.lost(generation);
            }
        });
        let refreshed = Arc::downgrade(self);
        let refresher = tokio::spawn(async move {
            while let Some(server) = refreshed.upgrade()
                && server.state().generation == generation
            {
                let told = tokio::time::timeout(PARTING, server.changed.notified());
                if told.await.is_ok() {
                    server.refresh().await;
                }
            }
        });
        self.state().tasks = vec![watch, refresher];
        peer
    }

    /// What it offers now. Kept on disk when it is something else.
    pub(crate) fn offer(self: &Arc<Self>, catalog: Catalog) -> bool {
        let catalog = Arc::new(catalog);
        let (changed, first) = {
            let mut state = self.state();
            let changed = *state.catalog != *catalog;
            let first = !state.live;
            state.catalog = Arc::clone(&catalog);
            state.live = true;
            state.unknown = false;
            (changed, first)
        };
        if changed || first {
            self.store(Ok(catalog));
        }
        // Also when nothing changed: somebody may wait for it to be known.
        self.shared.changed();
        changed
    }

    /// Stores what it offers, or why it does not answer, for the next sessions.
    fn store(&self, known: Result<Arc<Catalog>, String>) {
        if !self.config.is_of_this_run() {
            self.shared.keep(&self.key, known);
        }
    }

    fn failed(self: &Arc<Self>, error: McpError) {
        let why = error.with_command(&self.config.name);
        let forget = {
            let mut state = self.state();
            state.link = None;
            state.status = match &error {
                McpError::SignIn { .. } => Status::NeedsSignIn,
                _ => Status::Disconnected,
            };
            state.error = Some(error);
            state.failed_at = Some(Instant::now());
            std::mem::replace(&mut state.unknown, false) || state.catalog.is_empty()
        };
        if forget && !self.closing.load(Ordering::Acquire) {
            self.store(Err(why));
        }
        self.shared.changed();
    }

    /// The connection of that generation is gone.
    fn lost(self: &Arc<Self>, generation: u64) {
        {
            let mut state = self.state();
            if state.generation != generation {
                return;
            }
            state.generation += 1;
            state.link = None;
            state.status = Status::Disconnected;
            state.error = Some(McpError::Lost);
        }
        if !self.is_open() {
            return;
        }
        tracing::debug!(server = self.config.name, "an MCP server is gone; it is started again");
        let server = Arc::downgrade(self);
        tokio::spawn(async move {
            for wait in WAITS {
                tokio::time::sleep(wait).await;
                let Some(server) = server.upgrade().filter(|server| server.is_open()) else {
                    return;
                };
                if server.link().await.is_ok() {
                    return;
                }
            }
        });
    }

    /// What people should hear about it, besides what its settings say.
    pub(crate) fn set_notes(&self, notes: Vec<String>) {
        let mut state = self.state();
        state.notes = self.config.notes.clone();
        state.notes.extend(notes);
    }

    fn set_status(&self, status: Status) {
        self.state().status = status;
    }

    /// Ends the connection and the process.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.disconnect().await;
    }

    /// Ends the connection; it may be opened again.
    pub(crate) async fn disconnect(&self) {
        let (link, tasks) = {
            let mut state = self.state();
            state.generation += 1;
            if state.link.is_some() {
                state.status = Status::Disconnected;
            }
            (state.link.take(), std::mem::take(&mut state.tasks))
        };
        let Some(link) = link else { return };
        link.stop.cancel();
        drop(link.peer);
        let mut tasks = tasks.into_iter();
        if let Some(watch) = tasks.next() {
            drop(tokio::time::timeout(PARTING, watch).await);
        }
        tasks.for_each(|task| task.abort());
    }

    /// Tells it that the folders are others now.
    pub(crate) async fn roots_changed(&self) {
        if let Some(peer) = self.open_link() {
            let notice = rmcp::model::RootsListChangedNotification::default();
            // Gone already is as good.
            let _ = tokio::time::timeout(PARTING, peer.send_notification(notice.into())).await;
        }
    }

    /// The work of a confined server, with the files that are closed to it looked
    /// after; and what of them the caller should know.
    async fn watched<T>(&self, work: impl Future<Output = T>) -> (T, Option<String>) {
        let around = &self.shared.around;
        let watch = around.watch.clone().filter(|_| self.config.is_confined(around.sandboxed));
        let Some(watch) = watch else { return (work.await, None) };
        let config = self.config.clone();
        let begun = tokio::task::spawn_blocking(move || watch(&config)).await.ok().flatten();
        let done = work.await;
        let Some(end) = begun else { return (done, None) };
        (done, tokio::task::spawn_blocking(end).await.ok().flatten())
    }

    /// Sends a request, starting the server first if need be. With the answer comes
    /// what the caller should know of files that the server changed and may not.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        build: impl Fn() -> ClientRequest,
        bounds: Bounds,
        repeatable: bool,
    ) -> (Result<Value, McpError>, Option<String>) {
        self.watched(self.send(build, bounds, repeatable)).await
    }

    async fn send(
        self: &Arc<Self>,
        build: impl Fn() -> ClientRequest,
        bounds: Bounds,
        repeatable: bool,
    ) -> Result<Value, McpError> {
        let Bounds { timeout, cancel, progress } = bounds;
        // What was never sent is tried again for a while, what may have been once.
        let mut waits = WAITS.iter().take(if repeatable { 3 } else { 0 });
        let mut again = repeatable;
        loop {
            let peer = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(McpError::Cancelled),
                peer = self.link() => peer?,
            };
            let bounds = Bounds { timeout, cancel: cancel.clone(), progress: progress.clone() };
            let _running = self.asking.call();
            match request(&peer, build(), bounds, &self.listeners).await {
                // The link was down, not the request wrong.
                Err(McpError::Lost) if again => again = false,
                Err(error @ McpError::Sending { .. }) => {
                    let Some(wait) = waits.next() else { return Err(error) };
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Err(McpError::Cancelled),
                        () = tokio::time::sleep(*wait) => {}
                    }
                }
                Err(McpError::SignIn { .. }) => return Err(self.signed_out().await),
                other => return other,
            }
        }
    }
}
