//! Converts the events of a session to text.

use serde_json::Value;

use parallax_protocol::excerpt::one_line;

/// Maximum number of characters of a tool call's arguments.
const ARGUMENTS: usize = 120;

/// Converts stream-json lines to text, escaping control characters.
#[derive(Debug, Default)]
pub struct LogView {
    /// Whether the last line of an answer is incomplete.
    is_open: bool,
}

impl LogView {
    /// Returns the text that a line adds.
    pub fn line(&mut self, line: &str) -> String {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return String::new() };
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        let added = match text("type") {
            "message" if text("role") == "assistant" => {
                let answer = safe(text("content"));
                self.is_open = !answer.ends_with('\n') && (self.is_open || !answer.is_empty());
                return answer;
            }
            "message" => format!("> {}", safe(text("content")).trim_end().replace('\n', "\n> ")),
            "tool_use" => {
                let arguments = line.get("parameters").map(Value::to_string).unwrap_or_default();
                let arguments: String = one_line(&arguments).chars().take(ARGUMENTS).collect();
                format!("• {} {arguments}", one_line(text("tool_name")))
            }
            "tool_result" if text("status") == "error" => {
                let reason = line.pointer("/error/message").and_then(Value::as_str);
                format!("  failed: {}", one_line(reason.unwrap_or_default()))
            }
            "ask" => format!("? {}", one_line(text("title"))),
            "error" => format!("{}: {}", text("severity"), one_line(text("message"))),
            "result" => match line.pointer("/error/message").and_then(Value::as_str) {
                Some(reason) => format!("error: {}", one_line(reason)),
                None => return self.close(),
            },
            _ => return String::new(),
        };
        format!("{}{added}\n", self.close())
    }

    /// Ends an incomplete line.
    fn close(&mut self) -> String {
        if std::mem::take(&mut self.is_open) { "\n".to_owned() } else { String::new() }
    }
}

/// Returns a multi-line text with control characters escaped.
fn safe(text: &str) -> String {
    text.chars()
        .map(|char| match char {
            '\n' | '\t' => char,
            char if char.is_control() => '\u{fffd}',
            char => char,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_as_a_log() {
        let mut view = LogView::default();
        let lines = [
            r#"{"type":"message","role":"user","content":"go\non"}"#,
            r#"{"type":"message","role":"assistant","content":"Look"}"#,
            r#"{"type":"message","role":"assistant","content":"ing \u001b[2J"}"#,
            r#"{"type":"tool_use","tool_name":"read_file","parameters":{"a":1}}"#,
            r#"{"type":"message","role":"assistant","content":"Done"}"#,
            r#"{"type":"result","status":"success"}"#,
        ];
        let text: String = lines.iter().map(|line| view.line(line)).collect();
        assert_eq!(text, "> go\n> on\nLooking \u{fffd}[2J\n• read_file {\"a\":1}\nDone\n");
    }
}
