//! Lists of disabled names in settings, such as `skills.disabled`.

use std::path::PathBuf;

use serde_json::Value;

use crate::{Config, ConfigError, SettingError, SettingScope, set_setting, setting_of};

/// Returns a list of disabled names in the file of a scope. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be used.
pub fn disabled_names(
    config: &Config,
    scope: SettingScope,
    key: &str,
) -> Result<Vec<Value>, ConfigError> {
    let list = setting_of(config, scope, key)?;
    Ok(list.as_ref().and_then(Value::as_array).cloned().unwrap_or_default())
}

/// Adds a name to a list of disabled names, or removes it. Returns the file. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read or written, or a project must not set the list.
pub fn set_disabled_name(
    config: &Config,
    scope: SettingScope,
    key: &str,
    name: &str,
    is_disabled: bool,
) -> Result<PathBuf, SettingError> {
    let mut names = disabled_names(config, scope, key)?;
    names.retain(|known| known.as_str().is_none_or(|known| !known.eq_ignore_ascii_case(name)));
    if is_disabled {
        names.push(Value::String(name.to_owned()));
    }
    set_setting(config, scope, key, Some(&Value::Array(names)))
}

/// Returns which files still disable a name, if any, in words.
pub fn disabling_files(config: &Config, key: &str, name: &str) -> Option<String> {
    let list = config.settings.list(key);
    if !list.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    let origins = config.settings.origins(key);
    let files: Vec<String> =
        origins.iter().map(|origin| format!("`{}`", origin.file.display())).collect();
    Some(format!("`{name}` stays disabled: it is listed in `{key}` in one of {}", files.join(", ")))
}
