//! The connection to a companion, which is kept in the background.

mod connection_loop;
mod diffs;

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_protocol::CancellationToken;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_util::sync::DropGuard;

use crate::client::CompanionClient;
use crate::discovery::DiscoveryOptions;
use crate::editor::HostEditor;
use crate::error::DisconnectReason;
use crate::open_files::OpenFiles;
use connection_loop::ConnectionCommand;
pub use diffs::{DiffDecision, OpenDiff};

/// How many commands may wait.
const COMMANDS: usize = 8;
/// How many decisions about diffs may wait to be seen.
const DECISIONS: usize = 16;

/// The state of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompanionStatus {
    /// A companion is being searched for, or connected to.
    Connecting,
    /// There is a connection.
    Connected,
    /// There is none.
    Disconnected(DisconnectReason),
}

/// What is known of the editor at a moment.
#[derive(Debug, Clone)]
pub struct CompanionSnapshot {
    /// The state of the connection.
    pub status: CompanionStatus,
    /// The connected editor, or the one that the environment names.
    pub editor: Option<HostEditor>,
    /// The open files; empty without a connection.
    pub files: Arc<OpenFiles>,
    /// Whether the editor trusts its workspace, once it has said so in this connection.
    pub is_trusted: Option<bool>,
    /// Whether the editor shows diffs.
    pub can_diff: bool,
}

impl CompanionSnapshot {
    fn new(status: CompanionStatus) -> Self {
        Self { status, editor: None, files: Arc::default(), is_trusted: None, can_diff: false }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.status == CompanionStatus::Connected
    }

    /// The editor's name for the user.
    pub fn editor_name(&self) -> &str {
        self.editor.as_ref().map_or("the editor", |editor| &editor.name)
    }
}

/// What the handle and the loop share.
#[derive(Debug)]
struct CompanionState {
    options: DiscoveryOptions,
    version: String,
    snapshot: watch::Sender<CompanionSnapshot>,
    client: Mutex<Option<Arc<CompanionClient>>>,
    /// The editor shows one diff at a time.
    diff_slot: Semaphore,
    decisions: broadcast::Sender<(String, DiffDecision)>,
}

impl CompanionState {
    fn client(&self) -> Option<Arc<CompanionClient>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_client(&self, client: Option<Arc<CompanionClient>>) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

/// A handle of the connection. Dropping the last one ends it.
#[derive(Debug, Clone)]
pub struct Companion {
    state: Arc<CompanionState>,
    commands: mpsc::Sender<ConnectionCommand>,
    _guard: Arc<DropGuard>,
}

impl Companion {
    /// Starts to connect, in the background of the current runtime, or waits for
    /// [`Companion::connect`] if it is not `enabled`. `variables` are those of the process;
    /// `version` is the program's.
    pub fn start(
        directory: &Path,
        variables: Vec<(OsString, OsString)>,
        version: &str,
        enabled: bool,
    ) -> Self {
        let cancel = CancellationToken::new();
        let (commands, received) = mpsc::channel(COMMANDS);
        let state = Arc::new(CompanionState {
            options: DiscoveryOptions { directory: directory.to_owned(), variables },
            version: version.to_owned(),
            snapshot: watch::Sender::new(CompanionSnapshot::new(match enabled {
                true => CompanionStatus::Connecting,
                false => CompanionStatus::Disconnected(DisconnectReason::Disabled),
            })),
            client: Mutex::default(),
            diff_slot: Semaphore::new(1),
            decisions: broadcast::Sender::new(DECISIONS),
        });
        tokio::spawn(connection_loop::run(Arc::clone(&state), enabled, received, cancel.clone()));
        Self { state, commands, _guard: Arc::new(cancel.drop_guard()) }
    }

    /// What is known now.
    pub fn snapshot(&self) -> CompanionSnapshot {
        self.state.snapshot.borrow().clone()
    }

    /// Reports changes of the snapshot. The receiver does not keep the connection.
    pub fn changes(&self) -> watch::Receiver<CompanionSnapshot> {
        self.state.snapshot.subscribe()
    }

    /// Connects again if there is no connection.
    pub fn connect(&self) {
        // A full queue already has such a command.
        let _ = self.commands.try_send(ConnectionCommand::Connect);
    }

    /// Ends the connection until [`Companion::connect`].
    pub fn disconnect(&self) {
        let _ = self.commands.try_send(ConnectionCommand::Disconnect);
    }

    /// Searches again if the connection was lost some time ago. For a moment at which the user is
    /// present, such as a prompt.
    pub(crate) fn refresh(&self) {
        let _ = self.commands.try_send(ConnectionCommand::Refresh);
    }

    /// Waits until the first attempt to connect has succeeded or failed and, after a success, the
    /// editor has sent its files; but not longer than the given time.
    pub async fn settled(&self, limit: Duration) {
        let mut changes = self.changes();
        let is_settled = |snapshot: &CompanionSnapshot| match snapshot.status {
            CompanionStatus::Connecting => false,
            CompanionStatus::Connected => {
                snapshot.is_trusted.is_some() || !snapshot.files.files.is_empty()
            }
            CompanionStatus::Disconnected(_) => true,
        };
        // Too late is as good.
        let _ = tokio::time::timeout(limit, changes.wait_for(is_settled)).await;
    }
}
