//! Gemini CLI's records of sessions: the name of the file, its header, and its messages.

use std::path::Path;

use parallax_protocol::store::JournalHeader;
use serde_json::{Value, json};

/// Number of id characters in a file name.
const ID: usize = 8;

/// Returns the file name of a session's record: `session-2026-01-31T09-05-1a2b3c4d.jsonl`.
pub fn record_name(head: &JournalHeader) -> String {
    let minute = head.start_time.get(..16).unwrap_or(&head.start_time).replace(':', "-");
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
    let minute: String = minute.chars().filter(plain).collect();
    let id: String = head.session_id.as_str().chars().take(ID).collect();
    format!("session-{minute}-{id}.jsonl")
}

pub fn head(session: &JournalHeader) -> Value {
    json!({
        "sessionId": session.session_id,
        "projectHash": parallax_store::project_hash(Path::new(&session.project)),
        "startTime": session.start_time,
        "lastUpdated": session.start_time,
        "kind": "main",
        "directories": [session.project],
    })
}

/// Converts a message to Gemini CLI's form: the text of an answer is a string, and a prompt is the
/// text as typed.
pub fn to_gemini_message(message: &Value) -> Value {
    let mut message = message.clone();
    let Some(fields) = message.as_object_mut() else { return message };
    let typed = fields.remove("displayContent");
    if fields.get("type").and_then(Value::as_str) == Some("gemini") {
        let parts = fields.get("content").and_then(Value::as_array);
        let spoken = parts.into_iter().flatten().filter(|part| part.get("thought").is_none());
        let text: String = spoken.filter_map(|part| part.get("text")?.as_str()).collect();
        fields.insert("content".to_owned(), text.into());
        fields.entry("thoughts").or_insert_with(|| json!([]));
    } else if let Some(typed) = typed {
        fields.insert("content".to_owned(), typed);
    }
    message
}

#[cfg(test)]
mod tests {
    use parallax_protocol::ids::SessionId;

    use super::*;

    #[test]
    fn record_is_named_by_minute_and_id() {
        let head = JournalHeader {
            version: 1,
            session_id: SessionId::from("1a2b3c4d-5e6f"),
            project: "/p".to_owned(),
            start_time: "2026-01-31T09:05:33.120Z".to_owned(),
            forked_from: None,
            one_shot: false,
        };
        assert_eq!(record_name(&head), "session-2026-01-31T09-05-1a2b3c4d.jsonl");
    }
}
