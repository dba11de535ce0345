//! The history of a session as updates, for `session/load`.

use std::collections::HashMap;
use std::path::Path;

use parallax_protocol::tool::{Display, ToolKind};
use parallax_sessions::recorded_items::RecordedItem;
use serde_json::{Value, json};

use crate::tool_updates;
use crate::updates::chunk;

/// What is needed to describe the calls of a session's history.
pub(crate) struct RecordedCalls<'a> {
    /// The kinds of the session's tools by name.
    pub(crate) kinds: HashMap<String, ToolKind>,
    /// The working directory.
    pub(crate) directory: &'a Path,
}

impl RecordedCalls<'_> {
    /// Returns the update for an item; `None` if the protocol has no equivalent. `number` is the
    /// item's index, used as the id of tool calls.
    pub(crate) fn update(&self, item: &RecordedItem, number: usize) -> Option<Value> {
        Some(match item {
            RecordedItem::User { text, .. } | RecordedItem::Steer { text } => {
                chunk("user_message_chunk", text)
            }
            // As in a running session.
            RecordedItem::Continued(continuation) => {
                chunk("agent_thought_chunk", &format!("{continuation}\n"))
            }
            RecordedItem::Text { text, .. } => chunk("agent_message_chunk", text),
            RecordedItem::Thought { text } => chunk("agent_thought_chunk", text),
            RecordedItem::Tool { name, args, status, output, details, display } => {
                let title = details.as_ref().map_or("", |details| &details.title);
                let status = match status.as_deref() {
                    Some("success") => "completed",
                    _ => "failed",
                };
                let kind = self.kinds.get(name).copied().map_or("other", tool_updates::kind);
                let shown = display
                    .as_ref()
                    .and_then(|display| serde_json::from_value::<Display>(display.clone()).ok());
                let content = match shown {
                    Some(Display::Diff(diff)) => {
                        let mut content = tool_updates::diff_content(&diff);
                        // The whole text, where the call has it.
                        if let Some(text) = args.get("content").and_then(Value::as_str)
                            && name == "write_file"
                            && diff.is_new_file
                        {
                            content["newText"] = json!(text);
                        }
                        content
                    }
                    _ => tool_updates::text_content(output),
                };
                json!({"sessionUpdate": "tool_call", "toolCallId": format!("past-{number}"),
                    "title": tool_updates::title(title, name), "kind": kind, "status": status,
                    "locations": tool_updates::locations(args, self.directory),
                    "rawInput": args, "content": [content]})
            }
            RecordedItem::Shell { command, output, .. } => {
                json!({"sessionUpdate": "tool_call", "toolCallId": format!("past-{number}"),
                    "title": command, "kind": "execute", "status": "completed",
                    "content": [tool_updates::text_content(output)]})
            }
            RecordedItem::Image(_) | RecordedItem::Ended { .. } => return None,
        })
    }
}
