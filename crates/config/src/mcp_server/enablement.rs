//! The MCP servers that the user disabled: `mcp-server-enablement.json`, with lowercase names.

use std::collections::HashMap;
use std::path::PathBuf;

use jsonc_parser::cst::CstInputValue;
use serde_json::Value;

use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

const FILE: &str = "mcp-server-enablement.json";

/// Whether a list entry (in `mcp.allowed`, for example) refers to the server, ignoring case.
/// `ext:<extension>:<name>` is an old form of `<name>`.
pub fn is_same_name(entry: &str, name: &str) -> bool {
    let plain = legacy_name(entry).unwrap_or_else(|| entry.trim());
    plain.to_lowercase() == name.trim().to_lowercase()
}

/// Returns the name in an entry of the old form.
pub(crate) fn legacy_name(entry: &str) -> Option<&str> {
    entry.trim().strip_prefix("ext:")?.split_once(':').map(|(_, name)| name)
}

/// The files that store which servers are disabled.
#[derive(Debug, Clone)]
pub struct EnablementFiles {
    gemini_file: PathBuf,
    own_file: PathBuf,
}

/// The contents of these files.
#[derive(Debug, Default)]
pub(crate) struct Enablement {
    enabled: HashMap<String, bool>,
}

impl Enablement {
    pub(crate) fn is_disabled(&self, name: &str) -> bool {
        self.enabled.get(&name.trim().to_lowercase()) == Some(&false)
    }
}

impl EnablementFiles {
    /// Returns the files in the user's directories.
    pub fn for_user(dirs: &UserDirs) -> Self {
        Self { gemini_file: dirs.gemini.join(FILE), own_file: dirs.parallax.join(FILE) }
    }

    /// Reads the files. The one in `~/.parallax` is read last and overrides the other.
    pub(crate) fn read(&self, warnings: &mut Vec<String>) -> Enablement {
        let mut enablement = Enablement::default();
        for path in [&self.gemini_file, &self.own_file] {
            match jsonc::read_object(path) {
                Ok(file) => {
                    for (name, entry) in file.into_iter().flatten() {
                        if let Some(enabled) = entry.get("enabled").and_then(Value::as_bool) {
                            enablement.enabled.insert(name.to_lowercase(), enabled);
                        }
                    }
                }
                Err(error) => warnings.push(format!("{error}; its entries are ignored")),
            }
        }
        enablement
    }

    /// Enables or disables a server in the file in `~/.parallax`. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn set(&self, name: &str, enabled: bool) -> Result<(), ConfigError> {
        let name = name.trim().to_lowercase();
        json_state_file::update(&self.own_file, |root| {
            let entry =
                CstInputValue::Object(vec![("enabled".to_owned(), CstInputValue::Bool(enabled))]);
            match root.get(&name) {
                Some(existing) => existing.set_value(entry),
                None => {
                    root.append(&name, entry);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallax_switch_overrides_gemini_file_without_writing_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = EnablementFiles {
            gemini_file: directory.path().join("g").join(FILE),
            own_file: directory.path().join("p").join(FILE),
        };
        std::fs::create_dir(directory.path().join("g")).expect("made");
        std::fs::write(&files.gemini_file, r#"{"my_srv": {"enabled": false}}"#).expect("written");
        assert!(files.read(&mut Vec::new()).is_disabled("My_Srv"));
        files.set("MY_SRV", true).expect("set");
        files.set("other", false).expect("set");
        let read = files.read(&mut Vec::new());
        assert!(!read.is_disabled("my_srv") && read.is_disabled("other"));
        let theirs = std::fs::read_to_string(&files.gemini_file).expect("theirs");
        assert!(theirs.contains("false"));
    }

    #[test]
    fn server_names_are_case_insensitive() {
        assert!(is_same_name("Git", "git") && is_same_name("ext:tools:git", "GIT"));
        assert!(!is_same_name("git2", "git") && !is_same_name("ext:git", "git"));
    }
}
