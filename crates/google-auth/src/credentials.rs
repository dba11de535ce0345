//! Finds the credentials and exchanges them for a token.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parallax_http::reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use parallax_http::reqwest::{Client, Request, RequestBuilder};
use parallax_http::{Failure, sign_rs256};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use crate::{AccessToken, CLOUD_PLATFORM, RESPONSE_LIMIT, text};

/// Maximum size of a credentials file, in bytes.
const LIMIT: u64 = 1024 * 1024;
/// Default lifetime of the token of an impersonated account, in seconds.
const LIFETIME: u64 = 3_600;
/// Timeout of the metadata server: short, because most machines have none.
const MACHINE: Duration = Duration::from_secs(3);
/// Maximum size of a response, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// The waits before a service that is unavailable is asked again.
const WAITS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

/// The services that issue tokens.
#[derive(Debug, Clone)]
pub(crate) struct TokenServices {
    /// Exchanges refresh tokens and assertions.
    pub(crate) token: String,
    /// Exchanges tokens of other identity providers.
    pub(crate) sts: String,
    /// Issues tokens for other accounts.
    pub(crate) iam: String,
}

impl Default for TokenServices {
    fn default() -> Self {
        Self {
            token: "https://oauth2.googleapis.com/token".to_owned(),
            sts: "https://sts.googleapis.com/v1/token".to_owned(),
            iam: "https://iamcredentials.googleapis.com".to_owned(),
        }
    }
}

impl TokenServices {
    /// Returns the URL for identity tokens of an account.
    pub(crate) fn identity_of(&self, account: &str) -> String {
        let account: String = url::form_urlencoded::byte_serialize(account.as_bytes()).collect();
        format!("{}/v1/projects/-/serviceAccounts/{account}:generateIdToken", self.iam)
    }
}

/// The location of the credentials.
#[derive(Debug)]
pub(crate) struct CredentialSource {
    /// The file that a variable names; it must exist.
    named: Option<PathBuf>,
    /// The default file of `gcloud auth application-default login`.
    default_file: Option<PathBuf>,
    /// The metadata server of the machine, `host[:port]`.
    machine: String,
    /// The project to be billed.
    quota: Option<String>,
    pub(crate) services: TokenServices,
}

impl CredentialSource {
    pub(crate) fn new(variables: &[(OsString, OsString)], services: TokenServices) -> Self {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let directory = variable("CLOUDSDK_CONFIG").map(PathBuf::from).or_else(|| {
            if cfg!(windows) {
                return Some(PathBuf::from(variable("APPDATA")?).join("gcloud"));
            }
            Some(PathBuf::from(variable("HOME")?).join(".config/gcloud"))
        });
        Self {
            named: variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
            default_file: directory
                .map(|directory| directory.join("application_default_credentials.json")),
            machine: text("GCE_METADATA_HOST")
                .unwrap_or_else(|| "metadata.google.internal".to_owned()),
            quota: text("GOOGLE_CLOUD_QUOTA_PROJECT"),
            services,
        }
    }

    /// Returns the project to be billed: from the variable, otherwise from the file.
    pub(crate) async fn quota_project(&self) -> Option<String> {
        if self.quota.is_some() {
            return self.quota.clone();
        }
        let file = self.file().await.ok()??;
        text(&file, "quota_project_id").ok()
    }

    /// Returns the project of the credentials.
    pub(crate) async fn project(&self, client: &Client) -> Option<String> {
        let Some(file) = self.file().await.ok()? else {
            let path = "computeMetadata/v1/project/project-id";
            let url = Url::parse(&format!("http://{}/{path}", self.machine)).ok()?;
            let request = client.get(url).header("Metadata-Flavor", "Google").timeout(MACHINE);
            let project = response_text(request).await.ok()?;
            return Some(project.trim().to_owned()).filter(|project| !project.is_empty());
        };
        match text(&file, "project_id") {
            Ok(project) => Some(project),
            Err(_) => self.quota_project().await,
        }
    }

