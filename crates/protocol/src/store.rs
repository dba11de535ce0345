//! The records of a session journal, and the trait that stores them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Object;
use crate::approval_mode::ApprovalMode;
use crate::budget::{BudgetKind, BudgetScope, BudgetUse};
use crate::call_status::{CallDecision, ToolStatus};
use crate::content::{Content, OpaqueItem, Part, PartView, SealedContent};
use crate::context::ResultLocation;
use crate::event::CompactionMethod;
use crate::hooks::hook_names;
use crate::ids::{CallId, SessionId};
use crate::requests::Requests;
use crate::routing::Route;
use crate::session_selection::SelectionRecord;
use crate::tool::SandboxOverhead;
use crate::usage::Usage;

/// One line of a journal: an object with one key, the kind of the record. The wire contents are
/// authoritative; all other records serve session lists and display.
///
/// Externally tagged, because raw JSON does not survive the buffering of serde's internal tags.
/// Readers skip lines of an unknown kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Session(JournalHeader),
    /// A final content: a user prompt, a model answer, or a repair.
    Content(ContentRecord),
    /// A piece of an answer that is still being received, up to a token from which the service
    /// continues it. The content of the whole answer replaces the pieces.
    Unfinished(UnfinishedRecord),
    /// The result of one tool call, written when it finishes. The results of one model content
    /// become one user content when their [`Record::Round`] is written, or when the journal is
    /// loaded.
    Result(ResultRecord),
    /// All calls of the newest model content have results.
    Round(StepRecord),
    /// The turn of a prompt ended.
    TurnEnd {
        /// The time in RFC 3339 format.
        time: String,
        /// The reason (`done`, `cancelled`, `error`, …). `shutdown`: the program was told to exit
        /// during the turn, so the turn can be resumed.
        reason: String,
        /// A detailed message that the user saw, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Contents were removed from the end: a failed prompt, or a rewind.
    Truncate {
        /// The number of contents that remain.
        #[serde(rename = "keep")]
        keep_contents: usize,
    },
    /// A shorter form of the contents so far is sent from here on. The original contents still
    /// count: positions in the journal refer to them.
    Compaction(CompactionRecord),
    /// A plan was submitted for approval, and the response.
    Plan(PlanRecord),
    /// A tool result was pinned or unpinned.
    Pin(PinRecord),
    /// The name of the session; the newest record applies.
    Name(NameRecord),
    /// The additional directories of the workspace; the newest record applies.
    Directories(DirectoriesRecord),
    /// The user changed a budget limit; it also applies when the session is resumed.
    Budget(BudgetRecord),
    /// The mode and the model were changed during the session; the newest record applies when an
    /// editor loads the session.
    Selection(SelectionRecord),
    /// What the session has spent so far; the newest record applies.
    Spent(SpendingRecord),
    /// A model request ended: its time, duration, and usage. For inspection only.
    Request(RequestRecord),
    /// A model was chosen for a prompt, or a fallback model replaced it.
    Route(RouteRecord),
    /// The newest compaction in effect is undone.
    CompactionUndone {
        /// The time in RFC 3339 format.
        time: String,
    },
}

/// A plan and the response to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// The plan file, absolute.
    #[serde(with = "crate::path_text::one")]
    pub plan: PathBuf,
    /// Whether the plan was approved.
    pub approved: bool,
    /// The approval mode for carrying out the plan, if it was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ApprovalMode>,
    /// The user's feedback, if the plan was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// A tool result that the user pinned or unpinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRecord {
    /// The position of the result.
    #[serde(flatten)]
    pub place: ResultLocation,
    /// Whether the result is pinned and thus never masked.
    pub on: bool,
}

/// Returns the results that are pinned after the given records.
pub fn pins<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeSet<ResultLocation> {
    let mut pins = BTreeSet::new();
    for record in records {
        match record {
            Record::Pin(PinRecord { place, on: true }) => pins.insert(*place),
            Record::Pin(PinRecord { place, on: false }) => pins.remove(place),
            _ => false,
        };
    }
    pins
}

/// A changed budget limit of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// What is limited.
    pub kind: BudgetKind,
    /// What the limit applies to.
    pub scope: BudgetScope,
    /// US dollars, tokens, or seconds; `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// What a session has spent in all its requests, including requests whose answers were removed and
