//! The process of a background session: records what the session prints and forwards input from
//! other processes.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use parallax_files::ShortSocketPath;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::directory::{BackgroundSession, file_error};
use crate::error::BackgroundError;
use crate::live_feed::LiveFeed;
use crate::record::SessionRecord;
use crate::view_protocol::VIEW_VERSION;
use crate::viewer::{self, ViewerRequest};

/// Size of the buffers between the session and the recorder, in bytes.
const PIPE: usize = 64 * 1024;
/// Maximum length of a line from another process, in bytes.
const MAX_LINE_LENGTH: u64 = 8 * 1024 * 1024;
/// Maximum number of lines that wait for the session.
const WAITING: usize = 16;
/// How long front ends may take to read the last events.
const VIEWER_LIMIT: Duration = Duration::from_millis(200);
/// Maximum number of connections. More would be a mistake, and each costs memory.
const MAX_CLIENTS: usize = 64;
/// How often the record is written while only its counters change.
const WRITE_EVERY: Duration = Duration::from_millis(250);
/// Kinds of lines that other processes may send.
const KINDS: [&str; 9] = [
    "message",
    "steer",
    "interrupt",
    "continue",
    "decide",
    "answer",
    "command",
    "set_model",
    "set_mode",
];

/// The input and output of the session.
#[derive(Debug)]
pub struct SessionStreams {
    /// The input of the session: JSON lines.
    pub input: DuplexStream,
    /// The output of the session: JSON lines.
    pub output: DuplexStream,
}

/// What attached front ends need: events, and a receiver of their lines.
#[derive(Debug, Clone)]
pub struct AttachChannels {
    /// The events of the session.
    pub feed: LiveFeed,
    /// Receives the lines from front ends.
    pub requests: mpsc::Sender<ViewerRequest>,
}

/// Records a session. Call [`finish`](Self::finish) at its end.
#[derive(Debug)]
pub struct Host {
    session: BackgroundSession,
    recorder: JoinHandle<SessionRecord>,
    listener: JoinHandle<()>,
    stop: CancellationToken,
    sender: mpsc::Sender<HostMessage>,
    feed: LiveFeed,
    _lock: File,
}

/// A message to the recorder.
enum HostMessage {
    /// A line for the session, and where to report whether the session gets it.
    Line(String, oneshot::Sender<Result<(), String>>),
    /// A client asks for the record.
    Record(oneshot::Sender<SessionRecord>),
    /// A client attached.
    Attached,
    /// An attached client disconnected.
    Detached,
    /// A prompt was sent to the session, other than by a line.
    PromptSent,
}

/// Counts prompts that are sent to the session other than by lines, so that it does not end before
/// them.
#[derive(Debug, Clone)]
pub struct PromptCounter(mpsc::Sender<HostMessage>);

impl PromptCounter {
    /// Counts a prompt, before it is sent.
    pub async fn add(&self) {
        // The recorder ends only with the session.
        let _ = self.0.send(HostMessage::PromptSent).await;
    }
}

impl Host {
    /// Starts recording a session that begins with `prompt`. Must be called in a runtime.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written, or another process runs the session.
    pub fn start(
        session: BackgroundSession,
        record: SessionRecord,
        prompt: Option<&str>,
        views: AttachChannels,
    ) -> Result<(Self, SessionStreams), BackgroundError> {
        let lock = session.lock()?;
        let socket = session.file("socket");
        // Remove the socket of a crashed process.
        let _ = std::fs::remove_file(&socket);
        let address = ShortSocketPath::new(&socket).map_err(file_error(&socket))?;
        let listener = UnixListener::bind(address.path()).map_err(file_error(&socket))?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))
            .map_err(file_error(&socket))?;
        session.write(&record, true)?;
        let (input, to_session) = duplex(PIPE);
        let (output, from_session) = duplex(PIPE);
        let (sender, received) = mpsc::channel(WAITING);
        let stop = CancellationToken::new();
        let first = match prompt {
            Some(prompt) => json!({"type": "message", "content": prompt}),
            None => json!({"type": "continue"}),
        };
        let recorder = Recorder {
            session: session.clone(),
            record,
            input: Some(to_session),
            attached: 0,
            pending_prompts: 0,
            answered: Vec::new(),
            feed: views.feed.clone(),
            has_failed: false,
        };
        let feed = views.feed.clone();
        let recorder = tokio::spawn(recorder.run(from_session, received, first.to_string()));
        let listener = tokio::spawn(listen(listener, sender.clone(), views, stop.clone()));
        let host = Self { session, recorder, listener, stop, sender, feed, _lock: lock };
        Ok((host, SessionStreams { input, output }))
    }

    /// Returns the counter of prompts that are sent other than by lines.
    pub fn prompt_counter(&self) -> PromptCounter {
        PromptCounter(self.sender.clone())
    }

    /// Records the end of the session. Its streams must be closed.
    pub async fn finish(self, code: u8) {
        self.feed.close();
        self.stop.cancel();
        // A failure of the listener no longer matters.
        let _ = self.listener.await;
        if let Ok(mut record) = self.recorder.await {
            record.record_end(code);
            if let Err(error) = self.session.write(&record, true) {
                tracing::warn!(%error, "the end of the session was not recorded");
            }
        }
        // No process listens on the socket anymore.
        let _ = std::fs::remove_file(self.session.file("socket"));
    }
}

