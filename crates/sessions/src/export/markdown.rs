//! Exports a session as Markdown.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::recorded_items::RecordedItem;

/// Returns prompts and answers as a document, with tool calls as JSON blocks.
pub fn markdown(items: &[RecordedItem]) -> String {
    let mut text = String::new();
    let mut speaker = "";
    for item in items {
        let current = match item {
            RecordedItem::User { .. } | RecordedItem::Steer { .. } | RecordedItem::Shell { .. } => {
                "USER"
            }
            RecordedItem::Continued(_) => "HOOK",
            RecordedItem::Image(_) | RecordedItem::Thought { .. } | RecordedItem::Ended { .. } => {
                continue;
            }
            RecordedItem::Text { .. } | RecordedItem::Tool { .. } => "MODEL",
        };
        if current != speaker {
            if !speaker.is_empty() {
                text.push_str("---\n\n");
            }
            let _ = write!(text, "## {current}\n\n");
            speaker = current;
        }
        match item {
            RecordedItem::User { text: said, .. }
            | RecordedItem::Steer { text: said }
            | RecordedItem::Text { text: said, .. } => {
                let _ = write!(text, "{}\n\n", said.trim());
            }
            RecordedItem::Continued(continuation) => {
                let _ = write!(text, "{}\n\n", continuation.to_string().trim());
            }
            RecordedItem::Tool { name, args, status, output, .. } => {
                let call = json!({"tool": name, "args": args});
                let _ = write!(text, "{}\n\n", fenced(&call));
                if status.is_some() {
                    let answer = json!({"tool": name, "status": status, "output": output});
                    let _ = write!(text, "{}\n\n", fenced(&answer));
                }
            }
            RecordedItem::Shell { command, output, code } => {
                let ran = json!({"command": command, "code": code, "output": output});
                let _ = write!(text, "{}\n\n", fenced(&ran));
            }
            RecordedItem::Image(_) | RecordedItem::Thought { .. } | RecordedItem::Ended { .. } => {}
        }
    }
    text
}

/// Formats a code block whose fence is longer than any in its content.
fn fenced(value: &Value) -> String {
    let json = format!("{value:#}");
    let (mut longest, mut run) = (2, 0);
    for char in json.chars() {
        run = if char == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}json\n{json}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_export_names_speakers_and_fences_output_safely() {
        let user = |text: &str| RecordedItem::User {
            text: text.to_owned(),
            labeled_text: None,
            before: 0,
            turn: 1,
            read: Vec::new(),
            time: String::new(),
        };
        let items = [
            user("fix it"),
            RecordedItem::Thought { text: "hm".into() },
            RecordedItem::Tool {
                name: "read_file".into(),
                args: parallax_protocol::Object::new(),
                status: Some("success".into()),
                display: None,
                output: "````\nx".into(),
                details: None,
            },
            RecordedItem::Text { text: "done".into(), partial: false },
            user("thanks"),
        ];
        let text = markdown(&items);
        assert!(text.starts_with("## USER\n\nfix it\n\n---\n\n## MODEL\n\n```json\n"), "{text}");
        assert!(text.contains("\n`````json\n") && !text.contains("hm"), "{text}");
        assert!(text.ends_with("done\n\n---\n\n## USER\n\nthanks\n\n"), "{text}");
    }
}
