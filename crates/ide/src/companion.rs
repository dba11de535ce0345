//! The connection to a companion, maintained in the background.

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
pub use diffs::{ClosedDiff, DiffDecision, OpenDiff};

/// How many commands may wait.
const COMMANDS: usize = 8;
/// How many decisions about diffs may wait to be seen.
const DECISIONS: usize = 16;

/// State of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompanionStatus {
    /// Searching for a companion, or connecting.
    Connecting,
    /// Connected.
    Connected,
    /// Not connected.
    Disconnected(DisconnectReason),
}

/// The current state of the connection and the editor.
#[derive(Debug, Clone)]
pub struct CompanionSnapshot {
    /// State of the connection.
    pub status: CompanionStatus,
    /// The connected editor, or the one that the environment variables indicate.
    pub editor: Option<HostEditor>,
    /// The open files; empty without a connection.
    pub files: Arc<OpenFiles>,
    /// Whether the editor trusts its workspace; `None` until it reports that in this connection.
    pub is_trusted: Option<bool>,
    /// Whether the editor shows diffs.
    pub can_diff: bool,
}

impl CompanionSnapshot {
    fn new(status: CompanionStatus) -> Self {
        Self { status, editor: None, files: Arc::default(), is_trusted: None, can_diff: false }
    }

    /// Returns whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.status == CompanionStatus::Connected
    }

    /// Returns the display name of the editor.
    pub fn editor_name(&self) -> &str {
        self.editor.as_ref().map_or("the editor", |editor| &editor.name)
    }
}

/// State shared by the handle and the connection loop.
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

/// A handle to the connection. Dropping the last clone ends it.
#[derive(Debug, Clone)]
pub struct Companion {
    state: Arc<CompanionState>,
    commands: mpsc::Sender<ConnectionCommand>,
    _guard: Arc<DropGuard>,
}

impl Companion {
    /// Starts connecting in the background of the current runtime, or waits for
    /// [`Companion::connect`] if not `enabled`. `variables` are those of the process; `version` is
    /// the version of the program.
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

    /// Returns the current state.
    pub fn snapshot(&self) -> CompanionSnapshot {
        self.state.snapshot.borrow().clone()
    }

    /// Returns a receiver of state changes. It does not keep the connection alive.
    pub fn changes(&self) -> watch::Receiver<CompanionSnapshot> {
        self.state.snapshot.subscribe()
    }

    /// Connects again if there is no connection.
    pub fn connect(&self) {
        // A full queue already contains such a command.
        let _ = self.commands.try_send(ConnectionCommand::Connect);
    }

    /// Ends the connection until [`Companion::connect`].
    pub fn disconnect(&self) {
        let _ = self.commands.try_send(ConnectionCommand::Disconnect);
    }

    /// Searches again if the connection was lost some time ago. Called when the user is present,
    /// for example at a prompt.
    pub(crate) fn refresh(&self) {
        let _ = self.commands.try_send(ConnectionCommand::Refresh);
    }

    /// Waits until the first connection attempt has succeeded or failed and, after success, the
    /// editor has sent its files, but not longer than `limit`.
    pub async fn wait_until_settled(&self, limit: Duration) {
        let mut changes = self.changes();
        let is_settled = |snapshot: &CompanionSnapshot| match snapshot.status {
            CompanionStatus::Connecting => false,
            CompanionStatus::Connected => {
                snapshot.is_trusted.is_some() || !snapshot.files.files.is_empty()
            }
            CompanionStatus::Disconnected(_) => true,
        };
        // A timeout is not an error.
        let _ = tokio::time::timeout(limit, changes.wait_for(is_settled)).await;
    }
}
