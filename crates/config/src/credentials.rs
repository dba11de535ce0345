//! The stored API key, in a file readable only by its owner. Environment variables have precedence.
//!
//! `~/.parallax/credentials.json` is `{"version": 1, "method": "gemini-api-key" | "vertex-ai",
//! "key": "…"}`. With `"keychain": true` instead of the key, the key is in the system keychain.

use std::path::PathBuf;

use std::time::{SystemTime, UNIX_EPOCH};

use parallax_keychain::{Keychain, SecretName};
use parallax_protocol::Object;
use parallax_protocol::secret::Secret;
use serde_json::{Value, json};

use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

/// The API that a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// The Gemini API.
    GeminiApi,
    /// Vertex AI in express mode.
    VertexExpress,
}

impl KeyKind {
    /// Returns the value used in the file and in `security.auth.selectedType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GeminiApi => "gemini-api-key",
            Self::VertexExpress => "vertex-ai",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::GeminiApi, Self::VertexExpress].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A key and the API that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The API.
    pub kind: KeyKind,
    /// The key.
    pub key: Secret,
}

/// Returns the path of the credentials file.
pub fn credentials_file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("credentials.json")
}

/// Returns the stored key, if there is one. Blocking.
///
/// # Errors
/// Returns an error if the file exists but cannot be used, or if the keychain does not respond.
pub fn stored_key(dirs: &UserDirs, keychain: &Keychain) -> Result<Option<StoredKey>, ConfigError> {
    let path = credentials_file(dirs);
    let Some(fields) = jsonc::read_object(&path)? else { return Ok(None) };
    let to_error =
        |reason: &str| ConfigError::Credentials { path: path.clone(), reason: reason.to_owned() };
    if fields.get("version") != Some(&json!(1)) {
        return Err(to_error("`version` is not 1"));
    }
    let method = fields.get("method").and_then(Value::as_str).and_then(KeyKind::parse);
    let kind =
        method.ok_or_else(|| to_error("`method` is neither `gemini-api-key` nor `vertex-ai`"))?;
    if is_in_keychain(&fields) {
        return match keychain.get(SecretName::ApiKey) {
            Ok(Some(stored)) => Ok(Some(StoredKey { kind, key: key_in(&stored) })),
            Ok(None) => Err(to_error("the system keychain no longer contains the key")),
            Err(error) => Err(to_error(&format!("the key cannot be read: {error}"))),
        };
    }
    let key = fields.get("key").and_then(Value::as_str).unwrap_or_default().trim();
    if key.is_empty() {
        return Err(to_error("`key` is missing"));
    }
    Ok(Some(StoredKey { kind, key: Secret::new(key) }))
}

/// Returns the key that was entered in Gemini CLI: from its encrypted file or, if `in_system`, from
/// the system keychain. Blocking.
pub fn key_of_reference(keychain: &Keychain, in_system: bool) -> Option<StoredKey> {
    let stored = keychain.reference_secret(&SecretName::ApiKey, in_system)?;
    let key = key_in(&stored);
    (!key.is_empty()).then_some(StoredKey { kind: KeyKind::GeminiApi, key })
}

/// Encodes the key the way Gemini CLI stores it: like an OAuth token.
fn record(key: &Secret) -> Secret {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let token = json!({"accessToken": key.expose(), "tokenType": "ApiKey"});
    let updated = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let record = json!({"serverName": "default-api-key", "token": token, "updatedAt": updated});
    Secret::new(record.to_string())
}

/// Decodes a stored key; a text in another format is the key itself.
fn key_in(stored: &Secret) -> Secret {
    let record: Option<Value> = serde_json::from_str(stored.expose()).ok();
    let key = record.as_ref().and_then(|record| record.pointer("/token/accessToken"));
    key.and_then(Value::as_str).map_or_else(|| stored.clone(), |key| Secret::new(key.trim()))
}

fn is_in_keychain(fields: &Object) -> bool {
    fields.get("keychain") == Some(&Value::Bool(true))
}

/// Stores the key and replaces the previous one: in the keychain if there is one, else in the file.
/// Blocking.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn store_key(
    dirs: &UserDirs,
    keychain: &Keychain,
    stored: &StoredKey,
) -> Result<(), ConfigError> {
    let path = credentials_file(dirs);
    let key = Secret::new(stored.key.expose().trim());
    let mut fields = json!({"version": 1, "method": stored.kind.as_str()});
    match store_in_keychain(keychain, SecretName::ApiKey, "Parallax: API key", &record(&key)) {
        true => fields["keychain"] = Value::Bool(true),
        false => fields["key"] = key.expose().into(),
    }
    // Replaces the previous contents, valid or not.
    json_state_file::rewrite(&path, |_| Ok(format!("{fields:#}\n")))
}

