//! A server as a child process: one JSON message a line.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parallax_exec::{StdioServer, StdioStreams};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;

use crate::lines::{Lines, Pace, SkipMeter};
use crate::messages::Open;
use crate::tail::Tail;

/// Messages that may wait for a server to read them. The first of them fill the pipe:
/// one that asks so much without reading the answers is at fault.
const MOST_UNREAD: usize = 1_000;
/// How long a message that is being written may hold up the end.
const PARTING: Duration = Duration::from_millis(100);

/// The streams of a server. Closing it ends the server with all that it
/// started; so does dropping it.
pub(crate) struct Stdio {
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    /// Each message that waits to be written holds it too.
    unread: Arc<()>,
    lines: Lines<BufReader<ChildStdout>>,
    pace: Pace,
    skipped: SkipMeter,
    open: Open,
    batch: VecDeque<ServerJsonRpcMessage>,
    process: Option<StdioServer>,
    tail: Tail,
}

impl Stdio {
    /// Takes the streams over. What the server complains goes into `tail`.
    pub(crate) fn new(process: StdioServer, streams: StdioStreams, tail: Tail) -> Self {
        // Ends with the stream, which ends with the process.
        tokio::spawn(tail.clone().drain(streams.stderr));
        Self {
            stdin: Arc::new(Mutex::new(Some(streams.stdin))),
            unread: Arc::default(),
            lines: Lines::new(BufReader::with_capacity(64 * 1024, streams.stdout)),
            pace: Pace::new(),
            skipped: SkipMeter::new(),
            open: Open::default(),
            batch: VecDeque::new(),
            process: Some(process),
            tail,
        }
    }

    /// Takes the messages of a line. A line that is not a message is skipped; `false`
    /// when there is a flood of those.
    fn take(&mut self, line: &[u8]) -> bool {
        let received = self.open.read(line, None);
        if !received.is_message {
            let shown = line.get(..line.len().min(1_000)).unwrap_or_default();
            self.tail.push(shown);
            self.tail.push(b"\n");
            self.tail.skipped(shown);
            return !self.skipped.is_flood(line.len() + 1);
        }
        self.batch.extend(received.messages);
        true
    }

    /// Ends a server at fault at once: it would not heed the end of its input.
    fn give_up<T>(&mut self, why: &str) -> Option<T> {
        self.tail.push(format!("\nParallax: {why}\n").as_bytes());
        self.process = None;
        None
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.open.sent(&item);
        let (stdin, unread) = (Arc::clone(&self.stdin), Arc::clone(&self.unread));
        async move {
            let written = write(&stdin, &item).await;
            drop(unread);
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.batch.pop_front() {
                return Some(message);
            }
            if Arc::strong_count(&self.unread) > MOST_UNREAD {
                return self.give_up("it asks without end and reads no answers");
            }
            if self.pace.is_flooded() {
                self.tail.flooded();
            }
            self.pace.wait().await;
            let line = match self.lines.next().await {
                Ok(line) => line?,
                Err(_) => {
                    return self.give_up("a message is larger than 32 MiB");
                }
            };
            if !line.is_empty() && !self.take(&line) {
                return self
                    .give_up("it floods its standard output with lines that are not MCP messages");
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // The end of its input asks the server to end.
        if let Ok(mut stdin) = tokio::time::timeout(PARTING, self.stdin.lock()).await {
            *stdin = None;
        }
        if let Some(process) = self.process.take()
            && let Some(ending) = process.end().await
        {
            tracing::debug!(?ending, "an MCP server ended");
        }
        Ok(())
    }
}

async fn write(stdin: &Mutex<Option<ChildStdin>>, item: &ClientJsonRpcMessage) -> io::Result<()> {
    let mut text = serde_json::to_vec(item)?;
    text.push(b'\n');
    let mut stdin = stdin.lock().await;
    let stdin = stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
    stdin.write_all(&text).await?;
    stdin.flush().await
}
