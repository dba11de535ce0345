//! The agents that clients of the server use.

use std::sync::Arc;

use parallax_protocol::{BoxFuture, CancellationToken};
use tokio::io::{AsyncBufRead, AsyncWrite};

use crate::connections::Connections;

/// What the program supplies.
pub trait Backend: Send + Sync + 'static {
    /// Serves a client of the Agent Client Protocol until its input ends or `stopped` is cancelled.
    fn serve_acp(
        &self,
        input: Box<dyn AsyncBufRead + Send + Unpin>,
        output: Box<dyn AsyncWrite + Send + Unpin>,
        stopped: CancellationToken,
    ) -> BoxFuture<'static, ()>;

    /// Returns the built-in slash commands: names and descriptions.
    fn commands(&self) -> Vec<(&'static str, &'static str)>;
}

/// Runs agents for clients; they end with the connections of the server.
#[derive(Clone)]
pub(crate) struct AgentHost {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) connections: Arc<Connections>,
}
