//! The client's file system, which includes changes that the user has not saved.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use parallax_protocol::editor_files::EditorFiles;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::clients::SessionClients;
use crate::connection::ClientConnection;
use crate::rpc::{METHOD_NOT_FOUND, RpcError};

/// Timeout of a request to the client.
const LIMIT: Duration = Duration::from_secs(20);

/// The files of a session, as the client that opened it sees them. After that client has left, the
/// next one that offers its files is used.
pub(crate) struct ClientFiles {
    /// The client that opened the session.
    pub(crate) connection: ClientConnection,
    runtime: tokio::runtime::Handle,
    /// Set when the session is open; no requests are sent before.
    pub(crate) session: OnceLock<String>,
    /// Set with the session.
    clients: OnceLock<SessionClients>,
    /// Notified when the prompt is cancelled, which abandons requests.
    pub(crate) cancelled: Arc<Notify>,
    /// The terminals of the client that show the output of calls.
    pub(crate) terminals: CallTerminals,
}

/// Terminal ids by call id.
pub(crate) type CallTerminals = Arc<Mutex<HashMap<String, String>>>;

impl ClientFiles {
    /// Creates it for a client connected on this runtime.
    pub(crate) fn new(connection: ClientConnection) -> Self {
        Self {
            connection,
            runtime: tokio::runtime::Handle::current(),
            session: OnceLock::new(),
            clients: OnceLock::new(),
            cancelled: Arc::default(),
            terminals: Arc::default(),
        }
    }

    /// Sets what is known once the session is open.
    pub(crate) fn set_session(&self, id: String, clients: SessionClients) {
        // Each session has files of its own, so this is the only call.
        let _ = self.clients.set(clients);
        let _ = self.session.set(id);
    }

    /// Whether the client that opened the session still belongs to it.
    pub(crate) fn has_opener(&self) -> bool {
        let has_left = self.clients.get().is_some_and(|clients| !clients.has(&self.connection));
        !has_left && !self.connection.is_disconnected()
    }

    /// Returns the client whose files are used. Only one at a time: what was read from the unsaved
    /// changes of one client must not be written by another.
    fn provider(&self) -> Option<ClientConnection> {
        let clients = self.clients.get()?;
        clients.find(|client| {
            let features = client.features();
            !client.is_disconnected() && (features.reads_files || features.writes_files)
        })
    }

    fn ask(
        &self,
        client: &ClientConnection,
        method: &str,
        mut params: Value,
    ) -> Option<Result<Value, RpcError>> {
        params["sessionId"] = json!(self.session.get()?);
        let read_request = async {
            tokio::select! {
                answer = client.request(method, params) => answer,
                () = self.cancelled.notified() => Err(RpcError::internal("cancelled")),
                () = tokio::time::sleep(LIMIT) => {
                    let seconds = LIMIT.as_secs();
                    Err(RpcError::internal(format!("the editor did not respond within {seconds} s")))
                }
            }
        };
        // Tools usually read on blocking threads, but sometimes on a runtime thread.
        Some(tokio::task::block_in_place(|| self.runtime.block_on(read_request)))
    }
}

impl EditorFiles for ClientFiles {
    fn read(&self, path: &Path) -> Result<Option<String>, String> {
        let Some(client) = self.provider().filter(|client| client.features().reads_files) else {
            return Ok(None);
        };
        match self.ask(&client, "fs/read_text_file", json!({"path": path})) {
            None => Ok(None),
            Some(Ok(answer)) => match answer.get("content").and_then(Value::as_str) {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err("the editor returned no `content`".to_owned()),
            },
            // A file that the client does not have may still be on disk.
            Some(Err(error)) if is_not_found(&error) || error.is_disconnected() => Ok(None),
            Some(Err(error)) => Err(error.message),
        }
    }

    fn write(&self, path: &Path, text: &str) -> Option<Result<(), String>> {
        let client = self.provider().filter(|client| client.features().writes_files)?;
        let params = json!({"path": path, "content": text});
        let answer = self.ask(&client, "fs/write_text_file", params)?;
        if answer.as_ref().is_err_and(RpcError::is_disconnected) {
            return None;
        }
        Some(answer.map(|_| ()).map_err(|error| error.message))
    }
}

/// The code of a missing resource in the protocol.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// Whether an error means that the client does not have the file or the method. Clients have no
/// common code for that.
fn is_not_found(error: &RpcError) -> bool {
    let text = error.message.to_lowercase();
    [RESOURCE_NOT_FOUND, METHOD_NOT_FOUND].contains(&error.code)
        || ["not found", "enoent", "no such file", "does not exist", "doesn't exist"]
            .iter()
            .any(|words| text.contains(words))
}
