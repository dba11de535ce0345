//! Access tokens for the requests to a server, renewed when they expire or are rejected.

use std::sync::Arc;
use std::time::Duration;

use parallax_config::mcp::{McpServer, is_local_url};
use parallax_http::reqwest::RequestBuilder;
use parallax_http::{ClientOptions, GuardedClient, Redirects, guarded_client, is_private_host};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig,
};
use tokio::sync::Mutex;

use crate::oauth::exchange::NoRedirectClient;
use crate::oauth::store::{RefreshInfo, ServerTokens, TokenFiles};

/// Timeout of a request to an authorization server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Creates an authorization manager for the server at `url`. If the user configured a server on
/// this machine or in a private network, its metadata may refer to private addresses too; metadata
/// of a public server must refer to public addresses.
pub(crate) async fn manager(
    url: &str,
    http: &ClientOptions,
) -> Result<AuthorizationManager, AuthError> {
    let address = url::Url::parse(url).ok();
    let host = address.as_ref().and_then(|url| url.host_str().map(str::to_owned));
    let is_private = match &host {
        Some(host) => is_private_host(host).await,
        None => false,
    };
    let is_here = address.is_some_and(|url| is_local_url(&url));
    // The library follows and checks redirects of metadata itself.
    let timeout = Some(TIMEOUT);
    let options = ClientOptions { redirects: Redirects::None, timeout, ..http.clone() };
    let client = match is_private {
        true => parallax_http::client(&options),
        false => guarded_client(&options, &[]).map(GuardedClient::into_inner),
    };
    // Created before the library creates clients of its own, which need the TLS provider that
    // `parallax_http` installs.
    let client = client.map_err(|error| AuthError::InternalError(error.to_string()))?;
    let mut manager = match is_private && !is_here {
        // The library allows metadata to refer to private addresses only with its own HTTP client.
        true => {
            let mut manager = AuthorizationManager::new_allowing_private_addresses(url).await?;
            manager.with_client(client)?;
            manager
        }
        false => {
            let exchange = Arc::new(NoRedirectClient(client));
            AuthorizationManager::new_with_oauth_http_client(url, exchange).await?
        }
    };
    manager.set_allow_missing_issuer(true);
    Ok(manager)
}

/// Provides tokens for requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct BearerTokens {
    manager: Arc<Mutex<AuthorizationManager>>,
    /// The URL parameter that carries the token instead of a header.
    parameter: Option<Arc<str>>,
}

/// Creates a manager with the stored tokens; `None` if there are none for the server.
pub(crate) async fn stored_manager(
    files: &TokenFiles,
    server: &McpServer,
    url: &str,
    http: &ClientOptions,
) -> Option<AuthorizationManager> {
    let tokens = ServerTokens::new(files, &server.name, url);
    let known = tokens.clone();
    let found = tokio::task::spawn_blocking(move || known.refresh_info()).await.ok()??;
    match prepare_manager(tokens, server, found, http).await {
        Ok(manager) => manager,
        Err(error) => {
            let server = &server.name;
            tracing::debug!(%error, server, "failed to use the stored tokens of an MCP server");
            None
        }
    }
}

/// Prepares the manager. It requests the token endpoint from the server only if it is unknown, and
/// then saves it.
async fn prepare_manager(
    tokens: ServerTokens,
    server: &McpServer,
    known: RefreshInfo,
    http: &ClientOptions,
) -> Result<Option<AuthorizationManager>, AuthError> {
    let settings = &server.oauth;
    let mut manager = manager(&tokens.url, http).await?;
    let mut tokens = tokens;
    let tokens_at = tokens.url.clone();
    // Only the authorization server's metadata states how the secret must be sent.
    let known_url = known.token_url.filter(|_| known.client_secret.is_none());
    let metadata = match settings.token_url.clone().or(known_url) {
        Some(token_url) => {
            let mut metadata = AuthorizationMetadata::default();
            let authorize = settings.authorization_url.clone();
            metadata.authorization_endpoint = authorize.unwrap_or_else(|| token_url.clone());
            metadata.issuer = known.issuer;
            metadata.token_endpoint = token_url;
            metadata
        }
        None => {
            let found = manager.resolve_metadata().await?;
            if found.source.is_discovered() {
                let (keeping, url) = (tokens.clone(), found.metadata.token_endpoint.clone());
                drop(tokio::task::spawn_blocking(move || keeping.note_token_url(&url)).await);
            }
            found.metadata
        }
    };
    tokens.token_url = Some(metadata.token_endpoint.clone());
    tokens.client_secret.clone_from(&known.client_secret);
    manager.set_metadata(metadata);
    manager.set_credential_store(tokens);
    if !manager.initialize_from_store().await? {
        return Ok(None);
    }
    let configured_secret = match (&settings.client_id, &settings.client_secret) {
        (Some(id), Some(secret)) if known.client_id.as_ref() == Some(id) => Some(secret.clone()),
        _ => None,
    };
    if let (Some(id), Some(secret)) = (known.client_id, configured_secret.or(known.client_secret)) {
        // The library stores the client id but not its secret. The redirect URI is not used when a
        // token is refreshed.
        let config = OAuthClientConfig::new(id, tokens_at).with_client_secret(secret.expose());
        manager.configure_client(config)?;
    }
    Ok(Some(manager))
}

impl BearerTokens {
    pub(crate) fn new(manager: AuthorizationManager, parameter: Option<String>) -> Self {
        Self { manager: Arc::new(Mutex::new(manager)), parameter: parameter.map(Arc::from) }
    }

    /// Builds a request with the current token, which is refreshed first if it has expired.
    pub(crate) async fn request(
        &self,
        url: &url::Url,
        build: impl FnOnce(url::Url) -> RequestBuilder,
    ) -> RequestBuilder {
        let token = self.manager.lock().await.get_access_token().await.ok();
        match (token, &self.parameter) {
            (None, _) => build(url.clone()),
            (Some(token), None) => build(url.clone()).bearer_auth(token),
            (Some(token), Some(parameter)) => {
                let mut url = url.clone();
                url.query_pairs_mut().append_pair(parameter, &token);
                build(url)
            }
        }
    }

    /// Refreshes the token after the server rejected it. Returns `false` if a sign-in is required.
    pub(crate) async fn renew(&self) -> bool {
        self.manager.lock().await.refresh_token().await.is_ok()
    }
}
