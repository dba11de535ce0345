//! The token for a server's requests, renewed when it is old or refused.

use std::sync::Arc;

use rmcp::transport::auth::AuthorizationManager;
use tokio::sync::Mutex;

use crate::oauth::store::{ServerTokens, TokenFiles};

/// Whether an address is of this machine or a private network.
fn is_local(url: &str) -> bool {
    let host = url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| {
        let host = host.trim_matches(['[', ']']).to_owned();
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse().is_ok_and(|address: std::net::IpAddr| match address {
                std::net::IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
                std::net::IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
            })
    })
}

/// A manager for the server at that address. Its user chose a server on this
/// machine: then what it names may be on this machine too.
pub(crate) async fn manager(tokens: ServerTokens) -> Result<AuthorizationManager, String> {
    let url = tokens.url.clone();
    let manager = match is_local(&url) {
        true => AuthorizationManager::new_allowing_private_addresses(url.as_str()).await,
        false => AuthorizationManager::new(url.as_str()).await,
    };
    let mut manager = manager.map_err(|error| error.to_string())?;
    manager.set_allow_missing_issuer(true);
    manager.set_credential_store(tokens);
    Ok(manager)
}

/// Gives tokens for requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Bearer {
    manager: Arc<Mutex<AuthorizationManager>>,
}

/// A manager with the tokens on disk; `None` when there are none for the server.
pub(crate) async fn stored(
    files: &TokenFiles,
    server: &str,
    url: &str,
) -> Option<AuthorizationManager> {
    if !files.has(server, url) {
        return None;
    }
    let tokens =
        ServerTokens { files: files.clone(), server: server.to_owned(), url: url.to_owned() };
    let mut manager = manager(tokens).await.ok()?;
    match manager.initialize_from_store().await {
        Ok(_) => Some(manager),
        Err(error) => {
            tracing::debug!(%error, server, "the tokens of an MCP server cannot be used");
            None
        }
    }
}

impl Bearer {
    pub(crate) fn new(manager: AuthorizationManager) -> Self {
        Self { manager: Arc::new(Mutex::new(manager)) }
    }

    /// The token as it is now; a new one when that is old.
    pub(crate) async fn token(&self) -> Option<String> {
        self.manager.lock().await.get_access_token().await.ok()
    }

    /// Fetches a new one after the server refused the last. `false`: a sign-in
    /// is needed.
    pub(crate) async fn renew(&self) -> bool {
        self.manager.lock().await.refresh_token().await.is_ok()
    }
}
