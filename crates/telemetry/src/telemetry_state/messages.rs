//! The contents of a request and its response in the form of the semantic conventions for
//! generative AI: messages with a role and typed parts.

use std::collections::VecDeque;
use std::sync::Arc;

use parallax_protocol::content::{Content, Part, PartView, Role, SealedContent};
use parallax_protocol::model::Request;
use serde_json::{Value, json};

use crate::otlp_messages::MAX_TEXT;

/// Byte limits for a string in a message, tried in order until the message fits.
const PART_LIMITS: [usize; 4] = [64 * 1024, 8 * 1024, 1024, 128];

/// The contents of a request, shared with the session until they are recorded.
#[derive(Debug, Clone)]
pub(super) struct RequestContents {
    contents: Vec<SealedContent>,
    system: Arc<str>,
}

/// The messages of a request and its response, as JSON strings.
#[derive(Debug, PartialEq)]
pub(super) struct SpanMessages {
    /// `gen_ai.input.messages`.
    pub(super) input: String,
    /// How many of the oldest messages are left out, so that the text can be sent.
    pub(super) omitted: usize,
    /// `gen_ai.output.messages`.
    pub(super) output: String,
    /// `gen_ai.system_instructions`.
    pub(super) system: Option<String>,
}

impl RequestContents {
    pub(super) fn new(request: &Request) -> Self {
        Self { contents: request.contents.clone(), system: Arc::clone(&request.system) }
    }

    /// Returns the messages of the request, and of its response.
    pub(super) fn messages(&self, response: &[Part], finish: Option<&str>) -> SpanMessages {
        let opened: Vec<Content> =
            self.contents.iter().filter_map(|content| content.open().ok()).collect();
        let mut limits = PART_LIMITS.into_iter();
        loop {
            let limit = limits.next();
            let mut writer = MessageWriter::new(limit.unwrap_or_default());
            let input: Vec<String> =
                opened.iter().flat_map(|content| writer.input_messages(content)).collect();
            let output = writer.output_messages(response, finish);
            let longest = output.len().max(input.last().map_or(0, String::len) + 2);
            // Many long parts in one message: shorter ones are better than none.
            if longest <= MAX_TEXT || limit.is_none() {
                let (input, omitted) = newest_messages_that_fit(&input);
                return SpanMessages { input, omitted, output, system: self.system() };
            }
        }
    }

    fn system(&self) -> Option<String> {
        (!self.system.is_empty()).then(|| {
            json!([{"type": "text", "content": truncate(&self.system, MAX_TEXT / 2)}]).to_string()
        })
    }
}

/// Ids for calls without one from the service: the number of the call among them. Calls and
/// responses are paired by name and order, as the service does.
#[derive(Default)]
struct CallIds {
    count: usize,
    open: VecDeque<(String, String)>,
}

impl CallIds {
    fn call(&mut self, id: Option<&str>, name: &str) -> String {
        id.map_or_else(
            || {
                self.count += 1;
                let id = format!("call_{}", self.count);
                self.open.push_back((name.to_owned(), id.clone()));
                id
            },
            str::to_owned,
        )
    }

    fn response(&mut self, id: Option<&str>, name: &str) -> Option<String> {
        let id = id.map(str::to_owned);
        id.or_else(|| {
            let at = self.open.iter().position(|(called, _)| called == name)?;
            self.open.remove(at).map(|(_, id)| id)
        })
    }
}

/// Writes messages.
struct MessageWriter {
    ids: CallIds,
    /// Maximum length in bytes of a string inside a message.
    limit: usize,
}

impl MessageWriter {
    fn new(limit: usize) -> Self {
        Self { ids: CallIds::default(), limit }
    }

    /// Returns the messages of one content: those with the results of tools have a role of their
    /// own.
    fn input_messages(&mut self, content: &Content) -> Vec<String> {
        let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
        for part in &content.parts {
            let role = match (content.role, part.view()) {
                (Role::Model, _) => "assistant",
                (Role::User, PartView::Response(_)) => "tool",
                (Role::User, _) => "user",
            };
            let parts = self.message_parts(part);
            match messages.last_mut() {
                Some((last, so_far)) if *last == role => so_far.extend(parts),
                _ => messages.push((role, parts)),
            }
        }
        let json =
            |(role, parts): (&str, Vec<Value>)| json!({"role": role, "parts": parts}).to_string();
        messages.into_iter().map(json).collect()
    }

