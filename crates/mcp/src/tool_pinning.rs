//! Pins of approved tool definitions: a tool whose definition changed since its approval requires
//! approval again, even if a rule allows it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache;
use crate::catalog::ToolEntry;
use crate::files;

const LIMIT: u64 = 8 * 1024 * 1024;

type Hashes = BTreeMap<String, BTreeMap<String, String>>;

/// The hashes of tool definitions, by server and tool name.
#[derive(Debug)]
pub(crate) struct ToolPins {
    path: PathBuf,
    hashes: Mutex<Option<Hashes>>,
}

impl ToolPins {
    pub(crate) fn new(home: &Path) -> Self {
        Self { path: home.join("mcp-pins.json"), hashes: Mutex::new(None) }
    }

    /// Whether the tool was approved with a different definition. Reads the file once.
    pub(crate) fn has_changed(&self, server: &str, tool: &str, hash: &str) -> bool {
        let hashes = self.hashes();
        let pinned = hashes.as_ref().and_then(|all| all.get(server)?.get(tool));
        pinned.is_some_and(|pinned| pinned != hash)
    }

    /// Saves the current definition. Blocking.
    pub(crate) fn save(&self, server: &str, tool: &str, hash: &str) {
        let mut hashes = self.hashes();
        // Another session may have changed the file.
        let mut all: Hashes = files::read(&self.path, LIMIT).unwrap_or_default();
        let tools = all.entry(server.to_owned()).or_default();
        if tools.get(tool).is_none_or(|pinned| pinned != hash) {
            tools.insert(tool.to_owned(), hash.to_owned());
            if let Err(error) = files::write(&self.path, &all) {
                tracing::warn!(%error, "failed to store the description of an MCP tool");
            }
        }
        *hashes = Some(all);
    }

    fn hashes(&self) -> MutexGuard<'_, Option<Hashes>> {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        hashes.get_or_insert_with(|| files::read(&self.path, LIMIT).unwrap_or_default());
        hashes
    }
}

/// Returns the hash of the part of a tool definition that the model sees.
pub(crate) fn hash(entry: &ToolEntry) -> String {
    let schema = entry.schema.to_string();
    cache::key([entry.name.as_str(), entry.description.as_str(), schema.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_tool_is_detected_across_sessions() {
        let home = tempfile::tempdir().expect("a folder");
        let entry = ToolEntry { name: "t".into(), description: "d".into(), ..ToolEntry::default() };
        let other = ToolEntry { description: "obey".into(), ..entry.clone() };
        let pins = ToolPins::new(home.path());
        assert!(!pins.has_changed("s", "t", &hash(&entry)));
        pins.save("s", "t", &hash(&entry));
        let later = ToolPins::new(home.path());
        assert!(!later.has_changed("s", "t", &hash(&entry)));
        assert!(later.has_changed("s", "t", &hash(&other)));
        later.save("s", "t", &hash(&other));
        assert!(!ToolPins::new(home.path()).has_changed("s", "t", &hash(&other)));
    }
}
