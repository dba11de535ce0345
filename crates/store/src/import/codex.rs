//! Imports Codex rollouts: lines with a time, a type, and a payload. Older rollouts contain only
//! the payloads.

use std::collections::HashMap;

use parallax_protocol::Object;
use parallax_protocol::content::Part;
use parallax_protocol::ids::SessionId;
use serde_json::Value;

use super::{CallResult, ImportedFile, ImportedMessage, empty_head, response};

/// Synthetic context of Codex, which Parallax replaces with its own.
const CONTEXT: [&str; 5] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
];

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Reads a rollout. Returns `None` if its first line is not a rollout header.
pub(super) fn read_lines(text: &str) -> Option<ImportedFile> {
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let first = lines.next()?;
    let is_new = text_at(&first, "type") == "session_meta";
    let meta = if is_new { first.get("payload")? } else { &first };
    // The old header has no type; this combination of fields occurs in no other format.
    let is_old = first.get("type").is_none()
        && first.get("id").is_some_and(Value::is_string)
        && first.get("timestamp").is_some_and(Value::is_string)
        && (first.get("instructions").is_some() || first.get("git").is_some());
    if !is_new && !is_old {
        return None;
    }
    let mut head = empty_head();
    head.session_id = SessionId::new(text_at(meta, "id"));
    head.start_time = text_at(meta, "timestamp").to_owned();
    head.project = text_at(meta, "cwd").to_owned();
    // Each answer of the service is followed by its token count; older versions wrote results
    // between the calls of one answer.
    let counts_tokens = text.contains("\"token_count\"");
    let mut reader = RolloutReader { counts_tokens, ..RolloutReader::default() };
    for line in lines {
        match (line.get("payload"), text_at(&line, "type")) {
            (Some(payload), "response_item") => {
                reader.read_item(payload, text_at(&line, "timestamp"))
            }
            (Some(payload), "turn_context") => reader.model = text_at(payload, "model").to_owned(),
            (Some(payload), "event_msg") if text_at(payload, "type") == "thread_rolled_back" => {
                reader.roll_back(payload.get("num_turns").and_then(Value::as_u64).unwrap_or(1));
            }
            (Some(payload), "event_msg") if text_at(payload, "type") == "token_count" => {
                reader.is_answered = true;
            }
            (None, kind) if is_old && !kind.is_empty() => reader.read_item(&line, ""),
            _ => {}
        }
    }
    Some(ImportedFile { head, summary: None, messages: reader.messages })
}

#[derive(Default)]
struct RolloutReader {
    messages: Vec<ImportedMessage>,
    model: String,
    thoughts: Vec<String>,
    /// The index of the message and the tool name of each call.
    calls: HashMap<String, (usize, String)>,
    /// Whether token counts mark the end of each answer.
    counts_tokens: bool,
    /// Whether the answer has ended, so that further model output starts a new one.
    is_answered: bool,
}

impl RolloutReader {
    fn read_item(&mut self, item: &Value, time: &str) {
        match text_at(item, "type") {
            "message" => self.add_message(item, time),
            "reasoning" => {
                let summary = item.get("summary").and_then(Value::as_array);
                let texts = summary.into_iter().flatten().map(|one| text_at(one, "text"));
                self.thoughts.extend(texts.filter(|text| !text.is_empty()).map(str::to_owned));
            }
            "function_call" => {
                let typed = text_at(item, "arguments");
                let args = serde_json::from_str::<Object>(typed);
                self.add_call(
                    item,
                    time,
                    args.unwrap_or_else(|_| single_entry("input", typed.into())),
                );
            }
            "custom_tool_call" => {
                self.add_call(item, time, single_entry("input", text_at(item, "input").into()));
            }
            "local_shell_call" => {
                let action = item.get("action").and_then(Value::as_object).cloned();
                self.add_call(item, time, action.unwrap_or_default());
            }
            "function_call_output" | "custom_tool_call_output" => self.add_result(item),
            _ => {}
        }
    }

