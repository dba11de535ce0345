//! A fake IDE companion that behaves like the VS Code extension: an MCP server on a loopback port,
//! a port file, open files, and diffs that the test accepts or rejects.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

use crate::http::{Connection, HttpRequest};

/// How a companion misbehaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CompanionFault {
    /// It works correctly.
    #[default]
    None,
    /// It accepts connections but never responds.
    Mute,
    /// It never responds to tool calls.
    HangsInTools,
    /// It cannot show diffs: `openDiff` fails.
    RefusesDiffs,
    /// It has no tools.
    HasNoTools,
}

/// The options of a companion.
#[derive(Debug, Clone)]
pub struct CompanionSetup {
    /// The directory for temporary files, in which the port file is written.
    pub temporary: PathBuf,
    /// The directories open in the editor, as in the port file.
    pub workspace: String,
    /// The process ID of the editor.
    pub pid: u32,
    /// How it misbehaves.
    pub fault: CompanionFault,
    /// Whether the editor trusts the workspace.
    pub is_trusted: Option<bool>,
}

impl CompanionSetup {
    /// Creates options for a working companion of a workspace, with the current process as the
    /// editor.
    pub fn new(temporary: &Path, workspace: &Path) -> Self {
        Self {
            temporary: temporary.to_owned(),
            workspace: workspace.display().to_string(),
            pid: std::process::id(),
            fault: CompanionFault::None,
            is_trusted: Some(true),
        }
    }

    /// Sets the fault.
    pub fn with_fault(self, fault: CompanionFault) -> Self {
        Self { fault, ..self }
    }
}

/// The token that clients must send.
const TOKEN: &str = "companion-token";
/// The id of a client's session is this with its number.
const SESSION: &str = "companion-session-";

#[derive(Debug, Default)]
struct EditorState {
    files: Value,
    /// The text of open diffs, by path.
    diffs: HashMap<String, String>,
    /// Tool names and paths, in the order of the calls.
    calls: Vec<(String, String)>,
    /// Invalid requests from clients.
    violations: Vec<String>,
    requests: usize,
    streams: usize,
    /// The number of clients that have connected. Like the extension, this sends all responses to
    /// the last one.
    clients: usize,
}

impl EditorState {
    fn last_session(&self) -> String {
        format!("{SESSION}{}", self.clients)
    }
}

struct CompanionServer {
    fault: CompanionFault,
    port: u16,
    is_trusted: Option<bool>,
    state: Mutex<EditorState>,
    events: broadcast::Sender<String>,
    changed: watch::Sender<()>,
}

/// A running companion. Dropping it stops it; its port file remains, as after a crash.
pub struct TestCompanion {
    server: Arc<CompanionServer>,
    accept_task: JoinHandle<()>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    port_file: PathBuf,
}

impl Drop for TestCompanion {
    fn drop(&mut self) {
        self.stop_abruptly();
    }
}

