//! Converts the events of a session to text.

use serde_json::Value;

use parallax_protocol::code_text::{code_text, prose_text};
use parallax_protocol::excerpt::truncate;

/// Maximum number of characters of a tool call's arguments.
const ARGUMENTS: usize = 120;
/// Maximum length of a message in bytes.
const MAX_MESSAGE: usize = 2000;

/// Converts stream-json lines to text, in which characters that control a terminal or hide text are
/// visible.
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
                let answer = sanitize(text("content"));
                self.is_open = !answer.ends_with('\n') && (self.is_open || !answer.is_empty());
                return answer;
            }
            "message" => {
                format!("> {}", sanitize(text("content")).trim_end().replace('\n', "\n> "))
            }
            "tool_use" => {
                let arguments = line.get("parameters").map(Value::to_string).unwrap_or_default();
                let arguments: String = arguments.chars().take(ARGUMENTS).collect();
                format!("• {} {}", code_text(text("tool_name")), code_text(&arguments))
            }
            "tool_result" if text("status") == "error" => {
                let reason = line.pointer("/error/message").and_then(Value::as_str);
                format!("  failed: {}", message(reason.unwrap_or_default()))
            }
            "ask" => format!("? {}", code_text(text("title"))),
            "error" => format!("{}: {}", text("severity"), message(text("message"))),
            "result" => match line.pointer("/error/message").and_then(Value::as_str) {
                Some(reason) => format!("error: {}", message(reason)),
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

/// Returns a message in one line.
fn message(text: &str) -> String {
    let lines = truncate(text, MAX_MESSAGE).lines().map(str::trim).filter(|line| !line.is_empty());
    prose_text(&lines.collect::<Vec<_>>().join(" ")).into_owned()
}

/// Returns a string of several lines.
fn sanitize(text: &str) -> String {
    let shown = text.split_inclusive(['\n', '\t']).map(|part| {
        let (part, end) = match part.char_indices().next_back() {
            Some((at, '\n' | '\t')) => part.split_at(at),
            _ => (part, ""),
        };
        prose_text(part.strip_suffix('\r').unwrap_or(part)).into_owned() + end
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_formatted_as_a_log() {
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
        assert_eq!(text, "> go\n> on\nLooking ␛[2J\n• read_file {\"a\":1}\nDone\n");
    }
    #[test]
    fn hidden_characters_are_visible() {
        let mut view = LogView::default();
        let lines = [
            r#"{"type":"ask","title":"echo ok\u001b]0;x\u0007\u202eab"}"#,
            r#"{"type":"tool_use","tool_name":"a\u200b","parameters":{"a":"\u202e"}}"#,
            r#"{"type":"error","severity":"warning","message":"one\n two\u001b\u202e"}"#,
            r#"{"type":"message","role":"assistant","content":"a\tb\r\n\u202ec\u200b"}"#,
        ];
        let text: String = lines.iter().map(|line| view.line(line)).collect();
        let expected = "? echo ok␛]0;x␇\\u{202e}ab\n• a\\u{200b} {\"a\":\"\\u{202e}\"}\n\
            warning: one two␛\\u{202e}\na\tb\n\\u{202e}c\\u{200b}";
        assert_eq!(text, expected);
    }
}
