//! Answers of clients to `elicitation/create`.

use parallax_protocol::Object;
use parallax_sdk::mcp_view::UserResponse;
use serde_json::Value;

/// Reads the action, which is a field of the answer, or an object that also contains the content.
pub(crate) fn read_answer(answer: &Value) -> UserResponse {
    let action = &answer["action"];
    let content = answer.get("content").or_else(|| action.get("content"));
    match action.as_str().or_else(|| action["action"].as_str()) {
        Some("accept") => UserResponse::Accept(
            content.and_then(Value::as_object).cloned().unwrap_or_else(Object::new),
        ),
        Some("decline") => UserResponse::Decline,
        _ => UserResponse::Cancel,
    }
}

/// Whether a client's answer names an action.
pub(crate) fn is_answer(answer: &Value) -> bool {
    let action = &answer["action"];
    let action = action.as_str().or_else(|| action["action"].as_str());
    matches!(action, Some("accept" | "decline" | "cancel"))
}
