//! The application default credentials: a file, or the server of the machine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parallax_http::reqwest::header::CONTENT_TYPE;
use parallax_http::reqwest::{Client, RequestBuilder};
use parallax_http::{error_chain, sign_rs256};
use serde_json::{Value, json};
use url::Url;

use super::{ANSWER, PLATFORM, Token, text};
use crate::files;

/// The largest file of credentials.
const LIMIT: u64 = 1024 * 1024;
/// How long the server of the machine may take: where there is none it is not
/// waited for.
const MACHINE: Duration = Duration::from_secs(3);
/// Bytes of an answer.
const MOST: usize = 64 * 1024;

/// The services that give tokens.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// Where refresh tokens and assertions become tokens.
    pub(super) token: String,
    /// Where tokens of other accounts come from.
    pub(super) iam: String,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            token: "https://oauth2.googleapis.com/token".to_owned(),
            iam: "https://iamcredentials.googleapis.com".to_owned(),
        }
    }
}

impl Places {
    /// Where identity tokens of an account come from.
    pub(super) fn identity_of(&self, account: &str) -> String {
        let account: String = url::form_urlencoded::byte_serialize(account.as_bytes()).collect();
        format!("{}/v1/projects/-/serviceAccounts/{account}:generateIdToken", self.iam)
    }
}

/// Where the credentials are.
#[derive(Debug)]
pub(super) struct Source {
    /// The file that a variable names: it must be there.
    named: Option<PathBuf>,
    /// The file of `gcloud auth application-default login`.
    usual: Option<PathBuf>,
    /// The server of the machine, `host[:port]`.
    machine: String,
    /// The project that pays.
    quota: Option<String>,
    pub(super) places: Places,
}

impl Source {
    pub(super) fn of(variables: &[(OsString, OsString)], places: Places) -> Self {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let folder = variable("CLOUDSDK_CONFIG").map(PathBuf::from).or_else(|| {
            if cfg!(windows) {
                return Some(PathBuf::from(variable("APPDATA")?).join("gcloud"));
            }
            Some(PathBuf::from(variable("HOME")?).join(".config/gcloud"))
        });
        Self {
            named: variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
            usual: folder.map(|folder| folder.join("application_default_credentials.json")),
            machine: text("GCE_METADATA_HOST")
                .unwrap_or_else(|| "metadata.google.internal".to_owned()),
            quota: text("GOOGLE_CLOUD_QUOTA_PROJECT"),
            places,
        }
    }

    /// The project that pays: of the variable, else of the file.
    pub(super) async fn quota_project(&self) -> Option<String> {
        if self.quota.is_some() {
            return self.quota.clone();
        }
        let file = self.file().await.ok()??;
        text(&file, "quota_project_id").ok()
    }

    /// The credentials of the file; `None` when there is no file.
    async fn file(&self) -> Result<Option<Value>, String> {
        let (named, path) = match (&self.named, &self.usual) {
            (Some(path), _) => (true, path.clone()),
            (None, Some(path)) => (false, path.clone()),
            (None, None) => return Ok(None),
        };
        let reading = tokio::task::spawn_blocking(move || {
            let there = path.exists();
            let read: Option<Value> = files::read(&path, LIMIT);
            match (read, there) {
                (Some(value), _) => Ok(Some(value)),
                (None, false) if !named => Ok(None),
                (None, false) => Err(format!(
                    "there is no file `{}`, which `GOOGLE_APPLICATION_CREDENTIALS` names",
                    path.display()
                )),
                (None, true) => Err(format!("the file `{}` cannot be read", path.display())),
            }
        });
        reading.await.map_err(|error| error.to_string())?
    }

    /// A token with these scopes.
    pub(super) async fn token(&self, client: &Client, scopes: &[String]) -> Result<Token, String> {
        match self.file().await? {
            Some(file) => self.by_file(client, &file, scopes).await,
            None => self.by_machine(client, scopes).await,
        }
    }

