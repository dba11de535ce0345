//! JSON bytes for stdout that a terminal can show unharmed.

use std::fmt::Write as _;

use parallax_protocol::code_text::is_deceptive;
use serde::Serialize;

/// Appends a value as compact JSON and a newline.
pub(crate) fn push_line(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    // Our lines are maps with string keys: they cannot fail to serialise.
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

/// A value as an indented JSON document with a newline at its end, as every `--json`
/// output is.
pub fn json_document(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    push_pretty(&mut out, value);
    out.push(b'\n');
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the inside of a JSON string, without its quotes.
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

/// Writes DEL, C1 controls, and characters that are invisible or change the direction of
/// text behind `start` as `\uxxxx`. JSON leaves them as they are, and a terminal would obey
/// or hide them; they occur only inside strings.
fn escape_controls(out: &mut Vec<u8>, start: usize) {
    let Some(json) = out.get(start..) else { return };
    let is_plain = |byte: &u8| byte.is_ascii() && *byte != 0x7f;
    let Some(first) = json.iter().position(|byte| !is_plain(byte)) else { return };
    // ASCII comes before `first`, which is therefore a border between characters.
    let start = start + first;
    let Ok(rest) = std::str::from_utf8(out.get(start..).unwrap_or_default()) else { return };
    if !rest.contains(is_escaped) {
        return;
    }
    let mut escaped = String::with_capacity(rest.len() + 32);
    for char in rest.chars() {
        if is_escaped(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing into a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(char);
        }
    }
    out.truncate(start);
    out.extend_from_slice(escaped.as_bytes());
}

/// Line ends are the layout of an indented document; inside strings JSON escapes them.
fn is_escaped(char: char) -> bool {
    char != '\n' && is_deceptive(char)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_come_back_and_no_control_is_raw(text in any::<String>(), extra in "[\\x7f\u{80}-\u{a0}\u{61c}\u{2000}-\u{2070}\u{feff}\u{e0000}-\u{e0080}éa]{0,8}") {
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