impl TestCompanion {
    /// Starts it on a free port and writes the port file.
    ///
    /// # Errors
    /// Returns an error if there is no free port or the port file cannot be written.
    pub async fn start(setup: CompanionSetup) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let port_file = publish(&setup, port)?;
        let server = Arc::new(CompanionServer {
            fault: setup.fault,
            port,
            is_trusted: setup.is_trusted,
            state: Mutex::new(EditorState { files: json!([]), ..EditorState::default() }),
            events: broadcast::Sender::new(64),
            changed: watch::Sender::new(()),
        });
        let connections: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let (serving, all) = (Arc::clone(&server), Arc::clone(&connections));
        let accept_task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = Arc::clone(&serving);
                let task = tokio::spawn(async move {
                    // A client may disconnect at any time.
                    let _ = server.serve(stream).await;
                });
                all.lock().unwrap_or_else(PoisonError::into_inner).push(task);
            }
        });
        Ok(Self { server, accept_task, connections, port_file })
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// Returns the path of its port file.
    pub fn port_file(&self) -> &Path {
        &self.port_file
    }

    /// Stops immediately and closes all connections.
    pub fn stop_abruptly(&self) {
        self.accept_task.abort();
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.iter().for_each(JoinHandle::abort);
    }

    /// Sets the open files, in the format of `workspaceState.openFiles`, and notifies clients.
    pub fn set_open_files(&self, files: Value) {
        self.server.state().files = files;
        let update = self.server.context_update();
        self.server.emit("ide/contextUpdate", update);
    }

    /// Returns the text of the open diffs, by path.
    pub fn diffs(&self) -> HashMap<String, String> {
        self.server.state().diffs.clone()
    }

    /// Returns the calls so far: tool names and paths.
    pub fn calls(&self) -> Vec<(String, String)> {
        self.server.state().calls.clone()
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.server.state().requests
    }

    /// Whether a client reads the event stream.
    pub fn is_connected(&self) -> bool {
        self.server.state().streams > 0
    }

    /// Returns the invalid requests from clients.
    pub fn violations(&self) -> Vec<String> {
        self.server.state().violations.clone()
    }

    /// Simulates that the user edits an open diff.
    pub fn edits(&self, path: &Path, text: &str) {
        let path = path.display().to_string();
        self.server.state().diffs.insert(path, text.to_owned());
    }

    /// Simulates that the user accepts an open diff.
    pub fn accept_diff(&self, path: &Path) {
        let path = path.display().to_string();
        let text = self.server.state().diffs.remove(&path).unwrap_or_default();
        self.server.emit("ide/diffAccepted", json!({"filePath": path, "content": text}));
    }

    /// Simulates that the user rejects an open diff.
    pub fn reject_diff(&self, path: &Path) {
        let path = path.display().to_string();
        self.server.state().diffs.remove(&path);
        self.server.emit("ide/diffRejected", json!({"filePath": path}));
    }

    /// Simulates that another client connects, which gets all responses from then on.
    pub fn connect_later_client(&self) {
        self.server.state().clients += 1;
    }

    /// Waits until a condition holds; returns `false` after the time limit.
    pub async fn wait(&self, limit: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let mut changed = self.server.changed.subscribe();
        let waiting = async {
            while !holds(self) {
                // The sender lives as long as this.
                let _ = tokio::time::timeout(Duration::from_millis(20), changed.changed()).await;
            }
        };
        tokio::time::timeout(limit, waiting).await.is_ok()
    }
}

/// Writes a port file as the extension does.
fn publish(setup: &CompanionSetup, port: u16) -> io::Result<PathBuf> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let directory = setup.temporary.join("gemini").join("ide");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(format!("gemini-ide-server-{}-{port}.json", setup.pid));
    let content =
        json!({"port": port, "workspacePath": setup.workspace, "authToken": TOKEN}).to_string();
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)?;
    io::Write::write_all(&mut file, content.as_bytes())?;
    Ok(path)
}