    fn output_messages(&mut self, parts: &[Part], finish: Option<&str>) -> String {
        let has_calls = parts.iter().any(|part| matches!(part.view(), PartView::Call(_)));
        let parts: Vec<Value> = parts.iter().flat_map(|part| self.message_parts(part)).collect();
        let reason = match finish {
            Some("STOP") if has_calls => "tool_call",
            Some("STOP") => "stop",
            Some("MAX_TOKENS") => "length",
            Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
                "content_filter"
            }
            Some(other) => other,
            None => "error",
        };
        json!([{"role": "assistant", "parts": parts, "finish_reason": reason}]).to_string()
    }

    /// Converts a part to parts of a message.
    fn message_parts(&mut self, part: &Part) -> Vec<Value> {
        let field =
            |of: &str, name: &str| part.object().get(of).and_then(|it| it.get(name)).cloned();
        let one = match part.view() {
            PartView::Text(text) => json!({"type": "text", "content": text}),
            PartView::Thought(text) => json!({"type": "reasoning", "content": text}),
            PartView::Call(call) => {
                let arguments = call.args.map(|args| Value::Object(args.clone()));
                let arguments = arguments.or_else(|| call.malformed_args.cloned());
                let id = self.ids.call(call.id, call.name);
                json!({"type": "tool_call", "id": id, "name": call.name, "arguments": arguments})
            }
            PartView::Response(response) => {
                let id = self.ids.response(response.id, response.name);
                let result = tool_result(response.response);
                let result = json!({"type": "tool_call_response", "id": id, "response": result});
                let nested = field("functionResponse", "parts");
                let nested = nested.as_ref().and_then(Value::as_array).into_iter().flatten();
                let nested = nested.filter_map(Value::as_object).cloned().map(Part::from);
                let media: Vec<Value> = nested.flat_map(|part| self.message_parts(&part)).collect();
                return std::iter::once(truncate_strings(result, self.limit))
                    .chain(media)
                    .collect();
            }
            PartView::Inline { mime_type, data } if data.len() > self.limit => {
                json!({"type": "omitted", "mime_type": mime_type, "base64_length": data.len()})
            }
            PartView::Inline { mime_type, data } => json!({
                "type": "blob", "mime_type": mime_type, "modality": modality(mime_type), "content": data,
            }),
            PartView::File { uri } => {
                let mime_type = field("fileData", "mimeType");
                let kind = mime_type.as_ref().and_then(Value::as_str).map_or("document", modality);
                json!({"type": "uri", "mime_type": mime_type, "modality": kind, "uri": uri})
            }
            PartView::Code => json!({
                "type": "server_tool_call", "name": "code_execution",
                "id": field("executableCode", "id"),
                "server_tool_call": {
                    "type": "code_execution",
                    "code": field("executableCode", "code"),
                    "language": field("executableCode", "language"),
                },
            }),
            PartView::CodeResult => json!({
                "type": "server_tool_call_response",
                "id": field("codeExecutionResult", "id"),
                "server_tool_call_response": {
                    "type": "code_execution",
                    "outcome": field("codeExecutionResult", "outcome"),
                    "output": field("codeExecutionResult", "output"),
                },
            }),
            PartView::Unknown => json!({"type": "unknown", "content": part.object()}),
        };
        vec![truncate_strings(one, self.limit)]
    }
}

/// Returns what a tool returned: its text alone, if it returned nothing else.
fn tool_result(response: Option<&Value>) -> Value {
    let fields = response.and_then(Value::as_object);
    match fields.and_then(|fields| fields.get("output")) {
        Some(output) if fields.is_some_and(|fields| fields.len() == 1) => output.clone(),
        _ => response.cloned().unwrap_or(Value::Null),
    }
}

fn modality(mime_type: &str) -> &'static str {
    match mime_type.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        Some("video") => "video",
        _ => "document",
    }
}

/// Returns the newest messages as one JSON array that is not too long for an attribute, and the
/// number of those before.
fn newest_messages_that_fit(messages: &[String]) -> (String, usize) {
    let mut length = 2;
    let fitting = messages.iter().rev().take_while(|message| {
        length += message.len() + 1;
        length <= MAX_TEXT
    });
    let omitted = messages.len() - fitting.count();
    let retained = messages.get(omitted..).unwrap_or_default();
    (format!("[{}]", retained.join(",")), omitted)
}

/// Returns a part with its strings truncated.
fn truncate_strings(mut value: Value, limit: usize) -> Value {
    match &mut value {
        Value::String(text) if text.len() > limit => {
            *text = truncate(text, limit);
        }
        Value::Array(values) => {
            for value in values {
                *value = truncate_strings(value.take(), limit);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                *value = truncate_strings(value.take(), limit);
            }
        }
        _ => {}
    }
    value
}

