//! The effective records of a session as the text of a journal.

use parallax_protocol::store::Record;
use parallax_store::LoadedSession;

/// Formats the remaining records, one per line, after the header.
pub(crate) fn journal_text(session: &LoadedSession) -> serde_json::Result<String> {
    let head = Record::Session(session.head.clone());
    let mut text = String::new();
    for record in std::iter::once(&head).chain(&session.records) {
        text.push_str(&parallax_store::record_line(record)?);
    }
    Ok(text)
}
