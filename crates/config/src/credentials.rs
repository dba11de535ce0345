//! The stored API keys of the Gemini API and of Vertex AI, in a file readable only by its owner.
//! Environment variables have precedence.
//!
//! `~/.parallax/credentials.json` is `{"version": 1, "method": "gemini-api-key" | "vertex-ai",
//! "keys": {METHOD: {"key": "…"}}}`; `method` is that of the key that was stored last. With
//! `{"keychain": true}`, the key is in the system keychain. A file of an earlier version has one
//! key, in the object itself.

use std::path::{Path, PathBuf};

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
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// All kinds.
    pub const ALL: [Self; 2] = [Self::GeminiApi, Self::VertexExpress];

    /// Returns the name of the key in the keychain. Gemini CLI has the same for the Gemini API.
    fn secret_name(self) -> SecretName {
        match self {
            Self::GeminiApi => SecretName::ApiKey,
            Self::VertexExpress => SecretName::ParallaxOnly("vertex-ai".to_owned()),
        }
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

/// Where a stored key is.
#[derive(Debug, Clone)]
enum KeyLocation {
    /// In the file.
    File(Secret),
    /// In the keychain, under this name.
    Keychain(SecretName),
}

/// The contents of the file, the key that was stored last first.
type StoredKeys = Vec<(KeyKind, KeyLocation)>;

fn credentials_error(path: &Path, reason: impl Into<String>) -> ConfigError {
    ConfigError::Credentials { path: path.to_owned(), reason: reason.into() }
}

fn read_keys(path: &Path) -> Result<StoredKeys, ConfigError> {
    let Some(fields) = jsonc::read_object(path)? else { return Ok(Vec::new()) };
    if fields.get("version") != Some(&json!(1)) {
        return Err(credentials_error(path, "`version` is not 1"));
    }
    let last = fields.get("method").and_then(Value::as_str).and_then(KeyKind::parse);
    let last = last.ok_or_else(|| {
        credentials_error(path, "`method` is neither `gemini-api-key` nor `vertex-ai`")
    })?;
    let entries = fields.get("keys").and_then(Value::as_object);
    let location = |fields: &Object, name: SecretName| match is_in_keychain(fields) {
        true => Some(KeyLocation::Keychain(name)),
        false => {
            let key = fields.get("key").and_then(Value::as_str).map(str::trim);
            key.filter(|key| !key.is_empty()).map(|key| KeyLocation::File(Secret::new(key)))
        }
    };
    let find = |kind: KeyKind| match entries {
        Some(entries) => location(entries.get(kind.as_str())?.as_object()?, kind.secret_name()),
        // An earlier version had one name for both kinds.
        None if kind == last => location(&fields, SecretName::ApiKey),
        None => None,
    };
    let Some(first) = find(last) else {
        return Err(credentials_error(path, "`key` is missing"));
    };
    let others = KeyKind::ALL.into_iter().filter(|kind| *kind != last);
    let others = others.filter_map(|kind| Some((kind, find(kind)?)));
    Ok(std::iter::once((last, first)).chain(others).collect())
}

fn write_keys(path: &Path, keys: &StoredKeys) -> Result<(), ConfigError> {
    let entry = |location: &KeyLocation| match location {
        KeyLocation::File(key) => json!({"key": key.expose()}),
        KeyLocation::Keychain(_) => json!({"keychain": true}),
    };
    let entries: Object =
        keys.iter().map(|(kind, location)| (kind.as_str().to_owned(), entry(location))).collect();
    let method = keys.first().map(|(kind, _)| kind.as_str());
    let fields = json!({"version": 1, "method": method, "keys": entries});
    // Replaces the previous contents, valid or not.
    json_state_file::rewrite(path, |_| Ok(format!("{fields:#}\n")))
}

/// Returns the kinds of the stored keys, the one that was stored last first. Blocking.
///
/// # Errors
/// Returns an error if the file exists but cannot be used.
pub fn stored_kinds(dirs: &UserDirs) -> Result<Vec<KeyKind>, ConfigError> {
    Ok(read_keys(&credentials_file(dirs))?.into_iter().map(|(kind, _)| kind).collect())
}

/// Returns the stored key of a kind, if there is one. Blocking.
///
/// # Errors
/// Returns an error if the file exists but cannot be used, or if the keychain does not respond.
pub fn stored_key(
    dirs: &UserDirs,
    keychain: &Keychain,
    kind: KeyKind,
) -> Result<Option<StoredKey>, ConfigError> {
    let path = credentials_file(dirs);
    let found = read_keys(&path)?.into_iter().find(|(stored, _)| *stored == kind);
    match found.map(|(_, location)| location) {
        None => Ok(None),
        Some(KeyLocation::File(key)) => Ok(Some(StoredKey { kind, key })),
        Some(KeyLocation::Keychain(name)) => match keychain.get(name) {
            Ok(Some(stored)) => Ok(Some(StoredKey { kind, key: key_in(&stored) })),
            Ok(None) => {
                Err(credentials_error(&path, "the system keychain no longer contains the key"))
            }
            Err(error) => Err(credentials_error(&path, format!("the key cannot be read: {error}"))),
        },
    }
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

/// Decodes a stored key; text in another format is the key itself.
fn key_in(stored: &Secret) -> Secret {
    let record: Option<Value> = serde_json::from_str(stored.expose()).ok();
    let key = record.as_ref().and_then(|record| record.pointer("/token/accessToken"));
    key.and_then(Value::as_str).map_or_else(|| stored.clone(), |key| Secret::new(key.trim()))
}

fn is_in_keychain(fields: &Object) -> bool {
    fields.get("keychain") == Some(&Value::Bool(true))
}

/// Stores the key and replaces the previous one of its kind: in the keychain if there is one,
/// otherwise in the file. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn store_key(
    dirs: &UserDirs,
    keychain: &Keychain,
    stored: &StoredKey,
) -> Result<(), ConfigError> {
    let path = credentials_file(dirs);
    let kind = stored.kind;
    let mut keys = read_keys(&path).unwrap_or_default();
    keys.retain(|(other, _)| *other != kind);
    for (other, location) in &mut keys {
        let KeyLocation::Keychain(name) = location else { continue };
        // An earlier version stored it under the name of this key. It is lost only if it cannot be
        // read, and then it could not be used either.
        if *name != other.secret_name()
            && let Ok(Some(key)) = keychain.get(name.clone())
        {
            *location = store_secret(keychain, *other, &key_in(&key));
        }
    }
    let key = Secret::new(stored.key.expose().trim());
    keys.insert(0, (kind, store_secret(keychain, kind, &key)));
    write_keys(&path, &keys)
}

fn store_secret(keychain: &Keychain, kind: KeyKind, key: &Secret) -> KeyLocation {
    match store_in_keychain(keychain, kind.secret_name(), "Parallax: API key", &record(key)) {
        true => KeyLocation::Keychain(kind.secret_name()),
        false => KeyLocation::File(key.clone()),
    }
}

/// Deletes the stored key of a kind; returns whether there was one. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be used or changed, or if the keychain does not respond.
pub fn forget_key(
    dirs: &UserDirs,
    keychain: &Keychain,
    kind: KeyKind,
) -> Result<bool, ConfigError> {
    let path = credentials_file(dirs);
    let (removed, others): (StoredKeys, StoredKeys) =
        read_keys(&path)?.into_iter().partition(|(stored, _)| *stored == kind);
    delete_secrets(keychain, &path, &removed)?;
    match (removed.is_empty(), others.is_empty()) {
        (true, _) => Ok(false),
        (false, true) => remove_file(path),
        (false, false) => write_keys(&path, &others).map(|()| true),
    }
}

/// Deletes all stored keys and the file; returns whether there was one. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be removed, or if the keychain does not respond.
pub fn forget_keys(dirs: &UserDirs, keychain: &Keychain) -> Result<bool, ConfigError> {
    let path = credentials_file(dirs);
    delete_secrets(keychain, &path, &read_keys(&path).unwrap_or_default())?;
    remove_file(path)
}

fn delete_secrets(keychain: &Keychain, path: &Path, keys: &StoredKeys) -> Result<(), ConfigError> {
    for (_, location) in keys {
        if let KeyLocation::Keychain(name) = location
            && let Err(error) = keychain.delete(name.clone())
        {
            return Err(credentials_error(path, error.to_string()));
        }
    }
    Ok(())
}

fn remove_file(path: PathBuf) -> Result<bool, ConfigError> {
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

    const GEMINI: KeyKind = KeyKind::GeminiApi;
    const VERTEX: KeyKind = KeyKind::VertexExpress;

    #[cfg(unix)]
    #[test]
    fn keys_of_both_kinds_are_stored_together() {
        let directory = tempfile::tempdir().expect("a directory");
        let dirs = UserDirs {
            user: directory.path().to_owned(),
            gemini: directory.path().join(".gemini"),
            parallax: directory.path().join(".parallax"),
        };
        let stores = directory.path().join("stores");
        let program = testkit::keychain::secret_tool(&stores).expect("a program");
        let system_keychain = || Keychain::secret_tool(&dirs.parallax, program.clone());
        let file_keychain = Keychain::default;
        for keychain in [&file_keychain as &dyn Fn() -> Keychain, &system_keychain] {
            let key = |kind| {
                let stored = stored_key(&dirs, &keychain(), kind).expect("read");
                stored.map(|stored| stored.key.expose().to_owned())
            };
            // An earlier version had one key.
            let old = match keychain().is_usable() {
                true => {
                    let record = record(&Secret::new("v"));
                    keychain().set(SecretName::ApiKey, "", &record).expect("stored");
                    json!({"version": 1, "method": "vertex-ai", "keychain": true})
                }
                false => json!({"version": 1, "method": "vertex-ai", "key": "v"}),
            };
            std::fs::create_dir_all(&dirs.parallax).expect("a directory");
            std::fs::write(credentials_file(&dirs), old.to_string()).expect("written");
            assert_eq!((key(GEMINI), key(VERTEX)), (None, Some("v".to_owned())));
            let provided = StoredKey { kind: GEMINI, key: Secret::new("g") };
            store_key(&dirs, &keychain(), &provided).expect("stored");
            assert_eq!((key(GEMINI), key(VERTEX)), (Some("g".to_owned()), Some("v".to_owned())));
            assert_eq!(stored_kinds(&dirs).expect("read"), [GEMINI, VERTEX]);
            assert!(forget_key(&dirs, &keychain(), GEMINI).expect("forgotten"));
            assert!(!forget_key(&dirs, &keychain(), GEMINI).expect("nothing left"));
            assert_eq!((key(GEMINI), key(VERTEX)), (None, Some("v".to_owned())));
            store_key(&dirs, &keychain(), &provided).expect("stored");
            assert!(forget_keys(&dirs, &keychain()).expect("forgotten"));
            assert!(!credentials_file(&dirs).exists());
        }
        assert_eq!(testkit::keychain::count_secrets(&stores), 0);
    }

    #[test]
    fn saved_key_is_readable_only_by_its_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let dirs = UserDirs {
            user: directory.path().to_owned(),
            gemini: directory.path().join(".gemini"),
            parallax: directory.path().join(".parallax"),
        };
        let none = Keychain::default();
        assert_eq!(stored_kinds(&dirs).expect("nothing yet"), []);
        for kind in [KeyKind::GeminiApi, KeyKind::VertexExpress] {
            let provided = StoredKey { kind, key: Secret::new(" hunter2 ") };
            store_key(&dirs, &none, &provided).expect("stored");
            let stored = stored_key(&dirs, &none, kind).expect("read").expect("a key");
            assert_eq!((stored.kind, stored.key.expose()), (kind, "hunter2"));
            assert!(!format!("{stored:?}").contains("hunter2"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let metadata = std::fs::metadata(credentials_file(&dirs)).expect("the file");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(credentials_file(&dirs), "{\"version\": 2}").expect("written");
        let error = stored_kinds(&dirs).expect_err("another version").to_string();
        assert!(error.contains("credentials.json") && error.contains("version"), "{error}");
        assert!(forget_keys(&dirs, &none).expect("forgotten"));
        assert!(!forget_keys(&dirs, &none).expect("nothing left"));
    }

    #[test]
    fn gemini_cli_key_is_read_and_new_key_keeps_its_format() {
        let directory = tempfile::tempdir().expect("a directory");
        let dirs = UserDirs {
            user: directory.path().to_owned(),
            gemini: directory.path().join(".gemini"),
            parallax: directory.path().join(".parallax"),
        };
        let encrypted = |home: &std::path::Path, other: &PathBuf| {
            let other_homes = std::slice::from_ref(other);
            let locations =
                KeychainLocations { home, system: false, encrypted_file: true, other_homes };
            Keychain::from_locations(locations, &|_| None)
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
        assert_eq!(stored_key(&dirs, &ours(), GEMINI).expect("read"), Some(provided.clone()));
        let theirs = encrypted(&dirs.gemini, &dirs.parallax);
        assert_eq!(key_of_reference(&theirs, false), Some(provided));
        assert!(forget_key(&dirs, &ours(), GEMINI).expect("forgotten"));
        assert_eq!(stored_key(&dirs, &ours(), GEMINI).expect("nothing"), None);
    }

    #[cfg(unix)]
    #[test]
    fn key_file_is_empty_when_a_keychain_exists() {
        let directory = tempfile::tempdir().expect("a directory");
        let dirs = UserDirs {
            user: directory.path().to_owned(),
            gemini: directory.path().join(".gemini"),
            parallax: directory.path().join(".parallax"),
        };
        let stores = directory.path().join("stores");
        let program = testkit::keychain::secret_tool(&stores).expect("a program");
        let keychain = || Keychain::secret_tool(&dirs.parallax, program.clone());
        let provided = StoredKey { kind: KeyKind::GeminiApi, key: Secret::new("hunter2") };
        store_key(&dirs, &keychain(), &provided).expect("stored");
        let text = std::fs::read_to_string(credentials_file(&dirs)).expect("the file");
        assert!(!text.contains("hunter2") && text.contains("\"keychain\": true"), "{text}");
        assert_eq!(stored_key(&dirs, &keychain(), GEMINI).expect("read"), Some(provided.clone()));
        let error =
            stored_key(&dirs, &Keychain::default(), GEMINI).expect_err("out of reach").to_string();
        assert!(error.contains("enter the key again"), "{error}");
        assert!(forget_key(&dirs, &keychain(), GEMINI).expect("forgotten"));
        assert_eq!(testkit::keychain::count_secrets(&stores), 0);
        assert_eq!(stored_key(&dirs, &keychain(), GEMINI).expect("nothing"), None);
    }
}
