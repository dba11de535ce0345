//! Reads journals as a stream and tolerates everything that a crash, a newer version, or a bad disk
//! can leave in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use parallax_protocol::content::{Role, SealedContent};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::{
    CompactionRecord, ContentRecord, JournalHeader, Record, ResultRecord, RewindTarget, StepRecord,
    UnfinishedAnswer, assemble_step,
};
use parallax_protocol::tool::Display;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cipher::Cipher;
use crate::keys::Keys;
use crate::lines::{JournalEndDamage, JournalReader};
use crate::load_error::LoadError;

/// Maximum number of notices; further notices are only counted.
const MAX_NOTICES: usize = 20;

/// A session as read from its journal.
#[derive(Debug, Clone)]
pub struct LoadedSession {
    /// The first line, or a replacement derived from the file name if it is lost.
    pub head: JournalHeader,
    /// All contents, byte for byte.
    pub contents: Vec<SealedContent>,
    /// The effective compactions, oldest first: what is sent instead of the first contents.
    pub compactions: Vec<CompactionRecord>,
    /// All effective records in order, except the head: times, prompts as typed, thoughts, models,
    /// token counts.
    pub records: Vec<Record>,
    /// The last batch of tool calls, if it was not finished.
    pub pending: Option<PendingBatch>,
    /// Whether the newest turn did not finish because the program was killed or the model could not
    /// be reached. Such a turn can be continued.
    pub was_interrupted: bool,
    /// The answer that was being received, if its service can continue it. Its text is the last
    /// content, unless there is no text yet.
    pub unfinished_answer: Option<UnfinishedAnswer>,
    /// The prompts in the contents, oldest first.
    pub prompts: Vec<RewindTarget>,
    /// The number of the last prompt, including rewound prompts, so that no number is used twice.
    pub turns: u64,
    /// What was skipped or repaired, for the user.
    pub notices: Vec<String>,
    /// Whether lines of an encrypted file were modified, reordered, or removed, including at its
    /// end. Only the lines before them count, and nothing may be appended.
    pub broken: bool,
    /// Length of the file up to its last complete record, in bytes.
    pub(crate) valid_length: u64,
    /// Whether that record lacks its line ending.
    pub(crate) unterminated: bool,
}

/// A batch of tool calls that was interrupted. The last content is the model content with the
/// calls.
#[derive(Debug, Clone)]
pub struct PendingBatch {
    /// The calls in order.
    pub calls: Vec<PendingCall>,
    /// The results that were written, by index of their call.
    pub results: BTreeMap<usize, ResultRecord>,
}

/// A call of a [`PendingBatch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The ID on the wire, if there was one.
    pub id: Option<String>,
    /// The name of the tool.
    pub name: String,
}

impl LoadedSession {
    /// Removes everything after the first `keep` contents. Calls in the last remaining content
    /// become pending, without results.
    pub fn truncate(&mut self, keep: usize) {
        if keep >= self.contents.len() {
            return;
        }
        self.contents.truncate(keep);
        self.compactions.retain(|compaction| compaction.at <= keep);
        self.prompts.retain(|mark| mark.at < keep);
        let mut before = 0;
        self.records.retain(|record| match record {
            Record::Name(_)
            | Record::Directories(_)
            | Record::Budget(_)
            | Record::Selection(_)
            | Record::Spent(_)
            | Record::Request(_) => true,
            Record::TurnEnd { .. } | Record::Compaction(_) => before <= keep,
            Record::Pin(pin) => pin.place.content < keep,
            Record::Content(_) | Record::Round(_) => {
                before += 1;
                before <= keep
            }
            _ => before < keep,
        });
        self.pending = pending_step(&self.contents, BTreeMap::new());
        self.was_interrupted = is_open(&self.contents, self.pending.as_ref());
        self.unfinished_answer = None;
    }
}

/// Whether the conversation waits for an answer of the model.
fn is_open(contents: &[SealedContent], pending: Option<&PendingBatch>) -> bool {
    pending.is_some() || contents.last().is_some_and(|last| last.role() == Role::User)
}

/// Returns the calls of the last content if it is a model content with calls.
fn pending_step(
    contents: &[SealedContent],
    mut results: BTreeMap<usize, ResultRecord>,
) -> Option<PendingBatch> {
    let last = contents.last().filter(|last| last.role() == Role::Model)?;
    let content = last.open().ok()?;
    let calls: Vec<PendingCall> = content
        .calls()
        .map(|call| PendingCall { id: call.id.map(str::to_owned), name: call.name.to_owned() })
        .collect();
    results.retain(|index, _| *index < calls.len());
    (!calls.is_empty()).then_some(PendingBatch { calls, results })
}

