//! Imports Claude Code transcripts: one line for each block of a message, with a reference to
//! the preceding line.

use std::collections::{HashMap, HashSet};

use parallax_protocol::Object;
use parallax_protocol::content::Part;
use parallax_protocol::ids::SessionId;
use serde::Deserialize;
use serde_json::Value;

use super::{CallResult, ImportedFile, ImportedMessage, empty_head, response};

/// Prefixes of user entries that are not prompts.
const NO_PROMPTS: [&str; 2] = ["<command-name>", "<local-command-"];

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct TranscriptLine {
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    /// The preceding line of a compaction summary, which replaces what came before it.
    logical_parent_uuid: Option<String>,
    session_id: Option<String>,
    cwd: Option<String>,
    timestamp: Option<String>,
    /// The ID that blocks of one answer share if the message has no ID.
    request_id: Option<String>,
    is_sidechain: bool,
    is_meta: bool,
    is_compact_summary: bool,
    summary: Option<String>,
    message: Option<TranscriptMessage>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TranscriptMessage {
    id: Option<String>,
    role: String,
    model: Option<String>,
    content: Value,
}

impl TranscriptLine {
    fn is_message(&self) -> bool {
        self.message.is_some() && matches!(self.kind.as_str(), "user" | "assistant")
    }

    fn blocks(&self) -> &[Value] {
        let content = self.message.as_ref().map(|output| &output.content);
        content.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn has(&self, kind: &str) -> bool {
        self.blocks().iter().any(|block| text_at(block, "type") == kind)
    }
}

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Reads a transcript. Returns `None` if no line is a message of one.
pub(super) fn read_lines(text: &str) -> Option<ImportedFile> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<TranscriptLine>(line).ok());
    let lines: Vec<TranscriptLine> = lines.collect();
    let first = lines.iter().find(|line| line.is_message() && line.session_id.is_some())?;
    let mut head = empty_head();
    head.session_id = SessionId::new(first.session_id.clone().unwrap_or_default());
    head.start_time = first.timestamp.clone().unwrap_or_default();
    head.project = first.cwd.clone().unwrap_or_default();
    let summary = lines.iter().rev().find_map(|line| line.summary.clone());
    let chain = chain(&lines);
    let mut reader = TranscriptReader::default();
    for (line, counts) in lines.iter().zip(chain) {
        if counts && line.is_message() {
            reader.read_line(line);
        }
    }
    Some(ImportedFile { head, summary, messages: reader.messages })
}

/// Returns which lines lead to the last one; the others were rewound. Results of parallel calls are
/// siblings, so they are included with their calls, as are all lines of one message.
fn chain(lines: &[TranscriptLine]) -> Vec<bool> {
    let by_id: HashMap<&str, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((line.uuid.as_deref()?, at)))
        .collect();
    let mut counts = vec![false; lines.len()];
    let mut next = lines.iter().rposition(|line| line.is_message() && !line.is_sidechain);
    while let Some(at) = next {
        let (Some(line), Some(count)) = (lines.get(at), counts.get_mut(at)) else { break };
        // Ends a cycle.
        if std::mem::replace(count, true) {
            break;
        }
        let parent = line.parent_uuid.as_deref().or(line.logical_parent_uuid.as_deref());
        next = parent.and_then(|parent| by_id.get(parent)).copied();
    }
    let message =
        |line: &TranscriptLine| line.message.as_ref().and_then(|output| output.id.clone());
    let (mut messages, mut calls) = (HashSet::new(), HashSet::new());
    for (line, _) in lines.iter().zip(&counts).filter(|(_, counts)| **counts) {
        messages.extend(message(line));
    }
    for (line, count) in lines.iter().zip(&mut counts) {
        *count |= message(line).is_some_and(|id| messages.contains(&id));
        if *count {
            calls.extend(line.blocks().iter().map(|block| text_at(block, "id").to_owned()));
        } else if line.has("tool_result") {
            let answers = |block: &Value| calls.contains(text_at(block, "tool_use_id"));
            *count = line.blocks().iter().any(answers);
        }
    }
    counts
}

#[derive(Default)]
struct TranscriptReader {
    messages: Vec<ImportedMessage>,
    /// The index of the message with each ID.
    by_id: HashMap<String, usize>,
    /// The index of the message of each model line.
    by_line: HashMap<String, usize>,
    /// The index of the message and the tool name of each call.
    calls: HashMap<String, (usize, String)>,
}

