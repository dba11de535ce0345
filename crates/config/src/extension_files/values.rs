//! The values of extension settings. They are stored in one file readable only by the user, so that
//! they survive updates and no extension directory holds a secret. Sensitive values are stored in
//! the system keychain, if there is one, and the file records that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jsonc_parser::cst::CstInputValue;
use parallax_keychain::{Keychain, SecretName};
use parallax_protocol::Object;
use parallax_protocol::secret::Secret;
use serde_json::Value;

use super::enablement::ExtensionScope;
use crate::credentials::store_in_keychain;
use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{dotenv, json_state_file, jsonc, read};

/// Maximum size of an extension's `.env` file in bytes.
const LIMIT: u64 = 64 * 1024;
const USER: &str = "user";

/// The values of an extension, by variable.
pub(crate) type ExtensionValues = BTreeMap<String, String>;

fn file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("extension-settings.json")
}

fn scope_name(scope: ExtensionScope<'_>) -> String {
    match scope {
        ExtensionScope::User => USER.to_owned(),
        ExtensionScope::Workspace(folder) => {
            let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            real.to_string_lossy().into_owned()
        }
    }
}

/// Marks a value in the file that is stored in the keychain.
const KEYCHAIN_MARKER: &str = "keychain";

fn is_in_keychain(value: &Value) -> bool {
    value.get(KEYCHAIN_MARKER) == Some(&Value::Bool(true))
}

/// Returns the name of a value in the keychain.
fn secret_name(extension: &str, scope: &str, variable: &str) -> String {
    format!("extension {extension} {variable} {scope}")
}

/// The file of all values, read once for all extensions.
#[derive(Debug, Default)]
pub(crate) struct ValueFile {
    values: Object,
    keychain: Keychain,
}

impl ValueFile {
    pub(crate) fn read(dirs: &UserDirs, keychain: &Keychain, warnings: &mut Vec<String>) -> Self {
        match jsonc::read_object(&file(dirs)) {
            Ok(known) => Self { values: known.unwrap_or_default(), keychain: keychain.clone() },
            Err(error) => {
                warnings.push(format!("{error}; extension settings are ignored"));
                Self::default()
            }
        }
    }

    /// Returns the values that apply in a workspace, with errors of the keychain. Workspace values
    /// override user values, which override values that another program left in the extension's
    /// directory.
    pub(crate) fn effective_values(
        &self,
        name: &str,
        installed: &Path,
        workspace: &Path,
    ) -> (ExtensionValues, Vec<String>) {
        let (mut values, mut notes) = (ExtensionValues::new(), Vec::new());
        if let Ok(Some(text)) = read::read_text_no_follow(&installed.join(".env"), LIMIT) {
            values.extend(dotenv::parse(&text));
        }
        for scope in [ExtensionScope::User, ExtensionScope::Workspace(workspace)] {
            let scope = scope_name(scope);
            let known = self.values.get(name).and_then(|known| known.get(&scope));
            for (variable, value) in known.and_then(Value::as_object).into_iter().flatten() {
                if is_in_keychain(value) {
                    match self.keychain.get(&secret_name(name, &scope, variable)) {
                        Ok(Some(secret)) => {
                            values.insert(variable.clone(), secret.expose().to_owned());
                        }
                        Ok(None) => {
                            notes.push(format!("the keychain no longer contains `{variable}`"));
                        }
                        Err(error) => notes.push(format!("failed to read `{variable}`: {error}")),
                    }
                } else if let Some(value) = value.as_str() {
                    values.insert(variable.clone(), value.to_owned());
                }
            }
        }
        (values, notes)
    }
}

impl ValueFile {
    /// Returns the value of a sensitive setting that Gemini CLI stored for an extension: the one
    /// for this workspace, or else the one for all. Blocking.
    pub(crate) fn gemini_value(
        &self,
        (extension, id): (&str, &str),
        workspace: &Path,
        variable: &str,
    ) -> Option<String> {
        let here = scope_name(ExtensionScope::Workspace(workspace));
        let stored_value = |workspace: Option<String>| {
            let name = SecretName::ExtensionSetting {
                extension: extension.to_owned(),
                id: id.to_owned(),
                workspace,
                variable: variable.to_owned(),
            };
            self.keychain.reference_secret(&name, true)
        };
        let stored_value = stored_value(Some(here)).or_else(|| stored_value(None))?;
        Some(stored_value.expose().to_owned())
    }
}

/// Reads values of settings from a file of the user: a JSON object, or `NAME=value` lines as in an
/// `.env` file. Blocking.
///
/// # Errors
/// Returns the reason if the file is invalid.
pub fn read_values(file: &Path) -> Result<Vec<(String, String)>, String> {
    let error_text = |reason: String| format!("`{}`: {reason}", file.display());
    let text = crate::definitions::text(file, LIMIT).map_err(error_text)?;
    if !text.trim_start().starts_with('{') {
        let mut odd = None;
        let values = dotenv::parse_with_warnings(&text, |line| odd = odd.or(Some(line)));
        // Does not quote the line, which may be part of a secret.
        return match odd {
            None => Ok(values),
            Some(line) => {
                Err(error_text(format!("line {line} does not have the form `NAME=value`")))
            }
        };
    }
    let read = jsonc::read_object(file).map_err(|error| error.to_string())?.unwrap_or_default();
    let value = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((name.clone(), value.to_string())),
        _ => Err(error_text(format!("`{name}` is not a string"))),
    };
    read.iter().map(value).collect()
}

