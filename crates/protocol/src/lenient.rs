//! Repair of JSON that is grammatically valid but rejected by strict parsers.

/// Replaces lone surrogates with U+FFFD and numbers outside the range of `f64` with zero;
/// everything else is unchanged. JavaScript writes a lone surrogate for text that was cut inside an
/// emoji. The result is only for parsing: the original bytes are sent back to a service.
pub fn repair_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    let mut in_string = false;
    while let Some(char) = rest.chars().next() {
        let length = match char {
            '\\' if in_string => escape(rest, &mut out),
            '-' | '0'..='9' if !in_string => number(rest, &mut out),
            _ => {
                in_string ^= char == '"';
                out.push(char);
                char.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or("");
    }
    out
}

/// Copies an escape sequence, replacing a lone surrogate. Returns the number of bytes consumed.
fn escape(text: &str, out: &mut String) -> usize {
    let Some(unit) = unicode_escape(text) else {
        let length = 1 + text.chars().nth(1).map_or(0, char::len_utf8);
        out.push_str(text.get(..length).unwrap_or(""));
        return length;
    };
    let pair = (0xD800..0xDC00).contains(&unit)
        && text
            .get(6..)
            .and_then(unicode_escape)
            .is_some_and(|low| (0xDC00..0xE000).contains(&low));
    if pair {
        out.push_str(text.get(..12).unwrap_or(""));
        return 12;
    }
    if (0xD800..0xE000).contains(&unit) {
        out.push_str("\\ufffd");
    } else {
        out.push_str(text.get(..6).unwrap_or(""));
    }
    6
}

/// Returns the code unit of a `\uXXXX` at the start of the text.
fn unicode_escape(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Copies a number, or writes `0` for one that is not finite. Returns the number of bytes consumed.
fn number(text: &str, out: &mut String) -> usize {
    let length = text
        .bytes()
        .take_while(|byte| {
            byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
        })
        .count();
    let word = text.get(..length).unwrap_or("");
    let finite = word.parse::<f64>().is_ok_and(f64::is_finite);
    out.push_str(if finite || word.parse::<f64>().is_err() { word } else { "0" });
    length
}

#[cfg(test)]
mod tests {
    use super::repair_json;

    #[test]
    fn only_unparsable_values_are_replaced() {
        assert_eq!(repair_json(r#"{"a":1e400,"b":-1e400,"c":1.00}"#), r#"{"a":0,"b":0,"c":1.00}"#);
        assert_eq!(repair_json(r#""x \ud83d y""#), r#""x \ufffd y""#);
        assert_eq!(repair_json(r#""\ud83d\ude00 \\ud83d \" é""#), r#""\ud83d\ude00 \\ud83d \" é""#);
        assert_eq!(repair_json(r#""\ude00\ud8"#), r#""\ufffd\ud8"#);
    }
}
