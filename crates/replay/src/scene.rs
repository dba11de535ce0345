//! The parts of a request that a script can access, and placeholders in responses.

use std::collections::BTreeMap;
use std::path::Path;

use parallax_protocol::content::{Content, Part, PartView, Role};
use parallax_protocol::model::Request;
use serde_json::Value;

/// A request as a script accesses it. Contents are parsed only when needed.
pub(crate) struct ScriptScene<'a> {
    request: &'a Request,
    cwd: &'a Path,
}

impl<'a> ScriptScene<'a> {
    pub(crate) fn new(request: &'a Request, cwd: &'a Path) -> Self {
        Self { request, cwd }
    }

    fn newest_first(&self) -> impl Iterator<Item = Content> {
        let users = self.request.contents.iter().rev().filter(|c| c.role() == Role::User);
        users.filter_map(|content| content.open().ok())
    }

    /// Returns the user's last prompt as typed, without session context and attached files.
    pub(crate) fn prompt(&self) -> String {
        self.newest_first()
            .filter(|content| {
                let mut parts = content.parts.iter();
                !parts.any(|part| matches!(part.view(), PartView::Response(_)))
            })
            .map(|content| typed_text(&content))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    }

    /// Returns the last tool result's response object.
    pub(crate) fn last_result(&self) -> Option<Value> {
        self.newest_first().find_map(|content| results(&content).pop())
    }

    /// Returns the n-th tool result of the conversation, from 1.
    fn result(&self, number: usize) -> Option<Value> {
        let index = number.checked_sub(1)?;
        let users = self.request.contents.iter().filter(|c| c.role() == Role::User);
        users.filter_map(|content| content.open().ok()).flat_map(|c| results(&c)).nth(index)
    }
}

/// The header of the files that a prompt references.
const ATTACHED: &str = "\n--- Content from referenced files ---";

/// Whether a part is the session context.
pub(crate) fn is_session_context(part: &Part) -> bool {
    matches!(part.view(), PartView::Text(text) if text.starts_with("<session_context>"))
}

fn typed_text(content: &Content) -> String {
    let mut typed = String::new();
    for part in content.parts.iter().filter(|part| !is_session_context(part)) {
        match part.view() {
            PartView::Text(text) if text.starts_with(ATTACHED) => break,
            PartView::Text(text) => typed.push_str(text),
            _ => {}
        }
    }
    typed
}

fn results(content: &Content) -> Vec<Value> {
    let responses = content.parts.iter().filter_map(|part| match part.view() {
        PartView::Response(response) => Some(response.response.cloned().unwrap_or(Value::Null)),
        _ => None,
    });
    responses.collect()
}

/// Returns the text of a tool result: its output or error.
pub(crate) fn text_of(result: &Value) -> String {
    match result.get("output").or_else(|| result.get("error")) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => result.to_string(),
    }
}

/// Returns a tool result's output, if it is JSON.
pub(crate) fn output_json(result: &Value) -> Option<Value> {
    match result.get("output")? {
        Value::String(text) => serde_json::from_str(text.trim()).ok(),
        other => Some(other.clone()),
    }
}

/// Replaces the placeholders in the strings of a JSON text. Without placeholders, the text is
/// returned unchanged.
pub(crate) fn fill(
    json: &str,
    scene: &ScriptScene<'_>,
    vars: &BTreeMap<String, Value>,
) -> Result<String, String> {
    if !json.contains("${") {
        return Ok(json.to_owned());
    }
    let mut value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    fill_value(&mut value, scene, vars)?;
    Ok(value.to_string())
}

fn fill_value(
    value: &mut Value,
    scene: &ScriptScene<'_>,
    vars: &BTreeMap<String, Value>,
) -> Result<(), String> {
    match value {
        Value::String(text) if text.contains("${") => *value = fill_text(text, scene, vars)?,
        Value::Array(items) => {
            for item in items {
                fill_value(item, scene, vars)?;
            }
        }
        Value::Object(object) => {
            for item in object.values_mut() {
                fill_value(item, scene, vars)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn fill_text(
    text: &str,
    scene: &ScriptScene<'_>,
    vars: &BTreeMap<String, Value>,
) -> Result<Value, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        }
        filled.push_str(before);
        let known = after
            .split_once('}')
            .map(|(name, tail)| (placeholder_value(name, scene, vars), name, tail));
        match known {
            Some((Some(found), name, tail)) => {
                let found = found.ok_or_else(|| format!("no value for `${{{name}}}`"))?;
                if before.is_empty() && filled.is_empty() && tail.is_empty() {
                    return Ok(found);
                }
                match found {
                    Value::String(text) => filled.push_str(&text),
                    other => filled.push_str(&other.to_string()),
                }
                rest = tail;
            }
            // Not a placeholder: a shell variable, for example.
            _ => {
                filled.push_str("${");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Ok(Value::String(filled))
}

/// Returns the value of a placeholder: `None`: not a placeholder, `Some(None)`: a placeholder
/// without a value.
fn placeholder_value(
    name: &str,
    scene: &ScriptScene<'_>,
    vars: &BTreeMap<String, Value>,
) -> Option<Option<Value>> {
    match name {
        "cwd" => return Some(Some(Value::String(scene.cwd.display().to_string()))),
        "prompt" => return Some(Some(Value::String(scene.prompt()))),
        _ => {}
    }
    if let Some(name) = name.strip_prefix("var.") {
        return Some(vars.get(name).cloned());
    }
    let rest = name.strip_prefix("result.")?;
    let (which, path) = match rest.split_once('.') {
        Some((which, path)) => (which, Some(path)),
        None => (rest, None),
    };
    let result = match which {
        "last" => scene.last_result(),
        number => scene.result(number.parse().ok()?),
    };
    let Some(result) = result else { return Some(None) };
    Some(match path {
        None => Some(Value::String(text_of(&result))),
        Some(path) => walk(&result, path)
            .or_else(|| output_json(&result).and_then(|inside| walk(&inside, path))),
    })
}

fn walk(value: &Value, path: &str) -> Option<Value> {
    let mut current = value;
    for key in path.split('.') {
        current = match current {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            other => other.get(key)?,
        };
    }
    Some(current.clone())
}
