//! Converts the output bytes of a command to text for a model.
//!
//! The conversion has three stages: UTF-8 (invalid bytes become U+FFFD), control sequences
//! (removed), and lines (carriage returns and backspaces take effect). Each stage keeps its state
//! across chunks, so that the text does not depend on how the bytes arrive.

use parallax_protocol::control_sequences::SequenceStripper;

/// Converts output bytes to text with all three stages.
#[derive(Debug, Default)]
pub struct TextFilter {
    decoder: Utf8Decoder,
    stripper: ControlStripper,
    lines: LineEditor,
}

impl TextFilter {
    /// Adds a chunk and appends the text that is final.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        let Self { decoder, stripper, lines } = self;
        decoder.push(bytes, &mut |text| stripper.push(text, &mut |piece| lines.push(piece, out)));
    }

    /// Appends the unfinished line. More bytes may follow.
    pub fn flush_line(&mut self, out: &mut String) {
        self.lines.flush(out);
    }

    /// Ends the stream and appends everything held back.
    pub fn finish(&mut self, out: &mut String) {
        let Self { decoder, stripper, lines } = self;
        decoder.finish(&mut |text| stripper.push(text, &mut |piece| lines.push(piece, out)));
        stripper.finish(&mut |piece| lines.push(piece, out));
        lines.flush(out);
    }
}

/// Decodes UTF-8 in chunks; invalid bytes become U+FFFD.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    /// The beginning of an incomplete character.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// Decodes a chunk and passes on the text in pieces.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&str)) {
        if self.pending.is_empty() {
            self.decode(bytes, sink);
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(bytes);
            self.decode(&joined, sink);
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&str)) {
        if !std::mem::take(&mut self.pending).is_empty() {
            sink("\u{FFFD}");
        }
    }

    fn decode(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&str)) {
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            if !chunk.valid().is_empty() {
                sink(chunk.valid());
            }
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let unfinished = chunks.peek().is_none()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if unfinished {
                self.pending.extend_from_slice(invalid);
            } else {
                sink("\u{FFFD}");
            }
        }
    }
}

/// Removes control sequences and control characters, except tab, newline, carriage return, and
/// backspace.
#[derive(Debug, Default)]
pub struct ControlStripper {
    sequences: SequenceStripper,
}

impl ControlStripper {
    /// Adds text and passes on what remains of it.
    pub fn push(&mut self, text: &str, sink: &mut dyn FnMut(&str)) {
        self.sequences.push(text, &mut |text| without_controls(text, sink));
    }

    /// Ends the text and passes on what was held back.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&str)) {
        self.sequences.finish(&mut |text| without_controls(text, sink));
    }
}

