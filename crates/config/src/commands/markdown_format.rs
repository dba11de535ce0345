//! Parses Markdown commands: the body is the prompt, and the YAML front matter holds `description`
//! and `argument-hint`.

use serde_json::Value;

use super::{CommandParseError, ParsedCommand};
use crate::front_matter;

/// The fields whose values are not strings for display.
const STRUCTURED: [&str; 6] = ["model", "agent", "tools", "mode", "timeout", "allowed-tools"];

/// Parses the text of a file.
///
/// # Errors
/// Returns an error if the front matter is not valid YAML, the prompt is empty, or a field has the
/// wrong type.
pub(super) fn read(text: &str) -> Result<ParsedCommand, CommandParseError> {
    // Unknown fields are for other programs, so that their values do not matter.
    let file = front_matter::read_with_display_strings(text, |key| !STRUCTURED.contains(&key))
        .map_err(|broken| CommandParseError {
            line: broken.line,
            column: None,
            message: format!("invalid front matter: {}", broken.message),
        })?;
    let body = file.body.trim();
    let starts = text.len() - file.body.len() + (file.body.len() - file.body.trim_start().len());
    let line = text.get(..starts).unwrap_or_default().matches('\n').count() + 1;
    let mut written = ParsedCommand {
        prompt: body.to_owned(),
        template_position: (line, 1),
        ..ParsedCommand::default()
    };
    for (key, value) in file.fields {
        match key.as_str() {
            "model" => {
                written.overrides.model = model(&key, value)?;
                continue;
            }
            // `inherit` has the same meaning for agents and models.
            "agent" => {
                written.overrides.agent = model(&key, value)?;
                continue;
            }
            "tools" => {
                if value.is_null() {
                    // It is unclear whether all tools or none were meant.
                    let message = "`tools` has no value: list names of tools, write `[]` for no \
                                   tools, or remove the line";
                    return Err(parse_error(message.to_owned()));
                }
                written.overrides.tools = Some(names(&key, value)?);
                continue;
            }
            // A keyword of another program's prompt files, which is less specific than a mode.
            "mode" if ["agent", "ask", "edit"].iter().any(|word| value == *word) => {
                written.unknown_fields.push(key);
                continue;
            }
            "mode" | "timeout" => {
                let text = match &value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let to_error = |what| parse_error(format!("`{key}` must be {what}"));
                written.overrides.parse_field(&key, &text).map_err(to_error)?;
                continue;
            }
            "allowed-tools" => {
                written.overrides.allowed = names(&key, value)?;
                continue;
            }
            _ => {}
        }
        let field = match key.as_str() {
            "description" => &mut written.description,
            "argument-hint" => &mut written.argument_hint,
            _ => {
                written.unknown_fields.push(key);
                continue;
            }
        };
        *field = match value {
            Value::String(text) => text,
            // `[file]` is a list in YAML, and a common hint.
            Value::Array(items) => hint(&items),
            Value::Null => String::new(),
            scalar @ (Value::Bool(_) | Value::Number(_)) => scalar.to_string(),
            Value::Object(_) => {
                let message = format!("`{key}` must be a string");
                return Err(parse_error(message));
            }
        };
    }
    if written.prompt.is_empty() {
        let message = "the prompt below the front matter is missing".to_owned();
        return Err(parse_error(message));
    }
    Ok(written)
}

fn parse_error(message: String) -> CommandParseError {
    CommandParseError { line: Some(1), column: None, message }
}

fn model(key: &str, value: Value) -> Result<Option<String>, CommandParseError> {
    match value {
        Value::Null => Ok(None),
        // The session's own.
        Value::String(text) if text.trim().is_empty() || text.trim() == "inherit" => Ok(None),
        Value::String(text) => Ok(Some(text.trim().to_owned())),
        _ => Err(parse_error(format!("`{key}` must be a string"))),
    }
}

/// Reads a list, or a comma-separated string.
fn names(key: &str, value: Value) -> Result<Vec<String>, CommandParseError> {
    let names_in_list = |items: Vec<Value>| {
        let name = |item: Value| item.as_str().map(|text| text.trim().to_owned());
        items.into_iter().map(name).collect::<Option<Vec<String>>>()
    };
    let names = match value {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(split_at_outer_commas(&text)),
        Value::Array(items) => names_in_list(items),
        _ => None,
    };
    let mut names = names.ok_or_else(|| parse_error(format!("`{key}` must be a list of names")))?;
    names.retain(|name| !name.is_empty());
    Ok(names)
}

/// Splits at commas outside parentheses.
pub(super) fn split_at_outer_commas(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0u32);
    for char in text.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(char);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

fn hint(items: &[Value]) -> String {
    let words = items.iter().map(|item| match item {
        Value::String(text) => format!("[{text}]"),
        other => format!("[{other}]"),
    });
    words.collect::<Vec<_>>().join(" ")
}
