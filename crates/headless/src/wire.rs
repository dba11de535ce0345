//! JSON bytes for stdout that a terminal can show unharmed.

use parallax_protocol::code_text::is_bidi;
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

/// Writes DEL, C1 controls and characters that change the direction of text behind
/// `start` as `\uxxxx`. JSON leaves them as they are, and a terminal would obey them;
/// they occur only inside strings.
fn escape_controls(out: &mut Vec<u8>, start: usize) {
    let Some(json) = out.get(start..) else { return };
    if !has_controls(json) {
        return;
    }
    let json = out.split_off(start);
    let mut rest = json.as_slice();
    while let Some((byte, after)) = rest.split_first() {
        match obeyed(rest) {
            Some((char, length)) => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(char)).as_bytes());
                rest = rest.get(length..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
}

/// The character that UTF-8 begins with and its length, if a terminal would obey it.
fn obeyed(utf8: &[u8]) -> Option<(char, usize)> {
    let code = match *utf8 {
        [byte @ 0x7f, ..] => u32::from(byte),
        [0xc2, byte @ 0x80..=0x9f, ..] => u32::from(byte),
        [0xd8, 0x9c, ..] => 0x61c,
        [0xe2, high @ 0x80..=0x81, low @ 0x80..=0xbf, ..] => {
            0x2000 + (u32::from(high & 1) << 6) + u32::from(low & 0x3f)
        }
        _ => return None,
    };
    let char = char::from_u32(code)?;
    (char.is_control() || is_bidi(char)).then_some((char, char.len_utf8()))
}

fn has_controls(json: &[u8]) -> bool {
    let is_lead = |byte: &u8| matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2);
    let mut leads = json.iter().enumerate().filter(|(_, byte)| is_lead(byte));
    leads.any(|(at, _)| json.get(at..).and_then(obeyed).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_come_back_and_no_control_is_raw(text in any::<String>(), extra in "[\\x7f\u{80}-\u{a0}\u{61c}\u{2000}-\u{2070}éa]{0,8}") {
            let text = text + &extra;
            let mut line = Vec::new();
            push_line(&mut line, &text);
            let line = String::from_utf8(line).unwrap();
            prop_assert!(line.trim_end_matches('\n').chars().all(|c| !c.is_control() && !is_bidi(c)), "{line:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text.clone());
            let mut body = b"\"".to_vec();
            push_string_body(&mut body, &text);
            body.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&body).unwrap(), text);
        }
    }
}
