//! What survives a session: the records of a journal.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::budget::{BudgetKind, BudgetScope};
use crate::content::{Content, OpaqueItem, Part, PartView, Sealed};
use crate::context::ResultPlace;
use crate::event::{CallDecision, CompactionHow};
use crate::ids::{CallId, SessionId};
use crate::model::Usage;
use crate::policy::ApprovalMode;
use crate::requests::Requests;
use crate::routing::Route;

/// One line of a journal: an object with one key, the kind of the record. The
/// wire contents are the truth; everything else is for lists and pictures.
/// (Externally tagged, since raw JSON does not survive serde's buffering of
/// inner tags. A line of an unknown kind is skipped by the reader.)
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Session(SessionHead),
    /// A content that is final: a user prompt, a model answer, a repair.
    Content(ContentRecord),
    /// A piece of an answer that is still being received, up to a token from which the
    /// service continues it. The content of the whole answer replaces the pieces.
    Unfinished(UnfinishedRecord),
    /// The result of one call, written when it finished. Results of one model
    /// content become one user content when their [`Record::Round`] is there,
    /// or when the journal is loaded.
    Result(ResultRecord),
    /// All calls of the newest model content are answered.
    Round(RoundRecord),
    /// A prompt's turn ended.
    TurnEnd {
        /// When, RFC 3339.
        time: String,
        /// Why (`done`, `cancelled`, `error`, …). `shutdown`: the program was told to
        /// end meanwhile, so that the turn can be gone on with.
        reason: String,
        /// What the person was told of it, where there was more to tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The contents after this many were taken back: a failed prompt, or the
    /// person went back to an earlier one.
    Truncate {
        /// How many contents stay.
        keep: usize,
    },
    /// From here on the contents so far go out in a shorter form. They still
    /// count: places in the journal are places among the original ones.
    Compaction(CompactionRecord),
    /// A plan was put before a person (or a rule), and what was said of it.
    Plan(PlanRecord),
    /// A person holds on to a result, or lets go of it.
    Pin(PinRecord),
    /// The session has a name; of several the newest counts.
    Name(NameRecord),
    /// The folders of the workspace beside the project's; of several the newest
    /// counts.
    Directories(DirectoriesRecord),
    /// A person set another limit; it holds when the session is resumed, too.
    Budget(BudgetRecord),
    /// What the session has spent up to here; of several the newest counts.
    Spent(SpentRecord),
    /// A request to a model ended: when, how long it took, what it used. For inspection only.
    Request(RequestRecord),
    /// A model was chosen for a prompt, or stands in for another.
    Route(RouteRecord),
    /// The newest compaction that still counts is taken back.
    CompactionUndone {
        /// When, RFC 3339.
        time: String,
    },
}

/// A plan and the answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRecord {
    /// When, RFC 3339.
    pub time: String,
    /// The plan's file, absolute.
    #[serde(with = "crate::path_text::one")]
    pub plan: PathBuf,
    /// Whether it was agreed to.
    pub approved: bool,
    /// The mode that the work is done in, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ApprovalMode>,
    /// What the person said, when it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// A person holds on to a result of a tool, or lets go of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRecord {
    /// The result.
    #[serde(flatten)]
    pub place: ResultPlace,
    /// Whether it stays whatever happens.
    pub on: bool,
}

/// What is pinned after some records.
pub fn pins<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeSet<ResultPlace> {
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

/// Another limit for what the session may spend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetRecord {
    /// When, RFC 3339.
    pub time: String,
    /// What is limited.
    pub kind: BudgetKind,
    /// For how long it counts.
    pub scope: BudgetScope,
    /// US dollars, tokens or seconds; `None`: there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// What a session has spent: all its requests, those of answers that were taken
/// back and of tools, accounts and the like included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpentRecord {
    /// When, RFC 3339.
    pub time: String,
    /// US dollars, as far as prices are known.
    pub cost: f64,
    /// Tokens sent and received.
    pub tokens: u64,
    /// The requests by model and purpose; none in a journal of before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Requests>,
}

/// A request to a model that ended, well or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestRecord {
    /// When it was sent, RFC 3339.
    pub time: String,
    /// The model that answered (or was requested).
    pub model: String,
    /// What for (`main`, `web_search`, …); `subagent`: the main request of a subagent.
    pub role: String,
    /// Its tokens.
    pub usage: Usage,
    /// What it cost; `None` where no price of the model is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
    /// Milliseconds until its first chunk, if it was streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_chunk_ms: Option<u64>,
    /// Its size in bytes of JSON.
    pub bytes: u64,
    /// The tokens that the model's context window has, of main requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The class of its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The HTTP status of its failure, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// A model that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteRecord {
    /// When, RFC 3339.
    pub time: String,
    /// The choice.
    #[serde(flatten)]
    pub route: Route,
}

