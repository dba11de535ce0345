//! Parses `keybindings.json`: an array of `{ "command": "id", "key": "ctrl+x" }`; comments and
//! trailing commas are allowed. A `-` before the id removes the key.

use parallax_screen::Key;
use serde_json::Value;

use super::command::{KeyCommand, WITHOUT_COUNTERPART};
use super::key_text;

/// A valid entry.
pub(super) struct BindingChange {
    pub command: KeyCommand,
    pub key: Key,
    pub remove: bool,
}

/// Returns the valid entries of the file and the problems with the others.
pub(super) fn read(text: &str) -> (Vec<BindingChange>, Vec<String>) {
    if text.trim().is_empty() {
        return (Vec::new(), Vec::new());
    }
    let value = match jsonc_parser::parse_to_serde_value::<Value>(text, &Default::default()) {
        Ok(value) => value,
        Err(error) => return (Vec::new(), vec![format!("invalid JSON: {error}")]),
    };
    let Value::Array(entries) = value else {
        let form = "expected an array of `{ \"command\": …, \"key\": … }`";
        return (Vec::new(), vec![form.to_owned()]);
    };
    let mut changes = Vec::new();
    let mut warnings = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        match change(entry) {
            Ok(change) => changes.push(change),
            Err(reason) => warnings.push(format!("entry {}: {reason}", number + 1)),
        }
    }
    (changes, warnings)
}

fn change(entry: &Value) -> Result<BindingChange, String> {
    let field = |name: &str| {
        let text = entry.get(name).and_then(Value::as_str);
        text.ok_or_else(|| format!("`{name}` is missing or not a string"))
    };
    let id = field("command")?;
    let (id, remove) = id.strip_prefix('-').map_or((id, false), |id| (id, true));
    let command = KeyCommand::from_id(id).ok_or_else(|| {
        if WITHOUT_COUNTERPART.contains(&id) {
            format!("`{id}` is not supported")
        } else {
            format!("unknown command `{id}`")
        }
    })?;
    let text = field("key")?;
    let key = key_text::parse(text).map_err(|error| format!("invalid key `{text}`: {error}"))?;
    Ok(BindingChange { command, key, remove })
}