struct Recorder {
    session: BackgroundSession,
    record: SessionRecord,
    /// The input of the session. `None` once it receives no more input and ends after its turn.
    input: Option<DuplexStream>,
    /// Number of attached clients.
    attached: usize,
    /// Number of prompts whose turn has not ended.
    pending_prompts: usize,
    /// The ids of pending requests whose answer was forwarded.
    answered: Vec<Value>,
    feed: LiveFeed,
    /// Whether the record could not be written.
    has_failed: bool,
}

impl Recorder {
    async fn run(
        mut self,
        from_session: DuplexStream,
        mut received: mpsc::Receiver<HostMessage>,
        first: String,
    ) -> SessionRecord {
        self.forward(&first).await;
        let file = self.session.file("events.jsonl");
        let events = std::fs::OpenOptions::new().create(true).append(true).open(&file);
        let mut events = match events {
            Ok(events) => Some(events),
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "events are not recorded");
                None
            }
        };
        let mut lines = BufReader::new(from_session).split(b'\n');
        let mut written = Instant::now();
        let mut is_changed = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until((written + WRITE_EVERY).into()), if is_changed => {
                    is_changed = !self.write();
                    written = Instant::now();
                }
                // Whether the session ends is checked again below.
                () = self.feed.turn_ended() => {}
                line = lines.next_segment() => {
                    let Ok(Some(mut line)) = line else { return self.record };
                    let before = self.record.state;
                    if let Ok(value) = serde_json::from_slice::<Value>(&line) {
                        if self.record.process_line(&value) {
                            self.pending_prompts = self.pending_prompts.saturating_sub(1);
                        }
                        // The session may have rejected an answer.
                        if value.get("type").and_then(Value::as_str) == Some("error")
                            || self.record.pending_approvals.is_empty()
                        {
                            self.answered.clear();
                        }
                    }
                    line.push(b'\n');
                    if let Some(events) = &mut events
                        && let Err(error) = std::io::Write::write_all(events, &line)
                    {
                        tracing::warn!(%error, "an event was not recorded");
                    }
                    is_changed = true;
                    // Write state changes and requests immediately, because other processes wait
                    // for them.
                    if before != self.record.state || !self.record.pending_approvals.is_empty() {
                        is_changed = !self.write();
                        written = Instant::now();
                    }
                }
                Some(message) = received.recv() => match message {
                    HostMessage::Line(line, taken) => {
                        let result = self.take_answer(&line);
                        if result.is_ok() {
                            self.forward(&line).await;
                        }
                        // The client may be gone.
                        let _ = taken.send(result);
                    }
                    HostMessage::Record(taken) => {
                        // The client may be gone.
                        let _ = taken.send(self.record.clone());
                    }
                    HostMessage::Attached => self.attached += 1,
                    HostMessage::Detached => self.attached = self.attached.saturating_sub(1),
                    HostMessage::PromptSent => self.pending_prompts += 1,
                },
            }
            self.pending_prompts += self.feed.take_new_prompts();
            let is_busy = self.pending_prompts > 0 || self.feed.is_turn_running();
            if !is_busy && self.attached == 0 {
                // No input that the session would wait for can arrive anymore.
                self.input = None;
            }
        }
    }

    /// Writes the record. After a failure, for example on a full disk, it is written again later.
    fn write(&mut self) -> bool {
        let result = self.session.write(&self.record, false);
        if let Err(error) = &result
            && !self.has_failed
        {
            tracing::warn!(%error, "the state of the session was not recorded");
        }
        self.has_failed = result.is_err();
        result.is_ok()
    }

    /// Notes the request that a line answers, so that no other line answers it.
    ///
    /// # Errors
    /// Returns an error if the request is not pending.
    fn take_answer(&mut self, line: &str) -> Result<(), String> {
        let line = serde_json::from_str::<Value>(line).unwrap_or_default();
        if !matches!(line.get("type").and_then(Value::as_str), Some("decide" | "answer")) {
            return Ok(());
        }
        let id = line.get("id").cloned().unwrap_or_default();
        let is_pending = self.record.pending_approvals.iter().any(|ask| ask.get("id") == Some(&id));
        if !is_pending || self.answered.contains(&id) {
            return Err("the request was answered already".to_owned());
        }
        self.answered.push(id);
        Ok(())
    }

    async fn forward(&mut self, line: &str) {
        let kind = serde_json::from_str::<Value>(line).ok();
        let kind = kind.as_ref().and_then(|line| line.get("type")).and_then(Value::as_str);
        if matches!(kind, Some("message" | "continue" | "command")) {
            self.pending_prompts += 1;
        }
        if let Some(input) = &mut self.input {
            let line = format!("{line}\n");
            // A session that no longer reads is about to end.
            let _ = input.write_all(line.as_bytes()).await;
        }
    }
}

