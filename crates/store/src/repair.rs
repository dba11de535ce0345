//! Repairs conversations of damaged journals. A journal with missing or altered lines yields a
//! conversation that no service accepts: calls without results, results without calls, or the same
//! role twice. The repair is applied to a copy.

use parallax_protocol::content::{Content, PartView, Role, SealedContent};
use parallax_protocol::store::Record;

use crate::import::{ImportedMessage, build};
use crate::load::LoadedSession;
use crate::load_error::LoadError;
use std::path::Path;

/// Whether the contents are valid for a request: the first role is user, roles alternate, no
/// content is empty, and the content after calls responds to each of them. The last content may
/// still wait for its response.
pub fn is_valid(contents: &[SealedContent]) -> bool {
    let mut calls: Vec<(Option<String>, String)> = Vec::new();
    contents.iter().enumerate().all(|(index, sealed)| {
        let want = if index % 2 == 0 { Role::User } else { Role::Model };
        if sealed.role() != want || is_empty(sealed) {
            return false;
        }
        // Skip parsing: most contents contain neither calls nor responses.
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

/// Whether the content has no parts: a batch whose results are lost.
fn is_empty(sealed: &SealedContent) -> bool {
    /// Longer contents are not empty.
    const MAX_COUNT: usize = 64;
    sealed.json().len() <= MAX_COUNT && sealed.open().is_ok_and(|content| content.parts.is_empty())
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

/// Returns the session with a repaired conversation, for a new journal. No text is dropped, and
/// lost results are marked as lost. Compactions and pins are dropped, because they refer to indexes
/// of the old contents. `path` is the file that the session was read from.
///
/// # Errors
/// Returns an error if nothing is left that could be continued.
pub fn repair_session(session: LoadedSession, path: &Path) -> Result<LoadedSession, LoadError> {
    let mut contents = session.contents.iter();
    let mut messages = Vec::new();
    for record in &session.records {
        let (Record::Content(_) | Record::Round(_)) = record else { continue };
        let Some(sealed) = contents.next() else { break };
        let Ok(content) = sealed.open() else { continue };
        let mut message = ImportedMessage {
            is_model: content.role == Role::Model,
            parts: content.parts,
            ..ImportedMessage::default()
        };
        if let Record::Content(record) = record {
            message.time = record.time.clone();
            message.display = record.display.clone();
            message.synthetic = record.synthetic;
            message.continuation = record.continuation.clone();
            message.model = record.model.clone();
            message.usage = record.usage;
            message.thoughts = record.thoughts.clone();
        }
        messages.push(message);
    }
    let mut notices = session.notices;
    let mut repaired = build(session.head, messages, path)?;
    notices.append(&mut repaired.notices);
    Ok(LoadedSession { notices, ..repaired })
}
