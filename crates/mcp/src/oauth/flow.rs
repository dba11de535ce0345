//! The sign-in flow in the browser.

use parallax_config::mcp::{McpServer, OAuthSettings};
use parallax_http::ClientOptions;
use parallax_protocol::BoxFuture;
use parallax_protocol::secret::Secret;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataResolution,
    AuthorizationRequest, AuthorizationSession,
};

use crate::oauth::bearer::manager;
use crate::oauth::callback::RedirectListener;
use crate::oauth::challenge::{UnauthenticatedResponse, probe};
use crate::oauth::store::{ServerTokens, TokenFiles};

/// The client name used for registration.
const NAME: &str = "Parallax";

const NO_REGISTRATION: &str = "its service does not support client registration: register a client \
    there, and set `oauth.clientId` (and `oauth.clientSecret`) of the server";

/// The part of a sign-in that the front end performs.
pub trait SignInUi: Send + Sync {
    /// Shows the URL, and opens it in a browser if possible.
    fn show(&self, address: &str);
    /// Returns the redirect URL that the user pasted; never resolves if pasting is unsupported.
    fn wait_for_pasted_url(&self) -> BoxFuture<'static, Option<String>>;
}

/// Signs in to a server and saves the tokens.
///
/// # Errors
/// Returns a message for the user if the sign-in failed.
pub async fn sign_in(
    server: &McpServer,
    files: &TokenFiles,
    port: Option<u16>,
    http: &ClientOptions,
    ui: &dyn SignInUi,
) -> Result<(), String> {
    let url = server.endpoint.url().ok_or("only servers with a URL support sign-in")?;
    let settings = &server.oauth;
    let mut manager = manager(url, http).await.map_err(|error| error.to_string())?;
    let metadata = metadata(&manager, url, settings, http).await?;
    let mut tokens = ServerTokens::new(files, &server.name, url);
    tokens.token_url = Some(metadata.token_endpoint.clone());
    let registers = metadata.registration_endpoint.is_some();
    manager.set_metadata(metadata);
    let callback = RedirectListener::listen(settings.redirect_uri.as_deref(), port)
        .await
        .map_err(|error| format!("failed to open a port for the redirect: {error}"))?;
    let mut request = AuthorizationRequest::new(callback.redirect()).with_client_name(NAME);
    let scopes = match settings.scopes.is_empty() {
        true => manager.select_initial_scopes(&[]).await,
        false => settings.scopes.clone(),
    };
    let (id, secret) = match &settings.client_id {
        Some(id) => (id.clone(), settings.client_secret.clone()),
        None if !registers => return Err(NO_REGISTRATION.to_owned()),
        None => {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let client = manager.register_client(NAME, callback.redirect(), &scopes).await;
            let client = client.map_err(|error| format!("client registration failed: {error}"))?;
            // The library does not store the client secret, but it is needed to refresh tokens.
            let secret = client.client_secret.map(Secret::new);
            tokens.client_secret.clone_from(&secret);
            (client.client_id, secret)
        }
    };
    manager.set_credential_store(tokens);
    request = request.with_scopes(scopes).with_preregistered_client(id);
    if let Some(secret) = &secret {
        request = request.with_client_secret(secret.expose());
    }
    let session = AuthorizationSession::new(manager, request)
        .await
        .map_err(|(_, error)| format!("the authorization server cannot be used: {error}"))?;
    let mut address = url::Url::parse(session.get_authorization_url())
        .map_err(|error| format!("the authorization server has no address: {error}"))?;
    if !matches!(address.scheme(), "https" | "http") {
        return Err(
            "the address of the authorization server is not an http or https URL".to_owned()
        );
    }
    if !settings.audiences.is_empty() {
        address.query_pairs_mut().append_pair("audience", &settings.audiences.join(" "));
    }
    let state = address.query_pairs().find(|(name, _)| name == "state");
    let state = state.map(|(_, value)| value.into_owned());
    ui.show(address.as_str());
    let back = tokio::select! {
        back = callback.wait(state.as_deref()) => back,
        Some(pasted) = ui.wait_for_pasted_url() => Some(pasted),
    };
    let back = back.ok_or("the sign-in timed out after five minutes")?;
    if let Some(reason) = rejection_reason(back.trim()) {
        return Err(format!("the sign-in was rejected: {reason}"));
    }
    session
        .handle_callback_url(back.trim())
        .await
        .map_err(|error| format!("the sign-in failed: {error}"))?;
    Ok(())
}

/// Returns the error from the service if the redirect contains no code.
fn rejection_reason(back: &str) -> Option<String> {
    let back = url::Url::parse(back).ok()?;
    let parameter = |name: &str| {
        let mut pairs = back.query_pairs().filter(|(key, _)| key == name);
        pairs.next().map(|(_, value)| value.chars().take(500).collect::<String>())
    };
    if parameter("code").is_some() {
        return None;
    }
    let error = parameter("error")?;
    Some(match parameter("error_description").filter(|text| !text.trim().is_empty()) {
        Some(text) => format!("{text} ({error})"),
        None => error,
    })
}

/// Discovers the authorization server. The library sends a request to the server and reads the
/// response to its end, so a server that opens a stream is handled differently.
async fn discover_at(
    manager: &AuthorizationManager,
    url: &str,
    http: &ClientOptions,
) -> Result<AuthorizationMetadataResolution, AuthError> {
    match probe(url, http).await {
        UnauthenticatedResponse::Refusal(challenge) => {
            manager.resolve_metadata_from_challenge(Some(&challenge)).await
        }
        UnauthenticatedResponse::Stream { root } => {
            self::manager(&root, http).await?.resolve_metadata().await
        }
        UnauthenticatedResponse::Other => manager.resolve_metadata().await,
    }
}

/// Returns the authorization metadata: from the settings, otherwise from the server or the issuer
/// in the settings.
async fn metadata(
    manager: &AuthorizationManager,
    url: &str,
    settings: &OAuthSettings,
    http: &ClientOptions,
) -> Result<AuthorizationMetadata, String> {
    let mut metadata = match (&settings.authorization_url, &settings.token_url) {
        (Some(_), Some(_)) => AuthorizationMetadata::default(),
        _ => {
            let failed = |error| format!("the authorization server was not found: {error}");
            let found = match &settings.issuer {
                Some(issuer) => {
                    let manager = self::manager(issuer, http).await.map_err(failed)?;
                    manager.resolve_metadata().await
                }
                None => discover_at(manager, url, http).await,
            };
            found.map_err(failed)?.metadata
        }
    };
    let known = |there: &mut String, set: &Option<String>| {
        if let Some(set) = set {
            there.clone_from(set);
        }
    };
    known(&mut metadata.authorization_endpoint, &settings.authorization_url);
    known(&mut metadata.token_endpoint, &settings.token_url);
    if settings.registration_url.is_some() {
        metadata.registration_endpoint.clone_from(&settings.registration_url);
    }
    if settings.issuer.is_some() {
        metadata.issuer.clone_from(&settings.issuer);
    }
    Ok(metadata)
}
