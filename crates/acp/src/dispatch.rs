//! The methods of the protocol, and the sessions of the process.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::editor_files::SessionEditor;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::SessionConfig;
use parallax_sessions::{SessionChoice, SessionEntry};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::authentication::{self, Authentication};
use crate::busy_sessions::{BusySession, BusySessions};
use crate::client_files::ClientFiles;
use crate::client_terminal::ClientTerminal;
use crate::clients::SessionClients;
use crate::connection::{ClientConnection, ClientLine, read_line};
use crate::host::{Host, OpenRequest};
use crate::mcp_servers;
use crate::rpc::{self, IncomingMessage, RpcError, text};
use crate::server_questions;
use crate::session::{ClientOperation, EditorSession, PendingReply};
use crate::updates::ClientFeatures;

/// Maximum number of queued operations per session.
const ORDERS: usize = 64;
/// Number of sessions per page of `session/list`.
const PAGE: usize = 50;
/// An extension method: how the last turns of sessions ended, for servers of tasks.
const LAST_TURNS: &str = "_parallax/last_turns";
/// A key in `_meta` of `session/list`: leaves out sessions that another process has open.
const NOT_IN_USE: &str = "parallax/notInUse";
/// How long `initialize` may wait for the names of the providers.
const PROVIDERS: Duration = Duration::from_millis(25);
/// How long all sessions may take to end after the client disconnected.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1700);

/// A running session.
struct SessionHandle {
    clients: SessionClients,
    operations: mpsc::Sender<ClientOperation>,
    task: JoinHandle<()>,
}

type SessionMap = Arc<Mutex<HashMap<String, SessionHandle>>>;

/// The open sessions of several clients. A client that loads an open session joins it.
#[derive(Clone, Default)]
pub struct SharedSessions {
    open: SessionMap,
    busy: BusySessions,
}

/// Serves a client until its input ends, then saves and closes all sessions.
pub async fn serve(
    host: Arc<dyn Host>,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stopped: impl Future<Output = ()>,
) {
    serve_shared(host, &SharedSessions::default(), input, output, stopped).await;
}

/// Like [`serve`], for one of several clients that share sessions. A session ends with its last
/// client.
pub async fn serve_shared(
    host: Arc<dyn Host>,
    sessions: &SharedSessions,
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stopped: impl Future<Output = ()>,
) {
    let (connection, mut writer) = ClientConnection::new(output);
    let mut agent = AcpDispatcher {
        host,
        connection,
        sessions: sessions.open.clone(),
        busy: sessions.busy.clone(),
        opening: Vec::new(),
        features: None,
        authentication: Arc::default(),
    };
    tokio::pin!(stopped);
    loop {
        let line = tokio::select! {
            line = read_line(&mut input) => line,
            () = &mut stopped => None,
            // The client reads no more answers.
            _ = &mut writer => break,
        };
        match line {
            None => break,
            Some(ClientLine::Text(line)) => agent.handle_line(&line).await,
            Some(ClientLine::TooLong) => {
                let error = RpcError::invalid_request("the message is longer than 64 MiB");
                agent.connection.respond(Value::Null, Err(error)).await;
            }
        }
    }
    agent.close().await;
    // The last output may wait for a client that no longer reads.
    if !writer.is_finished() {
        let _ = tokio::time::timeout(Duration::from_millis(200), writer).await;
    }
}

/// How many sessions may be open in one process. Each needs about half a megabyte.
const MAX_SESSIONS: usize = 256;

struct AcpDispatcher {
    host: Arc<dyn Host>,
    connection: ClientConnection,
    sessions: SessionMap,
    busy: BusySessions,
    /// Tasks that open sessions or look something up.
    opening: Vec<JoinHandle<()>>,
    /// Set by `initialize`.
    features: Option<ClientFeatures>,
    /// How the client authenticated.
    authentication: Arc<Mutex<Authentication>>,
}

impl AcpDispatcher {
    async fn handle_line(&mut self, line: &[u8]) {
        match rpc::parse(line) {
            Err((id, error)) => self.connection.respond(id, Err(error)).await,
            Ok(IncomingMessage::Response { id, result }) => {
                self.connection.handle_response(id, result)
            }
            Ok(IncomingMessage::Notification { method, params }) => {
                self.handle_notification(&method, &params)
            }
            Ok(IncomingMessage::Request { id, method, params }) => {
                if let Err(error) = self.request(id.clone(), &method, params).await {
                    self.connection.respond(id, Err(error)).await;
                }
            }
        }
    }