fn without_controls(mut text: &str, sink: &mut dyn FnMut(&str)) {
    while !text.is_empty() {
        let (plain, rest) = text.split_at(plain_length(text.as_bytes()));
        if !plain.is_empty() {
            sink(plain);
        }
        let mut characters = rest.chars();
        match characters.next() {
            // NUL separates names that would otherwise run together.
            Some('\0') => sink("\u{2400}"),
            Some(kept) if !kept.is_control() || matches!(kept, '\n' | '\t' | '\r' | '\x08') => {
                sink(kept.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
        text = characters.as_str();
    }
}

/// Returns the number of bytes at the start that are certainly plain text. `0xC2` may start one of
/// the control characters above ASCII.
fn plain_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|byte| matches!(byte, 0..=8 | 11..=31 | 0x7f | 0xc2))
        .unwrap_or(bytes.len())
}

/// Maximum length in bytes of a line that carriage returns and backspaces can still change.
const EDITABLE_LINE: usize = 4096;

/// Applies `\r` and `\b` roughly as a terminal would: what follows a carriage return replaces
/// the line, so a progress bar leaves its last state.
#[derive(Debug, Default)]
pub struct LineEditor {
    line: String,
    /// A carriage return was received, and nothing after it.
    returned: bool,
}

impl LineEditor {
    fn push(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        // Fast path for complete lines without edits.
        if !rest.contains('\r')
            && !rest.contains('\x08')
            && let Some((lines, unfinished)) = rest.rsplit_once('\n')
        {
            if std::mem::take(&mut self.returned) && !rest.starts_with('\n') {
                self.line.clear();
            }
            out.push_str(&self.line);
            out.push_str(lines);
            out.push('\n');
            self.line.clear();
            rest = unfinished;
        }
        while let Some(first) = rest.chars().next() {
            match first {
                '\r' => self.returned = true,
                '\x08' => {
                    self.line.pop();
                }
                '\n' => {
                    self.returned = false;
                    out.push_str(&self.line);
                    out.push('\n');
                    self.line.clear();
                }
                _ => {
                    let end = rest.find(['\r', '\x08', '\n']).unwrap_or(rest.len());
                    let (plain, tail) = rest.split_at(end);
                    if std::mem::take(&mut self.returned) {
                        self.line.clear();
                    }
                    self.extend(plain, out);
                    rest = tail;
                    continue;
                }
            }
            rest = rest.get(1..).unwrap_or("");
        }
    }

    /// Appends to the line. Text that is too long to be edited is passed on, always at the same
    /// positions regardless of chunks.
    fn extend(&mut self, mut plain: &str, out: &mut String) {
        while self.line.len() + plain.len() >= EDITABLE_LINE {
            let mut cut = EDITABLE_LINE.saturating_sub(self.line.len()).min(plain.len());
            while !plain.is_char_boundary(cut) {
                cut += 1;
            }
            let (head, tail) = plain.split_at(cut);
            out.push_str(&self.line);
            out.push_str(head);
            self.line.clear();
            plain = tail;
        }
        self.line.push_str(plain);
    }

    fn flush(&mut self, out: &mut String) {
        out.push_str(&self.line);
        self.line.clear();
        self.returned = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filtered<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut filter = TextFilter::default();
        let mut out = String::new();
        for chunk in chunks {
            filter.push(chunk, &mut out);
        }
        filter.finish(&mut out);
        out
    }

    #[test]
    fn control_sequences_are_removed() {
        for (raw, expected) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[1;31mred\x1b[0m done", "red done"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1bPq#0;2\x1b\\x", "x"),
            ("\x1b(Bx\x1b=y", "xy"),
            ("\u{9b}31mred", "31mred"),
            ("said â\u{80}\u{9c}hello\u{80}\u{9d} to all", "said âhello to all"),
            ("a\x1b[3\nb", "a\nb"),
            ("bell\x07 nul\0 del\x7f", "bell nul␀ del"),
            ("\x1b]never ends\nnext line", "never ends\nnext line"),
            ("a \x1b]cut", "a cut"),
            ("é ° 漢\u{1F600}", "é ° 漢\u{1F600}"),
            ("10%\r50%\r100%\n", "100%\n"),
            ("dos\r\nline\r\n", "dos\nline\n"),
            ("kept\r", "kept"),
            ("N\x08NA\x08AM\x08M", "NAM"),
        ] {
            assert_eq!(filtered([raw.as_bytes()]), expected, "{raw:?}");
        }
        assert_eq!(filtered([&b"a\xff\xc3"[..]]), "a\u{FFFD}\u{FFFD}");
    }

    /// Generates bytes with many relevant prefixes.
    fn output() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => "[a-z \n]{0,12}".prop_map(String::into_bytes),
            1 => Just(b"\x1b[0;1m".to_vec()),
            1 => Just(b"\x1b]0;t\x07".to_vec()),
            1 => Just(b"\x1b]t\x1b\\".to_vec()),
            1 => Just("é\u{9b}1m漢".as_bytes().to_vec()),
            1 => Just(b"\r".to_vec()),
            1 => Just(b"\x08\x1b".to_vec()),
            1 => Just(vec![b'x'; EDITABLE_LINE - 2]),
            2 => proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn text_does_not_depend_on_chunking(
            bytes in output(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let whole = filtered([bytes.as_slice()]);
            let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            positions.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for position in positions {
                chunks.push(&bytes[from..position]);
                from = position;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(&filtered(chunks), &whole);
            let clean = |c: char| !c.is_control() || c == '\n' || c == '\t';
            prop_assert!(whole.chars().all(clean));
        }
    }
}
