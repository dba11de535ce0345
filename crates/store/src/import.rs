//! Imports session files of other tools. Their contents are untrusted: invalid parts are dropped,
//! and what the model service would reject (missing or duplicate results, missing signatures) is
//! repaired.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part, PartView, SYNTHETIC_SIGNATURE};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Usage;
use parallax_protocol::store::{
    ContentRecord, HookContinuation, JournalHeader, NameRecord, Record, ResultRecord, StepRecord,
};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::keys::Keys;
use crate::load::{Builder, LoadedSession, load, read_record};
use crate::load_error::LoadError;

mod claude;
mod codex;
mod gemini;

pub(crate) use gemini::is_command;
pub use gemini::is_context;

/// Size limit of an imported file in bytes.
const MAX_FILE: u64 = 512 * 1024 * 1024;

/// A message of a foreign session.
#[derive(Debug, Default)]
pub(crate) struct ImportedMessage {
    pub(crate) time: String,
    pub(crate) is_model: bool,
    pub(crate) parts: Vec<Part>,
    /// The prompt as typed by the user.
    pub(crate) display: Option<String>,
    pub(crate) synthetic: bool,
    /// The hooks that continued a turn with this message, if any did.
    pub(crate) continuation: Option<HookContinuation>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) thoughts: Vec<String>,
    /// Tool results that the file stores next to the calls.
    pub(crate) results: Vec<CallResult>,
}

/// The result of a tool call.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) failed: bool,
    pub(crate) display: Option<String>,
}

/// Reads a session file in any supported format: a Parallax journal, a Gemini CLI record
/// (both formats), a session of Parallax CLI, a Claude Code transcript, a Codex rollout, a
/// saved checkpoint, or a bare array of contents.
///
/// The head contains the foreign ID. To continue the session, the caller creates a new journal that
/// names it as its origin.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large, or contains no conversation.
pub fn import(path: &Path, keys: &Keys) -> Result<LoadedSession, LoadError> {
    let io = |source| LoadError::Io { path: path.to_owned(), source };
    let none =
        |reason: &str| LoadError::NotASession { path: path.to_owned(), reason: reason.to_owned() };
    // Check before opening, because opening a named pipe blocks.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(none("it is not a regular file"));
    }
    let file = File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(none("it is larger than 512 MiB"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    let first = text.lines().next().unwrap_or("");
    let is_ours = crate::cipher::is_encrypted(first.as_bytes())
        || matches!(read_record(first), Some(Record::Session(_)));
    if is_ours {
        let mut session = load(path, keys)?;
        if session.contents.is_empty() {
            return Err(none("it contains no messages"));
        }
        // These are not imported: the author of the file does not decide what may be spent, where
        // the agent works, or what needs approval.
        session.records.retain(|record| {
            !matches!(
                record,
                Record::Budget(_)
                    | Record::Directories(_)
                    | Record::Selection(_)
                    | Record::Spent(_)
                    | Record::Request(_)
            )
        });
        return Ok(session);
    }
    let ImportedFile { mut head, summary, messages } = read_foreign(text).ok_or_else(|| {
        none(
            "expected a session of Parallax, Gemini CLI, Claude Code, or Codex, or an array of \
            contents",
        )
    })?;
    if !SessionId::is_valid(head.session_id.as_str()) {
        head.session_id = crate::load::head_of_file(path).session_id;
    }
    if head.start_time.is_empty() {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let modified = modified.and_then(|time| jiff::Timestamp::try_from(time).ok());
        head.start_time = modified.map(|time| format!("{time:.3}")).unwrap_or_default();
    }
    let time = head.start_time.clone();
    let mut session = build(head, messages, path)?;
    // Insert after the first prompt, where the session list looks for a name.
    let behind = session.records.len().min(1);
    if let Some(text) = summary.filter(|text| !text.trim().is_empty()) {
        let name = NameRecord { time: time.clone(), text: crate::title::sanitize_title(&text) };
        session.records.insert(behind, Record::Name(name));
    }
    if session.contents.is_empty() { Err(none("it has no messages")) } else { Ok(session) }
}

fn empty_head() -> JournalHeader {
    JournalHeader {
        version: 1,
        session_id: SessionId::new(""),
        project: String::new(),
        start_time: String::new(),
        forked_from: None,
        one_shot: false,
    }
}

/// The formats that consist of one JSON document.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ForeignDocument {
    session_id: Option<String>,
    id: Option<String>,
    start_time: Option<String>,
    summary: Option<String>,
    messages: Option<Vec<Box<RawValue>>>,
    contents: Option<Vec<Box<RawValue>>>,
    history: Option<Vec<Box<RawValue>>>,
}