    fn handle_notification(&self, method: &str, params: &Object) {
        let sessions = self.sessions();
        match method {
            "session/cancel" => {
                let handle = text(params, "sessionId").ok().and_then(|id| sessions.get(id));
                if let Some(handle) = handle.filter(|it| it.clients.has(&self.connection)) {
                    send_to(handle, ClientOperation::Cancel { request: None });
                }
            }
            "$/cancel_request" => {
                if let Some(id) = params.get("requestId") {
                    let own_sessions =
                        sessions.values().filter(|it| it.clients.has(&self.connection));
                    for handle in own_sessions {
                        send_to(
                            handle,
                            ClientOperation::Cancel { request: Some(self.from(id.clone())) },
                        );
                    }
                }
            }
            // Notifications are never answered.
            _ => tracing::debug!("ignored the notification `{method}`"),
        }
    }

    fn from(&self, id: Value) -> PendingReply {
        PendingReply { id, client: self.connection.clone() }
    }

    fn authenticated(&self) -> Authentication {
        self.authentication.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<String, SessionHandle>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a request. Slow work continues in a task.
    async fn request(&mut self, id: Value, method: &str, params: Object) -> Result<(), RpcError> {
        if method == "initialize" {
            let result = self.initialize(&params).await?;
            self.connection.respond(id, Ok(result)).await;
            return Ok(());
        }
        let Some(offers) = self.features else {
            return Err(RpcError::invalid_request("send `initialize` first"));
        };
        self.opening.retain(|task| !task.is_finished());
        match method {
            "session/new" | "session/load" | "session/resume" | "session/fork" => {
                self.open(id, method, &params, offers)
            }
            "session/prompt" => {
                let blocks = rpc::list(&params, "prompt")?.to_vec();
                self.send_operation(
                    &params,
                    ClientOperation::Prompt { reply: self.from(id), blocks },
                )
            }
            "session/set_mode" => {
                let mode = text(&params, "modeId")?.to_owned();
                self.send_operation(
                    &params,
                    ClientOperation::SetMode { reply: self.from(id), mode },
                )
            }
            "session/set_model" => {
                let model = text(&params, "modelId")?.to_owned();
                self.send_operation(
                    &params,
                    ClientOperation::SetModel { reply: self.from(id), model },
                )
            }
            "session/set_config_option" => {
                let option = text(&params, "configId")?.to_owned();
                let value = text(&params, "value")?.to_owned();
                self.send_operation(
                    &params,
                    ClientOperation::SetOption { reply: self.from(id), option, value },
                )
            }
            "session/close" => self.close_session(id, &params),
            "session/list" => self.list(id, &params),
            "session/delete" => self.delete(id, &params),
            LAST_TURNS => self.last_turns(id, &params),
            "authenticate" => self.authenticate(id, &params),
            "logout" => {
                self.answer_from_settings(id, None, |launch| {
                    launch.provider_manager().forget_key(None).map(|_| json!({}))
                });
                Ok(())
            }
            other => Err(RpcError::method_not_found(other)),
        }
    }

    async fn initialize(&mut self, params: &Object) -> Result<Value, RpcError> {
        match params.get("protocolVersion") {
            Some(Value::Number(_)) => {}
            Some(Value::String(text)) if text.parse::<u16>().is_ok() => {}
            _ => return Err(RpcError::invalid_params("`protocolVersion` must be a number")),
        }
        let capabilities = params.get("clientCapabilities").unwrap_or(&Value::Null);
        let offers = ClientFeatures::read(capabilities);
        let host = self.host.clone();
        let listing = tokio::task::spawn_blocking(move || host.providers());
        let providers = match tokio::time::timeout(PROVIDERS, listing).await {
            Ok(Ok(providers)) => providers,
            // Without the settings, the built-in ones are known.
            _ => parallax_sdk::hosted_providers().map(|(name, _)| name.to_owned()).collect(),
        };
        self.features = Some(offers);
        self.connection.set_features(offers);
        Ok(json!({
            "protocolVersion": 1,
            "agentInfo": {"name": "parallax", "title": "Parallax", "version": self.host.version()},
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": true, "embeddedContext": true},
                "mcpCapabilities": {"http": true, "sse": true},
                "sessionCapabilities": session_capabilities(offers),
                "auth": {"logout": {}},
            },
            "authMethods": authentication::methods(&providers, offers.sets_up),
        }))
    }