/// What a session is called.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NameRecord {
    /// When it got the name, RFC 3339.
    pub time: String,
    /// The name, one line.
    pub text: String,
}

/// The folders that a session works in beside the project's.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoriesRecord {
    /// Since when, RFC 3339.
    pub time: String,
    /// All of them, absolute.
    #[serde(with = "crate::path_text::list")]
    pub directories: Vec<PathBuf>,
}

/// The folders beside the project's after some records.
pub fn directories<'a>(records: impl IntoIterator<Item = &'a Record>) -> &'a [PathBuf] {
    let told = records.into_iter().filter_map(|record| match record {
        Record::Directories(told) => Some(told.directories.as_slice()),
        _ => None,
    });
    told.last().unwrap_or_default()
}

/// A shorter form of the first contents of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionRecord {
    /// When, RFC 3339.
    pub time: String,
    /// For how many contents it stands.
    pub at: usize,
    /// How it was made.
    pub how: CompactionHow,
    /// Tokens of the request before it, as estimated.
    pub before: u64,
    /// Tokens of the request after it.
    pub after: u64,
    /// What goes out in their place, in order.
    pub pieces: Vec<Piece>,
}

/// A piece of the shorter form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Contents as they were: from the first place to before the second.
    Kept(usize, usize),
    /// The content of a place, with shorter results.
    Changed {
        /// The place.
        at: usize,
        /// What goes out.
        wire: Sealed,
    },
    /// A content that the session did not have.
    Made {
        /// What goes out.
        wire: Sealed,
    },
}

/// The first line of a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionHead {
    /// The format's version: 1.
    pub version: u32,
    /// The session.
    pub session_id: SessionId,
    /// The project's folder.
    pub project: String,
    /// When it began, RFC 3339 in UTC with milliseconds.
    pub start_time: String,
    /// The session that this one continues, when it was in use or imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
    /// Whether a headless run with a single prompt began it: lists for people leave it
    /// out until someone continues it in a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_shot: bool,
}

/// A final content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentRecord {
    /// When, RFC 3339.
    pub time: String,
    /// The content as it goes on the wire.
    pub wire: Sealed,
    /// What the person typed, where the content holds more (`@` files, context).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Data of the model's provider, which is not part of the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<OpaqueItem>,
    /// Its token counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Thought summaries, which are not part of what is sent back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<String>,
    /// The prompt's number, where the content is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The command of the person's that the content tells of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whether the content was cut off by an interrupt or a broken stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Whether it is context of the program's making (environment, memory,
    /// loop notes), not a person's or a model's words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
}

/// A piece of an answer that is still being received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnfinishedRecord {
    /// When, RFC 3339.
    pub time: String,
    /// The model that answers.
    pub model: String,
    /// The token from which the service continues behind the piece; `None`: the answer was
    /// discarded, and the pieces before count no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether the piece is the first of its answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// The parts since the piece before.
    pub parts: Vec<Part>,
}

/// An answer that was not received to its end, and from where the service continues it.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedAnswer {
    /// When the newest piece was received, RFC 3339.
    pub time: String,
    /// The model that answers.
    pub model: String,
    /// The token from which the service continues.
    pub token: String,
    /// All parts so far, thoughts and calls included.
    pub parts: Vec<Part>,
}

impl UnfinishedAnswer {
    /// Adds a piece to what is known of an answer.
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

    /// The text, as a content for a history in which the answer is not continued.
    pub fn content(&self) -> Content {
        let is_text =
            |part: &&Part| matches!(part.view(), PartView::Text(text) if !text.is_empty());
        Content::model(self.parts.iter().filter(is_text).cloned().collect())
    }
}

impl ContentRecord {
    /// The content with its model and the provider's data.
    pub fn sealed(&self) -> Sealed {
        match &self.model {
            Some(model) => self.wire.clone().with_origin(model, self.opaque.clone()),
            None => self.wire.clone(),
        }
    }
}

