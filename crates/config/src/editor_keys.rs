//! Adds key bindings to the editor in whose terminal Parallax runs, so that the terminal
//! distinguishes Shift+Enter and Ctrl+Enter from Enter.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

use crate::error::ConfigError;
use crate::jsonc;

/// The keys, as the editors name them.
const KEYS: [&str; 2] = ["shift+enter", "ctrl+enter"];
/// The text sent to the terminal: a backslash and a line break, which shells and the composer treat
/// as a continued line.
const SENT: &str = "\\\r\n";
const COMMAND: &str = "workbench.action.terminal.sendSequence";
const WHEN: &str = "terminalFocus";

/// The result of adding the bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorKeys {
    /// The bindings already existed.
    AlreadyBound,
    /// The bindings were added. The previous file was backed up, if there was one.
    Added {
        /// The keys that were added.
        keys: Vec<&'static str>,
        /// The backup.
        backup: Option<PathBuf>,
    },
    /// The keys already have other bindings: nothing was changed.
    Conflict {
        /// Those keys.
        keys: Vec<&'static str>,
    },
}

/// Adds the bindings to a `keybindings.json`; everything else in it, including comments, is kept.
/// Blocking.
///
/// # Errors
/// Returns an error if the file cannot be parsed or written.
pub fn add_editor_keys(file: &Path) -> Result<EditorKeys, ConfigError> {
    let failed = |source| ConfigError::Unwritable { path: file.to_owned(), source };
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let read = jsonc::read_document(&target)?;
    let text = read.clone().filter(|text| !text.trim().is_empty()).unwrap_or_else(|| "[]\n".into());
    // Editors allow trailing commas.
    let syntax = ParseOptions { allow_trailing_commas: true, ..jsonc::syntax() };
    let not_a_list = |reason: String| ConfigError::NotKeyBindings { path: file.to_owned(), reason };
    let bound: Vec<Value> = jsonc_parser::parse_to_serde_value(&text, &syntax)
        .map_err(|error| not_a_list(error.to_string()))?;
    let of = |key: &'static str| {
        let is_key = move |entry: &&Value| entry.get("key").and_then(Value::as_str) == Some(key);
        bound.iter().filter(is_key)
    };
    let ours = |entry: &Value| {
        entry.get("command").and_then(Value::as_str) == Some(COMMAND)
            && entry.pointer("/args/text").and_then(Value::as_str) == Some(SENT)
    };
    // Bindings of the same keys in other contexts do not conflict.
    let in_terminal = |entry: &Value| match entry.get("when").and_then(Value::as_str) {
        None => true,
        Some(when) => when.contains("terminal") && !when.contains("!terminalFocus"),
    };
    let used_keys: Vec<&str> = KEYS
        .into_iter()
        .filter(|key: &&'static str| of(key).any(|entry| in_terminal(entry) && !ours(entry)))
        .collect();
    if !used_keys.is_empty() {
        return Ok(EditorKeys::Conflict { keys: used_keys });
    }
    let missing: Vec<&str> =
        KEYS.into_iter().filter(|key: &&'static str| !of(key).any(ours)).collect();
    if missing.is_empty() {
        return Ok(EditorKeys::AlreadyBound);
    }
    let root = CstRootNode::parse(&text, &syntax).map_err(|error| not_a_list(error.to_string()))?;
    let list = root.array_value().ok_or_else(|| not_a_list("unexpected value".to_owned()))?;
    for key in &missing {
        list.append(binding(key));
    }
    let directory = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(failed)?;
    let backup = match read {
        Some(_) => Some(back_up(&target).map_err(failed)?),
        None => None,
    };
    let mut new = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    new.write_all(root.to_string().as_bytes()).map_err(failed)?;
    if let Ok(metadata) = fs::metadata(&target) {
        new.as_file().set_permissions(metadata.permissions()).map_err(failed)?;
    }
    new.persist(&target).map_err(|error| failed(error.error))?;
    Ok(EditorKeys::Added { keys: missing, backup })
}

fn binding(key: &str) -> CstInputValue {
    let text = |text: &str| CstInputValue::String(text.to_owned());
    CstInputValue::Object(vec![
        ("key".to_owned(), text(key)),
        ("command".to_owned(), text(COMMAND)),
        ("when".to_owned(), text(WHEN)),
        ("args".to_owned(), CstInputValue::Object(vec![("text".to_owned(), text(SENT))])),
    ])
}

/// Copies the file to an unused name next to it.
fn back_up(file: &Path) -> io::Result<PathBuf> {
    for number in 1..1000 {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".backup-{number}"));
        let copy = PathBuf::from(name);
        match fs::OpenOptions::new().write(true).create_new(true).open(&copy) {
            Ok(_) => return fs::copy(file, &copy).map(|_| copy),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many backup copies of it exist; delete some"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_bindings_are_added_once_and_existing_ones_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("User/keybindings.json");
        let added = add_editor_keys(&file).expect("added");
        assert_eq!(added, EditorKeys::Added { keys: KEYS.to_vec(), backup: None });
        assert_eq!(add_editor_keys(&file).expect("again"), EditorKeys::AlreadyBound);
        let own = "// mine\n[\n  { \"key\": \"ctrl+k\", \"command\": \"x\" }, // why\n]\n";
        fs::write(&file, own).expect("written");
        let Ok(EditorKeys::Added { backup: Some(backup), .. }) = add_editor_keys(&file) else {
            unreachable!("added with a copy")
        };
        assert_eq!(fs::read_to_string(backup).expect("the copy"), own);
        let text = fs::read_to_string(&file).expect("the file");
        assert!(text.contains("// mine") && text.contains("// why") && text.contains("ctrl+k"));
        let syntax = ParseOptions { allow_trailing_commas: true, ..jsonc::syntax() };
        let bound: Vec<Value> = jsonc_parser::parse_to_serde_value(&text, &syntax).expect("a list");
        assert_eq!(bound.len(), 3, "{text}");
        assert_eq!(bound[1].pointer("/args/text"), Some(&Value::from(SENT)));
    }

    #[test]
    fn user_key_bindings_are_unchanged() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("keybindings.json");
        for (own, used) in [
            (r#"[{"key": "shift+enter", "command": "x", "when": "terminalFocus"}]"#, true),
            (r#"[{"key": "shift+enter", "command": "x", "when": "editorTextFocus"}]"#, false),
        ] {
            fs::write(&file, own).expect("written");
            let done = add_editor_keys(&file).expect("looked at");
            assert_eq!(matches!(done, EditorKeys::Conflict { .. }), used, "{own}");
        }
        for broken in ["{", "{}", "[1"] {
            fs::write(&file, broken).expect("written");
            assert!(add_editor_keys(&file).is_err(), "{broken}");
            assert_eq!(fs::read_to_string(&file).expect("the file"), broken);
        }
    }
}