    fn send_operation(&self, params: &Object, operation: ClientOperation) -> Result<(), RpcError> {
        let id = text(params, "sessionId")?;
        let sessions = self.sessions();
        let handle = sessions.get(id).filter(|handle| handle.clients.has(&self.connection));
        let handle = handle.ok_or_else(|| RpcError::unknown_session(id))?;
        match send_to(handle, operation) {
            true => Ok(()),
            false => Err(RpcError::internal("the session has ended or accepts no more requests")),
        }
    }

    /// Opens a session and responds after sending its history.
    fn open(
        &mut self,
        id: Value,
        method: &str,
        params: &Object,
        offers: ClientFeatures,
    ) -> Result<(), RpcError> {
        let directory = directory(params)?;
        let session = match method {
            "session/new" => SessionChoice::New,
            "session/fork" => SessionChoice::Fork {
                from: text(params, "sessionId")?.to_owned(),
                keep_contents: None,
            },
            _ => SessionChoice::Resume(text(params, "sessionId")?.to_owned()),
        };
        let stored = match &session {
            SessionChoice::Resume(id) => Some(id.clone()),
            _ => None,
        };
        let files = Arc::new(ClientFiles::new(self.connection.clone()));
        let additional = rpc::list(params, "additionalDirectories")?;
        let additional = additional.iter().map(|path| {
            let message = "an entry of `additionalDirectories` is not a string";
            path.as_str().map(PathBuf::from).ok_or_else(|| RpcError::invalid_params(message))
        });
        let additional = additional.collect::<Result<Vec<PathBuf>, RpcError>>()?;
        let is_open = stored.as_ref().is_some_and(|id| self.sessions().contains_key(id));
        // Those that are still being opened count as well.
        if !is_open && self.sessions().len() + self.opening.len() >= MAX_SESSIONS {
            let message = format!(
                "the limit of {MAX_SESSIONS} open sessions is reached: close one with \
                 `session/close`"
            );
            return Err(RpcError::internal(message));
        }
        let request = OpenRequest {
            directory,
            additional,
            session,
            mcp_servers: mcp_servers::read(params)?,
            can_ask_user: offers.elicitation,
            editor: session_editor(&files, offers),
            prompter: server_questions::create_prompter(self.connection.clone(), offers, &files),
            authentication: self.authenticated(),
        };
        let with_history = method == "session/load";
        let is_new = matches!(method, "session/new" | "session/fork");
        let (host, connection) = (self.host.clone(), self.connection.clone());
        let (sessions, busy) = (self.sessions.clone(), self.busy.clone());
        self.opening.push(tokio::spawn(async move {
            // Another client may be opening or closing it.
            let mut _busy = None;
            if let Some(stored) = &stored {
                _busy = Some(busy.wait(stored).await);
                let from = PendingReply { id: id.clone(), client: connection.clone() };
                match join(&sessions, stored, from, with_history) {
                    None => {}
                    Some(Ok(())) => return,
                    Some(Err(error)) => return connection.respond(id, Err(error)).await,
                }
            }
            let opener = host.clone();
            let opened = tokio::task::spawn_blocking(move || opener.prepare(request)?.open()).await;
            let opened = match opened {
                Ok(Ok(opened)) => opened,
                Ok(Err(failure)) => return connection.respond(id, Err(failure.into())).await,
                Err(error) => {
                    let error = RpcError::internal(error.to_string());
                    return connection.respond(id, Err(error)).await;
                }
            };
            let clients = SessionClients::new(connection.clone());
            let session = EditorSession::new(opened, host, clients.clone(), offers, &files);
            let name = session.id().to_owned();
            files.set_session(name.clone(), clients.clone());
            if with_history {
                for update in session.history() {
                    connection.update(&name, update).await;
                }
            }
            let mut result = session.state_json();
            match is_new {
                true => result["sessionId"] = json!(name),
                false => result["_meta"] = json!({"lastTurn": session.last_turn()}),
            }
            let (operations, waiting) = mpsc::channel(ORDERS);
            // Register the session before the client can refer to it.
            let start = {
                let (start, ready) = oneshot::channel::<()>();
                let task = tokio::spawn(async move {
                    if ready.await.is_ok() {
                        session.run(waiting).await;
                    }
                });
                let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                sessions.insert(name, SessionHandle { clients, operations, task });
                start
            };
            connection.respond(id, Ok(result)).await;
            // Fails only if the task has ended.
            let _ = start.send(());
        }));
        Ok(())
    }