    /// Returns the credentials in the file; `None` if there is no file.
    async fn file(&self) -> Result<Option<Value>, String> {
        let (named, path) = match (&self.named, &self.default_file) {
            (Some(path), _) => (true, path.clone()),
            (None, Some(path)) => (false, path.clone()),
            (None, None) => return Ok(None),
        };
        let read_task = tokio::task::spawn_blocking(move || {
            let display_path = path.display();
            match read_limited(&path) {
                Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| {
                    format!("the file `{display_path}` is not valid JSON: {error}")
                }),
                Err(error) if error.kind() == ErrorKind::NotFound && !named => Ok(None),
                Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
                    "the file `{display_path}` in `GOOGLE_APPLICATION_CREDENTIALS` does not exist"
                )),
                Err(error) => Err(format!("the file `{display_path}` cannot be read: {error}")),
            }
        });
        read_task.await.map_err(|error| error.to_string())?
    }

    /// Returns a token with these scopes.
    pub(crate) async fn token(
        &self,
        client: &Client,
        scopes: &[String],
    ) -> Result<AccessToken, String> {
        match self.file().await? {
            Some(file) => self.token_from_file(client, &file, scopes).await,
            None => self.token_from_metadata_server(client, scopes).await,
        }
    }

    async fn token_from_file(
        &self,
        client: &Client,
        file: &Value,
        scopes: &[String],
    ) -> Result<AccessToken, String> {
        if text(file, "type").is_ok_and(|kind| kind == "impersonated_service_account") {
            let inner = file.get("source_credentials").unwrap_or(&Value::Null);
            let source_token = self.plain(client, inner, &[CLOUD_PLATFORM.to_owned()]).await?;
            return self.impersonate(client, file, &source_token, scopes).await;
        }
        self.plain(client, file, scopes).await
    }

    /// Returns the token service that a file names, otherwise the default one.
    fn token_uri(&self, file: &Value) -> Result<String, String> {
        match file.get("token_uri") {
            Some(_) => text(file, "token_uri"),
            None => Ok(self.services.token.clone()),
        }
    }

    /// Returns a token for the subject token of another identity provider (workload identity).
    async fn external(
        &self,
        client: &Client,
        file: &Value,
        scopes: &[String],
    ) -> Result<AccessToken, String> {
        let impersonates = file.get("service_account_impersonation_url").is_some();
        let subject = subject_token(client, file).await?;
        // The token of the impersonated account gets the requested scopes; this one only requests
        // it.
        let scope = if impersonates { CLOUD_PLATFORM.to_owned() } else { scopes.join(" ") };
        let mut form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange".to_owned()),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token".to_owned()),
            ("audience", text(file, "audience")?),
            ("scope", scope),
            ("subject_token_type", text(file, "subject_token_type")?),
            ("subject_token", subject),
        ];
        let to = match file.get("token_url") {
            Some(_) => text(file, "token_url")?,
            None => self.services.sts.clone(),
        };
        let client_login = text(file, "client_id").ok().zip(text(file, "client_secret").ok());
        // A user of a workforce pool belongs to no project: the request names the one that pays.
        if let (None, Ok(project)) = (&client_login, text(file, "workforce_pool_user_project")) {
            form.push(("options", json!({"userProject": project}).to_string()));
        }
        let mut request = client
            .post(safe(&to)?)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form_body(form));
        if let Some((id, secret)) = &client_login {
            request = request.basic_auth(id, Some(secret));
        }
        let token = parse_token(&response(request).await?)?;
        if !impersonates {
            return Ok(token);
        }
        self.impersonate(client, file, &token, scopes).await
    }

    /// Returns a token of the service account that a file names, requested with another token.
    async fn impersonate(
        &self,
        client: &Client,
        file: &Value,
        source_token: &AccessToken,
        scopes: &[String],
    ) -> Result<AccessToken, String> {
        let url = safe(&text(file, "service_account_impersonation_url")?)?;
        let seconds = file
            .pointer("/service_account_impersonation/token_lifetime_seconds")
            .and_then(Value::as_u64)
            .unwrap_or(LIFETIME);
        let body = json!({"scope": scopes, "lifetime": format!("{seconds}s"),
            "delegates": file.get("delegates").cloned().unwrap_or_else(|| json!([]))});
        let request = client.post(url).bearer_auth(&source_token.text).json(&body);
        let response = response(request).await?;
        Ok(AccessToken::with_lifetime(text(&response, "accessToken")?, seconds))
    }

    /// Returns a token for the credentials of a user or a service account.
    async fn plain(
        &self,
        client: &Client,
        file: &Value,
        scopes: &[String],
    ) -> Result<AccessToken, String> {
        let form = match text(file, "type").unwrap_or_default().as_str() {
            "authorized_user" => {
                let mut form = vec![("grant_type", "refresh_token".to_owned())];
                for key in ["client_id", "client_secret", "refresh_token"] {
                    form.push((key, text(file, key)?));
                }
                (self.token_uri(file)?, form)
            }
            "external_account" => return self.external(client, file, scopes).await,
            "service_account" => {
                let to = self.token_uri(file)?;
                let assertion = assertion(file, scopes, &to)?;
                let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned();
                (to, vec![("grant_type", kind), ("assertion", assertion)])
            }
            "" => return Err("the credentials have no `type`".to_owned()),
            other => {
                let other: String = other.chars().take(60).collect();
                return Err(format!(
                    "credentials of the type `{other}` are not supported: use `authorized_user`, \
                     `service_account`, `external_account`, or `impersonated_service_account`"
                ));
            }
        };
        let (to, form) = form;
        let request = client
            .post(safe(&to)?)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form_body(form));
        parse_token(&response(request).await?)
    }

    async fn token_from_metadata_server(
        &self,
        client: &Client,
        scopes: &[String],
    ) -> Result<AccessToken, String> {
        let path = "computeMetadata/v1/instance/service-accounts/default/token";
        let mut url = Url::parse(&format!("http://{}/{path}", self.machine))
            .map_err(|_| "`GCE_METADATA_HOST` is not a valid host".to_owned())?;
        url.query_pairs_mut().append_pair("scopes", &scopes.join(","));
        let request = client.get(url).header("Metadata-Flavor", "Google").timeout(MACHINE);
        let answered = response(request).await.map_err(|reason| {
            format!(
                "no credentials found: run `gcloud auth application-default login`, or set \
                 `GOOGLE_APPLICATION_CREDENTIALS` to a file (the metadata server: {reason})"
            )
        })?;
        parse_token(&answered)
    }
}