impl TranscriptReader {
    fn read_line(&mut self, line: &TranscriptLine) {
        let Some(output) = &line.message else { return };
        if line.is_sidechain || line.is_meta || line.is_compact_summary {
            return;
        }
        if line.kind == "assistant" || output.role == "assistant" {
            self.answer(line, output);
        } else {
            self.add_prompt(line, output);
        }
    }

    fn answer(&mut self, line: &TranscriptLine, output: &TranscriptMessage) {
        let id = output.id.as_ref().or(line.request_id.as_ref());
        // Without either ID, a line whose parent is a block of an answer belongs to that answer.
        let goes_on = || {
            let parent = line.parent_uuid.as_ref().filter(|_| id.is_none())?;
            self.by_line.get(parent).copied()
        };
        let known = id.and_then(|id| self.by_id.get(id)).copied().or_else(goes_on);
        let at = known.unwrap_or(self.messages.len());
        if known.is_none() {
            self.messages.push(ImportedMessage {
                time: line.timestamp.clone().unwrap_or_default(),
                is_model: true,
                model: output.model.clone(),
                ..ImportedMessage::default()
            });
            self.by_id.extend(id.cloned().map(|id| (id, at)));
        }
        self.by_line.extend(line.uuid.clone().map(|line| (line, at)));
        let Some(message) = self.messages.get_mut(at) else { return };
        if let Some(text) = output.content.as_str() {
            message.parts.push(Part::text(text));
        }
        for block in line.blocks() {
            match text_at(block, "type") {
                "text" => message.parts.push(Part::text(text_at(block, "text"))),
                "thinking" => message.thoughts.push(text_at(block, "thinking").to_owned()),
                "tool_use" => {
                    let (id, name) = (text_at(block, "id"), text_at(block, "name"));
                    let args = block.get("input").and_then(Value::as_object).cloned();
                    let args: Object = args.unwrap_or_default();
                    message.parts.push(Part::function_call(Some(id), name, args));
                    self.calls.insert(id.to_owned(), (at, name.to_owned()));
                }
                _ => {}
            }
        }
    }

    fn add_prompt(&mut self, line: &TranscriptLine, output: &TranscriptMessage) {
        let mut parts = Vec::new();
        let mut typed = Vec::new();
        let mut say = |text: &str, parts: &mut Vec<Part>| {
            if !NO_PROMPTS.iter().any(|start| text.trim_start().starts_with(start)) {
                parts.push(Part::text(text));
                typed.push(text.to_owned());
            }
        };
        if let Some(text) = output.content.as_str() {
            say(text, &mut parts);
        }
        for block in line.blocks() {
            match text_at(block, "type") {
                "text" => say(text_at(block, "text"), &mut parts),
                "image" => parts.extend(image(block)),
                "tool_result" => self.add_result(block),
                _ => {}
            }
        }
        if !parts.is_empty() {
            let display = (!typed.is_empty()).then(|| typed.join("\n"));
            let time = line.timestamp.clone().unwrap_or_default();
            self.messages.push(ImportedMessage {
                time,
                parts,
                display,
                ..ImportedMessage::default()
            });
        }
    }

    fn add_result(&mut self, block: &Value) {
        let id = text_at(block, "tool_use_id");
        let Some((at, name)) = self.calls.get(id) else { return };
        let Some(message) = self.messages.get_mut(*at) else { return };
        let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or_default();
        let content = block.get("content").unwrap_or(&Value::Null);
        let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
        let text = match content.as_str() {
            Some(text) => text.to_owned(),
            None => {
                let texts = blocks.iter().map(|block| text_at(block, "text"));
                texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
            }
        };
        let mut parts = vec![response(id, name, &text, failed)];
        parts.extend(blocks.iter().filter_map(image));
        let (id, name) = (Some(id.to_owned()), name.clone());
        message.results.push(CallResult { id, name, parts, failed, display: None });
    }
}

fn image(block: &Value) -> Option<Part> {
    let source = block.get("source").filter(|_| text_at(block, "type") == "image")?;
    let (kind, data) = (text_at(source, "media_type"), text_at(source, "data"));
    (!kind.is_empty() && !data.is_empty()).then(|| Part::inline_data(kind, data))
}
