//! Finds terminal control sequences (ECMA-48) in text from outside and removes them.
//!
//! Only `ESC` introduces a sequence. U+0080 to U+009F, the 8-bit forms of the introducers, are
//! frequent in text that was decoded with a wrong encoding; there, they must not hide what follows,
//! so the callers treat them as control characters like any other.

use std::borrow::Cow;

/// Maximum length in bytes of a sequence. Text behind an introducer whose sequence does not end
/// within this length is text: an output that was cut must not hide what follows it.
const MAX_LENGTH: usize = 4096;

const ESCAPE: char = '\u{1b}';

/// Returns the length in bytes of the sequence at the start of `text`, which starts with `ESC`.
///
/// A string (`OSC`, `DCS`, `APC`, `PM`, `SOS`) that does not end within its line and
/// [`MAX_LENGTH`] is text; then the length is the one of its introducer.
pub fn sequence_length(text: &str) -> usize {
    complete_length(text).unwrap_or_else(|| match is_string(text) {
        true => 2,
        false => text.len(),
    })
}

/// Returns the length of the sequence at the start of `text`; `None` if it depends on what follows
/// `text`.
fn complete_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if is_string(text) {
        let limit = bytes.len().min(MAX_LENGTH);
        let body = bytes.get(2..limit).unwrap_or_default();
        let mut from = 0;
        while let Some(found) =
            body.get(from..).and_then(|body| body.iter().position(|byte| ends_string(*byte)))
        {
            let at = from + found;
            let next = bytes.get(at + 3);
            match (body.get(at), next) {
                (Some(0x07 | 0x18 | 0x1a), _) => return Some(at + 3),
                // U+009C, the 8-bit string terminator.
                (Some(0xc2), Some(0x9c)) => return Some(at + 4),
                (Some(0xc2), _) => from = at + 1,
                (Some(0x1b), None) => return None,
                (Some(0x1b), Some(b'\\')) => return Some(at + 4),
                _ => return Some(2),
            }
        }
        return (bytes.len() >= MAX_LENGTH).then_some(2);
    }
    let is_control_sequence = bytes.get(1) == Some(&b'[');
    let start = if is_control_sequence { 2 } else { 1 };
    let (inner, last) = match is_control_sequence {
        true => (b' '..=b'?', b'@'..=b'~'),
        false => (b' '..=b'/', b'0'..=b'~'),
    };
    for (at, byte) in bytes.iter().enumerate().take(MAX_LENGTH).skip(start) {
        if last.contains(byte) {
            return Some(at + 1);
        }
        if !inner.contains(byte) {
            // Cancel and substitute belong to the sequence that they end.
            return Some(if matches!(byte, 0x18 | 0x1a) { at + 1 } else { at });
        }
    }
    (bytes.len() >= MAX_LENGTH).then_some(MAX_LENGTH)
}

/// Whether `text` starts with `ESC` and the introducer of a string.
fn is_string(text: &str) -> bool {
    matches!(text.as_bytes().get(1), Some(b']' | b'P' | b'X' | b'^' | b'_'))
}

fn ends_string(byte: u8) -> bool {
    matches!(byte, 0x07 | b'\n' | 0x18 | 0x1a | 0x1b | 0xc2)
}

/// Returns a whole text without control sequences. Other control characters remain.
pub fn without_sequences(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut stripper = SequenceStripper::default();
    stripper.push(text, &mut |piece| clean.push_str(piece));
    stripper.finish(&mut |piece| clean.push_str(piece));
    Cow::Owned(clean)
}

/// Removes control sequences from text that arrives in pieces. Other control characters remain. The
/// result does not depend on how the text is split.
#[derive(Debug, Default)]
pub struct SequenceStripper {
    /// The beginning of a sequence whose end has not arrived; at most [`MAX_LENGTH`] and a piece.
    held: String,
}

