//! Adding a server to a settings file and taking it out again, comments kept.

use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use serde_json::Value;

use crate::error::ConfigError;
use crate::homes::Homes;
use crate::{jsonc, layers, state};

/// Whose settings are changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum McpScope {
    /// The user's: `~/.parallax/settings.json`.
    User,
    /// The project's: `.parallax/settings.json`, or `.gemini/settings.json` where the
    /// server, or every setting, is there.
    #[default]
    Project,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// It was not there before.
    Added,
    /// It took the place of another one.
    Updated,
    /// It is gone.
    Removed,
    /// There was none.
    NotThere,
}

/// The settings file of a scope in which a server is changed; `None` when the project is
/// the home directory, whose settings are the user's. Blocking.
pub fn scope_file(scope: McpScope, homes: &Homes, project: &Path, server: &str) -> Option<PathBuf> {
    match scope {
        McpScope::User => Some(homes.parallax.join("settings.json")),
        McpScope::Project if homes.is_home(project) => None,
        McpScope::Project => Some(layers::project_file(project, |values| {
            values.get("mcpServers").is_some_and(|servers| servers.get(server).is_some())
        })),
    }
}

/// Writes a server into a settings file. Blocking.
///
/// # Errors
/// The file cannot be read, understood or written.
pub fn add_server(file: &Path, name: &str, server: &Object) -> Result<Edited, ConfigError> {
    let mut edited = Edited::Added;
    state::update(file, |root| {
        let servers = root.object_value_or_set("mcpServers");
        let value = jsonc::input(&Value::Object(server.clone()));
        match servers.get(name) {
            Some(there) => {
                edited = Edited::Updated;
                there.set_value(value);
            }
            None => {
                servers.append(name, value);
            }
        }
    })?;
    Ok(edited)
}

/// Takes a server out of a settings file. Blocking.
///
/// # Errors
/// The file cannot be read, understood or written.
pub fn remove_server(file: &Path, name: &str) -> Result<Edited, ConfigError> {
    let there = jsonc::read_object(file)?.is_some_and(|settings| {
        settings.get("mcpServers").and_then(|servers| servers.get(name)).is_some()
    });
    if !there {
        return Ok(Edited::NotThere);
    }
    state::update(file, |root| {
        if let Some(entry) = root.object_value("mcpServers").and_then(|servers| servers.get(name)) {
            entry.remove();
        }
    })?;
    Ok(Edited::Removed)
}

/// The servers that stand in a settings file, as far as that can be read. Blocking.
pub fn names_in(file: &Path) -> Vec<String> {
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
    fn servers_come_and_go_and_comments_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(".parallax/settings.json");
        let server = |value: Value| value.as_object().cloned().expect("an object");
        let one = server(json!({"command": "c", "args": ["a \"b\""], "env": {"K": "v=w"}}));
        assert_eq!(add_server(&file, "my_srv", &one).expect("added"), Edited::Added);
        let text = std::fs::read_to_string(&file).expect("the file");
        std::fs::write(&file, text.replacen('{', "{ // mine\n", 1)).expect("written");
        let two = server(json!({"url": "https://x.example/"}));
        assert_eq!(add_server(&file, "my_srv", &two).expect("updated"), Edited::Updated);
        assert_eq!(add_server(&file, "b", &one).expect("added"), Edited::Added);
        let read = jsonc::read_object(&file).expect("read").expect("there");
        assert_eq!(read["mcpServers"], json!({"my_srv": two, "b": one}));
        assert_eq!(remove_server(&file, "my_srv").expect("removed"), Edited::Removed);
        assert_eq!(remove_server(&file, "my_srv").expect("looked"), Edited::NotThere);
        let text = std::fs::read_to_string(&file).expect("the file");
        assert!(text.contains("// mine") && text.contains("v=w") && !text.contains("my_srv"));
    }
}