/// Reads a file up to the limit.
fn read_limited(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(LIMIT).read_to_string(&mut text)?;
    Ok(text)
}

/// Parses a URL to which secrets may be sent.
fn safe(url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|_| "the credentials contain an invalid URL".to_owned())?;
    let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback => Ok(url),
        _ => Err("the credentials contain a URL without `https`".to_owned()),
    }
}

fn form_body(form: Vec<(&str, String)>) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish()
}

/// Returns the token of the other identity provider, from a file or a URL.
async fn subject_token(client: &Client, file: &Value) -> Result<String, String> {
    let source = file.get("credential_source").ok_or("`credential_source` is missing")?;
    let body = if let Ok(path) = text(source, "file") {
        let path = PathBuf::from(path);
        let display_path = path.display().to_string();
        tokio::task::spawn_blocking(move || read_limited(&path))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| {
                format!("failed to read the file `{display_path}` of `credential_source`: {error}")
            })?
    } else if let Ok(url) = text(source, "url") {
        let mut request = client.get(safe(&url)?);
        let headers = source.get("headers").and_then(Value::as_object);
        for (name, value) in headers.into_iter().flatten() {
            request = request.header(name, value.as_str().unwrap_or_default());
        }
        response_text(request).await?
    } else {
        return Err("only `file` and `url` are supported in `credential_source`".to_owned());
    };
    let format = source.get("format");
    let is_json = format.and_then(|it| it.get("type")).is_some_and(|kind| kind == "json");
    if !is_json {
        return Ok(body.trim().to_owned());
    }
    let field = format.and_then(|it| it.get("subject_token_field_name")).and_then(Value::as_str);
    let value: Value = serde_json::from_str(&body)
        .map_err(|_| "the subject token of `credential_source` is not valid JSON".to_owned())?;
    text(&value, field.unwrap_or("access_token"))
}

