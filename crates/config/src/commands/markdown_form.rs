//! A command as Markdown: the text is the prompt, `description` and
//! `argument-hint` stand in the YAML before it.

use serde_json::Value;

use super::{Written, Wrong};
use crate::front_matter;

/// Reads the text of a file.
///
/// # Errors
/// Settings that are no YAML, an empty text, a field of another type.
pub(super) fn read(text: &str) -> Result<Written, Wrong> {
    let file = front_matter::read(text).map_err(|broken| Wrong {
        line: broken.line,
        message: format!("its settings cannot be read: {}", broken.message),
    })?;
    let mut written = Written { prompt: file.body.trim().to_owned(), ..Written::default() };
    for (key, value) in file.fields {
        let field = match key.as_str() {
            "description" => &mut written.description,
            "argument-hint" => &mut written.argument_hint,
            _ => {
                written.unused.push(key);
                continue;
            }
        };
        *field = match value {
            Value::String(text) => text,
            // `[file]` is a list in YAML, and a usual hint.
            Value::Array(items) => hint(&items),
            Value::Null => String::new(),
            _ => {
                let message = format!("`{key}` must be a text");
                return Err(Wrong { line: None, message });
            }
        };
    }
    if written.prompt.is_empty() {
        let message = "there is no text for the model below its settings".to_owned();
        return Err(Wrong { line: None, message });
    }
    Ok(written)
}

fn hint(items: &[Value]) -> String {
    let words = items.iter().map(|item| match item {
        Value::String(text) => format!("[{text}]"),
        other => format!("[{other}]"),
    });
    words.collect::<Vec<_>>().join(" ")
}
