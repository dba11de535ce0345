//! Adds and removes MCP servers in settings files and keeps comments.

use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use serde_json::Value;

use crate::error::ConfigError;
use crate::jsonc::last_property;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc, layers};

/// The settings file to change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum McpScope {
    /// The user's: `~/.parallax/settings.json`.
    User,
    /// The project's: `.parallax/settings.json`, or `.gemini/settings.json` if that file holds the
    /// server or is the only one.
    #[default]
    Project,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditResult {
    /// The server was added.
    Added,
    /// The server replaced an existing one.
    Updated,
    /// The server was removed.
    Removed,
    /// The server did not exist.
    NotFound,
}

/// Returns the settings file of a scope in which to change a server; `None` if the project is the
/// home directory, whose settings are the user's. Blocking.
pub fn scope_file(
    scope: McpScope,
    dirs: &UserDirs,
    project: &Path,
    server: &str,
) -> Option<PathBuf> {
    match scope {
        McpScope::User => Some(dirs.parallax.join("settings.json")),
        McpScope::Project if dirs.is_home(project) => None,
        McpScope::Project => Some(layers::project_file(project, |values| {
            values.get("mcpServers").is_some_and(|servers| servers.get(server).is_some())
        })),
    }
}

/// Writes a server to a settings file. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read, parsed, or written.
pub fn add_server(file: &Path, name: &str, server: &Object) -> Result<EditResult, ConfigError> {
    let mut edited = EditResult::Added;
    json_state_file::update(file, |root| {
        let servers = match last_property(root, "mcpServers") {
            Some(servers) => servers.object_value_or_set(),
            None => root.object_value_or_set("mcpServers"),
        };
        let value = jsonc::input(&Value::Object(server.clone()));
        match last_property(&servers, name) {
            Some(existing) => {
                edited = EditResult::Updated;
                existing.set_value(value);
            }
            None => {
                servers.append(name, value);
            }
        }
    })?;
    Ok(edited)
}

/// Removes a server from a settings file. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read, parsed, or written.
pub fn remove_server(file: &Path, name: &str) -> Result<EditResult, ConfigError> {
    let exists = jsonc::read_object(file)?.is_some_and(|settings| {
        settings.get("mcpServers").and_then(|servers| servers.get(name)).is_some()
    });
    if !exists {
        return Ok(EditResult::NotFound);
    }
    json_state_file::update(file, |root| {
        let servers = last_property(root, "mcpServers").and_then(|servers| servers.object_value());
        // Without the last one, an earlier one would count.
        while let Some(entry) = servers.as_ref().and_then(|servers| last_property(servers, name)) {
            entry.remove();
        }
    })?;
    Ok(EditResult::Removed)
}

/// Returns the servers in a settings file, as far as it can be read. Blocking.
pub fn server_names(file: &Path) -> Vec<String> {
    let read = jsonc::read_object(file).ok().flatten();
    let servers = read.and_then(|mut file| file.shift_remove("mcpServers"));
    let names = servers.as_ref().and_then(Value::as_object).map(|servers| servers.keys().cloned());
    names.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_keys_are_changed_where_they_take_effect() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("settings.json");
        let text = r#"{"mcpServers": {"a": {"command": "1"}}, // first
            "mcpServers": {"b": {"command": "2"}, "b": {"command": "3"}}}"#;
        std::fs::write(&file, text).expect("written");
        let server = json!({"command": "c"});
        let server = server.as_object().expect("an object");
        assert_eq!(add_server(&file, "f", server).expect("added"), EditResult::Added);
        assert_eq!(add_server(&file, "b", server).expect("changed"), EditResult::Updated);
        let servers =
            || jsonc::read_object(&file).expect("read").expect("there")["mcpServers"].clone();
        assert_eq!(servers(), json!({"b": {"command": "c"}, "f": {"command": "c"}}));
        assert_eq!(remove_server(&file, "b").expect("removed"), EditResult::Removed);
        assert_eq!(servers(), json!({"f": {"command": "c"}}));
        assert_eq!(remove_server(&file, "a").expect("looked"), EditResult::NotFound);
        assert!(std::fs::read_to_string(&file).expect("the file").contains("// first"));
    }

    #[test]
    fn server_edits_preserve_comments() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join(".parallax/settings.json");
        let server = |value: Value| value.as_object().cloned().expect("an object");
        let one = server(json!({"command": "c", "args": ["a \"b\""], "env": {"K": "v=w"}}));
        assert_eq!(add_server(&file, "my_srv", &one).expect("added"), EditResult::Added);
        let text = std::fs::read_to_string(&file).expect("the file");
        std::fs::write(&file, text.replacen('{', "{ // mine\n", 1)).expect("written");
        let two = server(json!({"url": "https://x.example/"}));
        assert_eq!(add_server(&file, "my_srv", &two).expect("updated"), EditResult::Updated);
        assert_eq!(add_server(&file, "b", &one).expect("added"), EditResult::Added);
        let read = jsonc::read_object(&file).expect("read").expect("there");
        assert_eq!(read["mcpServers"], json!({"my_srv": two, "b": one}));
        assert_eq!(remove_server(&file, "my_srv").expect("removed"), EditResult::Removed);
        assert_eq!(remove_server(&file, "my_srv").expect("looked"), EditResult::NotFound);
        let text = std::fs::read_to_string(&file).expect("the file");
        assert!(text.contains("// mine") && text.contains("v=w") && !text.contains("my_srv"));
    }
}
