//! The credentials that identify the caller to a remote agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use parallax_config::agents::{DynamicValue, RemoteAuth};
use parallax_google_auth::{TokenPurpose, TokenSource};
use parallax_http::ClientOptions;
use parallax_http::reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use parallax_http::url::Url;
use tokio::sync::Mutex;

use crate::error::A2aError;

/// Time limit of a command that prints a secret.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// Maximum number of bytes that such a command prints.
const COMMAND_OUTPUT: u64 = 64 * 1024;
const GOOGLE_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Returns the value of an environment variable.
pub type VariableLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The credentials of one agent.
pub(crate) struct Credentials {
    pub(crate) auth: Option<RemoteAuth>,
    pub(crate) variables: VariableLookup,
    /// Where commands run.
    pub(crate) directory: PathBuf,
    google: Option<TokenSource>,
    /// The header, once it was determined.
    header: Mutex<Option<(HeaderName, HeaderValue)>>,
}

impl Credentials {
    pub(crate) fn new(
        auth: Option<RemoteAuth>,
        variables: VariableLookup,
        directory: PathBuf,
        google: &[(OsString, OsString)],
        http: &ClientOptions,
    ) -> Self {
        let google = match &auth {
            Some(RemoteAuth::Google { scopes }) => {
                let scopes = match scopes.is_empty() {
                    true => vec![GOOGLE_SCOPE.to_owned()],
                    false => scopes.clone(),
                };
                Some(TokenSource::new(TokenPurpose::Access(scopes), google, http))
            }
            _ => None,
        };
        Self { auth, variables, directory, google, header: Mutex::default() }
    }

    /// Returns the header for a request; `None` if none is sent.
    ///
    /// # Errors
    /// Returns an error if a variable is not set, a command fails, or there is no token.
    pub(crate) async fn header(
        &self,
        url: &Url,
    ) -> Result<Option<(HeaderName, HeaderValue)>, A2aError> {
        let Some(auth) = &self.auth else { return Ok(None) };
        if let Some(google) = &self.google {
            let host = url.host_str().unwrap_or_default();
            if !host.ends_with(".googleapis.com") {
                return Err(A2aError::Credentials(format!(
                    "`google-credentials` are only sent to `*.googleapis.com`, not to `{host}`; use \
                     `type: http` with `scheme: Bearer` and a `token` such as `!gcloud auth \
                     print-identity-token`"
                )));
            }
            let token =
                google.token().await.map_err(|error| A2aError::Credentials(error.to_string()))?;
            return Ok(Some((AUTHORIZATION, secret_header(&format!("Bearer {token}"))?)));
        }
        let mut cached = self.header.lock().await;
        if let Some(header) = &*cached {
            return Ok(Some(header.clone()));
        }
        let header = match auth {
            RemoteAuth::Google { .. } => return Ok(None),
            RemoteAuth::ApiKey { header, key } => {
                let name = HeaderName::from_bytes(header.as_bytes())
                    .map_err(|error| A2aError::Credentials(error.to_string()))?;
                (name, secret_header(&self.value(key).await?)?)
            }
            RemoteAuth::Basic { username, password } => {
                let pair =
                    format!("{}:{}", self.value(username).await?, self.value(password).await?);
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                (AUTHORIZATION, secret_header(&format!("Basic {pair}"))?)
            }
            RemoteAuth::Scheme { scheme, value } => {
                let value = self.value(value).await?;
                (AUTHORIZATION, secret_header(&format!("{scheme} {value}"))?)
            }
        };
        *cached = Some(header.clone());
        Ok(Some(header))
    }

    /// Discards what an agent rejected. Returns whether the next value may differ.
    pub(crate) async fn reject(&self, rejected: &HeaderValue) -> bool {
        if let Some(google) = &self.google {
            let text = rejected.to_str().unwrap_or_default();
            google.reject(text.strip_prefix("Bearer ").unwrap_or(text)).await;
            return true;
        }
        *self.header.lock().await = None;
        let is_command = |value: &DynamicValue| matches!(value, DynamicValue::Command(_));
        match &self.auth {
            Some(RemoteAuth::ApiKey { key, .. }) => is_command(key),
            Some(RemoteAuth::Scheme { value, .. }) => is_command(value),
            Some(RemoteAuth::Basic { username, password }) => {
                is_command(username) || is_command(password)
            }
            Some(RemoteAuth::Google { .. }) | None => false,
        }
    }

    async fn value(&self, value: &DynamicValue) -> Result<String, A2aError> {
        match value {
            DynamicValue::Literal(secret) => Ok(secret.expose().to_owned()),
            DynamicValue::Variable(name) => {
                let found = (self.variables)(name).filter(|value| !value.trim().is_empty());
                found.map(|value| value.trim().to_owned()).ok_or_else(|| {
                    A2aError::Credentials(format!("the environment variable `{name}` is not set"))
                })
            }
            DynamicValue::Command(command) => {
                let (line, directory) = (command.clone(), self.directory.clone());
                let running = tokio::task::spawn_blocking(move || {
                    let arguments = ["-c", line.as_str()];
                    let (max_bytes, time) = (COMMAND_OUTPUT, COMMAND_TIME);
                    parallax_exec::program::output(
                        "sh",
                        arguments,
                        &directory,
                        &[],
                        max_bytes,
                        time,
                    )
                });
                let output = running.await.ok().flatten().and_then(|it| String::from_utf8(it).ok());
                let value = output.as_deref().map(str::trim).filter(|value| !value.is_empty());
                value.map(str::to_owned).ok_or_else(|| {
                    A2aError::Credentials(format!(
                        "the command `{command}` failed, printed nothing, or ran for more than {} s",
                        COMMAND_TIME.as_secs()
                    ))
                })
            }
        }
    }
}

fn secret_header(text: &str) -> Result<HeaderValue, A2aError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        A2aError::Credentials(
            "the secret contains characters that are invalid in an HTTP header".into(),
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}