/// Reads a journal. `keys` decrypt it if it is encrypted.
///
/// # Errors
/// Returns an error if the file cannot be read or decrypted, or contains no record.
pub fn load(path: &Path, keys: &Keys) -> Result<LoadedSession, LoadError> {
    let once = || {
        let file =
            File::open(path).map_err(|source| LoadError::Io { path: path.to_owned(), source })?;
        load_from(file, path, keys).map(|(session, _)| session)
    };
    // The writer may be updating the seal at this moment.
    match once()? {
        session if session.broken => once(),
        session => Ok(session),
    }
}

/// Reads a journal from an open file. Also returns the cipher for further records and the number of
/// the next record.
pub(crate) fn load_from(
    file: impl Read,
    path: &Path,
    keys: &Keys,
) -> Result<(LoadedSession, Option<(Cipher, u64)>), LoadError> {
    let mut lines = JournalReader::new(file, path, keys);
    let mut builder = Builder::default();
    let mut number = 0usize;
    while let Some(line) = lines.next()? {
        number += 1;
        if line.is_foreign {
            builder.broken = true;
            builder.add_notice(format!(
                "record {number} of this encrypted session was changed, or records before it are \
                 missing: it and all later records were dropped"
            ));
            break;
        }
        builder.offset += line.bytes;
        let known = builder.line(line.text, number, line.has_line_end);
        if line.has_line_end || known {
            builder.valid_length = builder.offset;
            builder.unterminated = !line.has_line_end;
        }
    }
    match lines.end_damage().filter(|_| !builder.broken) {
        None => {}
        Some(JournalEndDamage::Missing(missing)) => {
            builder.broken = true;
            let records = if missing == 1 { "record is" } else { "records are" };
            builder.add_notice(format!(
                "this encrypted session was truncated: {missing} {records} missing \
                 there"
            ));
        }
        Some(JournalEndDamage::Undetectable) => {
            builder.broken = true;
            builder.add_notice(
                "the seal of this encrypted session is damaged, so a missing end cannot be \
                 detected"
                    .to_owned(),
            );
        }
    }
    Ok((builder.finish(path)?, lines.into_cipher()))
}

/// A line whose record contains escaped line endings (see the writer).
#[derive(Deserialize)]
struct EscapedRecord {
    escaped: String,
}

/// Assembles a session from records.
#[derive(Default)]
pub(crate) struct Builder {
    head: Option<JournalHeader>,
    contents: Vec<SealedContent>,
    /// Each record with the number of contents before it.
    records: Vec<(usize, Record)>,
    /// The answer that is being received.
    unfinished_answer: Option<UnfinishedAnswer>,
    /// Results of the pending batch: index of the call, index in `records`.
    results: BTreeMap<usize, usize>,
    compactions: Vec<CompactionRecord>,
    prompts: Vec<RewindTarget>,
    /// The number of the last prompt.
    turns: u64,
    /// Whether the model or the user ended the newest turn.
    turn_ended: bool,
    /// Whether the program was shut down during the turn, so that its answer may be incomplete.
    shut_down: bool,
    notices: Vec<String>,
    more_notices: usize,
    broken: bool,
    offset: u64,
    valid_length: u64,
    unterminated: bool,
}

impl Builder {
    pub(crate) fn add_notice(&mut self, text: String) {
        if self.notices.len() < MAX_NOTICES {
            self.notices.push(text);
        } else {
            self.more_notices += 1;
        }
    }

    /// Processes a line and returns whether it contained a record.
    fn line(&mut self, line: &[u8], number: usize, ended: bool) -> bool {
        if line.is_empty() {
            return false;
        }
        let text = std::str::from_utf8(line).ok();
        match text.and_then(read_record) {
            Some(record) => {
                self.record(record);
                true
            }
            None if !ended => {
                self.add_notice(format!("line {number} is incomplete and was dropped"));
                false
            }
            // An object with a single unknown key was written by a newer version.
            None if text.is_some_and(is_unknown_kind) => false,
            None => {
                self.add_notice(format!("line {number} is damaged and was skipped"));
                false
            }
        }
    }

