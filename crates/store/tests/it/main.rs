//! Tests of the store on a real file system.

#[cfg(test)]
mod checkpoints;
#[cfg(test)]
mod checkpoints_random;
#[cfg(test)]
mod encrypted;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod journal;

use std::path::Path;

use parallax_protocol::content::{Content, Part, SealedContent};
use parallax_protocol::store::{ContentRecord, JournalHeader, Record, ResultRecord, StepRecord};
use parallax_store::{Keys, LoadError, LoadedSession};
use serde_json::value::RawValue;

/// Reads an unencrypted journal.
pub fn load(path: &Path) -> Result<LoadedSession, LoadError> {
    parallax_store::load(path, &Keys::default())
}

pub const TIME: &str = "2026-11-22T02:00:00.000Z";

pub fn head(id: &str) -> JournalHeader {
    JournalHeader {
        version: 1,
        session_id: id.into(),
        project: "/w".into(),
        start_time: TIME.into(),
        forked_from: None,
        one_shot: false,
    }
}

pub fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

pub fn sealed(json: &str) -> SealedContent {
    SealedContent::from_json(raw(json)).unwrap_or_else(|_| Content::user(Vec::new()).seal())
}

pub fn content(wire: SealedContent) -> Record {
    Record::Content(ContentRecord {
        opaque: Vec::new(),
        time: TIME.into(),
        wire,
        display: None,
        labeled_text: None,
        model: None,
        usage: None,
        thoughts: Vec::new(),
        turn: None,
        command: None,
        continuation: None,
        partial: false,
        synthetic: false,
    })
}

pub fn user(text: &str) -> Record {
    content(Content::user(vec![Part::text(text)]).seal())
}

pub fn result(index: usize, wire: &str) -> Record {
    Record::Result(ResultRecord {
        time: TIME.into(),
        call: format!("c{index}").into(),
        index,
        name: "x".into(),
        wire: raw(wire),
        status: "success".into(),
        display: None,
        details: None,
    })
}

pub fn round(results: usize, tail: Option<&str>) -> Record {
    Record::Round(StepRecord { results, parts_after_results: tail.map(raw), user_texts: None })
}
