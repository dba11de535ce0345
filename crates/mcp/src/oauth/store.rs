//! Stored tokens: one file for all servers, in the format that Gemini CLI also reads. If the system
//! has a keychain, the tokens are in the keychain and the file refers to it.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use parallax_keychain::{Keychain, SecretName};
use parallax_protocol::secret::Secret;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::files;

const FILE: &str = "mcp-oauth-tokens.json";
const LIMIT: u64 = 4 * 1024 * 1024;

/// The token files: the own file is written, those of other programs are only read.
#[derive(Debug, Clone)]
pub struct TokenFiles {
    own_file: PathBuf,
    gemini_files: Vec<PathBuf>,
    keychain: Keychain,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCredential {
    server_name: String,
    token: StoredToken,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    /// The client secret from the dynamic registration (only in the own file).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp_server_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// Whether the tokens are in the keychain and empty here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keychain: bool,
    #[serde(default)]
    updated_at: u64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredToken {
    access_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    #[serde(default)]
    token_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

impl TokenFiles {
    /// Uses the file in `home`, and reads those in `others`.
    pub fn new(home: &Path, others: &[PathBuf], keychain: Keychain) -> Self {
        let gemini_files = others.iter().map(|home| home.join(FILE)).collect();
        Self { own_file: home.join(FILE), gemini_files, keychain }
    }

    /// Whether there is a token for the server.
    pub fn has(&self, server: &str, url: &str) -> bool {
        self.find(server, url).is_some()
    }

    /// Deletes the token of a server. Returns `false` if the own file has none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn delete(&self, server: &str) -> std::io::Result<bool> {
        let mut all = read(&self.own_file);
        let before = all.len();
        all.retain(|entry| entry.server_name != server);
        if all.len() == before {
            return Ok(false);
        }
        // A leftover entry in the keychain is harmless, because nothing refers to it.
        let _ = self.keychain.delete(SecretName::SignIn(server.to_owned()));
        files::write(&self.own_file, &all)?;
        Ok(true)
    }

    /// Finds the token of a server. A token is used only for the URL that it was issued for.
    fn find(&self, server: &str, url: &str) -> Option<StoredCredential> {
        let fits = |entry: &StoredCredential| {
            entry.server_name == server
                && entry.mcp_server_url.as_deref().is_none_or(|known| is_same_url(known, url))
        };
        let files = std::iter::once(&self.own_file).chain(&self.gemini_files);
        let in_files = files.flat_map(|file| read(file)).find(fits);
        in_files.or_else(|| {
            let name = SecretName::SignIn(server.to_owned());
            let stored = self.keychain.reference_secret(&name, self.keychain.must_encrypt())?;
            // Different servers may have the same name in the keychain, so the URL in the entry
            // decides.
            serde_json::from_str(stored.expose()).ok().filter(fits)
        })
    }

    /// Loads the tokens from the keychain if they are there. Blocking.
    fn load_secret(&self, mut entry: StoredCredential) -> Option<StoredCredential> {
        if entry.keychain {
            let name = SecretName::SignIn(entry.server_name.clone());
            let stored = self.keychain.get(name);
            let stored = stored
                .inspect_err(|error| {
                    tracing::warn!(server = entry.server_name, %error, "no tokens");
                })
                .ok()??;
            let stored: KeychainEntry = serde_json::from_str(stored.expose()).ok()?;
            let token = match stored {
                KeychainEntry::Entry { token, client_secret } => {
                    entry.client_secret = client_secret;
                    token
                }
                KeychainEntry::Tokens(token) => token,
            };
            (entry.token.access_token, entry.token.refresh_token) =
                (token.access_token, token.refresh_token);
        }
        Some(entry)
    }

    /// Moves the tokens to the keychain, if there is one. The keychain stores the whole entry, in
    /// the Gemini CLI format. Blocking.
    fn hide(&self, entry: &mut StoredCredential) {
        if !self.keychain.is_usable() {
            return;
        }
        let Ok(text) = serde_json::to_string(entry) else { return };
        let server = &entry.server_name;
        let label = format!("Parallax: sign-in to the MCP server {server}");
        let name = SecretName::SignIn(server.clone());
        if self.keychain.set(name, &label, &Secret::new(text)).is_ok() {
            entry.keychain = true;
            entry.token.access_token.clear();
            entry.token.refresh_token = None;
            entry.client_secret = None;
        }
    }

    fn save(&self, mut entry: StoredCredential) -> std::io::Result<()> {
        self.hide(&mut entry);
        let mut all = read(&self.own_file);
        all.retain(|other| other.server_name != entry.server_name);
        all.push(entry);
        files::write(&self.own_file, &all)
    }
}

/// The keychain entry of a server: the whole entry, or in earlier versions only its secrets.
#[derive(Deserialize)]
#[serde(untagged)]
enum KeychainEntry {
    #[serde(rename_all = "camelCase")]
    Entry {
        token: Tokens,
        client_secret: Option<String>,
    },
    Tokens(Tokens),
}

/// The secret parts of a token.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    access_token: String,
    refresh_token: Option<String>,
}

fn is_same_url(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

fn read(path: &Path) -> Vec<StoredCredential> {
    files::read(path, LIMIT).unwrap_or_default()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The tokens of one server, in the form that the library requires.
#[derive(Debug, Clone)]
pub(crate) struct ServerTokens {
    pub(crate) files: TokenFiles,
    pub(crate) server: String,
    pub(crate) url: String,
    /// The token endpoint; saved with the tokens.
    pub(crate) token_url: Option<String>,
    /// The client secret, if there is one; saved with the tokens.
    pub(crate) client_secret: Option<Secret>,
}

/// What is needed to refresh a token, besides the token.
#[derive(Debug, Clone)]
pub(crate) struct RefreshInfo {
    pub(crate) token_url: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<Secret>,
}

/// The return type of the methods of the library's trait.
pub(crate) type BoxedResult<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl ServerTokens {
    pub(crate) fn new(files: &TokenFiles, server: &str, url: &str) -> Self {
        Self {
            files: files.clone(),
            server: server.to_owned(),
            url: url.to_owned(),
            token_url: None,
            client_secret: None,
        }
    }

    /// Returns how the tokens are refreshed; `None` if there are none. Blocking.
    pub(crate) fn refresh_info(&self) -> Option<RefreshInfo> {
        let entry = self.files.find(&self.server, &self.url)?;
        let entry = self.files.load_secret(entry)?;
        Some(RefreshInfo {
            client_secret: entry.client_secret.map(Secret::new),
            token_url: entry.token_url.filter(|url| !url.is_empty()),
            issuer: entry.issuer,
            client_id: entry.client_id,
        })
    }

    /// Saves the token endpoint in an entry of the own file. Blocking.
    pub(crate) fn note_token_url(&self, url: &str) {
        let mut all = read(&self.files.own_file);
        let mine = |entry: &&mut StoredCredential| {
            let at = entry.mcp_server_url.as_deref();
            entry.server_name == self.server && at.is_none_or(|known| is_same_url(known, &self.url))
        };
        let Some(entry) = all.iter_mut().find(mine) else { return };
        entry.token_url = Some(url.to_owned());
        // If this fails, the endpoint is discovered again.
        if let Err(error) = files::write(&self.files.own_file, &all) {
            tracing::debug!(%error, "failed to store the token endpoint");
        }
    }

    fn load_now(&self) -> Option<StoredCredentials> {
        let entry = self.files.find(&self.server, &self.url)?;
        let entry = self.files.load_secret(entry)?;
        let updated = entry.updated_at;
        let expires_in = entry.token.expires_at.map(|at| at.saturating_sub(updated) / 1000);
        let response = json!({
            "access_token": entry.token.access_token,
            "token_type": "bearer",
            "expires_in": expires_in,
            "refresh_token": entry.token.refresh_token,
            "scope": entry.token.scope,
        });
        let response = serde_json::from_value(response).ok()?;
        let scopes = entry.token.scope.as_deref().unwrap_or_default();
        let stored = StoredCredentials::new(
            entry.client_id.unwrap_or_default(),
            Some(response),
            scopes.split_whitespace().map(str::to_owned).collect(),
            Some(updated / 1000),
        );
        Some(stored.with_issuer(entry.issuer))
    }

    fn save_now(&self, credentials: &StoredCredentials) -> Result<(), AuthError> {
        let failed = |reason: String| AuthError::InternalError(reason);
        let Some(response) = &credentials.token_response else { return Ok(()) };
        let response: Value =
            serde_json::to_value(response).map_err(|error| failed(error.to_string()))?;
        let text = |key: &str| response.get(key).and_then(Value::as_str).map(str::to_owned);
        let provided = text("access_token").unwrap_or_default();
        if provided.is_empty() || provided.chars().any(|char| !char.is_ascii_graphic()) {
            return Err(failed("the token is not valid in a header".to_owned()));
        }
        let updated_at = now();
        let expires_in = response.get("expires_in").and_then(Value::as_u64);
        let entry = StoredCredential {
            server_name: self.server.clone(),
            token: StoredToken {
                access_token: provided,
                refresh_token: text("refresh_token"),
                expires_at: expires_in.map(|seconds| updated_at + seconds.saturating_mul(1000)),
                token_type: "Bearer".to_owned(),
                scope: text("scope").or_else(|| {
                    let scopes = credentials.granted_scopes.join(" ");
                    (!scopes.is_empty()).then_some(scopes)
                }),
            },
            client_id: Some(credentials.client_id.clone()).filter(|id| !id.is_empty()),
            client_secret: self.client_secret.as_ref().map(|it| it.expose().to_owned()),
            token_url: self.token_url.clone(),
            mcp_server_url: Some(self.url.clone()),
            issuer: credentials.issuer.clone(),
            keychain: false,
            updated_at,
        };
        self.files.save(entry).map_err(|error| failed(error.to_string()))
    }
}

/// Written with boxed futures and lifetimes, as `async_trait` expands the trait of the library.
impl CredentialStore for ServerTokens {
    fn load<'a, 'b>(&'a self) -> BoxedResult<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        let tokens = self.clone();
        Box::pin(async move {
            let load_task = tokio::task::spawn_blocking(move || tokens.load_now());
            load_task.await.map_err(|error| AuthError::InternalError(error.to_string()))
        })
    }

    fn save<'a, 'b>(&'a self, credentials: StoredCredentials) -> BoxedResult<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        let tokens = self.clone();
        Box::pin(async move {
            let save_task = tokio::task::spawn_blocking(move || tokens.save_now(&credentials));
            save_task.await.map_err(|error| AuthError::InternalError(error.to_string()))?
        })
    }

    fn clear<'a, 'b>(&'a self) -> BoxedResult<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        let tokens = self.clone();
        Box::pin(async move {
            let delete_task =
                tokio::task::spawn_blocking(move || tokens.files.delete(&tokens.server));
            let forgotten = delete_task.await.unwrap_or_else(|error| Err(error.into()));
            forgotten.map(drop).map_err(|error| AuthError::InternalError(error.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use parallax_keychain::KeychainLocations;

    use super::*;

    #[test]
    fn tokens_are_loaded_only_for_their_server() {
        let home = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("a folder");
        let theirs = r#"[{"serverName":"t","token":{"accessToken":"theirs","tokenType":"Bearer"},
            "mcpServerUrl":"https://t.example/mcp","updatedAt":1}]"#;
        std::fs::write(other.path().join(FILE), theirs).expect("written");
        let files = TokenFiles::new(home.path(), &[other.path().to_owned()], Keychain::default());
        let tokens = |server: &str, url: &str| ServerTokens {
            token_url: Some("https://s.example/tok".to_owned()),
            ..ServerTokens::new(&files, server, url)
        };
        assert!(tokens("t", "https://t.example/mcp/").load_now().is_some());
        assert!(tokens("t", "https://evil.example/mcp").load_now().is_none());
        let response = json!({"access_token": "a", "token_type": "bearer", "expires_in": 60,
            "refresh_token": "r", "scope": "x y"});
        let response = serde_json::from_value(response).expect("a response");
        let stored = StoredCredentials::new("client".into(), Some(response), Vec::new(), None);
        let ours = tokens("s", "https://s.example/mcp");
        ours.save_now(&stored).expect("saved");
        let loaded = ours.load_now().expect("there");
        assert_eq!((loaded.client_id.as_str(), loaded.granted_scopes.len()), ("client", 2));
        let renewal = ours.refresh_info().expect("there");
        assert_eq!(renewal.token_url.as_deref(), Some("https://s.example/tok"));
        ours.note_token_url("https://s.example/other");
        let renewal = ours.refresh_info().expect("there");
        assert_eq!(renewal.token_url.as_deref(), Some("https://s.example/other"));
        let file = home.path().join(FILE);
        let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&file).expect("the file");
        assert!(text.contains("\"accessToken\":\"a\"") && text.contains("\"expiresAt\""), "{text}");
        assert!(files.delete("s").expect("forgotten"));
        assert!(!files.has("s", "https://s.example/mcp"));
    }

    #[test]
    fn tokens_in_encrypted_files_are_read_and_saved_there_if_configured() {
        let home = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("a folder");
        let encrypted = |home: &Path, other_homes: &[PathBuf]| {
            let locations =
                KeychainLocations { home, system: false, encrypted_file: true, other_homes };
            Keychain::from_locations(locations, &|_| None)
        };
        let theirs = r#"{"serverName":"t t","token":{"accessToken":"theirs","tokenType":"Bearer"},
            "mcpServerUrl":"https://t.example/mcp","updatedAt":1}"#;
        let name = SecretName::SignIn("t t".to_owned());
        encrypted(other.path(), &[]).set(name, "", &Secret::new(theirs)).expect("kept");
        let others = [other.path().to_owned()];
        // Existing entries are read even when the keychain is not enabled.
        let locations = KeychainLocations {
            home: home.path(),
            system: false,
            encrypted_file: false,
            other_homes: &others,
        };
        let keychain = Keychain::from_locations(locations, &|_| None);
        let files = TokenFiles::new(home.path(), &others, keychain);
        let found = ServerTokens::new(&files, "t t", "https://t.example/mcp").load_now();
        assert!(found.is_some_and(|found| found.token_response.is_some()));
        assert!(!files.has("t_t", "https://t.example/mcp"), "another name, the same account");
        assert!(!files.has("t t", "https://evil.example/mcp"));
        let keychain = || encrypted(home.path(), &others);
        let files = TokenFiles::new(home.path(), &others, keychain());
        let tokens = ServerTokens::new(&files, "s", "https://s.example/mcp");
        let response =
            json!({"access_token": "acc", "token_type": "bearer", "refresh_token": "ref"});
        let response = serde_json::from_value(response).expect("a response");
        let stored = StoredCredentials::new("client".into(), Some(response), Vec::new(), None);
        tokens.save_now(&stored).expect("saved");
        let text = std::fs::read_to_string(home.path().join(FILE)).expect("the file");
        assert!(!text.contains("acc\"") && !text.contains("ref\""), "{text}");
        // The whole entry, for other programs that read this format.
        let stored_secret = encrypted(other.path(), &[home.path().to_owned()])
            .reference_secret(&SecretName::SignIn("s".to_owned()), false)
            .expect("kept");
        let stored_credential: StoredCredential =
            serde_json::from_str(stored_secret.expose()).expect("an entry");
        assert_eq!(
            (stored_credential.server_name.as_str(), stored_credential.token.access_token.as_str()),
            ("s", "acc")
        );
        let files = TokenFiles::new(home.path(), &others, keychain());
        let loaded = ServerTokens::new(&files, "s", "https://s.example/mcp").load_now();
        let loaded = serde_json::to_value(loaded.expect("there").token_response).expect("JSON");
        assert_eq!(loaded["refresh_token"], "ref");
        assert!(files.delete("s").expect("forgotten"));
        assert!(!home.path().join("gemini-credentials.json").exists());
    }

    #[test]
    fn token_file_is_empty_when_a_keychain_exists() {
        let home = tempfile::tempdir().expect("a folder");
        let program = testkit::keychain::secret_tool(home.path()).expect("a program");
        let tokens = |keychain: Keychain| {
            let files = TokenFiles::new(home.path(), &[], keychain);
            ServerTokens::new(&files, "s", "https://s.example/mcp")
        };
        let keychain = || Keychain::secret_tool(home.path(), program.clone());
        let response =
            json!({"access_token": "acc", "token_type": "bearer", "refresh_token": "ref"});
        let response = serde_json::from_value(response).expect("a response");
        let stored = StoredCredentials::new("client".into(), Some(response), Vec::new(), None);
        tokens(keychain()).save_now(&stored).expect("saved");
        let text = std::fs::read_to_string(home.path().join(FILE)).expect("the file");
        assert!(!text.contains("acc\"") && !text.contains("ref\""), "{text}");
        let loaded = tokens(keychain()).load_now().expect("there").token_response;
        let loaded = serde_json::to_value(loaded).expect("JSON");
        assert_eq!(
            (&loaded["access_token"], &loaded["refresh_token"]),
            (&json!("acc"), &json!("ref"))
        );
        assert!(tokens(Keychain::default()).load_now().is_none(), "out of reach");
        assert!(tokens(keychain()).files.delete("s").expect("forgotten"));
        assert_eq!(testkit::keychain::count_secrets(home.path()), 0);
    }
}
