//! Servers that require a sign-in, and reconnecting after one.

use crate::servers::Servers;

/// A server that requires a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingSignIn {
    /// The server name.
    pub server: String,
    /// Whether an earlier sign-in is no longer valid.
    pub is_renewal: bool,
    /// Whether to ask the user immediately (`oauth.enabled`).
    pub asks_immediately: bool,
}

impl Servers {
    /// Reconnects a server with the current sign-in.
    ///
    /// # Errors
    /// Same as [`Self::connect`].
    pub async fn reconnect(&self, name: &str) -> Result<(), String> {
        if let Some(server) = self.find(name) {
            server.disconnect().await;
            self.lock_reported().remove(name);
        }
        self.connect(name).await
    }

    /// Returns the servers that require a sign-in, each only once. The caller informs the user.
    pub fn sign_ins(&self) -> Vec<PendingSignIn> {
        let mut reported = self.lock_reported();
        let servers_requiring_sign_in = self.inner.servers.iter().filter_map(|server| {
            let is_renewal = server.wants_sign_in()?;
            let name = server.config.name.clone();
            let asks_immediately = server.config.oauth.enabled;
            reported.insert(name.clone()).then_some(PendingSignIn {
                server: name,
                is_renewal,
                asks_immediately,
            })
        });
        servers_requiring_sign_in.collect()
    }
}