    fn close_session(&mut self, id: Value, params: &Object) -> Result<(), RpcError> {
        let name = text(params, "sessionId")?;
        let (finished, busy) = {
            let mut sessions = self.sessions();
            let handle = sessions.get(name).filter(|it| it.clients.has(&self.connection));
            let handle = handle.ok_or_else(|| RpcError::unknown_session(name))?;
            // It continues for its other clients.
            match handle.clients.remove(&self.connection) {
                0 => (sessions.remove(name), self.busy.begin(name).ok()),
                _ => (None, None),
            }
        };
        let connection = self.connection.clone();
        self.opening.push(tokio::spawn(async move {
            if let Some(handle) = finished {
                let (completion, is_done) = oneshot::channel();
                // Fails only if the session has ended already.
                let _ = handle.operations.send(ClientOperation::Close { completion }).await;
                let _ = is_done.await;
            }
            drop(busy);
            connection.respond(id, Ok(json!({}))).await;
        }));
        Ok(())
    }

    fn list(&mut self, id: Value, params: &Object) -> Result<(), RpcError> {
        let cwd = match params.get("cwd") {
            None | Some(Value::Null) => None,
            Some(_) => Some(directory(params)?),
        };
        let cursor = match params.get("cursor") {
            None | Some(Value::Null) => 0,
            Some(cursor) => {
                let start = cursor.as_str().and_then(|text| text.parse::<usize>().ok());
                start.ok_or_else(|| RpcError::invalid_params("unknown `cursor`"))?
            }
        };
        let is_filtered = cwd.is_some();
        let is_exclusive = params.get("_meta").is_some_and(|meta| meta[NOT_IN_USE] == json!(true));
        let sessions = self.sessions.clone();
        self.answer_from_settings(id, cwd, move |launch| {
            let mut all = match is_filtered {
                true => launch.session_library().sessions(),
                false => launch.session_library().all_sessions(),
            };
            if is_exclusive {
                all.retain(|entry| !is_open_elsewhere(&sessions, entry));
            }
            all.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
            let page = all.iter().skip(cursor).take(PAGE).map(|entry| {
                json!({"sessionId": entry.id, "cwd": entry.project, "title": entry.title,
                    "updatedAt": entry.last_used.to_string()})
            });
            let mut result = json!({"sessions": page.collect::<Vec<_>>()});
            if cursor + PAGE < all.len() {
                result["nextCursor"] = json!((cursor + PAGE).to_string());
            }
            Ok(result)
        });
        Ok(())
    }

    /// Returns how the last turns of sessions ended that need not be open.
    fn last_turns(&mut self, id: Value, params: &Object) -> Result<(), RpcError> {
        let directory = directory(params)?;
        let ids = rpc::list(params, "sessionIds")?;
        let ids: Vec<String> = ids.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let sessions = self.sessions.clone();
        self.answer_from_settings(id, Some(directory), move |launch| {
            let library = launch.session_library();
            let mut turns = Object::new();
            for id in ids {
                if let Ok((reason, entry)) = library.last_turn(&id) {
                    let time = entry.last_used.to_string();
                    let turn = json!({"lastTurn": reason, "updatedAt": time,
                        "isInUse": is_open_elsewhere(&sessions, &entry)});
                    turns.insert(id, turn);
                }
            }
            Ok(json!({"turns": turns}))
        });
        Ok(())
    }

    fn delete(&mut self, id: Value, params: &Object) -> Result<(), RpcError> {
        let name = text(params, "sessionId")?.to_owned();
        if self.sessions().contains_key(&name) {
            return Err(RpcError::invalid_params("the session is open: close it first"));
        }
        self.answer_from_settings(id, None, move |launch| {
            let entry =
                launch.session_library().all_sessions().into_iter().find(|entry| entry.id == name);
            match entry {
                Some(entry) => launch.session_library().delete_entry(entry).map(|_| json!({})),
                None => Err(invalid_params(format!("unknown session `{name}`"))),
            }
        });
        Ok(())
    }

    /// Authenticates the client's later sessions.
    fn authenticate(&mut self, id: Value, params: &Object) -> Result<(), RpcError> {
        let request = authentication::read(params)?;
        let current = self.authentication.clone();
        let requested = request.authentication();
        self.answer_from_settings_as(requested.clone(), id, None, move |launch| {
            request.store(launch)?;
            *current.lock().unwrap_or_else(PoisonError::into_inner) = requested;
            Ok(json!({}))
        });
        Ok(())
    }

    /// Answers a request from the settings of a directory. Reading them blocks.
    fn answer_from_settings(
        &mut self,
        id: Value,
        directory: Option<PathBuf>,
        look: impl FnOnce(&SessionConfig) -> Result<Value, Failure> + Send + 'static,
    ) {
        self.answer_from_settings_as(self.authenticated(), id, directory, look);
    }