impl SequenceStripper {
    /// Adds text and passes on what remains of it.
    pub fn push(&mut self, text: &str, sink: &mut dyn FnMut(&str)) {
        if self.held.is_empty() {
            return self.strip(text, sink);
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.push_str(text);
        self.strip(&joined, sink);
    }

    /// Ends the text and passes on what was held back.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&str)) {
        let held = std::mem::take(&mut self.held);
        strip(&held, |tail| Some(sequence_length(tail)), sink);
    }

    fn strip(&mut self, text: &str, sink: &mut dyn FnMut(&str)) {
        self.held.push_str(strip(text, complete_length, sink));
    }
}

/// Passes on the text between the sequences, up to the first whose length is not known; returns the
/// rest from there.
fn strip<'a>(
    text: &'a str,
    length: fn(&str) -> Option<usize>,
    sink: &mut dyn FnMut(&str),
) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find(ESCAPE) {
        let (before, tail) = rest.split_at(at);
        if !before.is_empty() {
            sink(before);
        }
        let Some(length) = length(tail) else { return tail };
        rest = tail.get(length..).unwrap_or_default();
    }
    if !rest.is_empty() {
        sink(rest);
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_removed_and_other_text_is_kept() {
        for (raw, clean) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("a\u{1b}[31mred\u{1b}[0m b", "ared b"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://e\u{1b}\\link", "xlink"),
            ("\u{1b}Pdcs\u{1b}\\1\u{1b}_apc\u{1b}\\2\u{1b}^pm\u{1b}\\3\u{1b}Xsos\u{1b}\\4", "1234"),
            ("\u{1b}]0;é\u{9c}x", "x"),
            ("\u{1b}(B\u{1b}7ok\u{1b}", "ok"),
            ("\u{1b}[31\u{1b}[32mx\u{1b}[1é", "xé"),
            ("a\u{1b}[3\nb", "a\nb"),
            // Cut strings: nothing behind the introducer is lost.
            ("a\u{1b}]open\nb", "aopen\nb"),
            ("a\u{1b}Popen é end", "aopen é end"),
            ("a\u{1b}]0;cut\u{1b}[1m bold", "a0;cut bold"),
            ("a\u{1b}]0;cut\u{1b}", "a0;cut"),
            ("\u{1b}\u{1b}]0;t\u{7}x", "x"),
            // Text that was decoded with a wrong encoding.
            (
                "He said â\u{80}\u{9c}hello\u{80}\u{9d} to all",
                "He said â\u{80}\u{9c}hello\u{80}\u{9d} to all",
            ),
        ] {
            assert_eq!(without_sequences(raw), clean, "{raw:?}");
        }
    }

    #[test]
    fn long_string_is_text() {
        for length in [MAX_LENGTH - 3, MAX_LENGTH - 2, 100_000] {
            let text = format!("\u{1b}P{}\u{7}", "x".repeat(length));
            let remaining = without_sequences(&text).len();
            assert_eq!(remaining, if length < MAX_LENGTH - 2 { 0 } else { length + 1 }, "{length}");
        }
    }

    #[test]
    fn result_does_not_depend_on_chunking() {
        let text = format!(
            "a\u{1b}[1;31mred\u{1b}]0;t\u{1b}\\b\u{1b}]0;é\u{9c}c\u{1b}Pcut\n\u{1b}_{}\u{1b}[0mé\u{1b}(",
            "é".repeat(3000)
        );
        let whole = without_sequences(&text);
        for size in [1, 2, 3, 7, 500] {
            let (mut stripper, mut out) = (SequenceStripper::default(), String::new());
            let letters: Vec<char> = text.chars().collect();
            for piece in letters.chunks(size) {
                let piece: String = piece.iter().collect();
                stripper.push(&piece, &mut |kept| out.push_str(kept));
            }
            stripper.finish(&mut |kept| out.push_str(kept));
            assert_eq!(out, whole, "pieces of {size}");
        }
    }
}
