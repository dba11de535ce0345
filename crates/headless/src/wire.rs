//! Writes JSON that is safe to show in a terminal.

use std::fmt::Write as _;

use parallax_protocol::code_text::{is_deceptive, is_filler};
use serde::Serialize;

/// Appends a value as compact JSON and a newline.
pub(crate) fn push_line(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    // Cannot fail: lines are maps with string keys.
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        return;
    }
    escape_controls(out, start);
    out.push(b'\n');
}

/// Appends a value as JSON indented by two spaces, without a newline.
pub(crate) fn push_pretty(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    if serde_json::to_writer_pretty(&mut *out, value).is_err() {
        out.truncate(start);
        return;
    }
    escape_controls(out, start);
}

/// Formats a value as an indented JSON document with a final newline, as all `--json` outputs.
pub fn json_document(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    push_pretty(&mut out, value);
    out.push(b'\n');
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the content of a JSON string without quotes.
pub(crate) fn push_string_body(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, text).is_err() {
        out.truncate(start);
        return;
    }
    out.remove(start);
    out.pop();
    escape_controls(out, start);
}

/// Escapes DEL, C1 controls, and characters that are invisible or change the text direction as
/// `\uxxxx`, starting at `start`. JSON allows them unescaped, but a terminal would obey or hide
/// them. They occur only in strings.
fn escape_controls(out: &mut Vec<u8>, start: usize) {
    let Some(json) = out.get(start..) else { return };
    let is_plain = |byte: &u8| byte.is_ascii() && *byte != 0x7f;
    let Some(first) = json.iter().position(|byte| !is_plain(byte)) else { return };
    // Only ASCII comes before `first`, so it is a character boundary.
    let start = start + first;
    let Ok(rest) = std::str::from_utf8(out.get(start..).unwrap_or_default()) else { return };
    if !rest.contains(is_escaped) {
        return;
    }
    let mut escaped = String::with_capacity(rest.len() + 32);
    for char in rest.chars() {
        if is_escaped(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(char);
        }
    }
    out.truncate(start);
    out.extend_from_slice(escaped.as_bytes());
}

/// Newlines are the layout of an indented document; in strings, JSON escapes them.
fn is_escaped(char: char) -> bool {
    char != '\n' && (is_deceptive(char) || is_filler(char))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn json_strings_round_trip_without_raw_controls(text in any::<String>(), extra in "[\\x7f\u{80}-\u{a0}\u{61c}\u{2000}-\u{2070}\u{feff}\u{e0000}-\u{e0080}éa]{0,8}") {
            let text = text + &extra;
            let mut line = Vec::new();
            push_line(&mut line, &text);
            let line = String::from_utf8(line).unwrap();
            prop_assert!(line.trim_end_matches('\n').chars().all(|c| !is_deceptive(c)), "{line:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text.clone());
            let mut body = b"\"".to_vec();
            push_string_body(&mut body, &text);
            body.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&body).unwrap(), text);
        }
    }
}
