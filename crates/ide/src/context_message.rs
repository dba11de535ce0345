//! The message to the model about the editor: complete at first, then only changes.

use std::sync::{Mutex, PoisonError};

use parallax_protocol::context::EditorContext;
use serde_json::{Map, Value, json};

use crate::companion::Companion;
use crate::open_files::{EditorFile, OpenFiles};

/// Tells the model about the files that are open in the connected editor.
#[derive(Debug)]
pub struct CompanionContext {
    companion: Companion,
    /// The state that the model has received; `None` if none.
    sent_files: Mutex<Option<OpenFiles>>,
}

impl CompanionContext {
    /// Creates the context of a session.
    pub fn new(companion: Companion) -> Self {
        Self { companion, sent_files: Mutex::default() }
    }
}

impl EditorContext for CompanionContext {
    fn message(&self) -> Option<String> {
        let snapshot = self.companion.snapshot();
        if !snapshot.is_connected() {
            self.companion.refresh();
            return None;
        }
        let mut known = self.sent_files.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match &*known {
            None => describe_all(&snapshot.files),
            Some(known) => changes(known, &snapshot.files),
        }?;
        *known = Some(snapshot.files.as_ref().clone());
        Some(message)
    }

    fn reset(&self) {
        *self.sent_files.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn fenced(sentence: &str, value: &Value) -> Option<String> {
    let json = serde_json::to_string_pretty(value).ok()?;
    Some(format!("{sentence}\n```json\n{json}\n```"))
}

/// Describes all open files; `None` if there are none.
fn describe_all(files: &OpenFiles) -> Option<String> {
    let mut object = Map::new();
    let active = files.active();
    if let Some(file) = active {
        let mut shown = Map::new();
        shown.insert("path".into(), json!(file.path));
        if let Some(cursor) = file.cursor {
            shown.insert("cursor".into(), json!(cursor));
        }
        if let Some(text) = &file.selected_text {
            shown.insert("selectedText".into(), json!(text));
        }
        object.insert("activeFile".into(), Value::Object(shown));
    }
    let others: Vec<&str> =
        files.files.iter().filter(|file| !file.is_active).map(|file| file.path.as_str()).collect();
    if !others.is_empty() {
        object.insert("otherOpenFiles".into(), json!(others));
    }
    if object.is_empty() {
        return None;
    }
    fenced(
        "Here is the user's editor context as a JSON object. This is for your information only.",
        &Value::Object(object),
    )
}

/// Describes the differences between two states; `None` if there are none.
fn changes(before: &OpenFiles, after: &OpenFiles) -> Option<String> {
    let mut changes = Map::new();
    let paths = |files: &OpenFiles, other: &OpenFiles| -> Vec<String> {
        let has = |file: &EditorFile| other.files.iter().any(|it| it.path == file.path);
        files.files.iter().filter(|file| !has(file)).map(|file| file.path.clone()).collect()
    };
    let (opened, closed) = (paths(after, before), paths(before, after));
    if !opened.is_empty() {
        changes.insert("filesOpened".into(), json!(opened));
    }
    if !closed.is_empty() {
        changes.insert("filesClosed".into(), json!(closed));
    }
    match (before.active(), after.active()) {
        (was, Some(is)) if was.is_none_or(|was| was.path != is.path) => {
            let changed =
                json!({"path": is.path, "cursor": is.cursor, "selectedText": is.selected_text});
            changes.insert("activeFileChanged".into(), changed);
        }
        (Some(was), Some(is)) => {
            if was.cursor != is.cursor && is.cursor.is_some() {
                let moved = json!({"path": is.path, "cursor": is.cursor});
                changes.insert("cursorMoved".into(), moved);
            }
            if was.selected_text != is.selected_text {
                let text = is.selected_text.as_deref().unwrap_or_default();
                let selected = json!({"path": is.path, "selectedText": text});
                changes.insert("selectionChanged".into(), selected);
            }
        }
        (Some(was), None) => {
            let changed = json!({"path": null, "previousPath": was.path});
            changes.insert("activeFileChanged".into(), changed);
        }
        (None, _) => {}
    }
    if changes.is_empty() {
        return None;
    }
    fenced(
        "Here is a summary of changes in the user's editor context, in JSON format. This is for \
         your information only.",
        &json!({"changes": changes}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_files::CursorPosition;

    fn file(path: &str, active: Option<(u64, Option<&str>)>) -> EditorFile {
        EditorFile {
            path: path.to_owned(),
            is_active: active.is_some(),
            cursor: active.map(|(line, _)| CursorPosition { line, character: 1 }),
            selected_text: active.and_then(|(_, text)| text.map(str::to_owned)),
        }
    }

    fn open(files: &[EditorFile]) -> OpenFiles {
        OpenFiles { files: files.to_vec() }
    }

    fn json_of(message: &str) -> Value {
        let (_, json) = message.split_once("```json\n").expect("a fence");
        serde_json::from_str(json.strip_suffix("\n```").expect("a fence")).expect("JSON")
    }

    #[test]
    fn first_context_message_is_complete() {
        let files = open(&[file("/a", Some((3, Some("```\nx")))), file("/b", None)]);
        let message = describe_all(&files).expect("a message");
        assert_eq!(
            json_of(&message),
            json!({
                "activeFile": {"path": "/a", "cursor": {"line": 3, "character": 1},
                    "selectedText": "```\nx"},
                "otherOpenFiles": ["/b"],
            })
        );
        assert_eq!(message.lines().filter(|line| line.starts_with("```")).count(), 2);
        assert_eq!(describe_all(&OpenFiles::default()), None);
    }

    #[test]
    fn later_context_messages_contain_only_changes() {
        let before = open(&[file("/a", Some((1, None))), file("/b", None)]);
        assert_eq!(changes(&before, &before.clone()), None);
        let moved = open(&[file("/a", Some((2, Some("x")))), file("/b", None)]);
        let message = changes(&before, &moved).expect("a message");
        assert_eq!(
            json_of(&message),
            json!({"changes": {
                "cursorMoved": {"path": "/a", "cursor": {"line": 2, "character": 1}},
                "selectionChanged": {"path": "/a", "selectedText": "x"},
            }})
        );
        let other = open(&[file("/c", Some((5, None))), file("/b", None)]);
        let message = changes(&moved, &other).expect("a message");
        assert_eq!(
            json_of(&message),
            json!({"changes": {
                "filesOpened": ["/c"],
                "filesClosed": ["/a"],
                "activeFileChanged": {"path": "/c", "cursor": {"line": 5, "character": 1},
                    "selectedText": null},
            }})
        );
        let none = changes(&other, &OpenFiles::default()).expect("a message");
        assert_eq!(json_of(&none)["changes"]["filesClosed"], json!(["/c", "/b"]));
        assert_eq!(json_of(&none)["changes"]["activeFileChanged"]["path"], Value::Null);
    }
}