impl CompanionServer {
    fn state(&self) -> MutexGuard<'_, EditorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emit(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        // Without a client, there is no receiver.
        let _ = self.events.send(message.to_string());
        self.changed.send_replace(());
    }

    fn context_update(&self) -> Value {
        let mut state = json!({"openFiles": self.state().files});
        if let Some(is_trusted) = self.is_trusted {
            state["isTrusted"] = json!(is_trusted);
        }
        json!({"workspaceState": state})
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(stream)?;
        while let Some(request) = connection.read_request().await? {
            self.state().requests += 1;
            if self.fault == CompanionFault::Mute {
                std::future::pending::<()>().await;
            }
            if let Some((status, reason)) = self.refusal(&request) {
                self.state().violations.push(reason.to_owned());
                let body = json!({"jsonrpc": "2.0", "id": null,
                    "error": {"code": -32000, "message": reason}});
                connection
                    .respond(status, &[], "application/json", body.to_string().as_bytes())
                    .await?;
                continue;
            }
            match request.method.as_str() {
                "GET" => return self.stream(connection).await,
                _ => self.post(&mut connection, &request).await?,
            }
        }
        Ok(())
    }

    /// Returns why a request is rejected, as in the extension.
    fn refusal(&self, request: &HttpRequest) -> Option<(u16, &'static str)> {
        let header = |name: &str| {
            request.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        if header("origin").is_some() {
            return Some((403, "Request denied by CORS policy."));
        }
        let hosts = [format!("localhost:{}", self.port), format!("127.0.0.1:{}", self.port)];
        if !hosts.iter().any(|host| header("host") == Some(host)) {
            return Some((403, "Invalid Host header"));
        }
        if header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return Some((401, "Unauthorized"));
        }
        if request.path != "/mcp" {
            return Some((404, "Not found"));
        }
        let is_first = String::from_utf8_lossy(&request.body).contains("\"initialize\"");
        if !is_first && session(request).is_none() {
            return Some((400, "Bad Request: No valid session ID provided"));
        }
        None
    }

    async fn stream(&self, mut connection: Connection) -> io::Result<()> {
        let mut events = self.events.subscribe();
        connection.respond_chunked(200, &[], "text/event-stream").await?;
        self.state().streams += 1;
        let update = json!({"jsonrpc": "2.0", "method": "ide/contextUpdate",
            "params": self.context_update()});
        let mut next = update.to_string();
        let ping = json!({"jsonrpc": "2.0", "method": "ping"}).to_string();
        write_event(&mut connection, &ping).await?;
        loop {
            let written = write_event(&mut connection, &next).await;
            self.changed.send_replace(());
            if written.is_err() {
                break;
            }
            next = tokio::select! {
                event = events.recv() => match event {
                    Ok(event) => event,
                    Err(_) => break,
                },
                () = connection.wait_for_disconnect() => break,
            };
        }
        self.state().streams -= 1;
        self.changed.send_replace(());
        Ok(())
    }

    async fn post(&self, connection: &mut Connection, request: &HttpRequest) -> io::Result<()> {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(id) = message.get("id").cloned() else {
            return connection.respond(202, &[], "text/plain", b"").await;
        };
        let params = message.get("params").cloned().unwrap_or_default();
        let result = match message.get("method").and_then(Value::as_str) {
            Some("initialize") => {
                self.state().clients += 1;
                json!({
                    "protocolVersion": params.get("protocolVersion"),
                    "capabilities": {"logging": {}, "tools": {"listChanged": true}},
                    "serverInfo": {"name": "gemini-cli-companion-mcp-server", "version": "1.0.0"},
                })
            }
            Some("ping") => json!({}),
            Some("tools/list") if self.fault == CompanionFault::HasNoTools => {
                return self.reply_error(connection, &id, "Method not found").await;
            }
            Some("tools/list") => json!({"tools": [
                {"name": "openDiff", "inputSchema": {"type": "object"}},
                {"name": "closeDiff", "inputSchema": {"type": "object"}},
            ]}),
            Some("tools/call") => {
                let result = self.call(&params);
                self.changed.send_replace(());
                if self.fault == CompanionFault::HangsInTools {
                    std::future::pending::<()>().await;
                }
                result
            }
            _ => return self.reply_error(connection, &id, "Method not found").await,
        };
        let is_last = {
            let last = self.state().last_session();
            session(request).is_none_or(|session| session == last)
        };
        if !is_last {
            std::future::pending::<()>().await;
        }
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.reply(connection, &reply).await
    }

    /// Runs a tool.
    fn call(&self, params: &Value) -> Value {
        let text = |key: &str| {
            let arguments = params.get("arguments");
            arguments.and_then(|it| it.get(key)?.as_str()).unwrap_or_default().to_owned()
        };
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = text("filePath");
        let mut state = self.state();
        state.calls.push((name.clone(), path.clone()));
        match name.as_str() {
            "openDiff" if self.fault == CompanionFault::RefusesDiffs => {
                json!({"isError": true, "content": [{"type": "text", "text": "no diffs here"}]})
            }
            "openDiff" => {
                state.diffs.insert(path, text("newContent"));
                json!({"content": []})
            }
            "closeDiff" => {
                let content = state.diffs.remove(&path);
                let content = content.map_or_else(|| json!({}), |text| json!({"content": text}));
                json!({"content": [{"type": "text", "text": content.to_string()}]})
            }
            _ => json!({"isError": true, "content": [{"type": "text", "text": "unknown tool"}]}),
        }
    }

    async fn reply_error(
        &self,
        connection: &mut Connection,
        id: &Value,
        message: &str,
    ) -> io::Result<()> {
        let error = json!({"code": -32601, "message": message});
        let reply = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.reply(connection, &reply).await
    }

    /// Responds with an event stream of one event, as the extension does.
    async fn reply(&self, connection: &mut Connection, reply: &Value) -> io::Result<()> {
        let session = [("mcp-session-id".to_owned(), self.state().last_session())];
        connection.respond_chunked(200, &session, "text/event-stream").await?;
        write_event(connection, &reply.to_string()).await?;
        connection.write(b"0\r\n\r\n").await
    }
}

/// Returns the id of a client's session.
fn session(request: &HttpRequest) -> Option<&str> {
    let header = request.headers.iter().find(|(key, _)| key == "mcp-session-id");
    header.map(|(_, value)| value.as_str()).filter(|value| value.starts_with(SESSION))
}

async fn write_event(connection: &mut Connection, json: &str) -> io::Result<()> {
    let event = format!("event: message\ndata: {json}\n\n");
    connection.write(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await
}
