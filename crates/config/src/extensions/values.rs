//! The values of extensions' settings: kept in one file of the user's alone, so
//! that they outlive updates and no folder of an extension holds a secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use serde_json::Value;

use super::enablement::ExtensionScope;
use crate::error::ConfigError;
use crate::homes::Homes;
use crate::{dotenv, jsonc, read, state};

/// Bytes of an extension's `.env` file.
const LIMIT: u64 = 64 * 1024;
const USER: &str = "user";

/// The values of an extension, by variable.
pub(crate) type Values = BTreeMap<String, String>;

fn file(homes: &Homes) -> PathBuf {
    homes.parallax.join("extension-settings.json")
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

/// The file of all values, read once for all extensions.
#[derive(Debug, Default)]
pub(crate) struct ValueFile(Object);

impl ValueFile {
    pub(crate) fn read(homes: &Homes, warnings: &mut Vec<String>) -> Self {
        match jsonc::read_object(&file(homes)) {
            Ok(known) => Self(known.unwrap_or_default()),
            Err(error) => {
                warnings.push(format!("{error}; the settings of extensions are not known"));
                Self::default()
            }
        }
    }

    /// What holds in a workspace: its own values over the user's, and those over
    /// what another program left in the extension's folder.
    pub(crate) fn of(&self, name: &str, installed: &Path, workspace: &Path) -> Values {
        let mut values = Values::new();
        if let Ok(Some(text)) = read::read_text_no_follow(&installed.join(".env"), LIMIT) {
            values.extend(dotenv::parse(&text));
        }
        for scope in [ExtensionScope::User, ExtensionScope::Workspace(workspace)] {
            let known = self.0.get(name).and_then(|known| known.get(scope_name(scope)));
            for (variable, value) in known.and_then(Value::as_object).into_iter().flatten() {
                if let Some(value) = value.as_str() {
                    values.insert(variable.clone(), value.to_owned());
                }
            }
        }
        values
    }
}

/// Keeps a value, or forgets it. Blocking.
///
/// # Errors
/// The file cannot be read or written.
pub fn set_extension_value(
    homes: &Homes,
    name: &str,
    scope: ExtensionScope<'_>,
    variable: &str,
    value: Option<&str>,
) -> Result<(), ConfigError> {
    let scope = scope_name(scope);
    state::update(&file(homes), |root| {
        let values = root.object_value_or_set(name).object_value_or_set(&scope);
        match (values.get(variable), value) {
            (Some(there), Some(value)) => there.set_value(value.into()),
            (Some(there), None) => there.remove(),
            (None, Some(value)) => drop(values.append(variable, value.into())),
            (None, None) => {}
        }
    })
}

/// Forgets all values of an extension but those of these variables. Blocking.
///
/// # Errors
/// The file cannot be read or written.
pub fn keep_extension_values(
    homes: &Homes,
    name: &str,
    variables: &[String],
) -> Result<(), ConfigError> {
    if !file(homes).exists() {
        return Ok(());
    }
    state::update(&file(homes), |root| {
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
    fn the_workspace_overrules_the_user_and_both_what_was_left() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path();
        let homes = Homes {
            user: root.to_owned(),
            gemini: root.join(".gemini"),
            parallax: root.join(".parallax"),
        };
        let installed = root.join("ext");
        std::fs::create_dir_all(&installed).expect("folder");
        std::fs::write(installed.join(".env"), "A=left\nB='left b'\nC=left\n").expect("written");
        let here = ExtensionScope::Workspace(root);
        let set = |scope, variable: &str, value| {
            set_extension_value(&homes, "e", scope, variable, value).expect("set");
        };
        set(ExtensionScope::User, "B", Some("user"));
        set(ExtensionScope::User, "C", Some("user"));
        set(here, "C", Some("here \"quoted\"\\"));
        let values = || ValueFile::read(&homes, &mut Vec::new()).of("e", &installed, root);
        let pairs = |pairs: [(&str, &str); 3]| -> Values {
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        };
        assert_eq!(values(), pairs([("A", "left"), ("B", "user"), ("C", "here \"quoted\"\\")]));
        keep_extension_values(&homes, "e", &["B".to_owned()]).expect("kept");
        assert_eq!(values(), pairs([("A", "left"), ("B", "user"), ("C", "left")]));
        keep_extension_values(&homes, "e", &[]).expect("forgotten");
        assert_eq!(values().get("B").map(String::as_str), Some("left b"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(file(&homes)).expect("file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
