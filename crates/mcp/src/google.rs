//! Tokens of Google Cloud for servers that want its credentials: fetched when
//! they are needed, kept until five minutes before their end.

mod credentials;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parallax_config::mcp::AuthProvider;
use parallax_http::reqwest::Client;
use parallax_http::{ClientOptions, Redirects};
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::error::McpError;
use crate::oauth::Later;
use credentials::{Places, Source};

/// A token is replaced so long before its end.
const EARLY: Duration = Duration::from_secs(300);
/// How long one answer of the services for tokens may take.
const ANSWER: Duration = Duration::from_secs(20);
/// The scope of what asks for tokens of other accounts.
const PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Gives tokens for the requests to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Google {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    wanted: Wanted,
    source: Source,
    kept: Mutex<Option<Token>>,
}

/// What the server is to be shown.
#[derive(Debug)]
enum Wanted {
    /// A token for services, with these scopes.
    Access(Vec<String>),
    /// Who one is: a token of that account, for that audience.
    Identity { audience: String, account: String },
}

/// A token, and when it ends.
#[derive(Clone)]
pub(super) struct Token {
    text: String,
    ends: Instant,
}

impl Token {
    fn lasting(text: String, seconds: u64) -> Self {
        // A clock that ends before that has other troubles.
        let ends = Instant::now().checked_add(Duration::from_secs(seconds.min(86_400)));
        Self { text, ends: ends.unwrap_or_else(Instant::now) }
    }

    fn is_fresh(&self) -> bool {
        self.ends.saturating_duration_since(Instant::now()) > EARLY
    }
}

impl Google {
    /// For a server with that provider; `None` when it wants none of these
    /// credentials. `variables` say where they are.
    pub(crate) fn of(
        provider: &AuthProvider,
        scopes: &[String],
        variables: &[(OsString, OsString)],
        http: &ClientOptions,
    ) -> Result<Option<Self>, McpError> {
        let wanted = match provider {
            AuthProvider::Discovery => return Ok(None),
            AuthProvider::Google => Wanted::Access(scopes.to_vec()),
            AuthProvider::Impersonation { audience, account } => {
                Wanted::Identity { audience: audience.clone(), account: account.clone() }
            }
        };
        Self::new(wanted, Source::of(variables, Places::default()), http).map(Some)
    }

    fn new(wanted: Wanted, source: Source, http: &ClientOptions) -> Result<Self, McpError> {
        // Secrets are sent: nobody sends them elsewhere.
        let options = ClientOptions { redirects: Redirects::None, ..http.clone() };
        let client = parallax_http::client(&options);
        let client = client.map_err(|error| McpError::Start { why: error.to_string() })?;
        Ok(Self { inner: Arc::new(Inner { client, wanted, source, kept: Mutex::default() }) })
    }

    /// The token as it is now; a new one when that is about to end.
    ///
    /// # Errors
    /// There are no credentials, or none are given for them.
    pub(crate) async fn token(&self) -> Result<String, McpError> {
        let mut kept = self.inner.kept.lock().await;
        if let Some(token) = kept.as_ref().filter(|token| token.is_fresh()) {
            return Ok(token.text.clone());
        }
        let fetched = self.fetch().await.map_err(|why| McpError::Start {
            why: format!("its credentials of Google Cloud cannot be had: {why}"),
        })?;
        let text = fetched.text.clone();
        *kept = Some(fetched);
        Ok(text)
    }

    /// The project that pays, where one is named.
    pub(crate) async fn quota_project(&self) -> Option<String> {
        match self.inner.wanted {
            Wanted::Access(_) => self.inner.source.quota_project().await,
            Wanted::Identity { .. } => None,
        }
    }

    async fn fetch(&self) -> Result<Token, String> {
        let Inner { client, wanted, source, .. } = &*self.inner;
        match wanted {
            Wanted::Access(scopes) => source.token(client, scopes).await,
            Wanted::Identity { audience, account } => {
                let acting = source.token(client, &[PLATFORM.to_owned()]).await?;
                let url = source.places.identity_of(account);
                let body = json!({"audience": audience, "includeEmail": true});
                let request = client.post(url).bearer_auth(&acting.text).json(&body);
                let answer = credentials::answer(request).await?;
                let token = text(&answer, "token")?;
                let seconds = seconds_left(&token).unwrap_or(3_600);
                Ok(Token::lasting(token, seconds))
            }
        }
    }
}

/// The library asks for the token before each request; nothing is stored.
impl CredentialStore for Google {
    fn load<'a, 'b>(&'a self) -> Later<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let failed = |why: String| AuthError::InternalError(why);
            let token = self.token().await.map_err(|error| failed(error.to_string()))?;
            let response = json!({"access_token": token, "token_type": "bearer"});
            let response =
                serde_json::from_value(response).map_err(|error| failed(error.to_string()))?;
            Ok(Some(StoredCredentials::new(String::new(), Some(response), Vec::new(), None)))
        })
    }

    fn save<'a, 'b>(&'a self, _credentials: StoredCredentials) -> Later<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(Ok(())))
    }

    fn clear<'a, 'b>(&'a self) -> Later<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn text(answer: &Value, key: &str) -> Result<String, String> {
    let text = answer.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("the answer has no `{key}`"))
}

/// How long an identity token lasts, as it says itself.
fn seconds_left(token: &str) -> Option<u64> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims.get("exp")?.as_u64()?.checked_sub(credentials::now())
}

#[cfg(test)]
mod tests;
