//! Parses contents and parts, and compares a model content with what the server sent.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The placeholder for a missing signature.
const SYNTHETIC: &str = "skip_thought_signature_validator";

const USER_PART_KEYS: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionResponse",
    "thought",
    "thoughtSignature",
    "videoMetadata",
    "mediaResolution",
];

/// The properties of a content that the checks need.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) role: String,
    /// The ID and name of each call.
    pub(super) calls: Vec<(Option<String>, String)>,
    /// The ID and name of each response.
    pub(super) responses: Vec<(Option<String>, String)>,
    pub(super) problems: Vec<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    role: String,
    #[serde(default)]
    parts: Vec<Map<String, Value>>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

fn text_of(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

pub(super) fn shape_of(raw: &str) -> Shape {
    let content: Content = match serde_json::from_str(raw) {
        Ok(content) => content,
        Err(error) => {
            return Shape { problems: vec![format!("not a content: {error}")], ..Shape::default() };
        }
    };
    let mut shape = Shape { role: content.role, ..Shape::default() };
    if shape.role != "user" && shape.role != "model" {
        shape.problems.push(format!("unknown role `{}`", shape.role));
    }
    shape.problems.extend(content.other.keys().map(|key| format!("unknown key `{key}`")));
    if content.parts.is_empty() {
        shape.problems.push("no parts".to_owned());
    }
    let mut text_seen = false;
    for (index, part) in content.parts.iter().enumerate() {
        let mut problem = |text: &str| shape.problems.push(format!("part {index}: {text}"));
        let signature = part.get("thoughtSignature").and_then(Value::as_str);
        if part.get("text").and_then(Value::as_str) == Some("")
            && signature.is_none()
            && part.len() == 1
        {
            problem("empty text");
        }
        if !part.keys().any(|key| key != "thought" && key != "thoughtSignature") {
            problem("no payload");
        }
        if part.get("thought") == Some(&Value::Bool(true)) && signature != Some(SYNTHETIC) {
            problem("a thought summary is sent back");
        }
        if shape.role == "user" {
            for key in part.keys().filter(|key| !USER_PART_KEYS.contains(&key.as_str())) {
                problem(&format!("key `{key}` in a user part"));
            }
        }
        if let Some(response) = part.get("functionResponse") {
            if text_seen {
                problem("a function response after text");
            }
            if !response.get("response").is_some_and(Value::is_object) {
                problem("a function response without an object in `response`");
            }
            let name = text_of(response.get("name")).unwrap_or_default();
            shape.responses.push((text_of(response.get("id")), name));
        } else if let Some(call) = part.get("functionCall") {
            if call.get("args").is_some_and(|args| !args.is_object()) {
                problem("`args` of a call is not an object");
            }
            let name = text_of(call.get("name")).unwrap_or_default();
            shape.calls.push((text_of(call.get("id")), name));
        } else {
            text_seen |= part.contains_key("text");
        }
    }
    shape
}

/// The contents of a stream of response documents.
pub(super) struct Reply {
    /// Whether a client must accept it as a response.
    pub(super) is_valid: bool,
    /// The raw parts without thoughts.
    pub(super) parts: Vec<String>,
    /// The parts with a signature.
    pub(super) signed: Vec<String>,
}

#[derive(Deserialize)]
struct ChunkDocument<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<Parts<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
}

pub(super) fn read_reply(documents: &[String]) -> Reply {
    let mut reply = Reply { is_valid: false, parts: Vec::new(), signed: Vec::new() };
    let (mut calls, mut text, mut finish) = (false, false, None);
    for document in documents {
        let Ok(document) = serde_json::from_str::<ChunkDocument<'_>>(document) else { continue };
        let Some(candidate) = document.candidates.into_iter().next() else { continue };
        finish = candidate.finish_reason.or(finish);
        for raw in candidate.content.into_iter().flat_map(|content| content.parts) {
            let part: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
            if part.get("thought") == Some(&Value::Bool(true)) {
                continue;
            }
            calls |= part.contains_key("functionCall");
            text |= part
                .get("text")
                .and_then(Value::as_str)
                .is_some_and(|text| !text.trim().is_empty());
            if part.contains_key("thoughtSignature") {
                reply.signed.push(raw.get().to_owned());
            }
            reply.parts.push(raw.get().to_owned());
        }
    }
    reply.is_valid = calls
        || (text
            && finish
                .is_some_and(|word| !word.starts_with("MALFORMED") && !word.starts_with("UNEXP")));
    if !reply.is_valid {
        reply.signed.clear();
    }
    reply
}

