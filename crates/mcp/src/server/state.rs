//! The state of a server: its connection, what it offers, and its errors.

use std::sync::Arc;
use std::time::Duration;

use parallax_config::mcp::{McpServer, StartBlock};
use rmcp::service::RunningServiceCancellationToken;
use rmcp::{Peer, RoleClient};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cache::CachedServer;
use crate::catalog::Catalog;
use crate::error::McpError;
use crate::restart_backoff::RestartBackoff;
use crate::status::Status;

/// The state of a server. Its lock is held only briefly and never across an await.
pub(super) struct ServerState {
    /// Whether it may run; the user can change it for the session.
    pub(super) start_block: StartBlock,
    pub(super) status: Status,
    pub(super) link: Option<OpenConnection>,
    pub(super) catalog: Arc<Catalog>,
    /// Whether the catalog was read in this session.
    pub(super) is_live: bool,
    /// Whether nothing is known about the server, so that waiting may help.
    pub(super) unknown: bool,
    pub(super) error: Option<McpError>,
    /// Why it failed in an earlier session, until it answers.
    pub(super) previous_error: Option<String>,
    pub(super) failed_at: Option<Instant>,
    pub(super) handshake: Option<Duration>,
    pub(super) backoff: RestartBackoff,
    pub(super) notes: Vec<String>,
    pub(super) generation: u64,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

/// An open connection.
pub(super) struct OpenConnection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) stop: RunningServiceCancellationToken,
}

impl ServerState {
    /// Creates the state of a server that was not started. `known` is the cache entry of a server
    /// that may run.
    pub(super) fn new(config: &McpServer, known: Option<CachedServer>) -> Self {
        let mut state = Self {
            start_block: config.start_block,
            status: Status::for_start_block(config.start_block),
            link: None,
            catalog: Arc::default(),
            is_live: false,
            unknown: false,
            error: None,
            previous_error: None,
            failed_at: None,
            handshake: None,
            backoff: RestartBackoff::default(),
            notes: config.notes.clone(),
            generation: 0,
            tasks: Vec::new(),
        };
        match known {
            Some(CachedServer::Offered(catalog)) => {
                state.catalog = Arc::from(catalog);
                state.status = Status::Cached;
            }
            Some(CachedServer::Nothing) => state.unknown = true,
            Some(CachedServer::Failed(reason)) => state.previous_error = Some(reason),
            None => {}
        }
        state
    }

    /// Returns a message about a failure in an earlier session.
    pub(super) fn earlier_failure(&self) -> Option<String> {
        let reason = self.previous_error.as_deref()?;
        Some(match reason {
            "" => "no response yet, nor in an earlier session".to_owned(),
            reason => format!("no response yet. In an earlier session, {reason}"),
        })
    }
}
