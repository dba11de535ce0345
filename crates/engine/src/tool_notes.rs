//! Notes in tool results for the model.

use parallax_protocol::tool::ToolResult;

/// Adds a line to the result that the model reads.
pub(crate) fn add_note(outcome: &mut ToolResult, note: &str) {
    let text = match &mut outcome.error {
        Some(error) => &mut error.message,
        None => &mut outcome.for_model.output,
    };
    text.push('\n');
    text.push_str(note);
    if let Some(serde_json::Value::Array(parts)) = &mut outcome.for_hooks.content {
        parts.push(serde_json::json!({"text": note}));
    }
}