/// The contents of a foreign file.
struct ImportedFile {
    head: JournalHeader,
    /// The name of the session.
    summary: Option<String>,
    messages: Vec<ImportedMessage>,
}

fn read_foreign(text: &str) -> Option<ImportedFile> {
    let plain = |head, messages| ImportedFile { head, summary: None, messages };
    if text.starts_with('[') {
        let items: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
        return Some(plain(empty_head(), read_items(&items)));
    }
    // Try lines first: a file with a single line is the old single-line variant of that format.
    if let Some(found) = gemini::read_lines(text) {
        return Some(found);
    }
    if let Some(found) = codex::read_lines(text).or_else(|| claude::read_lines(text)) {
        return Some(found);
    }
    let document: ForeignDocument = serde_json::from_str(text).ok()?;
    let items = document.messages.or(document.contents).or(document.history)?;
    let mut head = empty_head();
    head.session_id = SessionId::new(document.session_id.or(document.id).unwrap_or_default());
    head.start_time = document.start_time.unwrap_or_default();
    Some(ImportedFile { summary: document.summary, ..plain(head, read_items(&items)) })
}

/// Reads contents (with `role`) or message records (with `type`).
fn read_items(items: &[Box<RawValue>]) -> Vec<ImportedMessage> {
    items
        .iter()
        .filter_map(|item| read_content(item.get()).or_else(|| gemini::read_message(item.get())))
        .collect()
}

fn read_content(text: &str) -> Option<ImportedMessage> {
    #[derive(Deserialize)]
    struct WireRecord {
        role: String,
        #[serde(default)]
        parts: Option<Box<RawValue>>,
        #[serde(default)]
        content: Option<Box<RawValue>>,
    }
    let wire: WireRecord = serde_json::from_str(text).ok()?;
    let is_model = match wire.role.as_str() {
        "model" | "assistant" => true,
        "user" | "function" | "tool" => false,
        _ => return None,
    };
    let parts = read_parts(&wire.parts.or(wire.content)?);
    let display = if is_model { None } else { typed_text(&parts) };
    let is_context =
        |part: &Part| matches!(part.view(), PartView::Text(text) if gemini::is_context(text));
    let synthetic = !parts.is_empty() && parts.iter().all(is_context);
    Some(ImportedMessage { is_model, parts, display, synthetic, ..ImportedMessage::default() })
}

/// Start of the files that a prompt references.
const FILES: &str = "\n--- Content from referenced files ---";

/// Returns the text that the user typed in a user content, or `None` if the content is not a
/// prompt. Only prompts can be rewound to.
fn typed_text(parts: &[Part]) -> Option<String> {
    let texts = parts.iter().filter_map(|part| match part.view() {
        PartView::Text(text) if !gemini::is_context(text) => Some(text),
        _ => None,
    });
    let typed: Vec<&str> = texts.take_while(|text| *text != FILES).collect();
    let is_answer = parts.iter().any(is_response);
    (!is_answer && typed.iter().any(|text| !text.trim().is_empty())).then(|| typed.join("\n"))
}