/// A prompt of a session and where it stands: what one can go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMark {
    /// Its turn, counted over all processes of the session; prompts that were taken
    /// back leave gaps, so that old versions of files are of one turn. People count
    /// prompts otherwise: see [`PromptMark::number`].
    pub turn: u64,
    /// How many contents stand before it.
    pub at: usize,
    /// What the person typed.
    pub text: String,
    /// When, RFC 3339; empty where that is not known.
    pub time: String,
    /// Lines that edits of its turn added.
    pub lines_added: u64,
    /// Lines that edits of its turn removed.
    pub lines_removed: u64,
}

impl PromptMark {
    /// The number that people know the prompt of a turn by: its place among the
    /// prompts that stand, from 1. `None`: it was taken back.
    pub fn number(marks: &[Self], turn: u64) -> Option<u64> {
        let place = marks.iter().position(|mark| mark.turn == turn)?;
        u64::try_from(place + 1).ok()
    }

    /// The prompt of a number that a person typed.
    ///
    /// # Errors
    /// The words for a person, when none has it.
    pub fn numbered(marks: &[Self], number: u64) -> Result<&Self, String> {
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        place.and_then(|place| marks.get(place)).ok_or_else(|| match marks.len() {
            0 => format!("there is no prompt {number}, nor any other"),
            last => format!("there is no prompt {number}; the last one is {last}"),
        })
    }
}

/// The result of one call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultRecord {
    /// When, RFC 3339.
    pub time: String,
    /// The call.
    pub call: CallId,
    /// Its place among the calls of its model content, from 0.
    pub index: usize,
    /// The tool's name as the model used it.
    pub name: String,
    /// The function response part and the media parts beside it, as JSON array.
    pub wire: Box<RawValue>,
    /// `success`, `error` or `cancelled`.
    pub status: String,
    /// What a person saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Value>,
    /// What a person was told beside that; `None` in a journal of before, or of
    /// another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<CallTold>,
}

/// What a person was told of a call beside its result, so that a resumed session
/// looks as it did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallTold {
    /// What was done, in one line; the beginning of it, where it is long.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// The exit code of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Whether a person or a rule refused it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// Who let it run, if it came to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<CallDecision>,
    /// The rule that refused it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<(String, String)>,
    /// The rule that decided, if it came to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The MCP server, if the tool is from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// The end of a round of calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundRecord {
    /// How many results the user content holds, in call order.
    pub results: usize,
    /// Parts after them (steering messages, reports), as JSON array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Box<RawValue>>,
    /// What of these the person said; `None` in a journal of before: all texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Vec<String>>,
}

/// A journal that could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// What happened, to which file.
    pub message: String,
    /// Whether the disk is full (recording goes off, the session goes on).
    pub no_space: bool,
}

/// Where a session's records go. One writer a session.
pub trait Store: Send + Sync {
    /// Appends one record with one write, before the next step begins.
    ///
    /// # Errors
    /// When the file cannot be written.
    fn append(&self, record: &Record) -> Result<(), StoreError>;
    /// Makes all records durable (end of a turn).
    ///
    /// # Errors
    /// When the disk refuses.
    fn sync(&self) -> Result<(), StoreError>;
    /// What a person should know of the file though nothing is lost; told once.
    fn notice(&self) -> Option<String> {
        None
    }
}

/// A store that keeps nothing.
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

/// The user content that answers a round of calls: the parts of each result in
/// call order, then the parts of the tail (steering messages), each given as
/// the JSON array of its record. The raw texts are copied, so that the engine
/// and a reader of the journal get the same bytes. (An object counts as an
/// array of one; anything else holds no part.)
pub fn assemble_round(results: &[&RawValue], tail: Option<&RawValue>) -> Sealed {
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
    // Raw JSON values put together so are JSON again: this cannot fail.
    let json = RawValue::from_string(json).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Sealed::known(crate::content::Role::User, json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("json")
    }

    #[test]
    fn a_round_copies_the_bytes_of_its_parts() {
        let (one, two, none) = (
            raw(r#"[{"functionResponse":{"b":1.0}}]"#),
            raw(r#"[ {"x":[1, 2]} , {} ]"#),
            raw("[]"),
        );
        let tail = raw(r#"[{"text":"\u0041"}]"#);
        let sealed = assemble_round(&[&one, &none, &two], Some(&tail));
        assert_eq!(
            sealed.json(),
            r#"{"role":"user","parts":[{"functionResponse":{"b":1.0}},{"x":[1, 2]} , {},{"text":"\u0041"}]}"#
        );
        assert_eq!(assemble_round(&[], None).json(), r#"{"role":"user","parts":[]}"#);
    }
}