fn truncate(text: &str, length: usize) -> String {
    match text.get(..text.floor_char_boundary(length)) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(value: Value) -> Part {
        Part::from(value.as_object().expect("an object").clone())
    }

    fn contents(contents: &[Content], system: &str) -> RequestContents {
        let contents = contents.iter().map(Content::seal).collect();
        RequestContents { contents, system: system.into() }
    }

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn contents_are_converted_to_messages_with_typed_parts() {
        let call =
            |id: Option<&str>, name: &str| Part::function_call(id, name, serde_json::Map::new());
        let response = |id: Option<&str>, name: &str, value: Value| {
            let value = value.as_object().expect("an object").clone();
            Part::function_response(id, name, value, vec![Part::inline_data("image/png", "aGk=")])
        };
        let request_contents = contents(
            &[
                Content::user(vec![Part::text("look")]),
                Content::model(vec![
                    Part::text("I will."),
                    call(None, "glob"),
                    call(Some("x1"), "grep"),
                    call(None, "glob"),
                ]),
                Content::user(vec![
                    response(None, "glob", json!({"output": "a.txt"})),
                    response(Some("x1"), "grep", json!({"error": "no match"})),
                    response(None, "glob", json!({"output": "b.txt", "more": 1})),
                    Part::text("and hurry"),
                    part(json!({"fileData": {"fileUri": "gs://a/b", "mimeType": "video/mp4"}})),
                ]),
                Content::model(vec![
                    part(json!({"executableCode": {"code": "1+1", "language": "PYTHON"}})),
                    part(json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}})),
                    part(json!({"novel": 1})),
                ]),
            ],
            "You are an agent.",
        );
        let answer = [
            part(json!({"text": "hm", "thought": true})),
            part(json!({"functionCall": {"name": "read_file", "args": {"file_path": "a"}}})),
        ];
        let messages = request_contents.messages(&answer, Some("STOP"));
        let blob = json!({"type": "blob", "mime_type": "image/png", "modality": "image", "content": "aGk="});
        assert_eq!(
            parsed(&messages.input),
            json!([
                {"role": "user", "parts": [{"type": "text", "content": "look"}]},
                {"role": "assistant", "parts": [
                    {"type": "text", "content": "I will."},
                    {"type": "tool_call", "id": "call_1", "name": "glob", "arguments": {}},
                    {"type": "tool_call", "id": "x1", "name": "grep", "arguments": {}},
                    {"type": "tool_call", "id": "call_2", "name": "glob", "arguments": {}},
                ]},
                {"role": "tool", "parts": [
                    {"type": "tool_call_response", "id": "call_1", "response": "a.txt"}, blob,
                    {"type": "tool_call_response", "id": "x1", "response": {"error": "no match"}}, blob,
                    {"type": "tool_call_response", "id": "call_2",
                     "response": {"output": "b.txt", "more": 1}}, blob,
                ]},
                {"role": "user", "parts": [
                    {"type": "text", "content": "and hurry"},
                    {"type": "uri", "mime_type": "video/mp4", "modality": "video", "uri": "gs://a/b"},
                ]},
                {"role": "assistant", "parts": [
                    {"type": "server_tool_call", "name": "code_execution", "id": null,
                     "server_tool_call": {"type": "code_execution", "code": "1+1", "language": "PYTHON"}},
                    {"type": "server_tool_call_response", "id": null, "server_tool_call_response":
                     {"type": "code_execution", "outcome": "OUTCOME_OK", "output": "2"}},
                    {"type": "unknown", "content": {"novel": 1}},
                ]},
            ])
        );
        assert_eq!(
            parsed(&messages.output),
            json!([{"role": "assistant", "finish_reason": "tool_call", "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "call_3", "name": "read_file", "arguments": {"file_path": "a"}},
            ]}])
        );
        let system = messages.system.expect("instructions");
        assert_eq!(parsed(&system), json!([{"type": "text", "content": "You are an agent."}]));
    }

    #[test]
    fn finish_reasons_follow_the_conventions() {
        for (finish, reason) in [
            (Some("STOP"), "stop"),
            (Some("MAX_TOKENS"), "length"),
            (Some("SAFETY"), "content_filter"),
            (Some("MALFORMED_FUNCTION_CALL"), "MALFORMED_FUNCTION_CALL"),
            (None, "error"),
        ] {
            let messages = contents(&[], "").messages(&[], finish);
            assert_eq!(parsed(&messages.output)[0]["finish_reason"], reason);
            assert_eq!(messages.system, None);
        }
    }

    #[test]
    fn long_contents_stay_valid_json_with_the_newest_messages() {
        let long = "é\"\n".repeat(40 * 1024);
        let many: Vec<Content> = (0..6).map(|_| Content::user(vec![Part::text(&*long)])).collect();
        let messages = contents(&many, &long.repeat(3)).messages(&[Part::text(&*long)], None);
        let input = parsed(&messages.input);
        let retained = input.as_array().expect("messages").len();
        assert!(
            retained >= 1 && retained + messages.omitted == 6,
            "{retained} {}",
            messages.omitted
        );
        for text in [&messages.input, &messages.output, messages.system.as_ref().expect("text")] {
            assert!(text.len() <= MAX_TEXT, "{}", text.len());
            parsed(text);
        }
        let image = Part::inline_data("image/png", "a".repeat(PART_LIMITS[0] + 1));
        let messages = contents(&[Content::user(vec![image])], "").messages(&[], None);
        assert_eq!(parsed(&messages.input)[0]["parts"][0]["type"], "omitted");
        // One message that is too long because it has too many parts.
        let parts: Vec<Part> = (0..40).map(|_| Part::text(&*long)).collect();
        let messages = contents(&[Content::user(parts.clone())], "").messages(&parts, None);
        for text in [&messages.input, &messages.output] {
            assert!(text.len() <= MAX_TEXT, "{}", text.len());
            assert_eq!(parsed(text)[0]["parts"].as_array().map(Vec::len), Some(40));
        }
    }
}
