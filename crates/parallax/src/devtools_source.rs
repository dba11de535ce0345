//! What a DevTools page shows: the journal of a session, and what its tap adds while it runs.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use parallax_devtools::TapConnection;
use parallax_protocol::CancellationToken;
use parallax_protocol::ids::SessionId;
use parallax_sdk::SessionConfig;
use parallax_serve::{DevToolsMessage, DevToolsSource};
use parallax_sessions::SessionEntry;
use parallax_sessions::{SessionSource, SourceError};
use tokio::sync::{mpsc, watch};

/// How often a journal is read for new lines, and checked for a session that does not run yet.
const POLL: Duration = Duration::from_millis(50);
/// Maximum number of messages that wait for a page; a slow page delays reading.
const QUEUE: usize = 64;
/// Maximum bytes kept of the messages of a tap, for pages that are opened later.
const MAX_KEPT: usize = 16 << 20;
/// Maximum bytes sent to a page at once.
const BATCH: usize = 512 << 10;

/// Where the journal of a session is.
#[derive(Clone)]
pub(crate) enum JournalLocation {
    /// Any session of the user.
    Saved(Box<SessionEntry>),
    /// A session that runs in this directory.
    Running(PathBuf, SessionId),
}

impl JournalLocation {
    fn id(&self) -> SessionId {
        match self {
            Self::Saved(entry) => SessionId::from(entry.id.as_str()),
            Self::Running(_, id) => id.clone(),
        }
    }

    /// Opens the source of the session's lines. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(crate) fn source(&self, launch: &SessionConfig) -> Result<SessionSource, SourceError> {
        match self {
            Self::Saved(entry) => SessionSource::open(&launch.session_library(), entry),
            Self::Running(project, id) => {
                Ok(SessionSource::for_running(&launch.session_library(), project, id))
            }
        }
    }
}

/// The session that is shown.
pub(crate) struct InspectedSession {
    launch: Arc<SessionConfig>,
    session: JournalLocation,
    messages: Arc<LiveMessages>,
    /// Started with the first page: without one, no viewer is attached.
    attached: OnceLock<()>,
    stop: CancellationToken,
}

impl InspectedSession {
    pub(crate) fn new(launch: SessionConfig, session: JournalLocation) -> Self {
        Self {
            launch: Arc::new(launch),
            session,
            messages: Arc::default(),
            attached: OnceLock::new(),
            stop: CancellationToken::new(),
        }
    }
}

impl Drop for InspectedSession {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl DevToolsSource for InspectedSession {
    fn open(&self) -> mpsc::Receiver<DevToolsMessage> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (launch, session) = (Arc::clone(&self.launch), self.session.clone());
        self.attached.get_or_init(|| {
            let attach_task = attach(Arc::clone(&launch), session.id(), Arc::clone(&self.messages));
            let stop = self.stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(attach_task).await });
        });
        // Ends with the receiver.
        tokio::spawn(follow(launch, session, Arc::clone(&self.messages), sender));
        receiver
    }
}

/// The messages of the tap since it was attached last, as far as they fit.
struct LiveMessages {
    buffer: Mutex<MessageBuffer>,
    /// Sends the number of the next message.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct MessageBuffer {
    lines: VecDeque<String>,
    bytes: usize,
    /// The number of the first line that is kept.
    first: u64,
    is_running: bool,
}

impl Default for LiveMessages {
    fn default() -> Self {
        Self { buffer: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl LiveMessages {
    fn lock(&self) -> MutexGuard<'_, MessageBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: String) {
        let mut messages = self.lock();
        messages.bytes += line.len();
        messages.lines.push_back(line);
        while messages.bytes > MAX_KEPT {
            let Some(oldest) = messages.lines.pop_front() else { break };
            messages.bytes -= oldest.len();
            messages.first += 1;
        }
        let next = messages.first + messages.lines.len() as u64;
        drop(messages);
        self.changed.send_replace(next);
    }

    fn set_running(&self, is_running: bool) {
        self.lock().is_running = is_running;
        self.changed.send_modify(|_| {});
    }

    /// Returns the messages starting with a number, as many as fit into one batch.
    fn next_batch(&self, next: &mut u64) -> (String, bool) {
        let messages = self.lock();
        let mut text = String::new();
        if *next < messages.first {
            let count = messages.first - *next;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", serde_json::json!({"dropped": {"count": count}}));
            *next = messages.first;
        }
        let skipped = usize::try_from(*next - messages.first).unwrap_or(usize::MAX);
        for line in messages.lines.iter().skip(skipped) {
            if !text.is_empty() && text.len() + line.len() > BATCH {
                break;
            }
            text.push_str(line);
            text.push('\n');
            *next += 1;
        }
        (text, messages.is_running)
    }
}

/// Attaches to the session whenever it runs.
async fn attach(launch: Arc<SessionConfig>, id: SessionId, live: Arc<LiveMessages>) {
    loop {
        if let Ok(mut connection) = TapConnection::open(&launch.dirs(), &id).await {
            while let Some(line) = connection.next().await {
                let is_first = line.starts_with("{\"hello\"");
                live.add(line);
                if is_first {
                    live.set_running(true);
                }
            }
            live.set_running(false);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Sends the records, and those that are added until the page is gone.
async fn follow(
    launch: Arc<SessionConfig>,
    session: JournalLocation,
    live: Arc<LiveMessages>,
    sender: mpsc::Sender<DevToolsMessage>,
) {
    let opened = tokio::task::spawn_blocking(move || session.source(&launch)).await;
    let mut source = match opened {
        Ok(Ok(source)) => source,
        Ok(Err(error)) => return report(&sender, &error.to_string()).await,
        Err(_) => return,
    };
    let mut event = "session";
    let mut changed = live.changed.subscribe();
    let (mut next, mut was_running) = (0, false);
    let mut last_read = None::<tokio::time::Instant>;
    loop {
        if last_read.is_none_or(|last| last.elapsed() >= POLL) {
            let read = tokio::task::spawn_blocking(move || {
                let more = source.read_new();
                (source, more)
            });
            let Ok((returned, more)) = read.await else { return };
            source = returned;
            last_read = Some(tokio::time::Instant::now());
            match more {
                Ok(data) if data.is_empty() && event == "records" => {}
                Ok(data) => {
                    if sender.send(DevToolsMessage { event, data }).await.is_err() {
                        return;
                    }
                    event = "records";
                }
                Err(error) => return report(&sender, &error.to_string()).await,
            }
        }
        changed.mark_unchanged();
        let (data, is_running) = live.next_batch(&mut next);
        let has_more = !data.is_empty();
        if has_more && sender.send(DevToolsMessage { event: "live", data }).await.is_err() {
            return;
        }
        if is_running != was_running {
            was_running = is_running;
            let data = serde_json::json!({"running": is_running}).to_string();
            if sender.send(DevToolsMessage { event: "state", data }).await.is_err() {
                return;
            }
        }
        if has_more {
            continue;
        }
        tokio::select! {
            () = sender.closed() => return,
            // The messages of the owner live as long as this task.
            _ = changed.changed() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn report(sender: &mpsc::Sender<DevToolsMessage>, message: &str) {
    let data = serde_json::json!({ "message": message }).to_string();
    // The page may be gone.
    let _ = sender.send(DevToolsMessage { event: "problem", data }).await;
}