    async fn by_file(
        &self,
        client: &Client,
        file: &Value,
        scopes: &[String],
    ) -> Result<Token, String> {
        if text(file, "type").is_ok_and(|kind| kind == "impersonated_service_account") {
            let inner = file.get("source_credentials").unwrap_or(&Value::Null);
            let acting = self.plain(client, inner, &[PLATFORM.to_owned()]).await?;
            let url = safe(&text(file, "service_account_impersonation_url")?)?;
            let body = json!({"scope": scopes, "lifetime": "3600s",
                "delegates": file.get("delegates").cloned().unwrap_or_else(|| json!([]))});
            let request = client.post(url).bearer_auth(&acting.text).json(&body);
            let answer = answer(request).await?;
            return Ok(Token::lasting(text(&answer, "accessToken")?, 3_600));
        }
        self.plain(client, file, scopes).await
    }

    /// A token for the credentials of a person or of a service account.
    async fn plain(
        &self,
        client: &Client,
        file: &Value,
        scopes: &[String],
    ) -> Result<Token, String> {
        let form = match text(file, "type").unwrap_or_default().as_str() {
            "authorized_user" => {
                let mut form = vec![("grant_type", "refresh_token".to_owned())];
                for key in ["client_id", "client_secret", "refresh_token"] {
                    form.push((key, text(file, key)?));
                }
                (self.places.token.clone(), form)
            }
            "service_account" => {
                let to = match file.get("token_uri") {
                    Some(_) => text(file, "token_uri")?,
                    None => self.places.token.clone(),
                };
                let assertion = assertion(file, scopes, &to)?;
                let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned();
                (to, vec![("grant_type", kind), ("assertion", assertion)])
            }
            "" => return Err("they have no `type`".to_owned()),
            other => {
                let other: String = other.chars().take(60).collect();
                return Err(format!(
                    "those of the type `{other}` are not known here; `authorized_user`, \
                     `service_account` and `impersonated_service_account` are"
                ));
            }
        };
        let (to, form) = form;
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = client
            .post(safe(&to)?)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        granted(&answer(request).await?)
    }

    async fn by_machine(&self, client: &Client, scopes: &[String]) -> Result<Token, String> {
        let path = "computeMetadata/v1/instance/service-accounts/default/token";
        let mut url = Url::parse(&format!("http://{}/{path}", self.machine))
            .map_err(|_| "`GCE_METADATA_HOST` is no host".to_owned())?;
        url.query_pairs_mut().append_pair("scopes", &scopes.join(","));
        let request = client.get(url).header("Metadata-Flavor", "Google").timeout(MACHINE);
        let answered = answer(request).await.map_err(|why| {
            format!(
                "there is no file of them (`gcloud auth application-default login` makes one, \
                 `GOOGLE_APPLICATION_CREDENTIALS` names one), and this machine gives none: {why}"
            )
        })?;
        granted(&answered)
    }
}

/// An address to which secrets may be sent.
fn safe(url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|_| "they name an address that is none".to_owned())?;
    let here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() {
        "https" => Ok(url),
        "http" if here => Ok(url),
        _ => Err("they name an address without `https`".to_owned()),
    }
}

/// What a service account says of itself, signed with its key.
fn assertion(file: &Value, scopes: &[String], to: &str) -> Result<String, String> {
    let begun = now();
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": file.get("private_key_id")});
    let claims = json!({"iss": text(file, "client_email")?, "scope": scopes.join(" "),
        "aud": to, "iat": begun, "exp": begun + 3_600});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = sign_rs256(&text(file, "private_key")?, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn granted(answer: &Value) -> Result<Token, String> {
    let seconds = answer.get("expires_in").and_then(Value::as_u64).unwrap_or(3_600);
    Ok(Token::lasting(text(answer, "access_token")?, seconds))
}

/// The answer of a service, or its reason, without anything that was sent.
pub(super) async fn answer(request: RequestBuilder) -> Result<Value, String> {
    let asking = async {
        let mut response =
            request.send().await.map_err(|error| error_chain(&error.without_url()))?;
        let mut body = Vec::new();
        while let Some(more) =
            response.chunk().await.map_err(|error| error_chain(&error.without_url()))?
        {
            body.extend_from_slice(&more);
            if body.len() > MOST {
                return Err("the answer is too long".to_owned());
            }
        }
        let status = response.status();
        let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(value);
        }
        let said = ["/error_description", "/error/message", "/error"];
        let said = said.iter().find_map(|key| value.pointer(key)?.as_str());
        let said: String = said.unwrap_or_default().chars().take(300).collect();
        Err(format!("{status} {said}").trim().to_owned())
    };
    let answered = tokio::time::timeout(ANSWER, asking).await;
    answered.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
