//! The key that a person gave to this program: one file of ours, readable by
//! its owner alone. Variables of the environment go before it.
//!
//! `~/.parallax/credentials.json` is `{"version": 1, "method":
//! "gemini-api-key" | "vertex-ai", "key": "…"}`.

use std::path::PathBuf;

use parallax_protocol::secret::Secret;
use serde_json::{Value, json};

use crate::error::ConfigError;
use crate::homes::Homes;
use crate::{jsonc, state};

/// What a key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// The Gemini API.
    GeminiApi,
    /// Vertex AI in express mode.
    VertexExpress,
}

impl KeyKind {
    /// The word of the file and of `security.auth.selectedType`.
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

/// A key with what it opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// What it opens.
    pub kind: KeyKind,
    /// The key.
    pub key: Secret,
}

/// Where the key is kept.
pub fn credentials_file(homes: &Homes) -> PathBuf {
    homes.parallax.join("credentials.json")
}

/// The key that is kept, if there is one. Blocking.
///
/// # Errors
/// A file that is there and cannot be used.
pub fn stored_key(homes: &Homes) -> Result<Option<StoredKey>, ConfigError> {
    let path = credentials_file(homes);
    let Some(fields) = jsonc::read_object(&path)? else { return Ok(None) };
    let wrong = |why: &str| ConfigError::Credentials { path: path.clone(), why: why.to_owned() };
    if fields.get("version") != Some(&json!(1)) {
        return Err(wrong("its `version` is not 1"));
    }
    let method = fields.get("method").and_then(Value::as_str).and_then(KeyKind::parse);
    let kind =
        method.ok_or_else(|| wrong("its `method` is neither `gemini-api-key` nor `vertex-ai`"))?;
    let key = fields.get("key").and_then(Value::as_str).unwrap_or_default().trim();
    if key.is_empty() {
        return Err(wrong("it holds no `key`"));
    }
    Ok(Some(StoredKey { kind, key: Secret::new(key) }))
}

/// Keeps the key in the place of the one that is kept. Blocking.
///
/// # Errors
/// The file cannot be written.
pub fn store_key(homes: &Homes, stored: &StoredKey) -> Result<(), ConfigError> {
    let path = credentials_file(homes);
    let fields =
        json!({"version": 1, "method": stored.kind.as_str(), "key": stored.key.expose().trim()});
    // What stood there, broken or not, counts no more.
    state::rewrite(&path, |_| Ok(format!("{fields:#}\n")))
}

/// Forgets the key that is kept; tells whether there was one. Blocking.
///
/// # Errors
/// The file cannot be removed.
pub fn forget_key(homes: &Homes) -> Result<bool, ConfigError> {
    let path = credentials_file(homes);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(ConfigError::Unwritable { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let homes = Homes {
            user: folder.path().to_owned(),
            gemini: folder.path().join(".gemini"),
            parallax: folder.path().join(".parallax"),
        };
        assert_eq!(stored_key(&homes).expect("nothing yet"), None);
        for kind in [KeyKind::GeminiApi, KeyKind::VertexExpress] {
            let given = StoredKey { kind, key: Secret::new(" hunter2 ") };
            store_key(&homes, &given).expect("stored");
            let kept = stored_key(&homes).expect("read").expect("a key");
            assert_eq!((kept.kind, kept.key.expose()), (kind, "hunter2"));
            assert!(!format!("{kept:?}").contains("hunter2"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let facts = std::fs::metadata(credentials_file(&homes)).expect("the file");
            assert_eq!(facts.permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(credentials_file(&homes), "{\"version\": 2}").expect("written");
        let error = stored_key(&homes).expect_err("another version").to_string();
        assert!(error.contains("credentials.json") && error.contains("version"), "{error}");
        assert!(forget_key(&homes).expect("forgotten"));
        assert!(!forget_key(&homes).expect("nothing left"));
    }
}
