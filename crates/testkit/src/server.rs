//! The scripted model server: real HTTP/1.1 on a loopback port with responses from a [`Script`]. It
//! records and checks every request.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use crate::check::Checker;
use crate::http::{Connection, HttpRequest};
use crate::recorded::RecordedRequest;
use crate::script::{Method, Script};
use crate::wire::{Rules, WireFormat};

mod reply;

/// The options of a server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The port; 0 selects a free one.
    pub port: u16,
    /// A file to which requests are also written, one JSON object per line.
    pub log: Option<PathBuf>,
    /// Whether a request with a violation gets status 400.
    pub strict: bool,
    /// Whether bodies are discarded after the checks (for long load tests).
    pub discard_bodies: bool,
}

#[derive(Default)]
struct Gate {
    open_signal: Option<Arc<Semaphore>>,
    reached_signal: Option<Arc<Semaphore>>,
}

impl Gate {
    fn open_signal(&mut self) -> Arc<Semaphore> {
        self.open_signal.get_or_insert_with(|| Arc::new(Semaphore::new(0))).clone()
    }
    fn reached_signal(&mut self) -> Arc<Semaphore> {
        self.reached_signal.get_or_insert_with(|| Arc::new(Semaphore::new(0))).clone()
    }
}

pub(crate) struct Shared {
    script: Script,
    options: Options,
    log: Option<Mutex<std::fs::File>>,
    start: Instant,
    state: Mutex<State>,
    request_arrived: Notify,
    answered: Notify,
    gates: Mutex<HashMap<String, Gate>>,
}

#[derive(Default)]
struct State {
    requests: Vec<RecordedRequest>,
    used_replies: Vec<u64>,
    checker: Checker,
    rules: Rules,
    /// Violations that belong to no request, such as an exhausted script.
    general: Vec<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server, which stops when it is dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ModelServer {
    /// Starts a server on a free port in the current tokio runtime.
    ///
    /// # Errors
    /// Returns an error if no port can be bound.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_with(script, Options::default()).await
    }

    /// Starts a server from the text of a script.
    ///
    /// # Errors
    /// Returns an error if the script is invalid or no port can be bound.
    pub async fn start_script(script: &str) -> io::Result<Self> {
        Self::start(Script::parse(script).map_err(io::Error::other)?).await
    }

    /// Starts a server.
    ///
    /// # Errors
    /// Returns an error if the port cannot be bound or the log file cannot be created.
    pub async fn start_with(script: Script, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
        let address = listener.local_addr()?;
        let log = match &options.log {
            Some(path) => Some(Mutex::new(std::fs::File::create(path)?)),
            None => None,
        };
        let used_replies = vec![0; script.replies.len()];
        let checker = Checker::new(script.ignore.clone());
        let shared = Arc::new(Shared {
            script,
            options,
            log,
            start: Instant::now(),
            state: Mutex::new(State { used_replies, checker, ..State::default() }),
            request_arrived: Notify::new(),
            answered: Notify::new(),
            gates: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, task })
    }