/// Accepts connections until stopped.
async fn listen(
    listener: UnixListener,
    sender: mpsc::Sender<HostMessage>,
    views: AttachChannels,
    stop: CancellationToken,
) {
    let mut clients = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = clients.join_next() => {}
            accepted = listener.accept(), if clients.len() < MAX_CLIENTS => match accepted {
                Ok((stream, _)) => {
                    clients.spawn(serve(stream, sender.clone(), views.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection");
                    tokio::time::sleep(WRITE_EVERY).await;
                }
            },
        }
    }
    // Front ends get the end of the session; other clients have nothing to wait for.
    let clients_done = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(VIEWER_LIMIT, clients_done).await;
}

/// Forwards the lines of a client and responds to each. A front end takes the connection over.
async fn serve(mut stream: UnixStream, sender: mpsc::Sender<HostMessage>, views: AttachChannels) {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let mut is_attached = false;
    loop {
        let mut line = String::new();
        match (&mut reader).take(MAX_LINE_LENGTH).read_line(&mut line).await {
            Ok(1..) if line.ends_with('\n') => {}
            _ => break,
        }
        let message = match message_of(line.trim()) {
            Ok(ClientMessage::View) => {
                let _ = sender.send(HostMessage::Attached).await;
                is_attached = true;
                if writer.write_all(b"{\"ok\":true}\n").await.is_ok() {
                    viewer::serve(reader, writer, &views.feed, &views.requests).await;
                }
                break;
            }
            Ok(ClientMessage::Request(request)) => request,
            Err(reason) => {
                let answer = format!("{}\n", json!({"ok": false, "error": reason}));
                if writer.write_all(answer.as_bytes()).await.is_err() {
                    break;
                }
                continue;
            }
        };
        let mut record = None;
        let result = match message {
            ClientRequest::Record => {
                let (taken, result) = oneshot::channel();
                let _ = sender.send(HostMessage::Record(taken)).await;
                record = result.await.ok();
                record.is_some().then_some(Ok(()))
            }
            ClientRequest::Attach => {
                is_attached = true;
                sender.send(HostMessage::Attached).await.is_ok().then_some(Ok(()))
            }
            ClientRequest::Line(line) => {
                let (taken, result) = oneshot::channel();
                let _ = sender.send(HostMessage::Line(line, taken)).await;
                result.await.ok()
            }
        };
        let is_ending = result.is_none();
        let answer = match result.unwrap_or_else(|| Err("the session is ending".to_owned())) {
            Ok(()) if record.is_some() => json!({"ok": true, "record": record}),
            Ok(()) => json!({"ok": true}),
            Err(reason) => json!({"ok": false, "error": reason}),
        };
        if writer.write_all(format!("{answer}\n").as_bytes()).await.is_err() || is_ending {
            break;
        }
    }
    if is_attached {
        // The recorder may have ended.
        let _ = sender.send(HostMessage::Detached).await;
    }
}

/// A line of a client.
enum ClientMessage {
    Request(ClientRequest),
    /// The client is a front end.
    View,
}

/// A line of a client that gets a response.
enum ClientRequest {
    Attach,
    Record,
    Line(String),
}

fn message_of(line: &str) -> Result<ClientMessage, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match value.get("type").and_then(Value::as_str) {
        Some("view") if value.get("version") == Some(&json!(VIEW_VERSION)) => {
            Ok(ClientMessage::View)
        }
        Some("view") => Err("the session was started by another version of Parallax".to_owned()),
        Some("attach") => Ok(ClientMessage::Request(ClientRequest::Attach)),
        Some("record") => Ok(ClientMessage::Request(ClientRequest::Record)),
        Some(kind) if KINDS.contains(&kind) => {
            Ok(ClientMessage::Request(ClientRequest::Line(value.to_string())))
        }
        Some(kind) => Err(format!("unknown type `{kind}`")),
        None => Err("the line has no `type`".to_owned()),
    }
}
