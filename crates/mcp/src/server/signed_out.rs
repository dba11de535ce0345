//! Detects servers that require a sign-in.

use std::sync::Arc;

use parallax_config::mcp::StartBlock;

use crate::error::McpError;
use crate::server::Server;

impl Server {
    /// Handles a server that rejects its token during a session.
    pub(super) async fn signed_out(self: &Arc<Self>) -> McpError {
        let server = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let url = server.config.endpoint.url().unwrap_or_default();
            server.shared_servers.environment.tokens.has(&server.config.name, url)
        });
        let is_renewal = task.await.unwrap_or(false);
        self.disconnect().await;
        let error = McpError::SignIn { is_renewal };
        self.handle_failure(error.clone());
        error
    }

    /// Returns whether an earlier sign-in is no longer valid, if the server requires a sign-in;
    /// otherwise `None`.
    pub(crate) fn wants_sign_in(&self) -> Option<bool> {
        let state = self.state();
        match (&state.error, state.start_block) {
            (Some(McpError::SignIn { is_renewal }), StartBlock::Open) => Some(*is_renewal),
            _ => None,
        }
    }
}
