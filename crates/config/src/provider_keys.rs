//! The stored API keys of model providers: in the system keychain if there is one, otherwise in a
//! file that only its owner can read.
//!
//! `~/.parallax/provider-keys.json` is `{"version": 1, "keys": {"NAME": {"key": "…"}}}`; with
//! `{"keychain": true}` the key is in the keychain.

use std::path::PathBuf;

use parallax_keychain::{Keychain, SecretName};
use parallax_protocol::Object;
use parallax_protocol::secret::Secret;
use serde_json::{Value, json};

use crate::credentials::store_in_keychain;
use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

/// Returns the path of the file.
pub fn provider_keys_file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("provider-keys.json")
}

fn secret_name(provider: &str) -> SecretName {
    SecretName::ParallaxOnly(format!("provider {provider}"))
}

fn entries(dirs: &UserDirs) -> Result<Object, ConfigError> {
    let path = provider_keys_file(dirs);
    let fields = jsonc::read_object(&path)?;
    fields.map_or_else(|| Ok(Object::new()), |fields| keys_in(fields, path))
}

fn keys_in(fields: Object, path: PathBuf) -> Result<Object, ConfigError> {
    if fields.get("version") != Some(&json!(1)) {
        let reason = "`version` is not 1".to_owned();
        return Err(ConfigError::Credentials { path, reason });
    }
    match fields.get("keys") {
        Some(Value::Object(keys)) => Ok(keys.clone()),
        _ => Ok(Object::new()),
    }
}

/// Changes the keys. Nothing else changes them in the meantime.
fn change(dirs: &UserDirs, change: impl FnOnce(&mut Object)) -> Result<(), ConfigError> {
    json_state_file::rewrite_as(&provider_keys_file(dirs), |path, text| {
        let mut keys = match text.trim() {
            "" => Object::new(),
            text => keys_in(jsonc::parse_object(path, text)?, path.to_owned())?,
        };
        change(&mut keys);
        Ok(format!("{:#}\n", json!({"version": 1, "keys": keys})))
    })
}

/// Returns the names of the providers with a stored key. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be used.
pub fn stored_providers(dirs: &UserDirs) -> Result<Vec<String>, ConfigError> {
    Ok(entries(dirs)?.keys().cloned().collect())
}

/// Returns the stored key of a provider. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be used, or if the keychain does not respond.
pub fn stored_provider_key(
    dirs: &UserDirs,
    keychain: &Keychain,
    provider: &str,
) -> Result<Option<Secret>, ConfigError> {
    let keys = entries(dirs)?;
    let Some(entry) = keys.get(provider) else { return Ok(None) };
    if entry.get("keychain") == Some(&Value::Bool(true)) {
        let failed =
            |reason: String| ConfigError::Credentials { path: provider_keys_file(dirs), reason };
        return match keychain.get(secret_name(provider)) {
            Ok(Some(key)) => Ok(Some(key)),
            Ok(None) => Err(failed(format!(
                "the key for `{provider}` is missing from the keychain: run `parallax auth add {provider}`"
            ))),
            Err(error) => Err(failed(format!("the key for `{provider}` cannot be read: {error}"))),
        };
    }
    let key = entry.get("key").and_then(Value::as_str).map(str::trim);
    Ok(key.filter(|key| !key.is_empty()).map(Secret::new))
}

/// Stores the key of a provider and replaces the previous one. Returns whether it is in the
/// keychain. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn store_provider_key(
    dirs: &UserDirs,
    keychain: &Keychain,
    provider: &str,
    key: &Secret,
) -> Result<bool, ConfigError> {
    // Detect an invalid file before the keychain has the key.
    entries(dirs)?;
    let label = format!("Parallax: API key of {provider}");
    let in_keychain = store_in_keychain(keychain, secret_name(provider), &label, key);
    let entry = match in_keychain {
        true => json!({"keychain": true}),
        false => json!({"key": key.expose()}),
    };
    change(dirs, |keys| drop(keys.insert(provider.to_owned(), entry)))?;
    Ok(in_keychain)
}

/// Removes the stored key of a provider. Returns whether there was one. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be written, or if the keychain does not respond.
pub fn remove_provider_key(
    dirs: &UserDirs,
    keychain: &Keychain,
    provider: &str,
) -> Result<bool, ConfigError> {
    let keys = entries(dirs)?;
    let Some(entry) = keys.get(provider) else { return Ok(false) };
    if entry.get("keychain") == Some(&Value::Bool(true))
        && let Err(error) = keychain.delete(secret_name(provider))
    {
        let (path, reason) = (provider_keys_file(dirs), error.to_string());
        return Err(ConfigError::Credentials { path, reason });
    }
    change(dirs, |keys| drop(keys.shift_remove(provider)))?;
    Ok(true)
}