    pub(crate) fn record(&mut self, record: Record) {
        match &record {
            Record::Session(head) => {
                if self.head.is_none() {
                    if head.version > 1 {
                        self.add_notice("the session was written by a newer version".to_owned());
                    }
                    self.head = Some(head.clone());
                }
                return;
            }
            Record::Unfinished(piece) => {
                self.unfinished_answer =
                    UnfinishedAnswer::add(self.unfinished_answer.take(), piece);
                return;
            }
            Record::Content(content) => {
                let wire = content.to_sealed();
                match wire.role() {
                    Role::Model => self.unfinished_answer = None,
                    Role::User => drop(self.append_unfinished()),
                }
                (self.turn_ended, self.shut_down) = (false, false);
                self.close_step(&wire);
                self.note_prompt(content);
                self.records.push((self.contents.len(), record));
                self.contents.push(wire);
                return;
            }
            Record::Result(result) => {
                self.results.insert(result.index, self.records.len());
                self.count_lines(result);
            }
            Record::Round(round) => {
                self.unfinished_answer = None;
                let sealed = self.finish_step(round);
                self.records.push((self.contents.len(), record));
                self.contents.push(sealed);
                return;
            }
            // The user did not choose to end the turn for these reasons.
            Record::TurnEnd { reason, .. } => {
                self.turn_ended =
                    !matches!(reason.as_str(), "budget" | "error" | "max_turns" | "shutdown");
                self.shut_down = reason == "shutdown";
            }
            Record::Name(_)
            | Record::Directories(_)
            | Record::Budget(_)
            | Record::Selection(_)
            | Record::Spent(_)
            | Record::Request(_)
            | Record::Route(_)
            | Record::Plan(_)
            | Record::Pin(_) => {}
            Record::Truncate { keep_contents } => {
                self.append_unfinished();
                self.truncate(*keep_contents);
                return;
            }
            Record::Compaction(compaction) if compaction.at > self.contents.len() => {
                self.add_notice(
                    "a compaction does not match the session and was skipped".to_owned(),
                );
                return;
            }
            Record::Compaction(compaction) => self.compactions.push(compaction.clone()),
            Record::CompactionUndone { .. } => {
                self.compactions.pop();
                let newest =
                    |(_, record): &(usize, Record)| matches!(record, Record::Compaction(_));
                if let Some(index) = self.records.iter().rposition(newest) {
                    self.records.remove(index);
                }
                return;
            }
        }
        self.records.push((self.contents.len(), record));
    }

    /// Handles results without a batch before a content: if the content responds to the calls, it
    /// becomes their result content; otherwise the results become one.
    fn close_step(&mut self, next: &SealedContent) {
        if self.results.is_empty() {
            return;
        }
        if next.role() == Role::User && next.json().contains("\"functionResponse\"") {
            self.results.clear();
            self.records.retain(|(at, record)| {
                *at < self.contents.len() || !matches!(record, Record::Result(_))
            });
            return;
        }
        let round =
            StepRecord { results: self.results.len(), parts_after_results: None, user_texts: None };
        let sealed = self.finish_step(&round);
        self.records.push((self.contents.len(), Record::Round(round)));
        self.contents.push(sealed);
    }

    /// Turns the received part of an answer that was never continued into a content.
    fn append_unfinished(&mut self) -> Option<UnfinishedAnswer> {
        let unfinished = self.unfinished_answer.take()?;
        let content = unfinished.content();
        if !content.parts.is_empty() {
            let wire = content.seal();
            let record = ContentRecord {
                time: unfinished.time.clone(),
                wire: wire.clone(),
                display: None,
                labeled_text: None,
                model: Some(unfinished.model.clone()),
                opaque: Vec::new(),
                usage: None,
                thoughts: Vec::new(),
                turn: None,
                command: None,
                continuation: None,
                partial: true,
                synthetic: false,
            };
            self.records.push((self.contents.len(), Record::Content(record)));
            self.contents.push(wire.with_origin(&unfinished.model, Vec::new()));
        }
        Some(unfinished)
    }

    fn finish_step(&mut self, round: &StepRecord) -> SealedContent {
        let results = std::mem::take(&mut self.results);
        if results.len() != round.results {
            let (have, want) = (results.len(), round.results);
            self.add_notice(format!("a step with {want} tool calls has {have} results"));
        }
        let results = results.values().filter_map(|at| self.result_at(*at));
        let wires: Vec<&RawValue> = results.map(|result| &*result.wire).collect();
        assemble_step(&wires, round.parts_after_results.as_deref())
    }

    fn result_at(&self, at: usize) -> Option<&ResultRecord> {
        match self.records.get(at) {
            Some((_, Record::Result(result))) => Some(result),
            _ => None,
        }
    }

