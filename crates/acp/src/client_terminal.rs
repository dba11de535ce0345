//! Commands in terminals of the client, which shows them to its user.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use parallax_protocol::BoxFuture;
use parallax_protocol::editor_terminal::{EditorTerminal, TerminalCommand, TerminalExit};
use serde_json::{Value, json};

use crate::client_files::{CallTerminals, ClientFiles};
use crate::connection::ClientConnection;

/// Timeout of each request, except for the one that waits for the end of the command.
const LIMIT: Duration = Duration::from_secs(20);

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
        !self.files.connection.is_gone()
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
        let created = self
            .ask(
                "terminal/create",
                json!({"sessionId": self.session, "command": command.program,
                    "args": command.arguments, "cwd": command.directory, "env": variables,
                    "outputByteLimit": command.output_limit}),
            )
            .await?;
        let id = created["terminalId"].as_str().ok_or("the editor returned no `terminalId`")?;
        let terminal = json!({"sessionId": self.session, "terminalId": id});
        let call = command.call.as_str().to_owned();
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner).insert(call, id.to_owned());
        let shown = json!({"sessionUpdate": "tool_call_update", "toolCallId": command.call.as_str(),
            "content": [terminal_content(id)]});
        self.connection.update(&self.session, shown).await;
        let waiting = self.connection.request("terminal/wait_for_exit", terminal.clone());
        let ended = tokio::select! {
            ended = waiting => ended.map_err(|error| error.message),
            () = command.cancel.cancelled() => {
                // The command may have ended already.
                let _ = self.ask("terminal/kill", terminal.clone()).await;
                Ok(Value::Null)
            }
        };
        let output = self.ask("terminal/output", terminal.clone()).await;
        let released = self.ask("terminal/release", terminal).await;
        if let Err(error) = released {
            tracing::warn!("failed to release a terminal of the editor: {error}");
        }
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

    async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        let asking = self.connection.request(method, params);
        match tokio::time::timeout(LIMIT, asking).await {
            Ok(answer) => answer.map_err(|error| error.message),
            Err(_) => Err(format!("the editor did not answer within {} s", LIMIT.as_secs())),
        }
    }
}
