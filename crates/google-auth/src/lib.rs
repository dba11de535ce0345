//! Application default credentials of Google Cloud: access tokens and identity tokens, fetched when
//! they are needed and replaced before they expire.
//!
//! Credentials come from the file in `GOOGLE_APPLICATION_CREDENTIALS`, otherwise from the file of
//! `gcloud auth application-default login`, otherwise from the machine's metadata server. The
//! formats are those of Google's client libraries.

mod credentials;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::{CredentialSource, TokenServices};
use parallax_http::reqwest::Client;
use parallax_http::{ClientOptions, Redirects};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

/// A token is replaced this long before it expires.
const EARLY: Duration = Duration::from_secs(300);
/// Timeout of one response of a token service.
const RESPONSE_LIMIT: Duration = Duration::from_secs(20);
/// The scope for all services of Google Cloud.
pub const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// A failure to obtain a token. The message contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GoogleAuthError(String);

/// Provides tokens for requests. Cheap to clone; all clones share one token.
#[derive(Clone)]
pub struct TokenSource {
    inner: Arc<TokenState>,
}

struct TokenState {
    http: ClientOptions,
    client: OnceCell<Client>,
    purpose: TokenPurpose,
    source: CredentialSource,
    /// Locked during a request, so that concurrent callers wait for it.
    token: Mutex<Option<AccessToken>>,
}

/// The purpose of a token.
#[derive(Debug, Clone)]
pub enum TokenPurpose {
    /// Access to services with these scopes.
    Access(Vec<String>),
    /// Proving the identity of a service account to an audience.
    Identity {
        /// The audience.
        audience: String,
        /// The account.
        account: String,
    },
}

/// A token and its expiry.
#[derive(Clone)]
pub(crate) struct AccessToken {
    text: String,
    expires: Instant,
}

impl AccessToken {
    fn with_lifetime(text: String, seconds: u64) -> Self {
        let expires = Instant::now().checked_add(Duration::from_secs(seconds.min(86_400)));
        Self { text, expires: expires.unwrap_or_else(Instant::now) }
    }

    fn is_fresh(&self) -> bool {
        self.expires.saturating_duration_since(Instant::now()) > EARLY
    }
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenSource").field("purpose", &self.inner.purpose).finish()
    }
}

impl TokenSource {
    /// Creates the token source for a purpose. `variables` locate the credentials; nothing is read
    /// yet.
    pub fn new(
        purpose: TokenPurpose,
        variables: &[(OsString, OsString)],
        http: &ClientOptions,
    ) -> Self {
        Self::with_services(purpose, variables, TokenServices::default(), http)
    }

    fn with_services(
        purpose: TokenPurpose,
        variables: &[(OsString, OsString)],
        services: TokenServices,
        http: &ClientOptions,
    ) -> Self {
        let source = CredentialSource::new(variables, services);
        // Requests contain secrets, so redirects are not followed.
        let http = ClientOptions { redirects: Redirects::None, ..http.clone() };
        let (client, token) = (OnceCell::new(), Mutex::default());
        Self { inner: Arc::new(TokenState { http, client, purpose, source, token }) }
    }

    /// Returns the current token, or a new one if it is about to expire.
    ///
    /// # Errors
    /// Returns an error if there are no credentials or the service issues no token for them.
    pub async fn token(&self) -> Result<String, GoogleAuthError> {
        let mut cached = self.inner.token.lock().await;
        if let Some(token) = cached.as_ref().filter(|token| token.is_fresh()) {
            return Ok(token.text.clone());
        }
        let fetched = self.fetch().await.map_err(|reason| {
            GoogleAuthError(format!(
                "cannot get a token for the Google Cloud credentials: {reason}"
            ))
        })?;
        let text = fetched.text.clone();
        *cached = Some(fetched);
        Ok(text)
    }

    /// Discards a token that a service rejected, unless it was already replaced.
    pub async fn reject(&self, token: &str) {
        let mut cached = self.inner.token.lock().await;
        if cached.as_ref().is_some_and(|cached| cached.text == token) {
            *cached = None;
        }
    }

    /// Returns the project to be billed: from `GOOGLE_CLOUD_QUOTA_PROJECT`, otherwise from the
    /// file.
    pub async fn quota_project(&self) -> Option<String> {
        match self.inner.purpose {
            TokenPurpose::Access(_) => self.inner.source.quota_project().await,
            TokenPurpose::Identity { .. } => None,
        }
    }

    /// Returns the project of the credentials: the one that the file names, otherwise the one to be
    /// billed. Without a file, the metadata server names it.
    pub async fn project(&self) -> Option<String> {
        let client = self.client().await.ok()?;
        self.inner.source.project(client).await
    }

    async fn client(&self) -> Result<&Client, String> {
        let build = || async {
            let options = self.inner.http.clone();
            tokio::task::spawn_blocking(move || parallax_http::client(&options))
                .await
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())
        };
        self.inner.client.get_or_try_init(build).await
    }

    async fn fetch(&self) -> Result<AccessToken, String> {
        let TokenState { purpose, source, .. } = &*self.inner;
        let client = self.client().await?;
        match purpose {
            TokenPurpose::Access(scopes) => source.token(client, scopes).await,
            TokenPurpose::Identity { audience, account } => {
                let source_token = source.token(client, &[CLOUD_PLATFORM.to_owned()]).await?;
                let url = source.services.identity_of(account);
                let body = json!({"audience": audience, "includeEmail": true});
                let request = client.post(url).bearer_auth(&source_token.text).json(&body);
                let response = credentials::response(request).await?;
                let token = text(&response, "token")?;
                let seconds = seconds_left(&token).unwrap_or(3_600);
                Ok(AccessToken::with_lifetime(token, seconds))
            }
        }
    }
}

/// Returns a required field of a response or file.
pub(crate) fn text(value: &Value, key: &str) -> Result<String, String> {
    let text = value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{key}` is missing"))
}

/// Returns the remaining lifetime of an identity token, from its own claims.
fn seconds_left(token: &str) -> Option<u64> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims.get("exp")?.as_u64()?.checked_sub(credentials::now())
}

#[cfg(test)]
mod tests;