/// Builds the signed assertion of a service account.
fn assertion(file: &Value, scopes: &[String], to: &str) -> Result<String, String> {
    let started_at = now();
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": file.get("private_key_id")});
    let claims = json!({"iss": text(file, "client_email")?, "scope": scopes.join(" "),
        "aud": to, "iat": started_at, "exp": started_at + 3_600});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = sign_rs256(&text(file, "private_key")?, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn parse_token(answer: &Value) -> Result<AccessToken, String> {
    let seconds = answer.get("expires_in").and_then(Value::as_u64).unwrap_or(3_600);
    Ok(AccessToken::with_lifetime(text(answer, "access_token")?, seconds))
}

/// Returns the JSON response from a service. Errors contain its reason, but nothing that was sent.
pub(crate) async fn response(request: RequestBuilder) -> Result<Value, String> {
    let text = response_text(request).await?;
    serde_json::from_str(&text).map_err(|_| "the response is not valid JSON".to_owned())
}

/// Returns the body of a successful response. A service that is unavailable for a moment is asked
/// again.
async fn response_text(request: RequestBuilder) -> Result<String, String> {
    let mut waits = WAITS.iter();
    loop {
        let retry_request = request.try_clone();
        match (
            send_once(retry_request.ok_or("the request cannot be repeated")?).await,
            waits.next(),
        ) {
            (Err((_, true)), Some(wait)) => tokio::time::sleep(*wait).await,
            (result, _) => return result.map_err(|(message, _)| message),
        }
    }
}

/// Returns the body, or the error and whether the same request may succeed later.
async fn send_once(request: RequestBuilder) -> Result<String, (String, bool)> {
    let last = |message: String| (message, false);
    let sent = request.try_clone().and_then(|request| request.build().ok());
    let host = sent.as_ref().and_then(|it| it.url().host_str()).unwrap_or_default().to_owned();
    let secrets = sent.as_ref().map(secrets_of).unwrap_or_default();
    let read_body = async {
        let failed = |error: parallax_http::reqwest::Error| {
            last(format!("cannot reach `{host}`: {}", Failure::from(error).message))
        };
        let mut response = request.send().await.map_err(failed)?;
        let mut body = Vec::new();
        while let Some(more) = response.chunk().await.map_err(failed)? {
            body.extend_from_slice(&more);
            if body.len() > MAX_BYTES {
                return Err(last("the response is too long".to_owned()));
            }
        }
        let status = response.status();
        if status.is_success() {
            return String::from_utf8(body)
                .map_err(|_| last("the response is not UTF-8".to_owned()));
        }
        let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let reasons = ["/error_description", "/error/message", "/error"];
        let reason = reasons.iter().find_map(|key| value.pointer(key)?.as_str());
        let mut reason = reason.unwrap_or_default().to_owned();
        for secret in &secrets {
            reason = reason.replace(secret, "[secret]");
        }
        let reason: String = reason.chars().take(300).collect();
        let is_busy = status.is_server_error() || status.as_u16() == 429;
        Err((format!("{status} {reason}").trim().to_owned(), is_busy))
    };
    let read = tokio::time::timeout(RESPONSE_LIMIT, read_body).await;
    read.unwrap_or_else(|_| Err(last(format!("no response within {} s", RESPONSE_LIMIT.as_secs()))))
}

/// Returns the secrets in a request, which a service may quote in its error: tokens, assertions,
/// and client secrets of the form, and headers.
fn secrets_of(request: &Request) -> Vec<String> {
    const FIELDS: [&str; 4] = ["refresh_token", "client_secret", "assertion", "subject_token"];
    /// Shorter values may be words of the message.
    const MIN_LENGTH: usize = 4;
    let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
    let fields = form_urlencoded::parse(body)
        .filter(|(name, _)| FIELDS.contains(&&**name))
        .map(|(_, value)| value.into_owned());
    let headers = request.headers().iter().filter(|(name, _)| *name == AUTHORIZATION);
    let headers = headers.filter_map(|(_, value)| value.to_str().ok());
    let tokens = headers.map(|text| text.strip_prefix("Bearer ").unwrap_or(text).to_owned());
    let mut secrets: Vec<String> = fields.chain(tokens).collect();
    secrets.retain(|secret| secret.len() >= MIN_LENGTH);
    secrets
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
