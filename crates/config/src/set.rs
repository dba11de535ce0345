//! Changing one setting in a settings file: comments, order and everything else
//! in the file stay.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::CstObject;
use parallax_protocol::Object;
use serde_json::Value;

use crate::error::ConfigError;
use crate::gate;
use crate::keys::KEYS;
use crate::load::Config;
use crate::{jsonc, layers, migrate, state};

/// For which projects a setting holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingScope {
    /// All of the user's: `~/.parallax/settings.json`.
    User,
    /// This one: `.parallax/settings.json` in it, or `.gemini/settings.json` where the
    /// setting, or every setting, is there.
    Workspace,
}

/// A setting that was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("there is no setting `{key}`")]
    Unknown {
        /// Its name.
        key: String,
    },
    /// It cannot hold that.
    #[error("`{key}` must be {expected}")]
    Value {
        /// Its name.
        key: &'static str,
        /// What it may hold.
        expected: String,
    },
    /// The project's file cannot hold it.
    #[error("`{key}` cannot be set for this project: {why}")]
    Workspace {
        /// Its name.
        key: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The file.
    #[error(transparent)]
    File(#[from] ConfigError),
}

/// Writes the value of a setting; `None` takes it out, so that the layers below
/// speak again. Gives the file. The settings that were read before do not
/// change: load them anew. Blocking.
///
/// # Errors
/// An unknown setting, a value of the wrong type, a project that must not say
/// this, a file that cannot be used or written.
pub fn set_setting(
    config: &Config,
    scope: SettingScope,
    key: &str,
    value: Option<&Value>,
) -> Result<PathBuf, SettingError> {
    let known = KEYS.iter().find(|known| known.name == key);
    let known = known.ok_or_else(|| SettingError::Unknown { key: key.to_owned() })?;
    let wrong = || SettingError::Value { key: known.name, expected: known.kind.expected() };
    let value = match value {
        Some(value) => Some(known.kind.accept(value).ok_or_else(wrong)?),
        None => None,
    };
    let file = match scope {
        SettingScope::User => config.homes.parallax.join("settings.json"),
        SettingScope::Workspace => {
            let refused = |why| SettingError::Workspace { key: known.name, why };
            workspace_file(config, known.name, value.as_ref()).map_err(refused)?
        }
    };
    // What the user accepted of the project stays accepted: the change is theirs.
    let accepted = scope == SettingScope::Workspace && gate::is_accepted_file(config, &file);
    let pieces: Vec<&str> = key.split('.').collect();
    state::update(&file, |root| match &value {
        Some(value) => put(root, &pieces, value),
        None => take(root, &pieces),
    })?;
    if accepted {
        gate::accept_file(config, &file)?;
    }
    Ok(file)
}

/// The value that the file of a scope itself gives to a setting. Blocking.
///
/// # Errors
/// The file cannot be used.
pub fn setting_of(
    config: &Config,
    scope: SettingScope,
    key: &str,
) -> Result<Option<Value>, ConfigError> {
    let file = match scope {
        SettingScope::User => config.homes.parallax.join("settings.json"),
        SettingScope::Workspace => project_file(&config.project, key),
    };
    let values = jsonc::read_object(&file)?;
    Ok(values.as_ref().and_then(|values| migrate::look(values, key)).cloned())
}

/// The project's file that has the setting, or that takes it.
fn project_file(cwd: &Path, key: &str) -> PathBuf {
    layers::project_file(cwd, |values| migrate::look(values, key).is_some())
}

/// The project's file, when it may say this.
fn workspace_file(
    config: &Config,
    key: &str,
    value: Option<&Value>,
) -> Result<PathBuf, &'static str> {
    if !config.trust.trusted {
        return Err("the folder is not trusted, so its settings do not count");
    }
    if config.homes.is_home(&config.project) {
        return Err("in the home directory all settings are the user's");
    }
    let mut values = Object::new();
    migrate::set_if_absent(&mut values, key, value.cloned().unwrap_or(Value::Null));
    if !gate::loosening(&values, &config.project, &config.outer).is_empty() {
        return Err("a project may not loosen what may happen; set it for yourself");
    }
    let file = project_file(&config.project, key);
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
    if file.parent().is_some_and(is_link) || is_link(&file) {
        return Err("its settings file is a link, which could lead anywhere");
    }
    Ok(file)
}

fn put(object: &CstObject, pieces: &[&str], value: &Value) {
    match pieces {
        [] => {}
        [name] => match object.get(name) {
            Some(property) => property.set_value(jsonc::input(value)),
            None => drop(object.append(name, jsonc::input(value))),
        },
        [name, rest @ ..] => put(&object.object_value_or_set(name), rest, value),
    }
}

fn take(object: &CstObject, pieces: &[&str]) {
    match pieces {
        [] => {}
        [name] => {
            if let Some(property) = object.get(name) {
                property.remove();
            }
        }
        [name, rest @ ..] => {
            if let Some(group) = object.object_value(name) {
                take(&group, rest);
            }
        }
    }
}