    /// Like [`Self::answer_from_settings`], authenticated in this way.
    fn answer_from_settings_as(
        &mut self,
        authentication: Authentication,
        id: Value,
        directory: Option<PathBuf>,
        look: impl FnOnce(&SessionConfig) -> Result<Value, Failure> + Send + 'static,
    ) {
        let (host, connection) = (self.host.clone(), self.connection.clone());
        self.opening.push(tokio::spawn(async move {
            let looked = tokio::task::spawn_blocking(move || {
                let directory = directory.or_else(|| std::env::current_dir().ok());
                let directory = directory.unwrap_or_default();
                let launch = host.prepare(OpenRequest::for_settings(directory, authentication))?;
                look(&launch)
            });
            let result = match looked.await {
                Ok(result) => result.map_err(RpcError::from),
                Err(error) => Err(RpcError::internal(error.to_string())),
            };
            connection.respond(id, result).await;
        }));
    }

    /// Leaves all sessions, and removes and returns those without other clients.
    fn remove_abandoned_sessions(&self) -> Vec<(SessionHandle, Option<BusySession>)> {
        let is_left = |handle: &SessionHandle| {
            handle.clients.has(&self.connection) && handle.clients.remove(&self.connection) == 0
        };
        let mut sessions = self.sessions();
        let abandoned = sessions.extract_if(|_, handle| is_left(handle));
        abandoned.map(|(id, handle)| (handle, self.busy.begin(&id).ok())).collect()
    }

    /// Closes everything, because the client disconnected.
    async fn close(self) {
        self.connection.close_pending();
        for task in &self.opening {
            task.abort();
        }
        let handles = self.remove_abandoned_sessions();
        let shutdown = async {
            for (SessionHandle { operations, task, .. }, busy) in handles {
                // Dropping the last sender ends the session.
                drop(operations);
                let _ = task.await;
                drop(busy);
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, shutdown).await;
    }
}

/// Lets a client join a session; `None` if it is not open.
fn join(
    sessions: &SessionMap,
    id: &str,
    reply: PendingReply,
    with_history: bool,
) -> Option<Result<(), RpcError>> {
    let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    // One that has ended can be reopened.
    let handle = sessions.get(id).filter(|handle| !handle.operations.is_closed())?;
    if handle.clients.has(&reply.client) {
        let text = format!("the session `{id}` is already open");
        return Some(Err(RpcError::invalid_params(text)));
    }
    Some(match send_to(handle, ClientOperation::Join { reply, with_history }) {
        true => Ok(()),
        false => Err(RpcError::internal("the session has ended or accepts no more requests")),
    })
}

/// Whether another process has a session open. Blocking.
fn is_open_elsewhere(sessions: &SessionMap, entry: &SessionEntry) -> bool {
    let is_ours =
        || sessions.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&entry.id);
    entry.is_in_use() && !is_ours()
}

/// Sends an operation to a session. Returns `false` if the session has ended or its queue is full.
fn send_to(handle: &SessionHandle, operation: ClientOperation) -> bool {
    handle.operations.try_send(operation).is_ok()
}

/// Returns what the client does for a session instead of Parallax.
fn session_editor(files: &Arc<ClientFiles>, offers: ClientFeatures) -> SessionEditor {
    let mut editor = SessionEditor::default();
    if offers.reads_files || offers.writes_files {
        editor = editor.with_files(files.clone());
    }
    if offers.runs_commands {
        editor = editor.with_terminal(Arc::new(ClientTerminal::new(files.clone())));
    }
    editor
}

/// Returns the optional methods that are served. Forking is not part of the stable protocol.
fn session_capabilities(offers: ClientFeatures) -> Value {
    let mut served = json!({"list": {}, "resume": {}, "close": {}, "delete": {},
        "additionalDirectories": {}});
    if offers.supports_forks {
        served["fork"] = json!({});
    }
    served
}

fn directory(params: &Object) -> Result<PathBuf, RpcError> {
    let directory = PathBuf::from(text(params, "cwd")?);
    match (directory.is_absolute(), directory.is_dir()) {
        (false, _) => Err(RpcError::invalid_params("`cwd` must be an absolute path")),
        (true, false) => {
            let display_path = directory.display();
            Err(RpcError::invalid_params(format!("the directory `{display_path}` does not exist")))
        }
        // Sessions belong to the real directory, as in the terminal.
        (true, true) => directory.canonicalize().map_err(|error| {
            RpcError::invalid_params(format!("`cwd` cannot be resolved: {error}"))
        }),
    }
}

fn invalid_params(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
