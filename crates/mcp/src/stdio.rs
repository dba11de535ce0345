//! A server as a child process, with one JSON message per line.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parallax_exec::{StdioServer, StdioStreams};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, InitializeResult, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::lines::{FloodDetector, LineSplitter, LineTooLong, ReadRateLimit};
use crate::messages::OpenRequests;
use crate::multiline_object::MultilineObject;
use crate::stderr_tail::StderrTail;

/// Maximum messages that may wait for the server to read them. They accumulate once the pipe is
/// full: a server that sends so many requests without reading the answers is at fault.
const MAX_UNREAD: usize = 1_000;
/// How long a message that is being written may delay closing.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// How long to wait for the response to `initialize` after a response that cannot be it.
const STRAY_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for the exit code and the last output of a server that closed its output.
const EARLY_END: Duration = Duration::from_secs(1);

/// The streams of a server. Closing or dropping this terminates the server and all processes that
/// it started.
pub(crate) struct StdioTransport {
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    /// Each message waiting to be written holds a clone.
    queued_messages: Arc<()>,
    lines: LineSplitter<BufReader<ChildStdout>>,
    pace: ReadRateLimit,
    skipped: FloodDetector,
    /// Lines that are not messages, but may be one together.
    partial_object: MultilineObject,
    open: OpenRequests,
    batch: VecDeque<ServerJsonRpcMessage>,
    /// The id of the `initialize` request until it is answered.
    initialize: Option<RequestId>,
    /// A message with that id that is not the answer, and when it counts as one nevertheless.
    stray_answer: Option<(ServerJsonRpcMessage, Instant)>,
    process: Option<StdioServer>,
    stderr_tail: StderrTail,
    /// Reads standard error to its end.
    stderr: Option<JoinHandle<()>>,
    /// Whether the server sent a message.
    has_responded: bool,
}

impl StdioTransport {
    /// Takes over the streams. Standard error goes to `stderr_tail`.
    pub(crate) fn new(
        process: StdioServer,
        streams: StdioStreams,
        stderr_tail: StderrTail,
    ) -> Self {
        stderr_tail.record_exit(None);
        Self {
            // The task ends with the stream, which ends with the process.
            stderr: Some(tokio::spawn(stderr_tail.clone().drain(streams.stderr))),
            has_responded: false,
            stdin: Arc::new(Mutex::new(Some(streams.stdin))),
            queued_messages: Arc::default(),
            lines: LineSplitter::new(BufReader::with_capacity(64 * 1024, streams.stdout)),
            pace: ReadRateLimit::new(),
            skipped: FloodDetector::new(),
            partial_object: MultilineObject::default(),
            open: OpenRequests::default(),
            batch: VecDeque::new(),
            initialize: None,
            stray_answer: None,
            process: Some(process),
            stderr_tail,
        }
    }

    /// Reads the messages of a line, or of several lines that are one JSON object. Lines that are
    /// not a message are skipped. Returns `false` if there are too many of those.
    fn process_line(&mut self, line: &[u8]) -> bool {
        let received = self.open.read(line, None);
        if received.is_message {
            let is_calm = self.skip_spread();
            self.batch.extend(received.messages);
            return is_calm;
        }
        if !self.partial_object.push(line) {
            // The line may be the first of another object.
            return self.skip_spread() && (self.partial_object.push(line) || self.skip(line));
        }
        if !self.partial_object.is_complete() {
            return true;
        }
        let lines = self.partial_object.take();
        let received = self.open.read(&lines.join(&b'\n'), None);
        if received.is_message {
            self.batch.extend(received.messages);
            return true;
        }
        lines.iter().all(|line| self.skip(line))
    }

    /// Skips the lines that turned out to be no object. Returns `false` if there are too many.
    fn skip_spread(&mut self) -> bool {
        self.partial_object.take().iter().all(|line| self.skip(line))
    }