/// Reads a string, a part, or a list of either.
fn read_parts(raw: &RawValue) -> Vec<Part> {
    let text = raw.get();
    match text.bytes().next() {
        Some(b'"') => {
            serde_json::from_str(text).map(|text: String| Part::text(text)).into_iter().collect()
        }
        Some(b'{') => serde_json::from_str(text).into_iter().collect(),
        Some(b'[') => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap_or_default();
            // Nested lists are skipped.
            let items = items.iter().filter(|item| !item.get().starts_with('['));
            items.flat_map(|item| read_parts(item)).collect()
        }
        _ => Vec::new(),
    }
}

/// Builds a session in which roles alternate and every call has exactly one response.
pub(crate) fn build(
    head: JournalHeader,
    messages: Vec<ImportedMessage>,
    path: &Path,
) -> Result<LoadedSession, LoadError> {
    let mut builder = Builder::default();
    builder.record(Record::Session(head));
    let mut lost = 0;
    let mut messages = merge(messages).into_iter().peekable();
    let mut first = true;
    while let Some(mut message) = messages.next() {
        if std::mem::take(&mut first) && message.is_model {
            let text = "[The beginning of this conversation is missing.]";
            let mut record =
                content_record(ImportedMessage::default(), Content::user(vec![Part::text(text)]));
            record.synthetic = true;
            builder.record(Record::Content(record));
        }
        if !message.is_model {
            let parts = std::mem::take(&mut message.parts);
            builder.record(Record::Content(content_record(message, Content::user(parts))));
            continue;
        }
        let content = add_missing_signature(Content::model(std::mem::take(&mut message.parts)));
        let calls: Vec<(Option<String>, String)> = content
            .calls()
            .map(|call| (call.id.map(str::to_owned), call.name.to_owned()))
            .collect();
        let mut results = std::mem::take(&mut message.results);
        let time = message.time.clone();
        builder.record(Record::Content(content_record(message, content)));
        if calls.is_empty() {
            continue;
        }
        let mut tail = Vec::new();
        if let Some(next) = messages.next_if(|next| !next.is_model) {
            for part in next.parts {
                match response_of(&part) {
                    Some((id, name)) => results.push(CallResult {
                        id,
                        name,
                        parts: vec![part],
                        failed: false,
                        display: None,
                    }),
                    None => tail.push(part),
                }
            }
        }
        for (index, (id, name)) in calls.iter().enumerate() {
            let found = results.iter().position(|result| {
                result.name == *name && (id.is_none() || result.id.is_none() || result.id == *id)
            });
            let found = found.map(|at| results.remove(at));
            lost += usize::from(found.is_none());
            builder.record(Record::Result(result_record(index, id.as_deref(), name, found, &time)));
        }
        let parts_after_results = (!tail.is_empty()).then(|| to_raw_value(&tail).ok()).flatten();
        builder.record(Record::Round(StepRecord {
            results: calls.len(),
            parts_after_results,
            user_texts: None,
        }));
    }
    if lost > 0 {
        let calls = if lost == 1 { "call" } else { "calls" };
        builder.add_notice(format!("{lost} {calls} without a result"));
    }
    builder.finish(path)
}

/// Joins consecutive messages with the same role, unless there are calls between them, and drops
/// what cannot be sent.
fn merge(messages: Vec<ImportedMessage>) -> Vec<ImportedMessage> {
    let mut merged: Vec<ImportedMessage> = Vec::new();
    // Whether the last message contains calls or responses. Tracked separately, because scanning a
    // merged message again for every message would be slow.
    let (mut calls, mut responses) = (false, false);
    for mut message in messages {
        message.parts.retain(|part| match part.view() {
            PartView::Thought(_) => false,
            PartView::Text(text) => !text.is_empty() || part.signature().is_some(),
            // Only the model calls tools, and only the user role responds.
            PartView::Call(_) => message.is_model,
            PartView::Response(_) => !message.is_model,
            _ => true,
        });
        if !message.is_model {
            // Responses are valid only directly after their calls.
            let last_is_user = merged.last().is_some_and(|last| !last.is_model);
            if !(calls || (last_is_user && responses)) {
                message.parts.retain(|part| !is_response(part));
            }
        }
        if message.parts.is_empty() {
            continue;
        }
        let (its_calls, its_responses) =
            (has_calls(&message), message.parts.iter().any(is_response));
        match merged.last_mut() {
            Some(last) if last.is_model == message.is_model && !calls => {
                (calls, responses) = (its_calls, responses || its_responses);
                last.parts.append(&mut message.parts);
                last.results.append(&mut message.results);
                last.thoughts.append(&mut message.thoughts);
                // Show the prompt that was typed, not a synthetic message before it.
                if !message.synthetic {
                    last.display = message.display.or(last.display.take());
                    last.time = message.time;
                    (last.synthetic, last.continuation) = (false, None);
                }
                last.model = message.model.or(last.model.take());
                last.usage = message.usage.or(last.usage.take());
            }
            _ => {
                (calls, responses) = (its_calls, its_responses);
                merged.push(message);
            }
        }
    }
    merged
}

