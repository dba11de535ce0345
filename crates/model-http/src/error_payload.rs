//! Extracts the error from what a service or a gateway sent.

use serde_json::{Value, json};

use parallax_protocol::Object;
use parallax_protocol::excerpt::{one_line, truncate};

/// Maximum depth of JSON nested in `message`.
const MAX_DEPTH: usize = 10;
/// Maximum bytes of what is added to a message, and of the message of an error that was cut off.
const MAX_NOTE: usize = 2000;

/// An error from the service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorPayload {
    /// `error.code`, if it is an HTTP status.
    pub code: Option<u16>,
    /// `error.status` (`RESOURCE_EXHAUSTED`), or a code in words (`context_length_exceeded`).
    pub status: Option<String>,
    /// `error.type` (`invalid_request_error`, `overloaded_error`).
    pub kind: Option<String>,
    /// `error.param`: the field of the request that the error is about (`reasoning.effort`).
    pub param: Option<String>,
    /// The message on one line; empty if there was none.
    pub message: String,
    /// `error.details`, with repaired `@type` keys.
    pub details: Vec<Object>,
}

impl ErrorPayload {
    /// Returns the first detail of the given type.
    pub fn detail(&self, kind: &str) -> Option<&Object> {
        self.details.iter().find(|detail| {
            detail.get("@type").and_then(Value::as_str).is_some_and(|name| name.ends_with(kind))
        })
    }

    /// Parses the body of an error response. Any bytes are accepted.
    pub fn from_body(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        if let Some(payload) = parse_lenient(text).as_ref().and_then(Self::from_value) {
            return payload;
        }
        let cut = text.starts_with(['{', '[']).then(|| message_of_truncated_json(text)).flatten();
        Self { message: cut.unwrap_or_else(|| message_of_plain_body(text)), ..Self::default() }
    }

    /// Parses `{"error": …}`, optionally wrapped in an array; `None` when there is no error in the
    /// value.
    pub fn from_value(value: &Value) -> Option<Self> {
        let mut found = Self::default();
        let mut current = value.clone();
        let mut any = false;
        for _ in 0..MAX_DEPTH {
            let object = match &current {
                Value::Array(items) => items.first().and_then(Value::as_object),
                Value::Object(object) => Some(object),
                _ => None,
            };
            let error = match object {
                Some(object) => match object.get("error") {
                    Some(Value::Object(error)) => Some(error.clone()),
                    // Some gateways answer {"error": "text"}.
                    Some(Value::String(text)) => {
                        let mut error = Object::new();
                        error.insert("message".into(), Value::String(text.clone()));
                        Some(error)
                    }
                    // An error without its wrapper.
                    _ => (object.contains_key("message")
                        && (object.contains_key("code") || object.contains_key("status")))
                    .then(|| object.clone()),
                },
                None => None,
            };
            let Some(error) = error else { break };
            any = true;
            found.absorb(&error);
            if let Some(upstream) = upstream_error(&error) {
                current = upstream;
                continue;
            }
            match inner_json(&found.message) {
                Some(inner) => current = inner,
                None => break,
            }
        }
        found.message = one_line(&found.message);
        if let Some(notes) = notes(value) {
            found.message.push_str(&notes);
        }
        any.then_some(found)
    }

    /// Merges a more deeply nested error object.
    fn absorb(&mut self, error: &Object) {
        if let Some(code) = error.get("code").and_then(number) {
            self.code = Some(code);
        }
        if let Some(status) = error.get("status").and_then(Value::as_str) {
            self.status = Some(status.to_owned());
        }
        let code =
            error.get("code").and_then(Value::as_str).filter(|code| number_text(code).is_none());
        if let Some(code) = code.filter(|_| !error.contains_key("status")) {
            self.status = Some(one_line(code));
        }
        if let Some(kind) = error.get("type").and_then(Value::as_str) {
            self.kind = Some(one_line(kind));
        }
        if let Some(param) = error.get("param").and_then(Value::as_str) {
            self.param = Some(one_line(param));
        }
        let message = error.get("message").map(|message| match message {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        });
        // A nested error without a message must not hide the outer one.
        if let Some(message) = message.filter(|message| !message.trim().is_empty()) {
            self.message = message;
        }
        let details: Vec<Object> = match error.get("details") {
            Some(Value::Array(details)) => {
                details.iter().filter_map(Value::as_object).map(repair_type).collect()
            }
            _ => Vec::new(),
        };
        if !details.is_empty() {
            self.details = details;
        }
    }
}

fn number(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| number_text(value.as_str()?))?;
    u16::try_from(number).ok().filter(|code| (100..600).contains(code))
}

