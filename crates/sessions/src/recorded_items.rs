//! Converts journal records to displayable items, for resumed sessions, previews, and exports.

use parallax_protocol::Object;
use parallax_protocol::content::{Part, PartView, Role};
use parallax_protocol::image::Image;
use parallax_protocol::model::Usage;
use parallax_protocol::store::{
    CallDetails, ContentRecord, HookContinuation, Record, ResultRecord, StepRecord,
};
use serde_json::Value;

/// The line in a prompt before the contents of the files that were read for it.
pub const READ_FILES: &str = "\n--- Content from referenced files ---";

/// One item of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordedItem {
    /// A prompt of the user.
    User {
        /// The text as typed.
        text: String,
        /// The text with labels instead of long pastes, if it has any.
        labeled_text: Option<String>,
        /// Number of contents before it, which a rewind to before this prompt keeps
        /// ([`crate::SessionChoice::Rewind`]).
        before: usize,
        /// Number of the prompt among the remaining prompts, from 1.
        turn: u64,
        /// Time in RFC 3339 format; empty if unknown.
        time: String,
        /// Files that were read for the prompt.
        read: Vec<String>,
    },
    /// A message that the user sent while the model was working.
    Steer {
        /// The text.
        text: String,
    },
    /// Text of hooks that continued a turn.
    Continued(HookContinuation),
    /// A shell command that the user ran (`!`).
    Shell {
        /// The command.
        command: String,
        /// The output as the model received it.
        output: String,
        /// The exit code, unless it was terminated by a signal.
        code: Option<i32>,
    },
    /// A thought summary.
    Thought {
        /// The text.
        text: String,
    },
    /// An answer of the model.
    Text {
        /// The text.
        text: String,
        /// Whether the answer was cut off.
        partial: bool,
    },
    /// A tool call and its result.
    Tool {
        /// The tool name as the model used it.
        name: String,
        /// The arguments.
        args: Object,
        /// `success`, `error`, or `cancelled`; `None` if the journal ends before the result.
        status: Option<String>,
        /// The displayed result ([`parallax_protocol::tool::Display`] as JSON), if it was stored.
        display: Option<Value>,
        /// The result as the model received it.
        output: String,
        /// Further details shown to the user, if they were stored.
        details: Option<Box<CallDetails>>,
    },
    /// An image that belongs to the preceding item.
    Image(Image),
    /// A turn that ended without an answer.
    Ended {
        /// The reason ([`Record::TurnEnd`]).
        reason: String,
        /// The details shown to the user.
        detail: Option<String>,
    },
}

/// Returns the items of records, oldest first, with the results of tool calls filled in. Parses
/// every content; use [`items_of_recent_prompts`] for long sessions.
pub fn items(records: &[Record]) -> Vec<RecordedItem> {
    let mut teller = ItemCollector::default();
    records.iter().for_each(|record| teller.record(record));
    teller.items
}

/// An answer of the model: the index of its first item, and its usage.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelAnswer {
    pub(crate) first: usize,
    pub(crate) model: Option<String>,
    pub(crate) usage: Usage,
    /// When it was complete, RFC 3339.
    pub(crate) time: String,
    /// The ids of its calls, in order; empty where none is recorded.
    pub(crate) calls: Vec<String>,
}

/// A session as items and answers.
pub(crate) struct RecordedConversation {
    pub(crate) items: Vec<RecordedItem>,
    /// When each item was recorded, RFC 3339; empty if unknown.
    pub(crate) times: Vec<String>,
    pub(crate) answers: Vec<ModelAnswer>,
}

/// Returns the items of records with their times, and the answers they belong to.
pub(crate) fn items_and_answers(records: &[Record]) -> RecordedConversation {
    let mut teller = ItemCollector::default();
    let mut times = Vec::new();
    let mut time = "";
    for record in records {
        teller.record(record);
        time = match record {
            Record::Content(content) => &content.time,
            Record::Result(result) => &result.time,
            Record::TurnEnd { time, .. } => time,
            _ => time,
        };
        times.resize_with(teller.items.len(), || time.to_owned());
    }
    RecordedConversation { items: teller.items, times, answers: teller.answers }
}

/// Returns the items of the last `prompts` prompts, and the number of earlier prompts.
pub fn items_of_recent_prompts(records: &[Record], prompts: usize) -> (Vec<RecordedItem>, usize) {
    let is_prompt = |record: &Record| matches!(record, Record::Content(c) if is_prompt(c));
    let total = records.iter().filter(|record| is_prompt(record)).count();
    let skipped = total.saturating_sub(prompts);
    let mut teller = ItemCollector::default();
    let mut rest = records.iter();
    let mut seen = 0;
    for record in rest.by_ref() {
        seen += usize::from(is_prompt(record));
        if seen > skipped || total == 0 {
            teller.record(record);
            break;
        }
        teller.count(record);
    }
    rest.for_each(|record| teller.record(record));
    (teller.items, skipped)
}

