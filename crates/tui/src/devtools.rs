//! The session in a browser. The program has the server.

use parallax_protocol::BoxFuture;
use parallax_protocol::ids::SessionId;
use parallax_sdk::SessionConfig;

/// A link to the page of a session; it works once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevToolsLink {
    /// The address.
    pub address: String,
    /// Whether a browser was started with it.
    pub is_opened: bool,
}

/// Shows sessions in a browser.
pub trait DevToolsPages: Send + Sync {
    /// Starts the page of a session of this process if it does not run yet, and makes a link to
    /// it.
    ///
    /// # Errors
    /// Returns a message if no port can be used.
    fn link(
        &self,
        launch: SessionConfig,
        session: SessionId,
        opens_browser: bool,
    ) -> BoxFuture<'_, Result<DevToolsLink, String>>;
}
