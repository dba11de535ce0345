//! One server: started when it is needed, and restarted when the connection is lost.

mod key;
mod signed_out;
mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parallax_config::mcp::{McpServer, StartBlock};
use parallax_protocol::untrusted::wrap;
use rmcp::model::{ClientRequest, ProtocolVersion};
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::call::{Listeners, RequestOptions, request};
use crate::catalog::Catalog;
use crate::connect::Connection;
use crate::error::McpError;
use crate::handler::Handler;
use crate::inbound::InboundContext;
use crate::names::display_name;
use crate::restart_backoff::WAITS;
use crate::sampling::SamplingBudget;
use crate::shared_servers::SharedServers;
use crate::status::{ServerStatus, Status};
use crate::stderr_tail::StderrTail;
use state::{OpenConnection, ServerState};

/// Timeout of the handshake, if `timeout` is longer.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// How long a failure is reported again without a new attempt.
const STALE: Duration = Duration::from_secs(2);
/// How long the end of the session waits for a server.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(2_000);

/// A server of the session.
pub(crate) struct Server {
    pub(crate) config: McpServer,
    pub(crate) shared_servers: Arc<SharedServers>,
    pub(crate) stderr_tail: StderrTail,
    /// What its requests and notifications need.
    pub(crate) inbound: Arc<InboundContext>,
    key: String,
    state: Mutex<ServerState>,
    /// Held while the server is being started.
    starting: tokio::sync::Mutex<()>,
    closing: AtomicBool,
}

impl Server {
    /// Creates a server without starting it. Cached data is used immediately.
    pub(crate) fn new(config: McpServer, shared_servers: Arc<SharedServers>) -> Self {
        let key = key::key(&config, &shared_servers.environment);
        let known =
            (config.start_block == StartBlock::Open).then(|| shared_servers.cache.get(&key));
        let state = ServerState::new(&config, known);
        let stderr_tail = StderrTail::default();
        let inbound = Arc::new(InboundContext {
            name: config.name.clone(),
            roots: Arc::clone(&shared_servers.roots),
            prompter: shared_servers.prompter.clone(),
            sampling: shared_servers.sampling.clone(),
            allowance: SamplingBudget::default(),
            requests: Arc::default(),
            listeners: Listeners::default(),
            stderr_tail: stderr_tail.clone(),
            changed: Notify::new(),
        });
        Self {
            config,
            shared_servers,
            stderr_tail,
            inbound,
            key,
            state: Mutex::new(state),
            starting: tokio::sync::Mutex::new(()),
            closing: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server may run.
    pub(crate) fn is_open(&self) -> bool {
        !self.closing.load(Ordering::Acquire) && self.state().start_block == StartBlock::Open
    }

    /// Enables or disables the server for the rest of the session. A server that is blocked or
    /// whose directory is untrusted stays disabled.
    ///
    /// # Errors
    /// Returns the reason if the server cannot be enabled.
    pub(crate) async fn set_enabled(self: &Arc<Self>, on: bool) -> Result<(), String> {
        {
            let mut state = self.state();
            match (on, state.start_block) {
                (_, StartBlock::Blocked | StartBlock::Untrusted) => {
                    return Err(format!(
                        "it is {}",
                        Status::for_start_block(state.start_block).as_str()
                    ));
                }
                (true, _) => {
                    state.start_block = StartBlock::Open;
                    if state.link.is_none() {
                        state.status = Status::Disconnected;
                    }
                }
                (false, _) => {
                    state.start_block = StartBlock::Disabled;
                    // Its tools are no longer offered.
                    state.catalog = Arc::default();
                }
            }
        }
        if on {
            self.clear_failures();
            let server = Arc::clone(self);
            drop(tokio::spawn(async move { server.link().await.is_ok() }));
        } else {
            self.disconnect().await;
            self.set_status(Status::Disabled);
        }
        self.shared_servers.notify_changed();
        Ok(())
    }

    /// Returns what the server is known to offer.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.state().catalog)
    }

    /// Whether nothing is known about the server yet, but may be soon.
    pub(crate) fn is_starting(&self) -> bool {
        self.is_open() && self.state().unknown
    }

    /// Makes the session wait again for a server that failed in an earlier session, because it may
    /// have been repaired.
    pub(crate) fn wait_again(&self) {
        let mut state = self.state();
        if state.previous_error.is_some() && state.link.is_none() {
            state.unknown = true;
        }
    }

    /// Stops waiting for the server. It may still become ready later.
    pub(crate) fn stop_waiting(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().unknown, false) {
            self.store(Err(String::new()));
        }
    }

