//! Imports Gemini CLI session records: lines of metadata and messages, or one document with
//! both.

use std::collections::HashMap;

use parallax_protocol::Object;
use parallax_protocol::content::{Part, PartView};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Usage;
use parallax_protocol::store::JournalHeader;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{CallResult, ImportedFile, ImportedMessage, empty_head, read_parts};

/// A line with all fields that may occur in one.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RecordLine {
    session_id: Option<String>,
    project_hash: Option<String>,
    start_time: Option<String>,
    summary: Option<String>,
    messages: Option<Vec<Box<RawValue>>>,
    id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "$set")]
    set: Option<SetRecord>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SetRecord {
    start_time: Option<String>,
    summary: Option<String>,
    messages: Option<Vec<Box<RawValue>>>,
}

/// The messages of a record in order; a later line with the same ID replaces an earlier one.
#[derive(Default)]
struct Messages<'a> {
    list: Vec<Option<std::borrow::Cow<'a, str>>>,
    by_id: HashMap<String, usize>,
}

impl<'a> Messages<'a> {
    fn upsert(&mut self, id: String, text: std::borrow::Cow<'a, str>) {
        match self.by_id.get(&id).and_then(|at| self.list.get_mut(*at)) {
            Some(slot) => *slot = Some(text),
            None => {
                self.by_id.insert(id, self.list.len());
                self.list.push(Some(text));
            }
        }
    }

    fn replace(&mut self, all: Vec<Box<RawValue>>) {
        *self = Self::default();
        for raw in all {
            let line: RecordLine = serde_json::from_str(raw.get()).unwrap_or_default();
            let id = line.id.unwrap_or_else(|| format!("#{}", self.list.len()));
            self.upsert(id, raw.get().to_owned().into());
        }
    }

    fn rewind(&mut self, id: &str) {
        let keep = self.by_id.get(id).copied().unwrap_or_default();
        self.list.truncate(keep);
        self.by_id.retain(|_, at| *at < keep);
    }
}

/// Reads a record in line format. Returns `None` if no line is its metadata.
pub(super) fn read_lines(text: &str) -> Option<ImportedFile> {
    let mut head: Option<JournalHeader> = None;
    let mut summary = None;
    let mut messages = Messages::default();
    for text in text.lines() {
        let Ok(line) = serde_json::from_str::<RecordLine>(text) else { continue };
        summary = line.summary.or(summary);
        if let Some(set) = line.set {
            summary = set.summary.or(summary);
            if let (Some(time), Some(head)) = (set.start_time, &mut head) {
                head.start_time = time;
            }
            if let Some(all) = set.messages {
                messages.replace(all);
            }
        } else if let Some(id) = line.rewind_to {
            messages.rewind(&id);
        } else if let (Some(session), Some(_)) = (line.session_id, line.project_hash) {
            // A resumed session has a second line of metadata.
            let head = head.get_or_insert_with(empty_head);
            head.session_id = SessionId::new(session);
            if let Some(time) = line.start_time {
                head.start_time = time;
            }
            if let Some(all) = line.messages {
                messages.replace(all);
            }
        } else if let (Some(id), Some(_)) = (line.id, line.kind) {
            messages.upsert(id, text.into());
        }
    }
    let messages = messages.list.iter().flatten().filter_map(|text| read_message(text)).collect();
    Some(ImportedFile { head: head?, summary, messages })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMessage {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    content: Option<Box<RawValue>>,
    #[serde(default)]
    display_content: Option<Box<RawValue>>,
    #[serde(default)]
    thoughts: Option<Vec<Value>>,
    #[serde(default)]
    tokens: Option<Value>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<RawCall>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Option<Value>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    result_display: Option<Value>,
}

/// Reads a message. Returns `None` for messages that were never sent to the model.
pub(super) fn read_message(text: &str) -> Option<ImportedMessage> {
    let raw: RawMessage = serde_json::from_str(text).ok()?;
    let parts = raw.content.as_deref().map(read_parts).unwrap_or_default();
    let time = raw.timestamp.unwrap_or_default();
    match raw.kind.as_str() {
        "user" => {
            let text = text_of(&parts);
            if is_command(&text) {
                return None;
            }
            let display = raw.display_content.as_deref().map(|raw| text_of(&read_parts(raw)));
            // A message may combine context and the prompt; the display content is then set.
            let synthetic = display.is_none() && is_context(&text);
            let display = display.or((!synthetic && !text.is_empty()).then_some(text));
            Some(ImportedMessage { time, parts, display, synthetic, ..ImportedMessage::default() })
        }
        "gemini" => {
            let mut message = ImportedMessage {
                time,
                is_model: true,
                parts,
                model: raw.model,
                usage: raw.tokens.as_ref().map(usage),
                thoughts: raw.thoughts.unwrap_or_default().iter().filter_map(thought).collect(),
                ..ImportedMessage::default()
            };
            // Calls in the content are authoritative; otherwise the list is used.
            let calls_in_content =
                message.parts.iter().any(|part| matches!(part.view(), PartView::Call(_)));
            for call in raw.tool_calls.unwrap_or_default() {
                add_call(&mut message, call, !calls_in_content);
            }
            Some(message)
        }
        _ => None,
    }
}

fn add_call(message: &mut ImportedMessage, call: RawCall, list_it: bool) {
    let args: Object = match call.args {
        Some(Value::Object(args)) => args,
        _ => Object::new(),
    };
    if list_it {
        message.parts.push(Part::function_call(call.id.as_deref(), &call.name, args));
    }
    let Some(result) = call.result else { return };
    let mut parts = read_parts(&result);
    // The file of a resumed session lists the responses of all calls with each call.
    let own = |part: &Part| match part.view() {
        PartView::Response(response) => response.id.is_some() && response.id == call.id.as_deref(),
        _ => false,
    };
    if parts.iter().any(own) {
        parts.retain(|part| own(part) || !matches!(part.view(), PartView::Response(_)));
    }
    if !parts.iter().any(|part| matches!(part.view(), PartView::Response(_))) {
        // A plain text instead of a response.
        let mut response = Object::new();
        response.insert("output".into(), text_of(&parts).into());
        parts = vec![Part::function_response(call.id.as_deref(), &call.name, response, Vec::new())];
    }
    message.results.push(CallResult {
        id: call.id,
        name: call.name,
        parts,
        failed: call.status.is_some_and(|status| status != "success"),
        display: call.result_display.and_then(|value| value.as_str().map(str::to_owned)),
    });
}

fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part.view() {
        PartView::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// Whether a user entry is a command that was never sent. Text that begins with a path is not.
pub(crate) fn is_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or("");
    text.starts_with('?') || (word.starts_with('/') && word.matches('/').count() == 1)
}

/// Whether a user entry is synthetic context.
pub fn is_context(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("<session_context>") || text.starts_with("<hook_context>")
}

fn thought(value: &Value) -> Option<String> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("").trim();
    match (field("subject"), field("description")) {
        ("", "") => None,
        ("", text) => Some(text.to_owned()),
        (subject, text) => Some(format!("**{subject}** {text}").trim_end().to_owned()),
    }
}

fn usage(tokens: &Value) -> Usage {
    let count = |name: &str| tokens.get(name).and_then(Value::as_u64).unwrap_or_default();
    Usage {
        prompt: count("input"),
        output: count("output"),
        cached: count("cached"),
        thought: count("thoughts"),
        tool_prompt: count("tool"),
        cache_write: 0,
        total: count("total"),
        charged_cost: None,
    }
}
