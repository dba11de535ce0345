//! Parses one line of a script. Scripts are written by hand, so errors use the terms of the
//! format.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Capture, ScriptConditions, ScriptLine};
use crate::digest::Digest;
use crate::recorded_error::RecordedError;
use parallax_protocol::excerpt::{one_line, truncate};

const STREAM: &str = "generateContentStream";
const METHODS: [&str; 4] = [STREAM, "generateContent", "countTokens", "embedContent"];
/// Keys for authors, then keys that recordings add.
const KEYS: [&str; 8] =
    ["method", "response", "when", "vars", "delayMs", "error", "request", "retries"];

type LineFields = BTreeMap<String, Box<RawValue>>;

/// Parses a line. Errors describe the problem, but not the position.
pub(super) fn parse_script_line(text: &str, number: usize) -> Result<ScriptLine, String> {
    let mut fields = fields(text)?;
    check_keys(fields.keys(), &KEYS, "this line")?;
    let mut take = |key: &str| fields.remove(key).filter(|raw| raw.get() != "null");
    let method = match take("method") {
        Some(raw) => read_text(&value(&raw), "`method`")?,
        None => return Err("`method` is missing".to_owned()),
    };
    if !METHODS.contains(&method.as_str()) {
        return Err(format!(
            "unknown method `{}`; known methods: {}",
            excerpt(&method),
            list(&METHODS)
        ));
    }
    let error = take("error").map(|raw| recorded_error(&raw)).transpose()?;
    let digest = take("request").map(|raw| digest(&raw)).transpose()?;
    // Only recordings have streams without chunks.
    let may_be_empty = error.is_some() || digest.is_some();
    let chunks = match take("response") {
        Some(raw) if method == STREAM => chunks(&raw, may_be_empty)?,
        Some(raw) => match kind(&raw) {
            "an object" => vec![raw],
            other => {
                return Err(format!("`response` of `{method}` must be an object, not {other}"));
            }
        },
        None if error.is_some() => Vec::new(),
        None => return Err("`response` is missing".to_owned()),
    };
    let conditions =
        take("when").map(|raw| read_conditions(&value(&raw))).transpose()?.unwrap_or_default();
    let vars = take("vars").map(|raw| vars(&value(&raw))).transpose()?.unwrap_or_default();
    let (delays, delay) =
        take("delayMs").map(|raw| read_delays(&value(&raw))).transpose()?.unwrap_or_default();
    Ok(ScriptLine { number, method, chunks, conditions, vars, delays, delay, error, digest })
}

fn fields(text: &str) -> Result<LineFields, String> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or_default();
        format!("this is not JSON: {what} at column {}", error.column())
    })?;
    match kind(raw) {
        "an object" => serde_json::from_str(raw.get()).map_err(|error| error.to_string()),
        other => Err(format!("a line of a script must be a JSON object, not {other}")),
    }
}

/// Returns the type of a value, for messages.
fn kind(raw: &RawValue) -> &'static str {
    match raw.get().trim_start().bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "an object",
        Value::Array(_) => "a list",
        Value::String(_) => "a string",
        Value::Bool(_) => "a boolean",
        Value::Null => "null",
        Value::Number(_) => "a number",
    }
}

fn value(raw: &RawValue) -> Value {
    // It was already parsed as JSON; numbers that are too large for a value are invalid anyway.
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn read_text(value: &Value, what: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("{what} must be a string, not {}", kind_of(other))),
    }
}