/// A part in the form used for comparison.
#[derive(Debug)]
struct Item {
    kind: PartKind,
    signature: Option<String>,
    raw: String,
}

#[derive(Debug, PartialEq)]
enum PartKind {
    Text(String),
    Call(Value, Value),
    Other(String),
}

/// Joins adjacent unsigned text, and removes empty text and thoughts.
fn normal<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for raw in parts {
        let mut part: Map<String, Value> = serde_json::from_str(raw).unwrap_or_default();
        if part.get("thought") == Some(&Value::Bool(true)) {
            continue;
        }
        let signature = text_of(part.get("thoughtSignature"));
        let kind = if let Some(call) = part.get_mut("functionCall") {
            let mut take = |key| call.get_mut(key).map(Value::take).unwrap_or_default();
            PartKind::Call(take("name"), take("args"))
        } else if let Some(Value::String(text)) = part.get_mut("text") {
            PartKind::Text(std::mem::take(text))
        } else {
            PartKind::Other(raw.to_owned())
        };
        if let (PartKind::Text(text), None) = (&kind, &signature) {
            if let Some(Item { kind: PartKind::Text(before), signature: None, .. }) =
                items.last_mut()
            {
                before.push_str(text);
                continue;
            }
            if text.is_empty() {
                continue;
            }
        }
        items.push(Item { kind, signature, raw: raw.to_owned() });
    }
    items
}

/// Checks that a model content in a request equals what the server sent.
pub(super) fn compare_reply(sent: &[String], content: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct SentContent<'a> {
        #[serde(default)]
        role: String,
        #[serde(borrow, default)]
        parts: Vec<&'a RawValue>,
    }
    let content: SentContent<'_> =
        serde_json::from_str(content).map_err(|error| format!("not a content: {error}"))?;
    if content.role != "model" {
        return Err("the model's answer is missing here".to_owned());
    }
    let sent = normal(sent.iter().map(String::as_str));
    let back = normal(content.parts.iter().map(|raw| raw.get()));
    for (index, sent) in sent.iter().enumerate() {
        let Some(back) = back.get(index) else {
            return Err(format!("a part of the answer is gone: {}", super::shorten(&sent.raw)));
        };
        let same = match (&sent.signature, &back.signature) {
            (Some(_), _) => sent.raw == back.raw,
            (None, None) => sent.kind == back.kind,
            (None, Some(added)) => {
                added == SYNTHETIC
                    && matches!(sent.kind, PartKind::Call(..))
                    && sent.kind == back.kind
            }
        };
        if !same {
            return Err(format!(
                "the part {} came back as {}",
                super::shorten(&sent.raw),
                super::shorten(&back.raw)
            ));
        }
    }
    match back.get(sent.len()) {
        Some(more) => Err(format!("a part was never sent: {}", super::shorten(&more.raw))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(sent: &[&str], content: &str) -> Result<(), String> {
        compare_reply(&sent.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>(), content)
    }

    #[test]
    fn joined_unsigned_text_is_accepted_and_changed_signed_parts_are_not() {
        let sent = [
            r#"{"text":"a"}"#,
            r#"{"text":"b"}"#,
            r#"{"thought":true,"text":"hm"}"#,
            r#"{"functionCall":{"name":"x","args":{"n":1.0}},"thoughtSignature":"c2ln"}"#,
        ];
        let good = r#"{"role":"model","parts":[{"text":"ab"},{"functionCall":{"name":"x","args":{"n":1.0}},"thoughtSignature":"c2ln"}]}"#;
        assert_eq!(compare(&sent, good), Ok(()));
        for (invalid, what) in [
            (good.replace("c2ln", "c2lo"), "signature"),
            (good.replace("1.0", "1"), "bytes"),
            (good.replace("\"ab\"", "\"a\""), "text"),
            (good.replace(r#"{"text":"ab"},"#, ""), "gone"),
            (good.replace("]}", r#",{"text":"new"}]}"#), "added"),
        ] {
            assert!(compare(&sent, &invalid).is_err(), "{what}: {invalid}");
        }
    }
}