    /// Whether the server must be started to learn what it offers.
    pub(crate) fn needs_start(&self, lazy: bool) -> bool {
        let state = self.state();
        state.start_block == StartBlock::Open && !(lazy && state.status == Status::Cached)
    }

    /// Returns the status for the user.
    pub(crate) fn status(&self) -> ServerStatus {
        let state = self.state();
        let mut catalog = Catalog::clone(&state.catalog);
        catalog.tools.retain(|tool| self.config.includes_tool(&tool.name));
        ServerStatus {
            config: self.config.clone(),
            status: state.status,
            error: match &state.error {
                Some(error @ McpError::SignIn { .. }) => {
                    Some(error.with_command(&self.config.name))
                }
                error => {
                    error.as_ref().map(ToString::to_string).or_else(|| state.earlier_failure())
                }
            },
            handshake: state.handshake,
            implementation: state.catalog.implementation.clone(),
            stderr_tail: self.stderr_tail.text(),
            catalog,
            notes: {
                let notes = state.notes.iter().cloned();
                notes
                    .chain(state.catalog.omission_notice.clone())
                    .chain(self.stderr_tail.skipped_note())
                    .collect()
            },
        }
    }

    /// Returns a problem to report to the user, if the server is not or not fully available.
    /// `late`: also report a server that has not answered yet.
    pub(crate) fn problem(&self, late: bool) -> Option<String> {
        let state = self.state();
        if state.start_block != StartBlock::Open {
            return None;
        }
        match (state.status, &state.error) {
            (Status::Disconnected | Status::NeedsSignIn, Some(error)) => Some(match error {
                McpError::SignIn { .. } => error.with_command(&self.config.name),
                error => error.to_string(),
            }),
            (Status::Connecting | Status::Disconnected, _) if state.previous_error.is_some() => {
                state.earlier_failure()
            }
            (Status::Connecting, _) if late && !state.is_live => Some("no response yet".to_owned()),
            _ => state.catalog.omission_notice.clone(),
        }
    }