fn check_keys<'a>(
    keys: impl Iterator<Item = &'a String>,
    known: &[&str],
    what: &str,
) -> Result<(), String> {
    for key in keys {
        if !known.contains(&key.as_str()) {
            return Err(format!(
                "unknown key `{}` in {what}; known keys: {}",
                excerpt(key),
                list(known)
            ));
        }
    }
    Ok(())
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn excerpt(text: &str) -> String {
    one_line(truncate(text, 80))
}

fn chunks(raw: &RawValue, may_be_empty: bool) -> Result<Vec<Box<RawValue>>, String> {
    if kind(raw) != "a list" {
        return Err(format!(
            "`response` of `{STREAM}` must be a list of chunks, not {}",
            kind(raw)
        ));
    }
    let chunks: Vec<Box<RawValue>> =
        serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    if chunks.is_empty() && !may_be_empty {
        return Err(format!("`response` of `{STREAM}` must have at least one chunk"));
    }
    match chunks.iter().position(|chunk| kind(chunk) != "an object") {
        Some(at) => {
            let kind = chunks.get(at).map_or("missing", |chunk| kind(chunk));
            Err(format!("chunk {} of `response` must be an object, not {kind}", at + 1))
        }
        None => Ok(chunks),
    }
}

fn read_conditions(value: &Value) -> Result<ScriptConditions, String> {
    let Value::Object(object) = value else {
        return Err(format!("`when` must be an object, not {}", kind_of(value)));
    };
    let names = ["lastToolResultContains", "lastToolResultLacks", "promptContains"];
    check_keys(object.keys(), &names, "`when`")?;
    let text = |name: &str| {
        let value = object.get(name).filter(|value| !value.is_null());
        value.map(|value| read_text(value, &format!("`when.{name}`"))).transpose()
    };
    Ok(ScriptConditions {
        last_tool_result_contains: text("lastToolResultContains")?,
        last_tool_result_lacks: text("lastToolResultLacks")?,
        prompt_contains: text("promptContains")?,
    })
}

fn vars(value: &Value) -> Result<Vec<(String, Capture)>, String> {
    let Value::Object(object) = value else {
        return Err(format!("`vars` must be an object, not {}", kind_of(value)));
    };
    let captures = object.iter().map(|(name, value)| {
        let capture =
            capture(value).map_err(|reason| format!("variable `{}`: {reason}", excerpt(name)))?;
        Ok((name.clone(), capture))
    });
    captures.collect()
}

fn capture(value: &Value) -> Result<Capture, String> {
    let regex = |text: &str| {
        Regex::new(text).map_err(|error| {
            format!("invalid regular expression: {}", one_line(&error.to_string()))
        })
    };
    let (from, text) = match value {
        Value::String(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
            return Ok(Capture::Pointer(pointer.clone()));
        }
        Value::String(text) => ("lastToolResult", text),
        Value::Object(object) => {
            check_keys(object.keys(), &["from", "regex"], "it")?;
            match (object.get("from"), object.get("regex")) {
                (Some(Value::String(from)), Some(Value::String(text))) => (from.as_str(), text),
                _ => return Err("it needs the strings `from` and `regex`".to_owned()),
            }
        }
        other => {
            return Err(format!(
                "it must be a JSON pointer, a regular expression or an object with `from` and `regex`, not {}",
                kind_of(other)
            ));
        }
    };
    match from {
        "prompt" => Ok(Capture::Regex { regex: regex(text)?, from_prompt: true }),
        "lastToolResult" => Ok(Capture::Regex { regex: regex(text)?, from_prompt: false }),
        _ => Err(format!("`from` must be `prompt` or `lastToolResult`, not `{}`", excerpt(from))),
    }
}

/// Returns the delays before the chunks, and the default delay.
fn read_delays(value: &Value) -> Result<(Vec<u64>, u64), String> {
    let to_error =
        || "`delayMs` must be a whole number of milliseconds, or a list of such numbers".to_owned();
    match value {
        Value::Array(items) => {
            let delays = items.iter().map(|item| item.as_u64().ok_or_else(to_error));
            Ok((delays.collect::<Result<_, _>>()?, 0))
        }
        one => Ok((Vec::new(), one.as_u64().ok_or_else(to_error)?)),
    }
}

fn recorded_error(raw: &RawValue) -> Result<RecordedError, String> {
    serde_json::from_str(raw.get()).map_err(|_| {
        "`error` must be an object with the strings `kind` and `message`, as in a recording"
            .to_owned()
    })
}

fn digest(raw: &RawValue) -> Result<Digest, String> {
    serde_json::from_str(raw.get()).map_err(|_| {
        "`request` must be an object with the strings `model` and `contents`, as in a recording"
            .to_owned()
    })
}
