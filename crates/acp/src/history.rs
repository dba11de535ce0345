//! The history of a session as updates, for `session/load`.

use parallax_sessions::past::PastItem;
use serde_json::{Value, json};

use crate::tool_updates;
use crate::updates::chunk;

/// Returns the update for an item; `None` if the protocol has no equivalent. `number` is the item's
/// index, used as the id of tool calls.
pub(crate) fn update(item: &PastItem, number: usize) -> Option<Value> {
    Some(match item {
        PastItem::User { text, .. } | PastItem::Steer { text } => chunk("user_message_chunk", text),
        PastItem::Text { text, .. } => chunk("agent_message_chunk", text),
        PastItem::Thought { text } => chunk("agent_thought_chunk", text),
        PastItem::Tool { name, args, status, output, told, .. } => {
            let title = told.as_ref().map_or("", |told| &told.title);
            let status = match status.as_deref() {
                Some("success") => "completed",
                _ => "failed",
            };
            json!({"sessionUpdate": "tool_call", "toolCallId": format!("past-{number}"),
                "title": tool_updates::title(title, name), "kind": "other", "status": status, "rawInput": args,
                "content": [tool_updates::text_content(output)]})
        }
        PastItem::Shell { command, output, .. } => {
            json!({"sessionUpdate": "tool_call", "toolCallId": format!("past-{number}"),
                "title": command, "kind": "execute", "status": "completed",
                "content": [tool_updates::text_content(output)]})
        }
        PastItem::Image(_) | PastItem::Ended { .. } => return None,
    })
}
