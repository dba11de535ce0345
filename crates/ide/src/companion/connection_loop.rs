//! The connection loop: connects, serves the connection until it ends, and reconnects.

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::CancellationToken;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{CompanionSnapshot, CompanionState, CompanionStatus, DiffDecision};
use crate::client::CompanionClient;
use crate::discovery::{DiscoveryResult, MAX_CANDIDATES, ServerCandidate, discover};
use crate::error::DisconnectReason;
use crate::open_files::OpenFiles;

/// Delays before further attempts, in seconds. After the last one, only user actions trigger an
/// attempt.
const RETRY_SECONDS: [u64; 5] = [1, 2, 4, 8, 16];
/// Minimum interval between connection attempts triggered by prompts.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of waiting messages from the server.
const INCOMING: usize = 32;

#[derive(Debug)]
pub(super) enum ConnectionCommand {
    Connect,
    Disconnect,
    Refresh,
}

/// What to do after a wait.
enum WaitOutcome {
    Connect,
    Disconnect,
    End,
}

struct ActiveConnection {
    client: Arc<CompanionClient>,
    incoming: mpsc::Receiver<Value>,
    candidate: ServerCandidate,
}

pub(super) async fn run(
    state: Arc<CompanionState>,
    enabled: bool,
    mut commands: mpsc::Receiver<ConnectionCommand>,
    cancel: CancellationToken,
) {
    let mut attempts = 0;
    let off = WaitOutcome::Disconnect;
    if !enabled && !wait_disconnected(&state, off, &mut commands, &cancel).await {
        return;
    }
    loop {
        set_status(&state, CompanionStatus::Connecting);
        let tried = tokio::select! {
            tried = connect(&state) => tried,
            next = disconnected_or_ended(&mut commands, &cancel) => {
                if !wait_disconnected(&state, next, &mut commands, &cancel).await {
                    return;
                }
                continue;
            }
        };
        let reason = match tried {
            Ok(connected) => {
                attempts = 0;
                let editor = connected.candidate.editor.name.clone();
                let next = serve(&state, connected, &mut commands, &cancel).await;
                state.set_client(None);
                match next {
                    Some(next) => {
                        if !wait_disconnected(&state, next, &mut commands, &cancel).await {
                            return;
                        }
                        continue;
                    }
                    None => DisconnectReason::Lost { editor },
                }
            }
            Err(reason) => reason,
        };
        set_status(&state, CompanionStatus::Disconnected(reason));
        let wait = RETRY_SECONDS.get(attempts).map(|seconds| Duration::from_secs(*seconds));
        attempts += 1;
        let next = wait_for_retry(wait, &mut commands, &cancel).await;
        match next {
            WaitOutcome::Connect => {}
            next => {
                if !wait_disconnected(&state, next, &mut commands, &cancel).await {
                    return;
                }
                attempts = 0;
            }
        }
    }
}

/// Waits without a connection until a command requests one. Returns `false` when the loop should
/// end.
async fn wait_disconnected(
    state: &CompanionState,
    next: WaitOutcome,
    commands: &mut mpsc::Receiver<ConnectionCommand>,
    cancel: &CancellationToken,
) -> bool {
    if matches!(next, WaitOutcome::End) {
        return false;
    }
    set_status(state, CompanionStatus::Disconnected(DisconnectReason::Disabled));
    loop {
        tokio::select! {
            () = cancel.cancelled() => return false,
            command = commands.recv() => match command {
                Some(ConnectionCommand::Connect) => return true,
                Some(_) => {}
                None => return false,
            },
        }
    }
}

/// Waits until the connection should end.
async fn disconnected_or_ended(
    commands: &mut mpsc::Receiver<ConnectionCommand>,
    cancel: &CancellationToken,
) -> WaitOutcome {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return WaitOutcome::End,
            command = commands.recv() => match command {
                Some(ConnectionCommand::Disconnect) => return WaitOutcome::Disconnect,
                Some(_) => {}
                None => return WaitOutcome::End,
            },
        }
    }
}