/// Stores or removes a value. A sensitive value is stored in the keychain if there is one.
/// Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read or written.
pub fn set_extension_value(
    dirs: &UserDirs,
    keychain: &Keychain,
    name: &str,
    scope: ExtensionScope<'_>,
    (variable, sensitive): (&str, bool),
    value: Option<&str>,
) -> Result<(), ConfigError> {
    let scope = scope_name(scope);
    let secret = secret_name(name, &scope, variable);
    let before = jsonc::read_object(&file(dirs))?.unwrap_or_default();
    let before = before.get(name).and_then(|known| known.get(&scope)?.get(variable));
    let was_elsewhere = before.is_some_and(is_in_keychain);
    let label = format!("Parallax: {variable} of the extension {name}");
    let elsewhere = |value: &str| {
        sensitive && store_in_keychain(keychain, &secret, &label, &Secret::new(value))
    };
    let value: Option<CstInputValue> = match value {
        None => None,
        Some(value) if elsewhere(value) => Some(CstInputValue::Object(vec![(
            KEYCHAIN_MARKER.to_owned(),
            CstInputValue::Bool(true),
        )])),
        Some(value) => Some(value.into()),
    };
    if was_elsewhere && !matches!(value, Some(CstInputValue::Object(_))) {
        delete_secret(keychain, &secret);
    }
    json_state_file::update(&file(dirs), |root| {
        let values = root.object_value_or_set(name).object_value_or_set(&scope);
        match (values.get(variable), value) {
            (Some(there), Some(value)) => there.set_value(value),
            (Some(there), None) => there.remove(),
            (None, Some(value)) => drop(values.append(variable, value)),
            (None, None) => {}
        }
    })
}

/// Removes a secret. An unreferenced secret that stays in the keychain is harmless.
fn delete_secret(keychain: &Keychain, secret: &str) {
    // The user could do nothing about the error.
    let _ = keychain.delete(secret);
}

/// Removes all values of an extension except those of the given variables. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read or written.
pub fn retain_extension_values(
    dirs: &UserDirs,
    keychain: &Keychain,
    name: &str,
    variables: &[String],
) -> Result<(), ConfigError> {
    if !file(dirs).exists() {
        return Ok(());
    }
    let before = jsonc::read_object(&file(dirs))?.unwrap_or_default();
    for (scope, values) in before.get(name).and_then(Value::as_object).into_iter().flatten() {
        for (variable, value) in values.as_object().into_iter().flatten() {
            if is_in_keychain(value) && !variables.contains(variable) {
                delete_secret(keychain, &secret_name(name, scope, variable));
            }
        }
    }
    json_state_file::update(&file(dirs), |root| {
        let Some(known) = root.object_value(name) else { return };
        if variables.is_empty() {
            if let Some(entry) = root.get(name) {
                entry.remove();
            }
            return;
        }
        for scope in known.properties() {
            let Some(values) = scope.value().and_then(|value| value.as_object()) else { continue };
            for value in values.properties() {
                let name = value.name().and_then(|name| name.decoded_value().ok());
                if name.is_none_or(|name| !variables.contains(&name)) {
                    value.remove();
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_values_override_user_values_and_leftovers() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let dirs = UserDirs {
            user: root.to_owned(),
            gemini: root.join(".gemini"),
            parallax: root.join(".parallax"),
        };
        let installed = root.join("ext");
        std::fs::create_dir_all(&installed).expect("directory");
        std::fs::write(installed.join(".env"), "A=left\nB='left b'\nC=left\n").expect("written");
        let here = ExtensionScope::Workspace(root);
        let none = Keychain::default();
        let set = |scope, variable: &str, value| {
            set_extension_value(&dirs, &none, "e", scope, (variable, true), value).expect("set");
        };
        set(ExtensionScope::User, "B", Some("user"));
        set(ExtensionScope::User, "C", Some("user"));
        set(here, "C", Some("here \"quoted\"\\"));
        let values = || {
            ValueFile::read(&dirs, &none, &mut Vec::new()).effective_values("e", &installed, root).0
        };
        let pairs = |pairs: [(&str, &str); 3]| -> ExtensionValues {
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        };
        assert_eq!(values(), pairs([("A", "left"), ("B", "user"), ("C", "here \"quoted\"\\")]));
        retain_extension_values(&dirs, &none, "e", &["B".to_owned()]).expect("kept");
        assert_eq!(values(), pairs([("A", "left"), ("B", "user"), ("C", "left")]));
        retain_extension_values(&dirs, &none, "e", &[]).expect("forgotten");
        assert_eq!(values().get("B").map(String::as_str), Some("left b"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(file(&dirs)).expect("file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
