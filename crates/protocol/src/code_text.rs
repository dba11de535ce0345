//! Displays commands and other untrusted text without hiding characters.
//!
//! A terminal interprets control characters and does not draw some others, so a command could look
//! like a different one. These functions remove nothing: every such character is shown as a visible
//! one.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text in one line with invisible characters made visible: control characters as their
/// symbols (`␊` for a line feed, `␛` for an escape), other characters as `\u{202e}`.
pub fn code_text(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(reveal(text, |_, char| is_hidden(char)))
}

/// Returns prose from outside, such as a message that quotes names, with control characters and
/// characters that reorder or hide text, or have no picture, shown as by [`code_text`]. Characters
/// that scripts and emoji need (joiners, variation selectors, wide and narrow spaces) are kept
/// where they have a purpose.
pub fn prose_text(text: &str) -> Cow<'_, str> {
    let may_hide = |char| is_deceptive(char) || is_filler(char) || is_attached(char);
    if !text.contains(may_hide) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(reveal(text, |before, char| {
        let is_variant = matches!(char, '\u{e0100}'..='\u{e01ef}');
        is_deceptive(char)
            || is_filler(char) && !(is_variant && may_attach(before, char))
            || is_attached(char) && !may_attach(before, char)
    }))
}

/// Replaces the characters that `is_revealed` selects, given the text before them, with a visible
/// form.
fn reveal(text: &str, is_revealed: impl Fn(&str, char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            _ if !is_revealed(&out, char) => out.push(char),
            '\0'..='\x1f' => out.extend(char::from_u32(0x2400 + u32::from(char))),
            '\x7f' => out.push('␡'),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "{}", char.escape_unicode())),
        }
    }
    out
}

/// Checks a name or a URL, which must not contain any control character.
///
/// # Errors
/// Returns a description of the first invalid character.
pub fn check_name(text: &str) -> Result<(), String> {
    match text.chars().find(|char| char.is_control() || is_bidi(*char)) {
        None => Ok(()),
        Some(char) => Err(rejection_message(char)),
    }
}

fn rejection_message(char: char) -> String {
    format!("contains the control character U+{:04X}", u32::from(char))
}

/// Checks a command or an argument, which must not contain characters that a terminal interprets or
/// that reorder the displayed text. Line feeds and tabs are allowed, because they occur in scripts.
///
/// # Errors
/// Returns a description of the first invalid character.
pub fn check_command(text: &str) -> Result<(), String> {
    let is_refused =
        |char: char| (char.is_control() && !matches!(char, '\n' | '\t')) || is_bidi(char);
    match text.chars().find(|char| is_refused(*char)) {
        None => Ok(()),
        Some(char) => Err(rejection_message(char)),
    }
}

/// Whether a character changes the direction of the text around it.
pub fn is_bidi(char: char) -> bool {
    matches!(char,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a terminal interprets this character, does not draw it, or draws it like a space that
/// the shell does not treat as one.
pub fn is_hidden(char: char) -> bool {
    char.is_control()
        || is_bidi(char)
        || matches!(char,
            '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{1680}'
            | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a character makes prose look like other text: control characters, bidirectional control
/// characters, and invisible characters that no script needs.
pub fn is_deceptive(char: char) -> bool {
    char.is_control()
        || is_bidi(char)
        || matches!(char,
            '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e00ff}'
            // The range between these two contains the selectors of ideographic variants.
            | '\u{e01f0}'..='\u{e0fff}')
}

/// Whether a character has no picture, and no script needs it between visible ones: fillers, and
/// the selectors of ideographic variants, which can encode any byte.
pub fn is_filler(char: char) -> bool {
    matches!(char,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a character changes only how its neighbors are drawn: joiners and variation selectors.
pub fn is_attached(char: char) -> bool {
    matches!(char, '\u{200c}' | '\u{200d}' | '\u{180b}'..='\u{180d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Whether a joiner or variation selector has a purpose behind `before`. Without one it could encode
/// hidden text: in a run of its kind, or in plain English.
pub fn may_attach(before: &str, char: char) -> bool {
    let is_joiner = |char| matches!(char, '\u{200c}' | '\u{200d}');
    match before.chars().next_back() {
        // Keycaps: 1️⃣.
        Some('0'..='9' | '#' | '*') => char == '\u{fe0f}',
        Some(base) if is_attached(base) => is_joiner(char) && !is_joiner(base),
        Some(base) => !base.is_ascii() && !base.is_whitespace(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown_and_nothing_is_removed() {
        for (text, shown) in [
            ("echo ok \x1b]0; touch X #\x07", "echo ok ␛]0; touch X #␇"),
            ("# style\ntouch X", "# style␊touch X"),
            ("a\r\n\tb\x7f\0", "a␍␊␉b␡␀"),
            ("a\u{9b}2Jb\u{85}c", "a\\u{9b}2Jb\\u{85}c"),
            ("ls \u{202e}fr-\u{202c}", "ls \\u{202e}fr-\\u{202c}"),
            ("rm\u{200b} x\u{a0}y\u{e0041}", "rm\\u{200b} x\\u{a0}y\\u{e0041}"),
            ("printf 'a\\nb' – ä 漢", "printf 'a\\nb' – ä 漢"),
        ] {
            assert_eq!(code_text(text), shown);
        }
    }

    #[test]
    fn prose_shows_deceptive_characters_and_keeps_scripts_and_emoji() {
        for (text, shown) in [
            ("`a\x1b]0;t\x07b`", "`a␛]0;t␇b`"),
            ("a\u{9b}b\u{202e}c\u{200b}d\u{e0041}", "a\\u{9b}b\\u{202e}c\\u{200b}d\\u{e0041}"),
            ("de\u{3164}ploy\u{fe0f} x\u{e0100}", "de\\u{3164}ploy\\u{fe0f} x\\u{e0100}"),
            (
                "👩\u{200d}🚀 ❤\u{fe0f} 1\u{a0}000 葛\u{e0100}\u{3000}字",
                "👩\u{200d}🚀 ❤\u{fe0f} 1\u{a0}000 葛\u{e0100}\u{3000}字",
            ),
        ] {
            assert_eq!(prose_text(text), shown);
        }
    }

    #[test]
    fn name_with_control_characters_is_rejected() {
        for text in ["a\nb", "a\tb", "a\x1bb", "a\u{9b}b", "a\u{202e}b"] {
            assert!(check_name(text).is_err(), "{text:?}");
        }
        assert!(check_name("my server – ä").is_ok());
    }

    #[test]
    fn command_with_control_characters_is_rejected() {
        for text in ["a\x1bb", "a\rb", "a\0", "a\u{9d}b", "a\x7f", "a\u{202e}b", "\u{2066}"] {
            assert!(check_command(text).is_err(), "{text:?}");
        }
        for text in ["echo hi", "if true\nthen\n\techo ä\nfi", "echo '👩\u{200d}👧'"] {
            assert!(check_command(text).is_ok(), "{text:?}");
        }
    }
}