fn number_text(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn repair_type(detail: &Object) -> Object {
    detail.iter().map(|(key, value)| (key.trim().to_owned(), value.clone())).collect()
}

/// Returns the error of the provider behind OpenRouter, as `{"error": …}`: `metadata.raw` contains
/// it as text, as JSON in a string, or as an object, beside the message "Provider returned error".
fn upstream_error(error: &Object) -> Option<Value> {
    let metadata = error.get("metadata")?;
    let is_empty = |raw: &Value| {
        raw.is_null()
            || raw.as_str().is_some_and(|text| message_of_plain_body(text.trim()).is_empty())
    };
    let raw = metadata.get("raw").filter(|raw| !is_empty(raw));
    // Of the attempts with several providers, the last one counts.
    let previous = || metadata.get("previous_errors")?.as_array()?.last();
    let raw = match raw.or_else(previous)? {
        Value::String(text) => parse_lenient(text.trim())
            .unwrap_or_else(|| Value::String(message_of_plain_body(text.trim()))),
        Value::Null => return None,
        other => other.clone(),
    };
    let object = match &raw {
        Value::Array(items) => items.first().and_then(Value::as_object),
        other => other.as_object(),
    };
    Some(match object {
        Some(object) if object.contains_key("error") => raw,
        Some(object) if object.contains_key("message") => json!({"error": object}),
        Some(_) => json!({"error": raw.to_string()}),
        None => json!({"error": raw.as_str().map_or_else(|| raw.to_string(), str::to_owned)}),
    })
}

/// Returns what OpenRouter adds to a message: why an input was flagged, and what helps.
fn notes(value: &Value) -> Option<String> {
    let metadata = value.get("error")?.get("metadata")?;
    let reasons = metadata.get("reasons").and_then(Value::as_array).into_iter().flatten();
    let reasons: Vec<&str> = reasons.filter_map(Value::as_str).collect();
    let mut notes = String::new();
    if !reasons.is_empty() {
        notes = format!(" ({})", one_line(truncate(&reasons.join(", "), MAX_NOTE)));
    }
    if let Some(hint) = metadata.get("remedy_hint").and_then(Value::as_str) {
        notes.push_str("; ");
        notes.push_str(&one_line(truncate(hint, MAX_NOTE)));
    }
    Some(notes)
}

/// Returns the message of JSON that was cut off.
fn message_of_truncated_json(text: &str) -> Option<String> {
    let rest = text.split_once("\"message\"")?.1.trim_start().strip_prefix(':')?;
    let rest = rest.trim_start().strip_prefix('"')?;
    let mut message = String::new();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next()? {
                'n' | 'r' | 't' => message.push(' '),
                letter => message.push(letter),
            },
            letter => message.push(letter),
        }
        if message.len() > MAX_NOTE {
            break;
        }
    }
    Some(one_line(&message)).filter(|message| !message.is_empty())
}

/// Replaces halves of surrogate pairs, which no parser accepts.
fn replace_lone_surrogates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let half = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
    };
    while let Some(start) = rest.find('\\') {
        let (before, escape) = rest.split_at(start);
        out.push_str(before);
        let second = escape.get(6..).and_then(half);
        let length = match (half(escape), second) {
            (Some(..0xdc00), Some(0xdc00..)) => 12,
            (Some(_), _) => {
                out.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            // An escape is a backslash and at least one character.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        out.push_str(escape.get(..length).unwrap_or_default());
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Returns the JSON that a message consists of or ends with.
fn inner_json(message: &str) -> Option<Value> {
    let start = message.find(['{', '['])?;
    let value = parse_lenient(message.get(start..)?.trim())?;
    ErrorPayload::is_error(&value).then_some(value)
}

impl ErrorPayload {
    fn is_error(value: &Value) -> bool {
        let object = match value {
            Value::Array(items) => items.first().and_then(Value::as_object),
            other => other.as_object(),
        };
        object.is_some_and(|object| object.contains_key("error") || object.contains_key("message"))
    }
}

fn parse_lenient(text: &str) -> Option<Value> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let parse = |text: &str| serde_json::from_str(text).ok();
    parse(text)
        .or_else(|| parse(&collapse_commas(text)))
        .or_else(|| parse(&replace_lone_surrogates(text)))
}

/// Removes a comma that follows another with only whitespace between, outside of strings.
fn collapse_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut after_comma) = (false, false, false);
    for letter in text.chars() {
        if in_string {
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
        } else if letter == ',' {
            if std::mem::replace(&mut after_comma, true) {
                continue;
            }
        } else if !letter.is_whitespace() {
            after_comma = false;
            in_string = letter == '"';
        }
        out.push(letter);
    }
    out
}

