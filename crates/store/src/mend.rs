//! A journal with a hole (a bad disk, an editor) tells a conversation that no
//! service takes: calls without results, results without calls, one speaker
//! twice. What it tells is put right, in a copy.

use parallax_protocol::content::{Content, PartView, Role, Sealed};
use parallax_protocol::store::Record;

use crate::import::{Message, build};
use crate::load::{LoadError, LoadedSession};
use std::path::Path;

/// Whether the contents could be those of a request: the user begins, speakers
/// alternate, none is empty, and what calls is answered by the next content, call by
/// call. The last content may wait for its answer.
pub fn is_sound(contents: &[Sealed]) -> bool {
    let mut calls: Vec<(Option<String>, String)> = Vec::new();
    contents.iter().enumerate().all(|(index, sealed)| {
        let want = if index % 2 == 0 { Role::User } else { Role::Model };
        if sealed.role() != want || is_empty(sealed) {
            return false;
        }
        // Most contents neither call nor answer: they are not parsed.
        let has = |word: &str| sealed.json().contains(word);
        if calls.is_empty() && !has("\"functionCall\"") && !has("\"functionResponse\"") {
            return true;
        }
        let Ok(content) = sealed.open() else { return false };
        let answered = responses(&content);
        let right = answered == calls;
        calls = content
            .calls()
            .map(|call| (call.id.map(str::to_owned), call.name.to_owned()))
            .collect();
        right
    })
}

/// Whether it holds no part: a round whose results are lost.
fn is_empty(sealed: &Sealed) -> bool {
    /// Longer ones hold something.
    const MOST: usize = 64;
    sealed.json().len() <= MOST && sealed.open().is_ok_and(|content| content.parts.is_empty())
}

fn responses(content: &Content) -> Vec<(Option<String>, String)> {
    let view = content.parts.iter().filter_map(|part| match part.view() {
        PartView::Response(response) => {
            Some((response.id.map(str::to_owned), response.name.to_owned()))
        }
        _ => None,
    });
    view.collect()
}

/// The session with its conversation put right, for a journal of its own:
/// nothing that was said is left out, lost results are called lost. Compactions
/// and pins, which name places in the old contents, do not come along. `path` is
/// the file it was read from.
///
/// # Errors
/// When nothing is left that could be gone on with.
pub fn mended(session: LoadedSession, path: &Path) -> Result<LoadedSession, LoadError> {
    let mut contents = session.contents.iter();
    let mut messages = Vec::new();
    for record in &session.records {
        let (Record::Content(_) | Record::Round(_)) = record else { continue };
        let Some(sealed) = contents.next() else { break };
        let Ok(content) = sealed.open() else { continue };
        let mut message = Message {
            is_model: content.role == Role::Model,
            parts: content.parts,
            ..Message::default()
        };
        if let Record::Content(record) = record {
            message.time = record.time.clone();
            message.display = record.display.clone();
            message.synthetic = record.synthetic;
            message.model = record.model.clone();
            message.usage = record.usage;
            message.thoughts = record.thoughts.clone();
        }
        messages.push(message);
    }
    let mut notices = session.notices;
    let mut mended = build(session.head, messages, path)?;
    notices.append(&mut mended.notices);
    Ok(LoadedSession { notices, ..mended })
}
