//! A companion's server as a child process, with one JSON message per line.

use parallax_exec::{Processes, StdioProgram, StdioServer};
use parallax_protocol::CancellationToken;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use super::MAX_EVENT_BYTES;
use super::{MessageSink, connection_lost};
use crate::discovery::DiscoveryOptions;
use crate::error::RequestError;
use crate::port_file::StdioCommand;

/// Maximum number of messages waiting to be written.
const QUEUE: usize = 16;

#[derive(Debug)]
pub(super) struct StdioTransport {
    writer: mpsc::Sender<Vec<u8>>,
}

impl StdioTransport {
    /// Starts the program. It ends with the connection.
    pub(super) async fn start(
        command: &StdioCommand,
        options: &DiscoveryOptions,
        sink: MessageSink,
        ended: CancellationToken,
    ) -> Result<Self, RequestError> {
        let processes = Processes::new(std::path::PathBuf::new());
        let program = StdioProgram {
            program: command.command.clone().into(),
            arguments: command.arguments.iter().map(Into::into).collect(),
            directory: options.directory.clone(),
            environment: options.variables.clone(),
            sandbox: None,
        };
        let started = processes.start_stdio(program).await;
        let (server, streams) =
            started.map_err(|error| RequestError::Connection { reason: error.to_string() })?;
        let (mut stdin, mut stderr) = (streams.stdin, streams.stderr);
        let (writer, mut messages) = mpsc::channel::<Vec<u8>>(QUEUE);
        tokio::spawn(async move {
            // Drain stderr, because a full pipe would block the program.
            let mut rest = [0; 4096];
            while matches!(stderr.read(&mut rest).await, Ok(1..)) {}
        });
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                if stdin.write_all(&message).await.is_err() || stdin.flush().await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(run(server, processes, streams.stdout, sink, ended));
        Ok(Self { writer })
    }

    pub(super) async fn write(&self, message: &Value) -> Result<(), RequestError> {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.writer.send(line).await.map_err(|_| connection_lost())
    }
}

/// Reads messages until the program exits or the connection closes, then terminates the program.
async fn run(
    server: StdioServer,
    processes: Processes,
    stdout: ChildStdout,
    sink: MessageSink,
    ended: CancellationToken,
) {
    let mut lines = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(MAX_EVENT_BYTES).unwrap_or(u64::MAX);
        let mut limited = (&mut lines).take(limit);
        let read = tokio::select! {
            read = limited.read_until(b'\n', &mut line) => read,
            () = ended.cancelled() => break,
        };
        if !matches!(read, Ok(1..)) || line.last() != Some(&b'\n') {
            break;
        }
        sink.deliver(&line).await;
    }
    ended.cancel();
    server.end().await;
    processes.shutdown().await;
}