async fn wait_for_retry(
    wait: Option<Duration>,
    commands: &mut mpsc::Receiver<ConnectionCommand>,
    cancel: &CancellationToken,
) -> WaitOutcome {
    let since = Instant::now();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return WaitOutcome::End,
            command = commands.recv() => match command {
                Some(ConnectionCommand::Connect) => return WaitOutcome::Connect,
                Some(ConnectionCommand::Disconnect) => return WaitOutcome::Disconnect,
                Some(ConnectionCommand::Refresh) if since.elapsed() >= REFRESH_INTERVAL => {
                    return WaitOutcome::Connect;
                }
                Some(ConnectionCommand::Refresh) => {}
                None => return WaitOutcome::End,
            },
            () = sleep_until(wait.map(|wait| since + wait)) => return WaitOutcome::Connect,
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn connect(state: &CompanionState) -> Result<ActiveConnection, DisconnectReason> {
    let options = state.options.clone();
    let discovering = tokio::task::spawn_blocking(move || discover(&options));
    let found = discovering
        .await
        .map_err(|error| DisconnectReason::Failed { reason: error.to_string() })?;
    state.snapshot.send_modify(|snapshot| snapshot.editor.clone_from(&found.editor));
    let mut failure = None;
    for candidate in found.candidates.iter().take(MAX_CANDIDATES) {
        let (incoming, received) = mpsc::channel(INCOMING);
        let connection =
            CompanionClient::connect(&candidate.address, &state.options, &state.version, incoming);
        match connection.await {
            Ok(client) => {
                return Ok(ActiveConnection {
                    client: Arc::new(client),
                    incoming: received,
                    candidate: candidate.clone(),
                });
            }
            Err(error) => {
                tracing::debug!(source = candidate.source, %error, "cannot connect to a companion");
                failure.get_or_insert((candidate.clone(), error));
            }
        }
    }
    Err(match failure {
        Some((candidate, error)) => connection_failure(&found, &candidate, &error.to_string()),
        None => found.reason(),
    })
}

fn connection_failure(
    found: &DiscoveryResult,
    candidate: &ServerCandidate,
    reason: &str,
) -> DisconnectReason {
    let count = found.candidates.len();
    let others = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    let editor = &candidate.editor.name;
    DisconnectReason::Failed { reason: format!("cannot connect to {editor}: {reason}{others}") }
}

/// Serves a connection. Returns `None` if it was lost.
async fn serve(
    state: &CompanionState,
    connected: ActiveConnection,
    commands: &mut mpsc::Receiver<ConnectionCommand>,
    cancel: &CancellationToken,
) -> Option<WaitOutcome> {
    let ActiveConnection { client, mut incoming, candidate } = connected;
    state.set_client(Some(Arc::clone(&client)));
    state.snapshot.send_modify(|snapshot| {
        *snapshot = CompanionSnapshot {
            editor: Some(candidate.editor),
            can_diff: client.can_diff,
            ..CompanionSnapshot::new(CompanionStatus::Connected)
        };
    });
    loop {
        tokio::select! {
            () = cancel.cancelled() => return Some(WaitOutcome::End),
            () = client.disconnected.cancelled() => return None,
            command = commands.recv() => match command {
                Some(ConnectionCommand::Disconnect) => return Some(WaitOutcome::Disconnect),
                Some(_) => {}
                None => return Some(WaitOutcome::End),
            },
            message = incoming.recv() => match message {
                Some(message) if message.get("id").is_some_and(|id| !id.is_null()) => {
                    client.respond(&message).await;
                }
                Some(message) => handle_notification(state, &message),
                None => return None,
            },
        }
    }
}

fn handle_notification(state: &CompanionState, message: &Value) {
    let params = message.get("params").unwrap_or(&Value::Null);
    let path = || params.get("filePath").and_then(Value::as_str).map(str::to_owned);
    let decision = match message.get("method").and_then(Value::as_str) {
        Some("ide/contextUpdate") => {
            let (files, is_trusted) = OpenFiles::read(params);
            state.snapshot.send_if_modified(|snapshot| {
                let mut is_changed = false;
                if let Some(files) = files.filter(|files| *files != *snapshot.files) {
                    snapshot.files = Arc::new(files);
                    is_changed = true;
                }
                if is_trusted.is_some() && is_trusted != snapshot.is_trusted {
                    snapshot.is_trusted = is_trusted;
                    is_changed = true;
                }
                is_changed
            });
            return;
        }
        Some("ide/diffAccepted") => params
            .get("content")
            .and_then(Value::as_str)
            .map(|text| DiffDecision::Accepted { text: text.to_owned() }),
        Some("ide/diffRejected" | "ide/diffClosed") => Some(DiffDecision::Rejected),
        _ => None,
    };
    if let (Some(decision), Some(path)) = (decision, path()) {
        // Fails if nothing waits for a decision any longer.
        let _ = state.decisions.send((path, decision));
    }
}

/// Sets the status and clears the editor's files, which are unknown without a connection.
fn set_status(state: &CompanionState, status: CompanionStatus) {
    state.snapshot.send_modify(|snapshot| {
        *snapshot =
            CompanionSnapshot { editor: snapshot.editor.clone(), ..CompanionSnapshot::new(status) };
    });
}