/// utility requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpendingRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// US dollars, as far as prices are known.
    pub cost: f64,
    /// Tokens sent and received.
    pub tokens: u64,
    /// The requests by model and purpose; empty in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Requests>,
    /// The budgets that limited it, wherever they were set. Only shown: a resumed session takes its
    /// budgets from its own flags and settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetUse>,
}

/// A model request that ended, successfully or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestRecord {
    /// When it was sent, RFC 3339.
    pub time: String,
    /// The model that answered or was requested.
    pub model: String,
    /// The purpose (`main`, `web_search`, …); `subagent`: a main request of a subagent.
    pub role: String,
    /// The token counts.
    pub usage: Usage,
    /// The cost in US dollars; `None` if the price of the model is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The duration in milliseconds.
    pub latency_ms: u64,
    /// Milliseconds until its first chunk, if it was streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_chunk_ms: Option<u64>,
    /// The size in bytes of JSON.
    pub bytes: u64,
    /// The context window of the model, in tokens; only for main requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The failure class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The HTTP status of the failure, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// The model that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// The choice.
    #[serde(flatten)]
    pub route: Route,
}

/// The name of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NameRecord {
    /// When the session got the name, RFC 3339.
    pub time: String,
    /// The name, one line.
    pub text: String,
}

/// The workspace directories of a session other than the project directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoriesRecord {
    /// When they were set, RFC 3339.
    pub time: String,
    /// All of them, absolute.
    #[serde(with = "crate::path_text::list")]
    pub directories: Vec<PathBuf>,
}

/// Returns the additional directories after the given records.
pub fn directories<'a>(records: impl IntoIterator<Item = &'a Record>) -> &'a [PathBuf] {
    let directories = records.into_iter().filter_map(|record| match record {
        Record::Directories(report) => Some(report.directories.as_slice()),
        _ => None,
    });
    directories.last().unwrap_or_default()
}

/// A shorter form of the first contents of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// The number of contents that it replaces.
    pub at: usize,
    /// How it was made.
    pub how: CompactionMethod,
    /// Estimated tokens of the request before the compaction.
    pub before: u64,
    /// Tokens of the request after the compaction.
    pub after: u64,
    /// The replacement, in order.
    pub pieces: Vec<CompactedEntry>,
}

/// A piece of the shorter form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactedEntry {
    /// Unchanged contents: the range from the first position to before the second.
    #[serde(rename = "kept")]
    Unchanged(usize, usize),
    /// A content with masked results.
    Changed {
        /// The position of the original content.
        at: usize,
        /// The content that is sent.
        wire: SealedContent,
    },
    /// A content that was not in the session.
    #[serde(rename = "made")]
    Created {
        /// The content that is sent.
        wire: SealedContent,
    },
}

/// The first line of a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalHeader {
    /// The format version: 1.
    pub version: u32,
    /// The session id.
    pub session_id: SessionId,
    /// The project directory.
    pub project: String,
    /// When the session started, RFC 3339 in UTC with milliseconds.
    pub start_time: String,
    /// The session that this one was forked from, because it was in use or imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
    /// Whether a headless run with a single prompt created the session. Session lists omit it until
    /// it is resumed in a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_shot: bool,
}

/// A final content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// The content as it is sent.
    pub wire: SealedContent,
    /// The prompt as typed, if the content contains more (`@` files, context).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The prompt with labels instead of long pastes, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labeled_text: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Provider data that is not part of the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<OpaqueItem>,
    /// The token counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Thought summaries, which are not sent back to the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<String>,
    /// The turn number, if the content is a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The shell command of the user that the content reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The hooks that continued the turn with this content, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<HookContinuation>,
    /// Whether the content was cut off by an interrupt or a failed stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Whether the content is context that Parallax added (environment, memory, loop notes, text of
    /// hooks), not a message from the user or the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
}

/// Text of `AfterAgent` hooks with which a turn continues after its final response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookContinuation {
    /// The names of the hooks.
    #[serde(default)]
    pub hooks: Vec<String>,
    /// The text for the model.
    pub text: String,
}

impl fmt::Display for HookContinuation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Continued by {}: {}", hook_names(&self.hooks), self.text)
    }
}