    fn note_prompt(&mut self, content: &ContentRecord) {
        // Only a prompt has a display text.
        let Some(text) = content.display.clone() else { return };
        let turn = content.turn.unwrap_or(self.turns + 1);
        self.turns = self.turns.max(turn);
        let (at, time) = (self.contents.len(), content.time.clone());
        self.prompts.push(RewindTarget { turn, at, text, time, lines_added: 0, lines_removed: 0 });
    }

    /// Adds the changed lines of an edit to those of its prompt.
    fn count_lines(&mut self, result: &ResultRecord) {
        let display = result.display.as_ref().filter(|_| result.status == "success");
        let display = display.filter(|display| display.get("linesAdded").is_some());
        let display = display.and_then(|display| serde_json::from_value(display.clone()).ok());
        if let (Some(Display::Diff(diff)), Some(mark)) = (display, self.prompts.last_mut()) {
            mark.lines_added = mark.lines_added.saturating_add(diff.lines_added);
            mark.lines_removed = mark.lines_removed.saturating_add(diff.lines_removed);
        }
    }

    fn truncate(&mut self, keep: usize) {
        self.results.clear();
        self.prompts.retain(|mark| mark.at < keep);
        self.contents.truncate(keep);
        self.compactions.retain(|compaction| compaction.at <= keep);
        self.records.retain(|(at, record)| match record {
            Record::Name(_)
            | Record::Directories(_)
            | Record::Budget(_)
            | Record::Selection(_)
            | Record::Spent(_)
            | Record::Request(_) => true,
            Record::TurnEnd { .. } | Record::Compaction(_) => *at <= keep,
            Record::Pin(pin) => pin.place.content < keep,
            _ => *at < keep,
        });
    }

    pub(crate) fn finish(mut self, path: &Path) -> Result<LoadedSession, LoadError> {
        let head = match self.head.take() {
            Some(head) => head,
            None if self.records.is_empty() => {
                let why = match self.broken {
                    true => "it is encrypted and damaged from the first record",
                    false => "it contains no records",
                };
                let reason = why.to_owned();
                return Err(LoadError::NotASession { path: path.to_owned(), reason });
            }
            None => {
                self.add_notice("the first line is missing".to_owned());
                head_of_file(path)
            }
        };
        if self.more_notices > 0 {
            self.notices.push(format!("and {} more", self.more_notices));
        }
        let unfinished_answer = self.append_unfinished();
        let pending = self.pending();
        let is_half = unfinished_answer.is_some() || (self.shut_down && !self.contents.is_empty());
        let was_interrupted =
            !self.turn_ended && (is_half || is_open(&self.contents, pending.as_ref()));
        Ok(LoadedSession {
            was_interrupted,
            head,
            contents: self.contents,
            compactions: self.compactions,
            records: self.records.into_iter().map(|(_, record)| record).collect(),
            pending,
            unfinished_answer,
            prompts: self.prompts,
            turns: self.turns,
            notices: self.notices,
            broken: self.broken,
            valid_length: self.valid_length,
            unterminated: self.unterminated,
        })
    }

    fn pending(&mut self) -> Option<PendingBatch> {
        let results = std::mem::take(&mut self.results);
        let results = results.into_iter();
        let results = results.filter_map(|(index, at)| Some((index, self.result_at(at)?.clone())));
        let results = results.collect();
        pending_step(&self.contents, results)
    }
}

pub(crate) fn head_of_file(path: &Path) -> JournalHeader {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let id = if SessionId::is_valid(&stem) { stem.as_ref() } else { "unknown" };
    JournalHeader {
        version: 1,
        session_id: id.into(),
        project: String::new(),
        start_time: String::new(),
        forked_from: None,
        one_shot: false,
    }
}

/// Parses one line of a journal.
pub(crate) fn read_record(text: &str) -> Option<Record> {
    if text.starts_with(r#"{"escaped":"#) {
        let escaped: EscapedRecord = serde_json::from_str(text).ok()?;
        return serde_json::from_str(&escaped.escaped).ok();
    }
    serde_json::from_str(text).ok()
}

/// Whether a line is a record of a kind that only newer versions know.
pub(crate) fn is_unknown_kind(text: &str) -> bool {
    const KNOWN: [&str; 11] = [
        "session",
        "content",
        "result",
        "round",
        "turn_end",
        "truncate",
        "compaction",
        "compaction_undone",
        "name",
        "encrypted",
        "escaped",
    ];
    let object: Result<BTreeMap<String, serde::de::IgnoredAny>, _> = serde_json::from_str(text);
    object.is_ok_and(|object| {
        object.len() == 1 && object.keys().all(|key| !KNOWN.contains(&key.as_str()))
    })
}