/// Returns whether the content is a prompt of the user. Contents recorded by other programs have no
/// typed text.
fn is_prompt(record: &ContentRecord) -> bool {
    let answers = || record.wire.json().contains("\"functionResponse\"");
    !record.synthetic
        && record.wire.role() == Role::User
        && (record.display.is_some() || !answers())
}

#[derive(Default)]
struct ItemCollector {
    items: Vec<RecordedItem>,
    answers: Vec<ModelAnswer>,
    contents: usize,
    turn: u64,
    /// Item indexes of the tool calls in the last model content.
    open: Vec<usize>,
    /// Whether the turn has a prompt.
    is_prompted: bool,
}

impl ItemCollector {
    /// Counts a record without converting it.
    fn count(&mut self, record: &Record) {
        match record {
            Record::Content(content) => {
                self.contents += 1;
                self.turn += u64::from(content.display.is_some());
            }
            Record::Round(_) => self.contents += 1,
            _ => {}
        }
    }

    fn record(&mut self, record: &Record) {
        let before = self.contents;
        self.count(record);
        match record {
            Record::Content(content) => self.add_content(content, before),
            Record::Result(result) => self.add_result(result),
            Record::Round(round) => {
                self.items.extend(
                    steering_messages(round).into_iter().map(|text| RecordedItem::Steer { text }),
                );
            }
            Record::TurnEnd { reason, detail, .. } => {
                let is_prompted = std::mem::take(&mut self.is_prompted);
                if is_prompted && reason != "done" {
                    let (reason, detail) = (reason.clone(), detail.clone());
                    self.items.push(RecordedItem::Ended { reason, detail });
                }
            }
            _ => {}
        }
    }

    fn add_content(&mut self, record: &ContentRecord, before: usize) {
        if is_prompt(record) {
            let text = record.display.clone().unwrap_or_else(|| text_of(record));
            if !text.trim().is_empty() {
                let (turn, time) = (self.turn, record.time.clone());
                let read = match record.wire.json().contains("Content from @") {
                    true => record.wire.open().map(|content| read_names(&content.parts)),
                    false => Ok(Vec::new()),
                };
                let read = read.unwrap_or_default();
                let labeled_text = record.labeled_text.clone();
                let prompt = RecordedItem::User { text, labeled_text, before, turn, time, read };
                self.items.push(prompt);
                self.is_prompted = true;
            }
            self.add_images(record, None);
            return;
        }
        if let Some(command) = &record.command {
            let (output, code) = read_report(&text_of(record));
            self.items.push(RecordedItem::Shell { command: command.clone(), output, code });
            return;
        }
        if let Some(continuation) = &record.continuation {
            self.items.push(RecordedItem::Continued(continuation.clone()));
            return;
        }
        if record.synthetic {
            return;
        }
        if record.wire.role() == Role::Model {
            self.answers.push(ModelAnswer {
                first: self.items.len(),
                model: record.model.clone(),
                usage: record.usage.unwrap_or_default(),
                time: record.time.clone(),
                calls: Vec::new(),
            });
        }
        let thoughts = record.thoughts.iter().filter(|text| !text.trim().is_empty());
        self.items.extend(thoughts.map(|text| RecordedItem::Thought { text: text.clone() }));
        let Ok(content) = record.wire.open() else { return };
        if record.wire.role() == Role::User {
            self.add_responses(&content.parts);
            return;
        }
        self.open.clear();
        let mut text = String::new();
        for part in &content.parts {
            match part.view() {
                PartView::Text(piece) => text.push_str(piece),
                PartView::Call(call) => {
                    self.push_answer(&mut text, false);
                    if let Some(answer) = self.answers.last_mut() {
                        answer.calls.push(call.id.unwrap_or_default().to_owned());
                    }
                    self.open.push(self.items.len());
                    self.items.push(RecordedItem::Tool {
                        name: call.name.to_owned(),
                        args: call.args.cloned().unwrap_or_default(),
                        status: None,
                        display: None,
                        output: String::new(),
                        details: None,
                    });
                }
                _ => {}
            }
        }
        self.push_answer(&mut text, record.partial);
        self.items
            .extend(Image::from_parts(&content.parts, None).into_iter().map(RecordedItem::Image));
    }

    /// Adds the images of a content.
    fn add_images(&mut self, record: &ContentRecord, name: Option<&str>) {
        if record.wire.json().contains("\"inlineData\"")
            && let Ok(content) = record.wire.open()
        {
            self.items.extend(
                Image::from_parts(&content.parts, name).into_iter().map(RecordedItem::Image),
            );
        }
    }

