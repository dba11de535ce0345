//! The files that are open in the editor.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

/// Maximum number of files.
const MAX_FILES: usize = 10;
/// Maximum characters of the selection.
const MAX_SELECTION: usize = 16_384;
/// Marks a truncated selection.
const TRUNCATED: &str = "... [TRUNCATED]";
/// Maximum length of a path; no system has longer ones.
const MAX_PATH: usize = 32_768;

/// A position in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct CursorPosition {
    /// The line.
    pub line: u64,
    /// The character in the line.
    pub character: u64,
}

/// A file that is open in the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorFile {
    /// Path of the file.
    pub path: String,
    /// Whether it has focus.
    pub is_active: bool,
    /// Cursor position; only for the active file.
    pub cursor: Option<CursorPosition>,
    /// Selected text; only for the active file.
    pub selected_text: Option<String>,
}

/// The open files, most recently used first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenFiles {
    /// The files.
    pub files: Vec<EditorFile>,
}

impl OpenFiles {
    /// Returns the file that has focus.
    pub fn active(&self) -> Option<&EditorFile> {
        self.files.first().filter(|file| file.is_active)
    }

    /// Parses an `ide/contextUpdate`. Returns the files, if it lists any, and whether the workspace
    /// is trusted. Invalid entries are skipped.
    pub(crate) fn read(params: &Value) -> (Option<Self>, Option<bool>) {
        let Some(state) = params.get("workspaceState") else { return (None, None) };
        let is_trusted = state.get("isTrusted").and_then(Value::as_bool);
        let listed = state.get("openFiles").and_then(Value::as_array);
        let files = listed.map(|entries| {
            let mut entries: Vec<FileEntry> = entries
                .iter()
                .filter_map(|entry| FileEntry::deserialize(entry).ok())
                .filter(|entry| !entry.path.is_empty() && entry.path.len() <= MAX_PATH)
                .collect();
            entries.sort_by(|one, two| two.timestamp.total_cmp(&one.timestamp));
            let mut seen = HashSet::new();
            entries.retain(|entry| seen.insert(entry.path.clone()));
            entries.truncate(MAX_FILES);
            let files = entries.into_iter().enumerate();
            Self { files: files.map(|(index, entry)| entry.file(index == 0)).collect() }
        });
        (files, is_trusted)
    }
}

/// An open file as the companion describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileEntry {
    path: String,
    #[serde(default)]
    timestamp: f64,
    #[serde(default)]
    is_active: Option<bool>,
    #[serde(default)]
    selected_text: Option<String>,
    #[serde(default)]
    cursor: Option<CursorPosition>,
}

impl FileEntry {
    /// Converts the file. Only the newest one can be active, and only an active file has a cursor
    /// and a selection.
    fn file(self, is_newest: bool) -> EditorFile {
        let is_active = is_newest && self.is_active == Some(true);
        EditorFile {
            path: self.path,
            is_active,
            cursor: self.cursor.filter(|_| is_active),
            selected_text: self
                .selected_text
                .filter(|text| is_active && !text.is_empty())
                .map(truncate),
        }
    }
}

fn truncate(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_SELECTION) {
        text.truncate(end);
        text.push_str(TRUNCATED);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(files: &Value) -> OpenFiles {
        let params = json!({"workspaceState": {"openFiles": files, "isTrusted": true}});
        let (files, is_trusted) = OpenFiles::read(&params);
        assert_eq!(is_trusted, Some(true));
        files.expect("files")
    }

    #[test]
    fn only_the_newest_file_is_active() {
        let files = read(&json!([
            {"path": "/old", "timestamp": 1, "isActive": true, "selectedText": "x",
             "cursor": {"line": 1, "character": 1}},
            {"path": "/new", "timestamp": 2, "isActive": true, "selectedText": "y",
             "cursor": {"line": 3, "character": 4}},
            {"path": "/old", "timestamp": 0},
        ]));
        assert_eq!(files.files.len(), 2);
        let active = files.active().expect("an active file");
        assert_eq!((active.path.as_str(), active.selected_text.as_deref()), ("/new", Some("y")));
        assert_eq!(active.cursor, Some(CursorPosition { line: 3, character: 4 }));
        assert_eq!(files.files[1].selected_text, None);
        assert_eq!(files.files[1].cursor, None);
        let idle = read(&json!([{"path": "/a", "timestamp": 2},
            {"path": "/b", "timestamp": 1, "isActive": true}]));
        assert_eq!(idle.active(), None, "an older file is not active");
    }

    #[test]
    fn many_files_and_long_selections_are_truncated() {
        let many: Vec<Value> = (0..30)
            .map(|at| {
                json!({"path": format!("/{at}"), "timestamp": at, "isActive": true,
                "selectedText": "ä".repeat(MAX_SELECTION + 1)})
            })
            .collect();
        let files = read(&Value::Array(many));
        assert_eq!(files.files.len(), MAX_FILES);
        let text = files.active().and_then(|file| file.selected_text.clone()).expect("a text");
        assert!(text.ends_with(TRUNCATED));
        assert_eq!(text.chars().count(), MAX_SELECTION + TRUNCATED.chars().count());
    }

    #[test]
    fn invalid_entries_are_skipped() {
        let files = read(&json!([5, {"path": 7}, {"path": ""}, {"path": "/a", "cursor": "x"},
            {"path": "/b"}, null]));
        assert_eq!(files.files.len(), 1);
        assert_eq!(OpenFiles::read(&json!({"workspaceState": {"openFiles": 3}})), (None, None));
        assert_eq!(OpenFiles::read(&json!([])), (None, None));
    }
}