/// A piece of an answer that is still being received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnfinishedRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// The model that is answering.
    pub model: String,
    /// The token from which the service continues after this piece; `None`: the answer was
    /// discarded and earlier pieces are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether this is the first piece of its answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// The parts since the previous piece.
    pub parts: Vec<Part>,
}

/// An answer that was not completely received, and the token to continue it.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedAnswer {
    /// When the newest piece was received, RFC 3339.
    pub time: String,
    /// The model that is answering.
    pub model: String,
    /// The token from which the service continues.
    pub token: String,
    /// All parts so far, including thoughts and calls.
    pub parts: Vec<Part>,
}

impl UnfinishedAnswer {
    /// Adds a piece to an unfinished answer.
    pub fn add(unfinished: Option<Self>, piece: &UnfinishedRecord) -> Option<Self> {
        let token = piece.token.clone()?;
        let earlier = unfinished.filter(|_| !piece.first);
        let mut parts = earlier.map(|it| it.parts).unwrap_or_default();
        for part in piece.parts.iter().cloned() {
            let apart = match parts.last_mut() {
                Some(last) => last.try_join(part),
                None => Err(part),
            };
            parts.extend(apart.err());
        }
        Some(Self { time: piece.time.clone(), model: piece.model.clone(), token, parts })
    }

    /// Returns the length of the text in bytes.
    pub fn text_length(&self) -> usize {
        let text = |part: &Part| match part.view() {
            PartView::Text(text) => text.len(),
            _ => 0,
        };
        self.parts.iter().map(text).sum()
    }

    /// Returns the text as a content, for a history in which the answer is not continued.
    pub fn content(&self) -> Content {
        let is_text =
            |part: &&Part| matches!(part.view(), PartView::Text(text) if !text.is_empty());
        Content::model(self.parts.iter().filter(is_text).cloned().collect())
    }
}

impl ContentRecord {
    /// Returns the content with its model and provider data.
    pub fn to_sealed(&self) -> SealedContent {
        match &self.model {
            Some(model) => self.wire.clone().with_origin(model, self.opaque.clone()),
            None => self.wire.clone(),
        }
    }
}

/// A prompt of a session and its position: a target for a rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewindTarget {
    /// Its turn, counted over all processes of the session. Removed prompts leave gaps, so that
    /// every checkpoint belongs to exactly one turn. For the number that users see, use
    /// [`RewindTarget::number`].
    pub turn: u64,
    /// The number of contents before it.
    pub at: usize,
    /// The prompt as typed.
    pub text: String,
    /// When it was sent, RFC 3339; empty if unknown.
    pub time: String,
    /// Lines added by edits of its turn.
    pub lines_added: u64,
    /// Lines removed by edits of its turn.
    pub lines_removed: u64,
}

impl RewindTarget {
    /// Returns the number by which users refer to the prompt of a turn: its position among the
    /// current prompts, from 1. `None` if the prompt was removed.
    pub fn number(marks: &[Self], turn: u64) -> Option<u64> {
        let index = marks.iter().position(|mark| mark.turn == turn)?;
        u64::try_from(index + 1).ok()
    }

    /// Returns the prompt with a number that the user entered.
    ///
    /// # Errors
    /// Returns a message for the user if no prompt has this number.
    pub fn find_by_number(marks: &[Self], number: u64) -> Result<&Self, String> {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| marks.get(index)).ok_or_else(|| match marks.len() {
            0 => format!("unknown prompt {number}: the session has no prompts"),
            last => format!("unknown prompt {number}: the last one is {last}"),
        })
    }
}

/// The result of one tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultRecord {
    /// The time in RFC 3339 format.
    pub time: String,
    /// The call id.
    pub call: CallId,
    /// The index among the calls of the model content, from 0.
    pub index: usize,
    /// The tool name that the model used.
    pub name: String,
    /// The function response part and accompanying media parts, as a JSON array.
    pub wire: Box<RawValue>,
    /// `success`, `error`, or `cancelled`.
    pub status: String,
    /// What the user saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Value>,
    /// Other details that the user saw; `None` in journals of older versions or other programs.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<CallDetails>>,
}

impl ResultRecord {
    /// Returns the status as users see it.
    pub fn shown_status(&self) -> ToolStatus {
        let exit_code = self.details.as_ref().and_then(|details| details.exit_code);
        ToolStatus::from_record(&self.status).for_exit_code(exit_code)
    }
}