    fn add_message(&mut self, item: &Value, time: &str) {
        let content = item.get("content").and_then(Value::as_array);
        let content = content.map_or(&[][..], Vec::as_slice);
        let texts: Vec<&str> = content
            .iter()
            .filter(|part| matches!(text_at(part, "type"), "input_text" | "output_text" | "text"))
            .map(|part| text_at(part, "text"))
            .filter(|text| !text.is_empty())
            .collect();
        match text_at(item, "role") {
            "assistant" => {
                let parts = texts.into_iter().map(Part::text);
                let parts: Vec<Part> = parts.collect();
                if let (Some(answer), false) = (self.answer(time), parts.is_empty()) {
                    answer.parts.extend(parts);
                }
            }
            "user" => {
                let mut parts = Vec::new();
                let mut typed = Vec::new();
                for text in texts {
                    if !CONTEXT.iter().any(|start| text.trim_start().starts_with(start)) {
                        parts.push(Part::text(text));
                        typed.push(text);
                    }
                }
                let images = content.iter().filter(|part| text_at(part, "type") == "input_image");
                parts.extend(images.filter_map(|part| image(text_at(part, "image_url"))));
                if !parts.is_empty() {
                    let display = (!typed.is_empty()).then(|| typed.join("\n"));
                    let time = time.to_owned();
                    self.messages.push(ImportedMessage {
                        time,
                        parts,
                        display,
                        ..ImportedMessage::default()
                    });
                }
            }
            _ => {}
        }
    }

    /// Returns the current answer of the model.
    fn answer(&mut self, time: &str) -> Option<&mut ImportedMessage> {
        let goes_on = self.messages.last().is_some_and(|last| last.is_model) && !self.is_answered;
        if !goes_on {
            self.is_answered = false;
            self.messages.push(ImportedMessage {
                time: time.to_owned(),
                is_model: true,
                model: (!self.model.is_empty()).then(|| self.model.clone()),
                ..ImportedMessage::default()
            });
        }
        let message = self.messages.last_mut()?;
        message.thoughts.append(&mut self.thoughts);
        Some(message)
    }

    fn add_call(&mut self, item: &Value, time: &str, args: Object) {
        let id = match text_at(item, "call_id") {
            "" => text_at(item, "id"),
            id => id,
        };
        let name = match text_at(item, "name") {
            "" => "local_shell",
            name => name,
        };
        if let Some(answer) = self.answer(time) {
            answer.parts.push(Part::function_call(Some(id), name, args));
        }
        self.calls.insert(id.to_owned(), (self.messages.len() - 1, name.to_owned()));
    }

    fn add_result(&mut self, item: &Value) {
        let id = text_at(item, "call_id");
        let Some((at, name)) = self.calls.get(id) else { return };
        let Some(message) = self.messages.get_mut(*at) else { return };
        self.is_answered |= !self.counts_tokens;
        let output = item.get("output").unwrap_or(&Value::Null);
        let failed = output.get("success").and_then(Value::as_bool) == Some(false);
        let parts = vec![response(id, name, &text_of(output), failed)];
        let (id, name) = (Some(id.to_owned()), name.clone());
        message.results.push(CallResult { id, name, parts, failed, display: None });
    }

    /// Removes the last prompts and everything after them, which the user rewound.
    fn roll_back(&mut self, prompts: u64) {
        for _ in 0..prompts {
            let last = self.messages.iter().rposition(|message| !message.is_model);
            self.messages.truncate(last.unwrap_or_default());
        }
        self.calls.retain(|_, (at, _)| *at < self.messages.len());
        self.thoughts.clear();
        self.is_answered = true;
    }
}

/// Returns the text of an output: a plain string, a list of parts, or an object.
fn text_of(output: &Value) -> String {
    match output {
        Value::String(text) => match serde_json::from_str::<Object>(text) {
            Ok(object) => match object.get("output").and_then(Value::as_str) {
                Some(inner) if object.contains_key("metadata") => inner.to_owned(),
                _ => text.clone(),
            },
            Err(_) => text.clone(),
        },
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| text_at(part, "text"));
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Object(object) => {
            let inner = object.get("content").or_else(|| object.get("output"));
            inner.map(text_of).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn single_entry(key: &str, value: Value) -> Object {
    let mut object = Object::new();
    object.insert(key.to_owned(), value);
    object
}

/// Returns an image that is embedded in a data URL.
fn image(url: &str) -> Option<Part> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(Part::inline_data(kind, data))
}