    fn push_answer(&mut self, text: &mut String, partial: bool) {
        if !text.trim().is_empty() {
            self.items.push(RecordedItem::Text { text: std::mem::take(text), partial });
        }
        text.clear();
    }

    /// Adds a tool result that has its own record.
    fn add_result(&mut self, result: &ResultRecord) {
        let parts: Vec<Part> = serde_json::from_str(result.wire.get()).unwrap_or_default();
        let answer = self.answers.last_mut();
        if let Some(id) = answer.and_then(|answer| answer.calls.get_mut(result.index)) {
            // The service need not have sent one.
            result.call.as_str().clone_into(id);
        }
        let Some(RecordedItem::Tool { status, display, output, details, .. }) =
            self.open.get(result.index).and_then(|at| self.items.get_mut(*at))
        else {
            return;
        };
        *status = Some(result.status.clone());
        display.clone_from(&result.display);
        details.clone_from(&result.details);
        *output = parts.iter().find_map(output_of).map(|(text, _)| text).unwrap_or_default();
        let title = details.as_ref().map(|details| details.title.clone());
        if status.as_deref() == Some("success") {
            let images = Image::from_parts(&parts, title.as_deref());
            self.items.extend(images.into_iter().map(RecordedItem::Image));
        }
    }

    /// Adds tool results that are part of a content, in the order of the calls.
    fn add_responses(&mut self, parts: &[Part]) {
        let responses = parts.iter().filter_map(output_of);
        for (at, (text, failed)) in self.open.iter().zip(responses) {
            if let Some(RecordedItem::Tool { status, output, .. }) = self.items.get_mut(*at) {
                *status = Some(if failed { "error" } else { "success" }.to_owned());
                *output = text;
            }
        }
    }
}

/// Extracts the output and the exit code of a user's shell command from the text for the model.
fn read_report(report: &str) -> (String, Option<i32>) {
    const RESULT: &str = "following result:\n```\n";
    let result = report.find(RESULT).and_then(|offset| report.get(offset + RESULT.len()..));
    let result = result.unwrap_or(report);
    let result = result.strip_suffix("\n```").unwrap_or(result).replace("\\`", "`");
    let first = result.lines().next().unwrap_or_default();
    if let Some(code) = first.strip_prefix("Command exited with code ") {
        let code = code.trim_end_matches('.').parse().ok();
        let output = result.get(first.len()..).unwrap_or_default();
        return (output.trim_start_matches('\n').to_owned(), code);
    }
    let ended = !["Command terminated", "Command was", "Command moved", "Command did"]
        .iter()
        .any(|start| first.starts_with(start));
    let output = if result == "(Command produced no output)" { String::new() } else { result };
    (output, ended.then_some(0))
}

/// Returns the user's messages sent during a step.
fn steering_messages(round: &StepRecord) -> Vec<String> {
    if let Some(output) = &round.user_texts {
        return output.clone();
    }
    let tail = round.parts_after_results.as_deref().map(|tail| serde_json::from_str(tail.get()));
    let parts: Vec<Part> = tail.and_then(Result::ok).unwrap_or_default();
    parts.into_iter().filter_map(Part::into_text).collect()
}

fn text_of(record: &ContentRecord) -> String {
    let Ok(content) = record.wire.open() else { return String::new() };
    let mut text = String::new();
    for part in &content.parts {
        match part.view() {
            PartView::Text(piece) if !piece.starts_with("<session_context>") => {
                text.push_str(piece);
            }
            _ => {}
        }
    }
    text
}

/// Returns the text that the model received of a function response, and whether it was an error.
fn output_of(part: &Part) -> Option<(String, bool)> {
    let PartView::Response(response) = part.view() else { return None };
    let object = response.response.and_then(Value::as_object)?;
    let failed = object.get("error");
    let value = failed.or_else(|| object.get("output"));
    let text = match value {
        // The marker for untrusted content is meant for the model only.
        Some(Value::String(text)) => text
            .strip_prefix("<untrusted_context>\n")
            .and_then(|text| text.strip_suffix("\n</untrusted_context>"))
            .unwrap_or(text)
            .to_owned(),
        Some(other) => other.to_string(),
        None => Value::Object(object.clone()).to_string(),
    };
    Some((text, failed.is_some()))
}

/// Returns the names of the files read for a prompt, from the lines before their contents.
pub fn read_names(parts: &[Part]) -> Vec<String> {
    let name = |part: &Part| match part.view() {
        PartView::Text(text) => {
            let name = text.strip_prefix("\nContent from @")?.strip_suffix(":\n")?;
            Some(name.to_owned())
        }
        _ => None,
    };
    let starts = |part: &&Part| matches!(part.view(), PartView::Text(text) if text == READ_FILES);
    let behind = parts.iter().skip_while(|part| !starts(part));
    behind.filter_map(name).collect()
}
