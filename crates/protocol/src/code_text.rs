//! Text that will be run, shown to the user before it is.
//!
//! A terminal obeys control characters and draws others nowhere or elsewhere, so that a
//! command can look like another one. Here nothing is removed: every such character is
//! shown as a visible one.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text in one line, with all that is not visible made visible: controls as their
/// pictures (`␊` is a line feed, `␛` an escape), other characters as `\u{202e}`.
pub fn code_text(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            '\0'..='\x1f' => shown.extend(char::from_u32(0x2400 + u32::from(char))),
            '\x7f' => shown.push('␡'),
            // Writing into a text cannot fail.
            _ if is_hidden(char) => drop(write!(shown, "{}", char.escape_unicode())),
            _ => shown.push(char),
        }
    }
    Cow::Owned(shown)
}

/// Why a text may not be a command or an argument: it holds a character that a terminal
/// obeys or that changes the order of what is shown. Line feeds and tabs are part of
/// scripts.
///
/// # Errors
/// The character, in words.
pub fn check_command(text: &str) -> Result<(), String> {
    let is_refused =
        |char: char| (char.is_control() && !matches!(char, '\n' | '\t')) || is_bidi(char);
    match text.chars().find(|char| is_refused(*char)) {
        None => Ok(()),
        Some(char) => Err(format!("contains the control character U+{:04X}", u32::from(char))),
    }
}

/// Whether a character changes the direction of the text around it.
pub fn is_bidi(char: char) -> bool {
    matches!(char,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is obeyed by a terminal, drawn nowhere, or drawn as a space that is
/// none to a shell.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || is_bidi(char)
        || matches!(char,
            '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{1680}'
            | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
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
    fn command_with_control_characters_is_refused() {
        for text in ["a\x1bb", "a\rb", "a\0", "a\u{9d}b", "a\x7f", "a\u{202e}b", "\u{2066}"] {
            assert!(check_command(text).is_err(), "{text:?}");
        }
        for text in ["echo hi", "if true\nthen\n\techo ä\nfi", "echo '👩\u{200d}👧'"] {
            assert!(check_command(text).is_ok(), "{text:?}");
        }
    }
}