/// Details of a call that the user saw besides its result, so that a resumed session looks the
/// same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallDetails {
    /// What the call did, in one line; truncated if long.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How long the call ran, in milliseconds.
    pub duration_ms: u64,
    /// The exit code of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Whether the user or a rule rejected the call.
    #[serde(rename = "refused", skip_serializing_if = "std::ops::Not::not")]
    pub was_rejected: bool,
    /// How the call was decided, if a decision was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<CallDecision>,
    /// The rule that denied the call, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<(String, String)>,
    /// The rule that decided, if the policy was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The MCP server, if it provides the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tool that ran, if a hook replaced the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The arguments that it ran with, if a hook or the user changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Object>,
    /// The kind of the error ([`crate::tool::ToolErrorKind`]), if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The time that the sandbox took, if the call ran a program in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxOverhead>,
}

/// The end of a step: all its tool calls have results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// The number of results in the user content, in call order.
    pub results: usize,
    /// Parts after the results (steering messages, reports), as a JSON array.
    #[serde(rename = "tail", default, skip_serializing_if = "Option::is_none")]
    pub parts_after_results: Option<Box<RawValue>>,
    /// The text parts among these that the user wrote; `None` in journals of older versions: all
    /// text parts.
    #[serde(rename = "said", default, skip_serializing_if = "Option::is_none")]
    pub user_texts: Option<Vec<String>>,
}

/// A failure to write the journal.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// What happened, to which file.
    pub message: String,
    /// Whether the disk is full, in which case the session continues without recording.
    pub disk_full: bool,
}

/// Stores the records of a session. Each session has one writer.
pub trait Store: Send + Sync {
    /// Appends one record with a single write, before the next step begins.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn append(&self, record: &Record) -> Result<(), StoreError>;
    /// Makes all records durable, at the end of a turn.
    ///
    /// # Errors
    /// Returns an error if the disk reports a failure.
    fn sync(&self) -> Result<(), StoreError>;
    /// Returns a notice for the user about the journal, if there is one. Reported once.
    fn notice(&self) -> Option<String> {
        None
    }
}

/// A store that discards everything.
#[derive(Debug, Clone, Copy)]
pub struct NoStore;

impl Store for NoStore {
    fn append(&self, _record: &Record) -> Result<(), StoreError> {
        Ok(())
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Builds the user content for the tool calls of one step: the parts of each result in call order,
/// then the parts of the tail (steering messages). Each argument is the JSON array of its record;
/// an object counts as an array of one element, and anything else is ignored. The raw text is
/// copied, so that the engine and a reader of the journal get the same bytes.
pub fn assemble_step(results: &[&RawValue], tail: Option<&RawValue>) -> SealedContent {
    let size: usize = results.iter().map(|raw| raw.get().len()).sum();
    let mut json = String::with_capacity(size + tail.map_or(0, |raw| raw.get().len()) + 32);
    json.push_str(r#"{"role":"user","parts":["#);
    let mut first = true;
    for raw in results.iter().copied().chain(tail) {
        let text = raw.get();
        let parts = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            Some(inner) => inner.trim(),
            None if text.starts_with('{') => text,
            None => continue,
        };
        if parts.is_empty() {
            continue;
        }
        if !first {
            json.push(',');
        }
        first = false;
        json.push_str(parts);
    }
    json.push_str("]}");
    // Joining raw JSON values this way yields valid JSON, so this cannot fail.
    let json = RawValue::from_string(json).unwrap_or_else(|_| RawValue::NULL.to_owned());
    SealedContent::from_valid_json(crate::content::Role::User, json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("json")
    }

    #[test]
    fn step_record_copies_the_bytes_of_its_parts() {
        let (one, two, none) = (
            raw(r#"[{"functionResponse":{"b":1.0}}]"#),
            raw(r#"[ {"x":[1, 2]} , {} ]"#),
            raw("[]"),
        );
        let tail = raw(r#"[{"text":"\u0041"}]"#);
        let sealed = assemble_step(&[&one, &none, &two], Some(&tail));
        assert_eq!(
            sealed.json(),
            r#"{"role":"user","parts":[{"functionResponse":{"b":1.0}},{"x":[1, 2]} , {},{"text":"\u0041"}]}"#
        );
        assert_eq!(assemble_step(&[], None).json(), r#"{"role":"user","parts":[]}"#);
    }
}