    /// Returns the base URL without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.state).requests.clone()
    }

    /// Waits until there are this many requests.
    pub async fn wait_for_requests(&self, count: usize) {
        loop {
            let arrived = self.shared.request_arrived.notified();
            if lock(&self.shared.state).requests.len() >= count {
                return;
            }
            arrived.await;
        }
    }

    /// Returns the violations, each with the number of its request.
    pub fn violations(&self) -> Vec<String> {
        let state = lock(&self.shared.state);
        let request_violations = state.requests.iter().flat_map(|request| {
            request.violations.iter().map(move |text| format!("request {}: {text}", request.index))
        });
        request_violations.chain(state.general.iter().cloned()).collect()
    }

    /// Fails the test if any request violated a rule.
    ///
    /// # Panics
    /// Panics if there are violations.
    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "the model server objects:\n{}", violations.join("\n"));
    }

    /// Returns the number of replies that were not (fully) used.
    pub fn unused_replies(&self) -> usize {
        let state = lock(&self.shared.state);
        let replies = self.shared.script.replies.iter().zip(&state.used_replies);
        replies.filter(|(reply, used)| reply.repeat != 0 && **used < reply.repeat).count()
    }

    /// Lets one stream pass the gate, now or when it reaches it.
    pub fn open_gate(&self, name: &str) {
        self.shared.open_gate(name);
    }

    /// Waits until a stream reaches the gate (once per stream).
    pub async fn wait_at_gate(&self, name: &str) {
        let reached = lock(&self.shared.gates).entry(name.to_owned()).or_default().reached_signal();
        if let Ok(permit) = reached.acquire().await {
            permit.forget();
        }
    }

    /// Waits until every reply of the script was used as often as allowed.
    pub async fn wait_until_used(&self) {
        loop {
            let answered = self.shared.answered.notified();
            if self.unused_replies() == 0 {
                return;
            }
            answered.await;
        }
    }
}

impl Shared {
    fn open_gate(&self, name: &str) {
        lock(&self.gates).entry(name.to_owned()).or_default().open_signal().add_permits(1);
    }

    async fn wait_for_gate(&self, name: &str) {
        let opened = {
            let mut gates = lock(&self.gates);
            let gate = gates.entry(name.to_owned()).or_default();
            gate.reached_signal().add_permits(1);
            gate.open_signal()
        };
        if let Ok(permit) = opened.acquire().await {
            permit.forget();
        }
    }

    fn mark_aborted(&self, index: usize) {
        if let Some(request) = lock(&self.state).requests.get_mut(index) {
            request.aborted = true;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropping the set with the server closes every connection.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let Ok(mut connection) = Connection::new(stream) else { return };
    while let Ok(Some(request)) = connection.read_request().await {
        let last =
            request.headers.iter().any(|(name, value)| name == "connection" && value == "close");
        let index = record(&shared, request);
        let next = reply::send(&shared, index, connection).await;
        shared.answered.notify_waiters();
        match next {
            Some(next) if last => return next.close().await,
            Some(next) => connection = next,
            None => return,
        }
    }
}

/// Parses `…/models/NAME:method` of the Developer API, Vertex AI, and gateways.
pub(crate) fn parse_path(path: &str) -> Option<(Method, String)> {
    let path = path.split('?').next().unwrap_or(path);
    let (_, rest) = path.rsplit_once("/models/")?;
    let (model, method) = rest.split_once(':')?;
    let method = match method {
        "streamGenerateContent" => Method::StreamGenerateContent,
        "generateContent" => Method::GenerateContent,
        "countTokens" => Method::CountTokens,
        _ => return None,
    };
    Some((method, model.to_owned()))
}

/// Checks and stores a request; returns its number.
fn record(shared: &Shared, request: HttpRequest) -> usize {
    let wire = WireFormat::from_path(&request.path);
    let kind = match wire {
        // Non-streamed responses of these APIs also use this method.
        Some(_) => Some(Method::StreamGenerateContent),
        None => parse_path(&request.path).map(|(kind, _)| kind),
    };
    let mut recorded = RecordedRequest {
        index: 0,
        method: request.method,
        path: request.path,
        headers: request.headers,
        body: request.body.into(),
        at: shared.start.elapsed(),
        wall_time: SystemTime::now(),
        kind,
        violations: Vec::new(),
        aborted: false,
    };
    let mut state = lock(&shared.state);
    recorded.index = state.requests.len();
    if kind.is_some() && recorded.method == "POST" {
        recorded.violations = match wire {
            Some(wire) => state.rules.check(wire, &recorded.json()),
            None => state.checker.check(&recorded),
        };
    }
    if let Some(log) = &shared.log {
        use std::io::Write as _;
        let _ = writeln!(lock(log), "{}", recorded.log_line());
    }
    let index = recorded.index;
    state.requests.push(recorded);
    drop(state);
    shared.request_arrived.notify_waiters();
    index
}
