//! Commands in terminals of the client, which shows them to its user.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use parallax_protocol::editor_terminal::{EditorTerminal, TerminalCommand, TerminalExit};
use parallax_protocol::{BoxFuture, CancellationToken};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::client_files::{CallTerminals, ClientFiles};
use crate::connection::ClientConnection;

/// Timeout of each request, except for the one that waits for the end of the command.
const LIMIT: Duration = Duration::from_secs(20);

/// How long the client may take to return the output of a cancelled command.
const OUTPUT_AFTER_CANCEL: Duration = Duration::from_millis(300);

/// Returns the content of a call that shows a terminal.
pub(crate) fn terminal_content(id: &str) -> Value {
    json!({"type": "terminal", "terminalId": id})
}

/// Runs commands of a session in terminals of the client.
pub(crate) struct ClientTerminal {
    files: Arc<ClientFiles>,
}

impl ClientTerminal {
    /// Uses the connection of the session that these files belong to.
    pub(crate) fn new(files: Arc<ClientFiles>) -> Self {
        Self { files }
    }
}

impl EditorTerminal for ClientTerminal {
    fn is_connected(&self) -> bool {
        self.files.has_opener()
    }

    fn run(&self, command: TerminalCommand) -> BoxFuture<'static, Result<TerminalExit, String>> {
        let session = self.files.session.get().cloned();
        let connection = self.files.connection.clone();
        let terminals = self.files.terminals.clone();
        Box::pin(async move {
            let session = session.ok_or("the session is not open yet")?;
            let client = TerminalClient { connection, session, terminals };
            client.run(command).await
        })
    }
}

struct TerminalClient {
    connection: ClientConnection,
    session: String,
    terminals: CallTerminals,
}

impl TerminalClient {
    async fn run(&self, command: TerminalCommand) -> Result<TerminalExit, String> {
        let variables = command.variables.iter();
        let variables: Vec<Value> =
            variables.map(|(name, value)| json!({"name": name, "value": value})).collect();
        let params = json!({"sessionId": self.session, "command": command.program,
            "args": command.arguments, "cwd": command.directory, "env": variables,
            "outputByteLimit": command.output_limit});
        let created = self.create(params, &command.cancel).await?;
        let id = created["terminalId"].as_str().ok_or("the editor returned no `terminalId`")?;
        let terminal = json!({"sessionId": self.session, "terminalId": id});
        let call = command.call.as_str().to_owned();
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner).insert(call, id.to_owned());
        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": command.call.as_str(),
            "content": [terminal_content(id)]});
        self.connection.update(&self.session, update).await;
        let waiting = self.connection.request("terminal/wait_for_exit", terminal.clone());
        let ended = tokio::select! {
            ended = waiting => ended.map_err(|error| error.message),
            () = command.cancel.cancelled() => {
                self.connection.request_unanswered("terminal/kill", terminal.clone()).await;
                Ok(Value::Null)
            }
        };
        let output = self.output(terminal.clone(), &command.cancel).await;
        self.connection.request_unanswered("terminal/release", terminal).await;
        let (ended, output) = (ended?, output?);
        // Some clients state the exit only with the output.
        let exit = if ended.is_null() { &output["exitStatus"] } else { &ended };
        Ok(TerminalExit {
            output: output["output"].as_str().unwrap_or_default().to_owned(),
            truncated: output["truncated"] == json!(true),
            code: exit["exitCode"].as_u64().and_then(|code| u32::try_from(code).ok()),
            signal: exit["signal"].as_str().map(str::to_owned),
        })
    }

    /// Creates the terminal. One that the client creates too late is killed.
    async fn create(&self, params: Value, cancel: &CancellationToken) -> Result<Value, String> {
        let (connection, session) = (self.connection.clone(), self.session.clone());
        let (answered, answer) = oneshot::channel();
        // Ends with the answer, or when the client is gone.
        tokio::spawn(async move {
            let created = connection.request("terminal/create", params).await;
            if let Err(Ok(unused)) = answered.send(created)
                && let Some(id) = unused["terminalId"].as_str()
            {
                let terminal = json!({"sessionId": session, "terminalId": id});
                connection.request_unanswered("terminal/kill", terminal.clone()).await;
                connection.request_unanswered("terminal/release", terminal).await;
            }
        });
        tokio::select! {
            created = answer => match created {
                Ok(created) => created.map_err(|error| error.message),
                Err(error) => Err(error.to_string()),
            },
            () = cancel.cancelled() => Err("the command was cancelled".to_owned()),
            () = tokio::time::sleep(LIMIT) => Err(timeout_message(LIMIT)),
        }
    }

    /// Returns the output. After the command was cancelled, waits for it only briefly.
    async fn output(&self, terminal: Value, cancel: &CancellationToken) -> Result<Value, String> {
        let limit = async {
            tokio::select! {
                () = tokio::time::sleep(LIMIT) => LIMIT,
                () = cancel.cancelled() => {
                    tokio::time::sleep(OUTPUT_AFTER_CANCEL).await;
                    OUTPUT_AFTER_CANCEL
                }
            }
        };
        tokio::select! {
            output = self.connection.request("terminal/output", terminal) => {
                output.map_err(|error| error.message)
            }
            limit = limit => Err(timeout_message(limit)),
        }
    }
}

fn timeout_message(limit: Duration) -> String {
    format!("the editor did not respond within {} s", limit.as_secs_f32())
}
