//! JSON with half of a surrogate pair: JavaScript writes it for text that was cut inside an emoji,
//! and strict parsers refuse it.

use std::borrow::Cow;

/// Replaces the escape sequences of lone surrogates by that of the replacement character. Use it
/// for text that a strict parser refused.
pub fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let start = at + found;
        match unit(text, start) {
            // Another escape sequence, such as an escaped backslash.
            None => at = start + 2,
            Some(0xd800..=0xdbff) if matches!(unit(text, start + 6), Some(0xdc00..=0xdfff)) => {
                at = start + 12;
            }
            Some(0xd800..=0xdfff) => {
                out.push_str(text.get(kept..start).unwrap_or_default());
                out.push_str("\\ufffd");
                at = start + 6;
                kept = at;
            }
            Some(_) => at = start + 6,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(out)
}

/// Returns the code unit of an escape sequence at a position.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced() {
        for (text, expected) in [
            (r#"{"a":"cut \ud83d"}"#, r#"{"a":"cut \ufffd"}"#),
            (r#""\ude00 x \uD83D y""#, r#""\ufffd x \ufffd y""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d \u0041 \n""#, r#""\\ud83d \u0041 \n""#),
            ("plain", "plain"),
            ("\\", "\\"),
            ("\\u", "\\u"),
        ] {
            assert_eq!(without_lone_surrogates(text), expected, "{text}");
        }
    }
}
