//! Prevents untrusted text from controlling the terminal: removes control sequences from the
//! model's text, and makes them visible in messages.

use parallax_protocol::code_text::{is_deceptive, prose_text};
use parallax_protocol::control_sequences::SequenceStripper;

/// Removes control sequences, C0 controls except newline and tab, DEL, C1 controls, and characters that reorder text (bidirectional embeddings,
/// overrides, and isolates). The state is kept between pieces, so the result does not depend on how
/// a stream is split.
#[derive(Debug, Default)]
pub struct Sanitizer {
    sequences: SequenceStripper,
}

impl Sanitizer {
    /// Creates a sanitizer for a new text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sanitizes a whole text.
    pub fn sanitize(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut sanitizer = Self::new();
        sanitizer.push(text, &mut out);
        sanitizer.finish(&mut out);
        out
    }

    /// Sanitizes a whole text; one that is harmless already is not copied.
    pub fn sanitize_owned(text: String) -> String {
        match plain_prefix(text.as_bytes()) == text.len() {
            true => text,
            false => Self::sanitize(&text),
        }
    }

    /// Appends the harmless part of the next piece to `out`.
    pub fn push(&mut self, text: &str, out: &mut String) {
        self.sequences.push(text, &mut |text| push_harmless(text, out));
    }

    /// Ends the text and appends what was held back.
    pub fn finish(&mut self, out: &mut String) {
        self.sequences.finish(&mut |text| push_harmless(text, out));
    }
}

fn push_harmless(mut text: &str, out: &mut String) {
    while !text.is_empty() {
        let (plain, rest) = text.split_at(plain_prefix(text.as_bytes()));
        out.push_str(plain);
        let mut chars = rest.chars();
        if let Some(char) = chars.next().filter(|char| !is_deceptive(*char)) {
            out.push(char);
        }
        text = chars.as_str();
    }
}

/// Returns the number of bytes at the start that are certainly harmless. Stops at controls and at
/// the lead bytes of all characters that are removed, which are character boundaries.
fn plain_prefix(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| {
            (byte < 0x20 && byte != b'\n' && byte != b'\t')
                || matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2 | 0xef | 0xf3)
        })
        .unwrap_or(bytes.len())
}

/// Formats untrusted text as one line of bounded length for messages. Whitespace is collapsed, but
/// nothing else is removed, so that a name cannot look like another one.
pub fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 2000;
    // Also limit the input, because a message may have megabytes.
    let end = text.char_indices().nth(4 * MAX_CHARS).map_or(text.len(), |(offset, _)| offset);
    let text = text.get(..end).unwrap_or(text);
    let mut line = String::with_capacity(text.len().min(256));
    // U+0085 is whitespace, but also a control character that must be shown.
    for word in text.split(|char: char| char.is_whitespace() && char != '\u{85}') {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&prose_text(word));
    }
    if let Some((at, _)) = line.char_indices().nth(MAX_CHARS) {
        line.truncate(at);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_and_controls_are_removed() {
        for (dirty, clean) in [
            ("a\x1b[31mred\x1b[0m b", "ared b"),
            ("\x1b]0;title\x07x\x1b]8;;http://e\x1b\\link", "xlink"),
            ("\x1bPdcs\x1b\\1\x1b_apc\x1b\\2\x1b^pm\x1b\\3\x1bXsos\x1b\\4", "1234"),
            ("\u{9b}2Jx\u{9d}0;t\u{9c}y\u{85}z", "2Jx0;tyz"),
            ("a\x08\x08b\r\nc\rd\x00\x7f", "ab\ncd"),
            ("a\u{202e}b\u{2066}c\u{2069}", "abc"),
            ("\x1b(B\x1b7ok\x1b", "ok"),
            ("tab\tund Umlaut ä – “x” 漢字\n", "tab\tund Umlaut ä – “x” 漢字\n"),
            ("\x1b[31\x1b[32mx\x1b[1é", "xé"),
        ] {
            assert_eq!(Sanitizer::sanitize(dirty), clean, "{dirty:?}");
        }
    }

    #[test]
    fn unfinished_control_string_does_not_swallow_the_answer() {
        assert_eq!(Sanitizer::sanitize("\x1b]0;oops\nnext line"), "0;oops\nnext line");
        let long = format!("\x1bP{}end", "x".repeat(10_000));
        assert!(Sanitizer::sanitize(&long).ends_with("end"));
    }

    #[test]
    fn message_is_one_bounded_line() {
        assert_eq!(one_line("a\r\n b\tc"), "a b c");
        assert!(one_line(&"x".repeat(1_000_000)).len() < 2100);
    }

    #[test]
    fn text_between_control_characters_is_kept() {
        assert_eq!(one_line("`echo\x1b]0; touch X\x07`"), "`echo␛]0; touch X␇`");
        assert_eq!(one_line("a\u{9b}2Jb\u{85}c\u{202e}"), "a\\u{9b}2Jb\\u{85}c\\u{202e}");
        assert_eq!(one_line("a\u{200b}b\u{feff}\u{e0041}"), "a\\u{200b}b\\u{feff}\\u{e0041}");
        let line = one_line(&"\u{1b}\u{202e}\u{9b} ".repeat(5000));
        assert!(line.chars().all(|char| !is_deceptive(char)) && line.chars().count() <= 2001);
    }

    fn dirty_text() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            prop_oneof![
                any::<char>(),
                proptest::sample::select(vec![
                    '\x1b', '[', ']', '\\', 'P', '_', '\x07', '\n', '\r', '3', 'm', ';', '\u{9b}',
                    '\u{9c}', '\u{9d}', '\u{202e}', 'é',
                ]),
            ],
            0..200,
        )
        .prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn sanitized_text_does_not_depend_on_chunking(text in dirty_text(), cuts in proptest::collection::vec(0usize..400, 0..8)) {
            let whole = Sanitizer::sanitize(&text);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&at| text.is_char_boundary(at)).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let (mut sanitizer, mut out, mut from) = (Sanitizer::new(), String::new(), 0);
            for index in cuts {
                sanitizer.push(&text[from..index], &mut out);
                from = index;
            }
            sanitizer.finish(&mut out);
            prop_assert_eq!(&out, &whole);
            prop_assert!(whole.chars().all(|c| c == '\n' || c == '\t' || !is_deceptive(c)));
            prop_assert_eq!(Sanitizer::sanitize(&whole), whole);
        }
    }
}
