//! The credentials that a CI job stores in the workspace directory.

use parallax_protocol::policy::Query;
use serde_json::Value;

/// Whether the call accesses the credentials that a CI job stores in the workspace directory.
pub(crate) fn accesses_credentials(query: &Query<'_>) -> bool {
    let effects = query.effects;
    effects
        .reads
        .iter()
        .chain(&effects.writes)
        .any(|path| names_credentials(&path.to_string_lossy()))
        || effects.runs.iter().any(|command| names_credentials(command))
        || query.args.iter().any(|(key, value)| {
            // File contents may mention them, for example in an ignore file.
            !matches!(key.as_str(), "content" | "old_string" | "new_string") && any_text(value, 0)
        })
}

fn any_text(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(text) => names_credentials(text),
        Value::Array(items) if depth < 16 => items.iter().any(|item| any_text(item, depth + 1)),
        Value::Object(fields) if depth < 16 => {
            fields.values().any(|field| any_text(field, depth + 1))
        }
        _ => false,
    }
}

fn names_credentials(text: &str) -> bool {
    text.find("gha-creds-")
        .is_some_and(|start| text.get(start..).is_some_and(|rest| rest.contains(".json")))
}