    /// Returns the open connection, and opens one if necessary.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Peer<RoleClient>, McpError> {
        if let Some(peer) = self.open_link() {
            return Ok(peer);
        }
        // Runs in a separate task, so that it continues if the caller is cancelled.
        let server = Arc::clone(self);
        let start_task = tokio::spawn(async move {
            let _turn = server.starting.lock().await;
            match server.open_link() {
                Some(peer) => Ok(peer),
                None => server.start().await,
            }
        });
        start_task.await.unwrap_or(Err(McpError::Lost))
    }

    pub(crate) fn open_link(&self) -> Option<Peer<RoleClient>> {
        let state = self.state();
        let link = state.link.as_ref()?;
        (!link.peer.is_transport_closed()).then(|| link.peer.clone())
    }

    /// Clears failures, so that the next start is attempted immediately.
    pub(crate) fn clear_failures(&self) {
        let mut state = self.state();
        state.backoff.reset();
        state.failed_at = None;
    }

    async fn start(self: &Arc<Self>) -> Result<Peer<RoleClient>, McpError> {
        self.may_start()?;
        self.set_status(Status::Connecting);
        let rest = self.state().backoff.remaining();
        tokio::time::sleep(rest).await;
        if !self.is_open() {
            return Err(McpError::Closed { reason: "it was disabled".to_owned() });
        }
        self.state().backoff.record_start();
        let started_at = Instant::now();
        let limit = match self.config.timeout_set {
            true => self.config.timeout.min(HANDSHAKE),
            false => HANDSHAKE,
        };
        let open_future = tokio::time::timeout(limit, self.open());
        let (opened, _) = self.watch_during(open_future).await;
        let opened = opened.unwrap_or(Err(McpError::Timeout { after: limit }));
        let opened = match opened {
            Err(McpError::Lost) => {
                Err(McpError::Start { reason: self.stderr_tail.describe_early_end() })
            }
            other => other,
        };
        match opened {
            Ok((connection, catalog, notes)) => {
                Ok(self.adopt(connection, catalog, notes, started_at.elapsed()))
            }
            Err(error) => {
                self.handle_failure(error.clone());
                Err(error)
            }
        }
    }

    fn may_start(&self) -> Result<(), McpError> {
        if !self.is_open() {
            let reason = format!("it is {}", self.state().status.as_str());
            return Err(McpError::Closed { reason });
        }
        let mut state = self.state();
        if let (Some(at), Some(error)) = (state.failed_at, &state.error)
            && at.elapsed() < STALE
        {
            return Err(error.clone());
        }
        state.backoff.check()
    }

    /// Returns a failure message for the model; text from the server is marked as untrusted.
    pub(crate) fn failure(&self, error: &McpError) -> String {
        let name = &self.config.name;
        let last = self.stderr_tail.last_line();
        match (error.is_quoted(), last) {
            (true, Some(line)) if !error.to_string().contains(&line) => format!(
                "The MCP server `{name}` failed:\n{}",
                wrap(&format!("{error}\nlast output: {line}"))
            ),
            (true, _) => {
                format!("The MCP server `{name}` failed:\n{}", wrap(&error.to_string()))
            }
            (false, Some(line)) => {
                format!("The MCP server `{name}` failed: {error}; last output:\n{}", wrap(&line))
            }
            (false, None) => format!("The MCP server `{name}` failed: {error}"),
        }
    }

    async fn open(self: &Arc<Self>) -> Result<(Connection, Catalog, Vec<String>), McpError> {
        let shared = &self.shared_servers;
        let samples = shared.sampling.as_ref().is_some_and(|sampling| sampling.tokens > 0);
        let handler =
            Handler::new(Arc::downgrade(&self.inbound), shared.prompter.is_some(), samples);
        let environment = &shared.environment;
        let connection = environment.connect(&self.config, handler, &self.stderr_tail).await?;
        let info = connection.peer().peer_info();
        let version = info.as_deref().map(|info| &info.protocol_version);
        if let Some(version) = version.filter(|it| !ProtocolVersion::KNOWN_VERSIONS.contains(*it)) {
            let message = format!(
                "it responded to `initialize` with the unpublished protocol version `{}`",
                display_name(version.as_str())
            );
            return Err(McpError::Protocol { message });
        }
        let (catalog, notes) = self.list(connection.peer()).await?;
        if catalog.is_empty() {
            let mut why = vec!["it offers no tools, prompts, or resources".to_owned()];
            why.extend(catalog.omission_notice);
            why.extend(notes);
            let reason = why.join("; ");
            drop(connection);
            return Err(McpError::Start { reason });
        }
        Ok((connection, catalog, notes))
    }

    /// Stores an open connection and monitors it.
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
            state.link = Some(OpenConnection { peer: peer.clone(), stop });
            state.status = Status::Connected;
            state.error = None;
            state.previous_error = None;
            state.failed_at = None;
            state.handshake = Some(handshake);
            state.notes = self.config.notes.clone();
            state.notes.extend(notes);
            state.generation
        };
        self.update_catalog(catalog);
        let watched = Arc::downgrade(self);
        let watch = tokio::spawn(async move {
            let reason = connection.waiting().await;
            tracing::debug!(?reason, "an MCP connection ended");
            if let Some(server) = watched.upgrade() {
                server.handle_lost_connection(generation);
            }
        });
        let refreshed = Arc::downgrade(self);
        let refresher = tokio::spawn(async move {
            while let Some(server) = refreshed.upgrade()
                && server.state().generation == generation
            {
                let change = tokio::time::timeout(CLOSE_TIMEOUT, server.inbound.changed.notified());
                if change.await.is_ok() {
                    server.refresh().await;
                }
            }
        });
        self.state().tasks = vec![watch, refresher];
        peer
    }

    /// Updates what the server offers, and caches it if it changed. Returns whether it changed.
    pub(crate) fn update_catalog(self: &Arc<Self>, catalog: Catalog) -> bool {
        let catalog = Arc::new(catalog);
        let (changed, first) = {
            let mut state = self.state();
            let changed = *state.catalog != *catalog;
            let first = !state.is_live;
            state.catalog = Arc::clone(&catalog);
            state.is_live = true;
            state.unknown = false;
            (changed, first)
        };
        if changed || first {
            self.store(Ok(catalog));
        }
        // Also if nothing changed, because others may wait for the server to become known.
        self.shared_servers.notify_changed();
        changed
    }

    /// Caches what the server offers, or why it failed, for later sessions.
    fn store(&self, known: Result<Arc<Catalog>, String>) {
        if !self.config.is_for_this_run() {
            self.shared_servers.cache_catalog(&self.key, known);
        }
    }

    fn handle_failure(self: &Arc<Self>, error: McpError) {
        let reason = error.with_command(&self.config.name);
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
            self.store(Err(reason));
        }
        self.shared_servers.notify_changed();
    }

    /// Handles the loss of the connection of this generation.
    fn handle_lost_connection(self: &Arc<Self>, generation: u64) {
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
        tracing::debug!(server = self.config.name, "an MCP server ended and is being restarted");
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

    /// Sets the notices for the user, in addition to those from its settings.
    pub(crate) fn set_notes(&self, notes: Vec<String>) {
        let mut state = self.state();
        state.notes = self.config.notes.clone();
        state.notes.extend(notes);
    }

    fn set_status(&self, status: Status) {
        self.state().status = status;
    }

    /// Closes the connection and terminates the process.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.disconnect().await;
    }

    /// Closes the connection; it may be reopened.
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
            drop(tokio::time::timeout(CLOSE_TIMEOUT, watch).await);
        }
        tasks.for_each(|task| task.abort());
    }

    /// Notifies the server that the workspace directories changed.
    pub(crate) async fn roots_changed(&self) {
        if let Some(peer) = self.open_link() {
            let notice = rmcp::model::RootsListChangedNotification::default();
            // Ignored, because a closed connection has the same effect.
            let _ =
                tokio::time::timeout(CLOSE_TIMEOUT, peer.send_notification(notice.into())).await;
        }
    }

    /// Runs work of a confined server while watching the files that it must not change. Also
    /// returns a message about such changes.
    async fn watch_during<T>(&self, work: impl Future<Output = T>) -> (T, Option<String>) {
        let environment = &self.shared_servers.environment;
        let watch =
            environment.watch.clone().filter(|_| self.config.is_confined(environment.sandboxed));
        let Some(watch) = watch else { return (work.await, None) };
        let config = self.config.clone();
        let watched = tokio::task::spawn_blocking(move || watch(&config)).await.ok().flatten();
        let done = work.await;
        let Some(end) = watched else { return (done, None) };
        (done, tokio::task::spawn_blocking(end).await.ok().flatten())
    }

    /// Sends a request, starting the server first if necessary. The answer comes with a message
    /// about files that the server changed without permission.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        build: impl Fn() -> ClientRequest,
        bounds: RequestOptions,
        repeatable: bool,
    ) -> (Result<Value, McpError>, Option<String>) {
        self.watch_during(self.send(build, bounds, repeatable)).await
    }

    async fn send(
        self: &Arc<Self>,
        build: impl Fn() -> ClientRequest,
        bounds: RequestOptions,
        repeatable: bool,
    ) -> Result<Value, McpError> {
        let RequestOptions { timeout, cancel, progress } = bounds;
        // A request that was never sent is retried for a while, one that may have been sent only
        // once.
        let mut waits = WAITS.iter().take(if repeatable { 3 } else { 0 });
        let mut may_repeat = repeatable;
        loop {
            let peer = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(McpError::Cancelled),
                peer = self.link() => peer?,
            };
            let bounds =
                RequestOptions { timeout, cancel: cancel.clone(), progress: progress.clone() };
            let _running = self.inbound.requests.call();
            match request(&peer, build(), bounds, &self.inbound.listeners).await {
                // The connection was lost; the request itself is valid.
                Err(McpError::Lost) if may_repeat => may_repeat = false,
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