    fn skip(&mut self, line: &[u8]) -> bool {
        let excerpt = line.get(..line.len().min(1_000)).unwrap_or_default();
        self.stderr_tail.push(excerpt);
        self.stderr_tail.push(b"\n");
        self.stderr_tail.count_skipped(excerpt);
        !self.skipped.is_flood(line.len() + 1)
    }

    /// Records how a server ended that sent no message, and waits for its last output.
    async fn record_early_end(&mut self) {
        let (Some(process), Some(stderr)) = (&mut self.process, self.stderr.take()) else { return };
        let ended = async {
            let exit = process.wait().await;
            self.stderr_tail.record_exit(Some(exit));
            // A process that the server left behind may keep the stream open.
            let _ = stderr.await;
        };
        let _ = tokio::time::timeout(EARLY_END, ended).await;
    }

    /// Returns the next message. A server may print an old answer with the id of `initialize` before
    /// it reads this request, so one that cannot be the answer is set aside.
    fn next_message(&mut self) -> Option<ServerJsonRpcMessage> {
        while let Some(message) = self.batch.pop_front() {
            let JsonRpcMessage::Response(answer) = &message else { return Some(message) };
            if self.initialize.as_ref() != Some(&answer.id) {
                return Some(message);
            }
            let result = serde_json::to_value(&answer.result).unwrap_or_default();
            if serde_json::from_value::<InitializeResult>(result).is_ok() {
                (self.initialize, self.stray_answer) = (None, None);
                return Some(message);
            }
            self.open.reopen(answer.id.clone());
            let until = Instant::now() + STRAY_ANSWER_TIMEOUT;
            self.stray_answer.get_or_insert((message, until));
        }
        None
    }

    /// Returns the next line, or the end of the output. `None`: the answer that was set aside is the
    /// only one.
    async fn next_line(&mut self) -> Option<Result<Option<Vec<u8>>, LineTooLong>> {
        let Some((_, until)) = &self.stray_answer else { return Some(self.lines.next().await) };
        match tokio::time::timeout_at(*until, self.lines.next()).await {
            Ok(Ok(None)) | Err(_) => None,
            Ok(line) => Some(line),
        }
    }

    /// Ends a faulty server immediately, because it would not react to the end of its input.
    fn give_up<T>(&mut self, reason: &str) -> Option<T> {
        self.stderr_tail.push(format!("\nParallax: {reason}\n").as_bytes());
        self.process = None;
        None
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.open.record_sent(&item);
        if let JsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::InitializeRequest(_))
        {
            self.initialize = Some(request.id.clone());
        }
        let (stdin, unread) = (Arc::clone(&self.stdin), Arc::clone(&self.queued_messages));
        let has_responded = self.has_responded;
        async move {
            let written = write(&stdin, &item).await;
            drop(unread);
            match written {
                // The server ended already. The end of its output tells why.
                Err(error) if !has_responded && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.next_message() {
                self.has_responded = true;
                return Some(message);
            }
            if Arc::strong_count(&self.queued_messages) > MAX_UNREAD {
                return self.give_up("it keeps sending requests without reading responses");
            }
            if self.pace.is_flooded() {
                self.stderr_tail.record_flood();
            }
            self.pace.wait().await;
            let Some(line) = self.next_line().await else {
                self.initialize = None;
                return self.stray_answer.take().map(|(message, _)| message);
            };
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.skip_spread();
                    if !self.has_responded {
                        self.record_early_end().await;
                    }
                    return None;
                }
                Err(_) => {
                    return self.give_up("a message is larger than 32 MiB");
                }
            };
            if !line.is_empty() && !self.process_line(&line) {
                return self
                    .give_up("it floods its standard output with lines that are not MCP messages");
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Closing its input asks the server to exit.
        if let Ok(mut stdin) = tokio::time::timeout(CLOSE_TIMEOUT, self.stdin.lock()).await {
            *stdin = None;
        }
        if let Some(process) = self.process.take()
            && let Some(exit) = process.end().await
        {
            tracing::debug!(?exit, "an MCP server ended");
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
