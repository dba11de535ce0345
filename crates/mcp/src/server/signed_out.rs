//! A server that wants a sign-in, or another one.

use std::sync::Arc;

use parallax_config::mcp::Gate;

use crate::error::McpError;
use crate::server::Server;

impl Server {
    /// It does not know us any more, in the middle of a session.
    pub(super) async fn signed_out(self: &Arc<Self>) -> McpError {
        let server = Arc::clone(self);
        let looking = tokio::task::spawn_blocking(move || {
            let url = server.config.endpoint.url().unwrap_or_default();
            server.shared.around.tokens.has(&server.config.name, url)
        });
        let again = looking.await.unwrap_or(false);
        self.disconnect().await;
        let error = McpError::SignIn { again };
        self.failed(error.clone());
        error
    }

    /// Whether it wants a sign-in, and whether there was one; `None`: neither.
    pub(crate) fn wants_sign_in(&self) -> Option<bool> {
        let state = self.state();
        match (&state.error, state.gate) {
            (Some(McpError::SignIn { again }), Gate::Open) => Some(*again),
            _ => None,
        }
    }
}