/// Deletes the stored key; returns whether there was one. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be removed.
pub fn forget_key(dirs: &UserDirs, keychain: &Keychain) -> Result<bool, ConfigError> {
    let path = credentials_file(dirs);
    if jsonc::read_object(&path).is_ok_and(|fields| fields.as_ref().is_some_and(is_in_keychain))
        && let Err(error) = keychain.delete(SecretName::ApiKey)
    {
        return Err(ConfigError::Credentials { path, reason: error.to_string() });
    }
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(ConfigError::Unwritable { path, source }),
    }
}

/// Stores a secret in the keychain, if there is one; returns `false` if it must go to a file.
pub(crate) fn store_in_keychain(
    keychain: &Keychain,
    name: impl Into<SecretName>,
    label: &str,
    secret: &Secret,
) -> bool {
    keychain.is_usable() && keychain.set(name, label, secret).is_ok()
}

#[cfg(test)]
mod tests {
    use parallax_keychain::KeychainLocations;

    use super::*;

    #[test]
    fn saved_key_is_readable_only_by_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let dirs = UserDirs {
            user: folder.path().to_owned(),
            gemini: folder.path().join(".gemini"),
            parallax: folder.path().join(".parallax"),
        };
        let none = Keychain::default();
        assert_eq!(stored_key(&dirs, &none).expect("nothing yet"), None);
        for kind in [KeyKind::GeminiApi, KeyKind::VertexExpress] {
            let provided = StoredKey { kind, key: Secret::new(" hunter2 ") };
            store_key(&dirs, &none, &provided).expect("stored");
            let kept = stored_key(&dirs, &none).expect("read").expect("a key");
            assert_eq!((kept.kind, kept.key.expose()), (kind, "hunter2"));
            assert!(!format!("{kept:?}").contains("hunter2"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let metadata = std::fs::metadata(credentials_file(&dirs)).expect("the file");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(credentials_file(&dirs), "{\"version\": 2}").expect("written");
        let error = stored_key(&dirs, &none).expect_err("another version").to_string();
        assert!(error.contains("credentials.json") && error.contains("version"), "{error}");
        assert!(forget_key(&dirs, &none).expect("forgotten"));
        assert!(!forget_key(&dirs, &none).expect("nothing left"));
    }

    #[test]
    fn gemini_cli_key_is_read_and_new_key_keeps_its_format() {
        let folder = tempfile::tempdir().expect("a folder");
        let dirs = UserDirs {
            user: folder.path().to_owned(),
            gemini: folder.path().join(".gemini"),
            parallax: folder.path().join(".parallax"),
        };
        let encrypted = |home: &std::path::Path, other: &PathBuf| {
            let other_homes = std::slice::from_ref(other);
            let places =
                KeychainLocations { home, system: false, encrypted_file: true, other_homes };
            Keychain::from_locations(places, &|_| None)
        };
        let ours = || encrypted(&dirs.parallax, &dirs.gemini);
        assert_eq!(key_of_reference(&ours(), true), None);
        let provided = StoredKey { kind: KeyKind::GeminiApi, key: Secret::new("hunter2") };
        encrypted(&dirs.gemini, &dirs.parallax)
            .set(SecretName::ApiKey, "", &record(&provided.key))
            .expect("kept");
        assert_eq!(key_of_reference(&ours(), true), Some(provided.clone()));
        store_key(&dirs, &ours(), &provided).expect("stored");
        let text = std::fs::read_to_string(credentials_file(&dirs)).expect("the file");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(stored_key(&dirs, &ours()).expect("read"), Some(provided.clone()));
        let theirs = encrypted(&dirs.gemini, &dirs.parallax);
        assert_eq!(key_of_reference(&theirs, false), Some(provided));
        assert!(forget_key(&dirs, &ours()).expect("forgotten"));
        assert_eq!(stored_key(&dirs, &ours()).expect("nothing"), None);
    }

    #[cfg(unix)]
    #[test]
    fn key_file_is_empty_when_a_keychain_exists() {
        let folder = tempfile::tempdir().expect("a folder");
        let dirs = UserDirs {
            user: folder.path().to_owned(),
            gemini: folder.path().join(".gemini"),
            parallax: folder.path().join(".parallax"),
        };
        let stores = folder.path().join("stores");
        let program = testkit::keychain::secret_tool(&stores).expect("a program");
        let keychain = || Keychain::secret_tool(&dirs.parallax, program.clone());
        let provided = StoredKey { kind: KeyKind::GeminiApi, key: Secret::new("hunter2") };
        store_key(&dirs, &keychain(), &provided).expect("stored");
        let text = std::fs::read_to_string(credentials_file(&dirs)).expect("the file");
        assert!(!text.contains("hunter2") && text.contains("\"keychain\": true"), "{text}");
        assert_eq!(stored_key(&dirs, &keychain()).expect("read"), Some(provided.clone()));
        let error = stored_key(&dirs, &Keychain::default()).expect_err("out of reach").to_string();
        assert!(error.contains("enter the key again"), "{error}");
        assert!(forget_key(&dirs, &keychain()).expect("forgotten"));
        assert_eq!(testkit::keychain::count_secrets(&stores), 0);
        assert_eq!(stored_key(&dirs, &keychain()).expect("nothing"), None);
    }
}