/// Returns the response to a call, with this text.
fn response(id: &str, name: &str, text: &str, failed: bool) -> Part {
    let mut response = Object::new();
    response.insert(if failed { "error" } else { "output" }.into(), text.into());
    Part::function_response(Some(id), name, response, Vec::new())
}

fn has_calls(message: &ImportedMessage) -> bool {
    message.parts.iter().any(|part| matches!(part.view(), PartView::Call(_)))
}

fn is_response(part: &Part) -> bool {
    matches!(part.view(), PartView::Response(_))
}

fn response_of(part: &Part) -> Option<(Option<String>, String)> {
    match part.view() {
        PartView::Response(response) => {
            Some((response.id.map(str::to_owned), response.name.to_owned()))
        }
        _ => None,
    }
}

/// Adds a placeholder signature to the first call of a content if the signature is missing; the
/// service requires one.
fn add_missing_signature(mut content: Content) -> Content {
    let first = content.parts.iter_mut().find(|part| matches!(part.view(), PartView::Call(_)));
    if let Some(part) = first.filter(|part| part.signature().is_none()) {
        *part = part.with_signature(SYNTHETIC_SIGNATURE);
    }
    content
}

fn content_record(message: ImportedMessage, content: Content) -> ContentRecord {
    ContentRecord {
        opaque: Vec::new(),
        time: message.time,
        wire: content.seal(),
        display: message.display,
        labeled_text: None,
        model: message.model,
        usage: message.usage,
        thoughts: message.thoughts,
        turn: None,
        command: None,
        continuation: message.continuation,
        partial: false,
        synthetic: message.synthetic,
    }
}

fn result_record(
    index: usize,
    id: Option<&str>,
    name: &str,
    found: Option<CallResult>,
    time: &str,
) -> ResultRecord {
    let failed = found.as_ref().is_none_or(|result| result.failed);
    let display = found.as_ref().and_then(|result| result.display.clone());
    let mut parts = found.map(|result| result.parts).unwrap_or_default();
    // Exactly one response, first, with the ID and name of the call.
    let at = parts.iter().position(is_response);
    let response = at.map(|at| parts.remove(at));
    parts.retain(|part| !is_response(part));
    let response = match response {
        Some(part) if response_of(&part) == Some((id.map(str::to_owned), name.to_owned())) => part,
        other => {
            let object = other.as_ref().and_then(|part| match part.view() {
                PartView::Response(response) => response.response?.as_object().cloned(),
                _ => None,
            });
            let lost = || {
                let mut lost = Object::new();
                lost.insert("error".into(), "The result of this call was lost.".into());
                lost
            };
            Part::function_response(id, name, object.unwrap_or_else(lost), Vec::new())
        }
    };
    parts.insert(0, response);
    ResultRecord {
        time: time.to_owned(),
        call: id.map_or_else(|| format!("imported-{index}"), str::to_owned).into(),
        index,
        name: name.to_owned(),
        wire: to_raw_value(&parts).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        status: if failed { "error" } else { "success" }.to_owned(),
        display: display.map(|text| -> Value { json!({"type": "text", "text": text}) }),
        details: None,
    }
}
