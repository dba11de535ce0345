//! JSON bytes for stdout that a terminal can show unharmed.

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

/// Writes DEL and C1 controls behind `start` as `\u00xx`. JSON leaves them as
/// they are, and a terminal would obey them; they occur only inside strings.
fn escape_controls(out: &mut Vec<u8>, start: usize) {
    let Some(json) = out.get(start..) else { return };
    if !has_controls(json) {
        return;
    }
    let json = out.split_off(start);
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let control = match (byte, bytes.peek()) {
            (0x7f, _) => Some(byte),
            (0xc2, Some(&next @ 0x80..=0x9f)) => {
                bytes.next();
                Some(next)
            }
            _ => None,
        };
        match control {
            Some(control) => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
            None => out.push(byte),
        }
    }
}

fn has_controls(json: &[u8]) -> bool {
    json.contains(&0x7f) || json.windows(2).any(|pair| matches!(pair, [0xc2, 0x80..=0x9f]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_come_back_and_no_control_is_raw(text in any::<String>(), extra in "[\\x7f\u{80}-\u{a0}éa]{0,8}") {
            let text = text + &extra;
            let mut line = Vec::new();
            push_line(&mut line, &text);
            let line = String::from_utf8(line).unwrap();
            prop_assert!(line.trim_end_matches('\n').chars().all(|c| !c.is_control()), "{line:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text.clone());
            let mut body = b"\"".to_vec();
            push_string_body(&mut body, &text);
            body.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&body).unwrap(), text);
        }
    }
}
