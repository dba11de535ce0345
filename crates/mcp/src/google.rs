//! Google Cloud credentials for servers that are configured to use them.

use std::ffi::OsString;

use parallax_config::mcp::AuthProvider;
use parallax_google_auth::{TokenPurpose, TokenSource};
use parallax_http::ClientOptions;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde_json::json;

use crate::error::McpError;
use crate::oauth::BoxedResult;

/// Provides tokens for the requests to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct GoogleTokenProvider(TokenSource);

impl GoogleTokenProvider {
    /// Creates the token source for a server with this provider; `None` if it does not use Google
    /// credentials. `variables` locate the credentials.
    pub(crate) fn from_provider(
        provider: &AuthProvider,
        scopes: &[String],
        variables: &[(OsString, OsString)],
        http: &ClientOptions,
    ) -> Option<Self> {
        let purpose = match provider {
            AuthProvider::Discovery => return None,
            AuthProvider::Google => TokenPurpose::Access(scopes.to_vec()),
            AuthProvider::Impersonation { audience, account } => {
                TokenPurpose::Identity { audience: audience.clone(), account: account.clone() }
            }
        };
        Some(Self(TokenSource::new(purpose, variables, http)))
    }

    /// Returns the current token.
    ///
    /// # Errors
    /// Returns an error if there are no credentials or no token can be obtained.
    pub(crate) async fn token(&self) -> Result<String, McpError> {
        self.0.token().await.map_err(|error| McpError::Start { reason: error.to_string() })
    }

    /// Returns the project to be billed, if one is configured.
    pub(crate) async fn quota_project(&self) -> Option<String> {
        self.0.quota_project().await
    }
}

/// The library requests the token before each request; nothing is stored.
impl CredentialStore for GoogleTokenProvider {
    fn load<'a, 'b>(&'a self) -> BoxedResult<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let failed = |reason: String| AuthError::InternalError(reason);
            let token = self.token().await.map_err(|error| failed(error.to_string()))?;
            let response = json!({"access_token": token, "token_type": "bearer"});
            let response =
                serde_json::from_value(response).map_err(|error| failed(error.to_string()))?;
            Ok(Some(StoredCredentials::new(String::new(), Some(response), Vec::new(), None)))
        })
    }

    fn save<'a, 'b>(&'a self, _credentials: StoredCredentials) -> BoxedResult<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(Ok(())))
    }

    fn clear<'a, 'b>(&'a self) -> BoxedResult<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(Ok(())))
    }
}