/// Returns the message of a body that is not JSON: the title of a page, or its beginning.
fn message_of_plain_body(text: &str) -> String {
    let lower = truncate(text, 4096).to_ascii_lowercase();
    if let Some(start) = lower.find("<title>").map(|offset| offset + "<title>".len())
        && let Some(end) = lower.get(start..).and_then(|rest| rest.find("</title>"))
    {
        return one_line(text.get(start..start + end).unwrap_or_default());
    }
    if lower.starts_with("<!doctype") || lower.starts_with("<html") {
        return String::new();
    }
    one_line(truncate(text, 300))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(text: &str) -> ErrorPayload {
        ErrorPayload::from_body(text.as_bytes())
    }

    #[test]
    fn plain_error_payload_is_parsed() {
        let payload = body(
            r#"{"error":{"code":429,"message":"Quota\nexceeded","status":"RESOURCE_EXHAUSTED",
            "details":[{" @type ":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}"#,
        );
        assert_eq!(payload.code, Some(429));
        assert_eq!(payload.status.as_deref(), Some("RESOURCE_EXHAUSTED"));
        assert_eq!(payload.message, "Quota exceeded");
        assert!(payload.detail("google.rpc.RetryInfo").is_some());
    }

    #[test]
    fn malformed_error_payloads_are_tolerated() {
        let mut text = r#"{"error":{"code":503,,"message":"the core, , of it","status":"X",
        "details":[{"@type":"a.ErrorInfo"}]}}"#
            .to_owned();
        for _ in 0..8 {
            let message = serde_json::to_string(&format!("got status: 503. {text}")).expect("json");
            text = format!(r#"[{{"error":{{"code":500,"message":{message}}}}}]"#);
        }
        let payload = body(&text);
        assert_eq!((payload.code, payload.message.as_str()), (Some(503), "the core, , of it"));
        assert_eq!(payload.details.len(), 1);
    }

    #[test]
    fn html_and_plain_text_errors_become_a_message() {
        assert_eq!(body("<html><title>502 Bad\nGateway</title>").message, "502 Bad Gateway");
        assert_eq!(body("upstream is away").message, "upstream is away");
        assert_eq!(body("").message, "");
        assert_eq!(body(r#"{"error":"no"}"#).message, "no");
        assert_eq!(body(r#"{"error":{"message":null,"code":"400"}}"#).code, Some(400));
    }

    #[test]
    fn upstream_errors_of_openrouter_are_read() {
        for (raw, message, code) in [
            (
                r#""{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long\"}}""#,
                "prompt is too long",
                None,
            ),
            (
                r#""{\"error\":{\"message\":\"too much\",\"code\":\"context_length_exceeded\"}}""#,
                "too much",
                Some("context_length_exceeded"),
            ),
            (r#""Input is too long\nfor the model.""#, "Input is too long for the model.", None),
            (
                r#"{"object":"error","message":"maximum context length"}"#,
                "maximum context length",
                None,
            ),
            (r#"{"detail":"no"}"#, r#"{"detail":"no"}"#, None),
            (r#"{"error":{"code":3280}}"#, "Provider returned error", None),
            (r#""""#, "Provider returned error", None),
            ("null", "Provider returned error", None),
            ("7", "7", None),
        ] {
            let payload = body(&format!(
                r#"{{"error":{{"message":"Provider returned error","code":400,"metadata":{{"raw":{raw},"provider_name":"P"}}}}}}"#
            ));
            assert_eq!((payload.message.as_str(), payload.code), (message, Some(400)), "{raw}");
            assert_eq!(payload.status.as_deref(), code, "{raw}");
        }
    }

    #[test]
    fn unusual_errors_have_their_message() {
        for (text, message) in [
            (r#"{"error":{"message":"half \ud800 pair \ud83d\ude00"}}"#, "half \u{fffd} pair 😀"),
            (
                r#"{"error":{"message":"cut \"off\" here","code":400,"metadata":{"raw":"aaa"#,
                "cut \"off\" here",
            ),
            (
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"","previous_errors":[{"code":400,"message":"prompt is too long"}]}}}"#,
                "prompt is too long",
            ),
            (
                r#"{"error":{"message":"Input was flagged","code":403,"metadata":{"reasons":["violence","hate"]}}}"#,
                "Input was flagged (violence, hate)",
            ),
            (
                r#"{"error":{"message":"no","metadata":{"remedy_hint":"add credits"}}}"#,
                "no; add credits",
            ),
        ] {
            assert_eq!(body(text).message, message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_error_body_does_not_panic(text in ".{0,200}", bytes: Vec<u8>) {
            let _ = (body(&text), ErrorPayload::from_body(&bytes));
            let _ = body(&format!("{{\"error\":{{\"message\":{text}}}}}"));
        }
    }
}
