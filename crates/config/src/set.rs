//! Changes one setting in a settings file. Comments, order, and everything else in the file are
//! kept.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstArray, CstObject};
use parallax_protocol::Object;
use serde_json::Value;

use crate::error::ConfigError;
use crate::jsonc::last_property;
use crate::load::Config;
use crate::setting_table::settings_table;
use crate::untrusted_settings;
use crate::{json_state_file, jsonc, layers, migrate};

/// The settings file to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingScope {
    /// The user's: `~/.parallax/settings.json`.
    User,
    /// The project's: `.parallax/settings.json`, or `.gemini/settings.json` if that file holds the
    /// setting or is the only one.
    Workspace,
}

/// Why a setting was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The setting is unknown.
    #[error("unknown setting `{key}`")]
    Unknown {
        /// The name.
        key: String,
    },
    /// The value has the wrong type.
    #[error("`{key}` must be {expected}")]
    Value {
        /// The name.
        key: &'static str,
        /// The expected kind of value.
        expected: String,
    },
    /// The project's file cannot hold the setting.
    #[error("`{key}` cannot be set for this project: {reason}")]
    Workspace {
        /// The name.
        key: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// The file cannot be used or written.
    #[error(transparent)]
    File(#[from] ConfigError),
}

/// Writes the value of a setting; `None` removes it, so that the layers below apply again. Returns
/// the file. Settings that are already loaded do not change. Blocking.
///
/// # Errors
/// Returns an error if the setting is unknown, the value has the wrong type, a project must not set
/// it, or a file cannot be used or written.
pub fn set_setting(
    config: &Config,
    scope: SettingScope,
    key: &str,
    value: Option<&Value>,
) -> Result<PathBuf, SettingError> {
    let known = settings_table().find(|known| known.name == key);
    let known = known.ok_or_else(|| SettingError::Unknown { key: key.to_owned() })?;
    let to_error =
        || SettingError::Value { key: known.name, expected: known.kind.expected_format() };
    let value = match value {
        Some(value) => Some(known.kind.accept(value).ok_or_else(to_error)?),
        None => None,
    };
    let file = match scope {
        SettingScope::User => config.dirs.parallax.join("settings.json"),
        SettingScope::Workspace => {
            let not_settable = |reason| SettingError::Workspace { key: known.name, reason };
            workspace_file(config, known.name, value.as_ref()).map_err(not_settable)?
        }
    };
    // If the user had accepted the project's file, it stays accepted, because the user made this
    // change.
    let accepted = scope == SettingScope::Workspace
        && untrusted_settings::is_accepted_file(
            &config.dirs,
            &config.outer,
            &config.project,
            &file,
        );
    let pieces: Vec<&str> = key.split('.').collect();
    json_state_file::update(&file, |root| match &value {
        Some(value) => insert_value(root, &pieces, value),
        None => remove_value(root, &pieces),
    })?;
    if accepted {
        untrusted_settings::accept_file(&config.dirs, &config.outer, &config.project, &file)?;
    }
    Ok(file)
}

/// Returns the value of a setting in the file of a scope. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be used.
pub fn setting_of(
    config: &Config,
    scope: SettingScope,
    key: &str,
) -> Result<Option<Value>, ConfigError> {
    let file = match scope {
        SettingScope::User => config.dirs.parallax.join("settings.json"),
        SettingScope::Workspace => project_file(&config.project, key),
    };
    let values = jsonc::read_object(&file)?;
    Ok(values.as_ref().and_then(|values| migrate::get_dotted(values, key)).cloned())
}

/// Returns the project's file that holds the setting or should receive it.
fn project_file(cwd: &Path, key: &str) -> PathBuf {
    layers::project_file(cwd, |values| migrate::get_dotted(values, key).is_some())
}

/// Returns the project's file if it may hold the setting.
fn workspace_file(
    config: &Config,
    key: &str,
    value: Option<&Value>,
) -> Result<PathBuf, &'static str> {
    if !config.trust.trusted {
        return Err("the folder is not trusted, so its settings are ignored");
    }
    if config.dirs.is_home(&config.project) {
        return Err("in the home directory, all settings are user settings");
    }
    let mut values = Object::new();
    migrate::set_default(&mut values, key, value.cloned().unwrap_or(Value::Null));
    if !untrusted_settings::loosening_keys(&values, &config.project, &config.outer).is_empty() {
        return Err(
            "project settings cannot loosen restrictions; change your user settings instead",
        );
    }
    let file = project_file(&config.project, key);
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if file.parent().is_some_and(is_link) || is_link(&file) {
        return Err("its settings file is a link");
    }
    Ok(file)
}

fn insert_value(object: &CstObject, pieces: &[&str], value: &Value) {
    match pieces {
        [] => {}
        [name] => match (last_property(object, name), value) {
            (Some(property), Value::Array(items)) if property.array_value().is_some() => {
                replace_items(&property.array_value_or_set(), items);
            }
            (Some(property), value) => property.set_value(jsonc::input(value)),
            (None, value) => drop(object.append(name, jsonc::input(value))),
        },
        [name, rest @ ..] => {
            let group = match last_property(object, name) {
                Some(property) => property.object_value_or_set(),
                None => object.object_value_or_set(name),
            };
            insert_value(&group, rest, value);
        }
    }
}

/// Changes the items of a list one by one, so that comments next to the others stay.
fn replace_items(list: &CstArray, items: &[Value]) {
    let mut left: Vec<&Value> = items.iter().collect();
    let mut is_ordered = true;
    for element in list.elements() {
        let value = serde_json::from_str::<Value>(&element.to_string()).ok();
        match left.iter().position(|item| Some(*item) == value.as_ref()) {
            Some(at) => {
                is_ordered &= at == 0;
                left.remove(at);
            }
            None => element.remove(),
        }
    }
    for item in left {
        list.append(jsonc::input(item));
    }
    if !is_ordered {
        let all: Vec<Value> = items.to_vec();
        for element in list.elements() {
            element.remove();
        }
        for item in &all {
            list.append(jsonc::input(item));
        }
    }
}

fn remove_value(object: &CstObject, pieces: &[&str]) {
    match pieces {
        [] => {}
        [name] => {
            // Without the last one, an earlier one would apply.
            while let Some(property) = last_property(object, name) {
                property.remove();
            }
        }
        [name, rest @ ..] => {
            if let Some(group) = last_property(object, name).and_then(|it| it.object_value()) {
                remove_value(&group, rest);
            }
        }
    }
}
