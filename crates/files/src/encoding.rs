//! Text encodings: detected on reading, preserved on writing.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::EncoderResult;

/// The number of leading bytes that decide whether a file is text.
pub const HEAD: usize = 4096;
/// Maximum sample of non-ASCII text for detecting a code page, in bytes.
const SAMPLE: usize = 256 * 1024;

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8, with or without byte order mark.
    Utf8,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
    /// UTF-32, little-endian.
    Utf32Le,
    /// UTF-32, big-endian.
    Utf32Be,
    /// A legacy code page, detected from the text.
    Legacy(&'static encoding_rs::Encoding),
}

impl TextEncoding {
    /// Returns the name in the WHATWG encoding standard.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Utf32Le => "UTF-32LE",
            Self::Utf32Be => "UTF-32BE",
            Self::Legacy(encoding) => encoding.name(),
        }
    }

    /// Returns the number of bytes of the smallest unit.
    pub(crate) fn unit_bytes(self) -> usize {
        match self {
            Self::Utf16Le | Self::Utf16Be => 2,
            Self::Utf32Le | Self::Utf32Be => 4,
            Self::Utf8 | Self::Legacy(_) => 1,
        }
    }

    /// Returns the byte order mark.
    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => &[0xef, 0xbb, 0xbf],
            Self::Utf16Le => &[0xff, 0xfe],
            Self::Utf16Be => &[0xfe, 0xff],
            Self::Utf32Le => &[0xff, 0xfe, 0, 0],
            Self::Utf32Be => &[0, 0, 0xfe, 0xff],
            Self::Legacy(_) => &[],
        }
    }

    /// Returns the encoding of a byte order mark, and the length of the mark.
    fn from_mark(bytes: &[u8]) -> Option<(Self, usize)> {
        // UTF-32LE starts with the mark of UTF-16LE, so it comes first.
        [Self::Utf32Le, Self::Utf32Be, Self::Utf8, Self::Utf16Le, Self::Utf16Be]
            .into_iter()
            .find(|encoding| bytes.starts_with(encoding.mark()))
            .map(|encoding| (encoding, encoding.mark().len()))
    }

    /// Returns the encoding that the first bytes of a file ([`HEAD`] are enough) show without doubt,
    /// and the length of the mark: that of a byte order mark, or UTF-16 without one.
    pub fn from_byte_order_mark(bytes: &[u8]) -> Option<(Self, usize)> {
        let head = bytes.get(..HEAD).unwrap_or(bytes);
        Self::from_mark(head).or_else(|| utf16_without_mark(head).map(|encoding| (encoding, 0)))
    }

    /// Decodes bytes without the mark; returns whether some were invalid and became U+FFFD.
    pub(crate) fn decode(self, bytes: &[u8]) -> (String, bool) {
        match self {
            Self::Utf8 => match std::str::from_utf8(bytes) {
                Ok(text) => (text.to_owned(), false),
                Err(_) => (String::from_utf8_lossy(bytes).into_owned(), true),
            },
            Self::Utf16Le => decode_rs(encoding_rs::UTF_16LE, bytes),
            Self::Utf16Be => decode_rs(encoding_rs::UTF_16BE, bytes),
            Self::Utf32Le => decode_utf32(bytes, u32::from_le_bytes),
            Self::Utf32Be => decode_utf32(bytes, u32::from_be_bytes),
            Self::Legacy(encoding) => decode_rs(encoding, bytes),
        }
    }

    /// Encodes text without the mark. The error is the character that the encoding lacks.
    pub(crate) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        match self {
            Self::Utf8 => Ok(text.as_bytes().to_vec()),
            Self::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Self::Utf32Le => Ok(text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect()),
            Self::Utf32Be => Ok(text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect()),
            Self::Legacy(encoding) => encode_legacy(encoding, text),
        }
    }
}

fn decode_rs(encoding: &'static encoding_rs::Encoding, bytes: &[u8]) -> (String, bool) {
    let (text, malformed) = encoding.decode_without_bom_handling(bytes);
    (text.into_owned(), malformed)
}

fn decode_utf32(bytes: &[u8], number: fn([u8; 4]) -> u32) -> (String, bool) {
    let mut malformed = !bytes.len().is_multiple_of(4);
    let text = bytes
        .chunks(4)
        .map(|chunk| {
            let code = <[u8; 4]>::try_from(chunk).ok().map(number);
            code.and_then(char::from_u32).unwrap_or_else(|| {
                malformed = true;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    (text, malformed)
}

fn encode_legacy(encoding: &'static encoding_rs::Encoding, text: &str) -> Result<Vec<u8>, char> {
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (result, read) =
            encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut out, true);
        rest = rest.get(read..).unwrap_or_default();
        match result {
            EncoderResult::InputEmpty => return Ok(out),
            EncoderResult::OutputFull => out.reserve(rest.len() * 4 + 16),
            EncoderResult::Unmappable(character) => return Err(character),
        }
    }
}

/// Recognizes UTF-16 without a byte order mark: every other byte is NUL in most of the text, and
/// the text has hardly any control characters.
fn utf16_without_mark(head: &[u8]) -> Option<TextEncoding> {
    let head = head.get(..head.len() & !1)?;
    let units = head.len() / 2;
    let nul_at = |parity: usize| head.iter().skip(parity).step_by(2).filter(|b| **b == 0).count();
    let (even, odd) = (nul_at(0), nul_at(1));
    let encoding = match (even, odd) {
        (0, odd) if odd * 2 > units => TextEncoding::Utf16Le,
        (even, 0) if even * 2 > units => TextEncoding::Utf16Be,
        _ => return None,
    };
    let (text, _) = encoding.decode(head);
    let is_noise =
        |c: &char| c.is_control() && !c.is_ascii_whitespace() || *c == char::REPLACEMENT_CHARACTER;
    // The last character may be cut.
    let noise = text.chars().take(units - 1).filter(is_noise).count();
    (units > 1 && noise * 50 <= units).then_some(encoding)
}

/// Detects the encoding of bytes that arrive in chunks.
#[derive(Debug, Default)]
pub(crate) struct EncodingSniffer {
    /// The beginning of a character that the last chunk ended in.
    incomplete: Vec<u8>,
    sample: Vec<u8>,
    characters: u64,
    broken: u64,
}

impl EncodingSniffer {
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        if self.incomplete.is_empty() && piece.is_ascii() {
            return;
        }
        let room = SAMPLE.saturating_sub(self.sample.len());
        // Start at the first informative byte, not at the start of the chunk.
        let start = piece.iter().position(|byte| !byte.is_ascii()).unwrap_or(0);
        let start = start.saturating_sub(64);
        self.sample.extend(piece.iter().skip(start).take(room));
        let joined;
        let bytes = if self.incomplete.is_empty() {
            piece
        } else {
            joined = [std::mem::take(&mut self.incomplete).as_slice(), piece].concat();
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let leads = chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
            self.characters += leads as u64;
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let unfinished =
                std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if unfinished && chunks.peek().is_none() {
                self.incomplete = invalid.to_vec();
            } else {
                self.broken += 1;
            }
        }
    }

    /// Returns the encoding of bytes without a mark.
    pub(crate) fn finish(mut self) -> TextEncoding {
        if !self.incomplete.is_empty() {
            self.broken += 1;
        }
        // A damaged byte in a UTF-8 file does not make it another code page.
        if self.broken == 0 || self.characters > self.broken {
            return TextEncoding::Utf8;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(&self.sample, true);
        TextEncoding::Legacy(detector.guess(None, Utf8Detection::Deny))
    }
}

/// One replacement of a byte range in text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The byte range in the old text.
    pub range: std::ops::Range<usize>,
    /// The new text.
    pub text: String,
}

/// A decoded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedFile {
    /// The text, without byte order mark.
    pub text: String,
    /// The encoding.
    pub encoding: TextEncoding,
    /// Whether the file starts with a byte order mark.
    pub bom: bool,
    /// Whether some bytes were invalid and became U+FFFD.
    pub malformed: bool,
}

/// Why a string cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodeError {
    /// The encoding lacks a character.
    Unmappable(char),
    /// The file has bytes that would be lost.
    NotReversible,
}

impl EncodeError {
    /// Returns what the encoding cannot represent, for a message.
    pub fn unsupported_text(&self) -> String {
        match self {
            Self::Unmappable(character) => {
                format!("`{character}` (U+{:04X})", u32::from(*character))
            }
            Self::NotReversible => "the invalid bytes already in it".to_owned(),
        }
    }
}

/// Decodes a whole file: by its mark, as UTF-16 or UTF-8, or by detection.
pub fn decode(bytes: &[u8]) -> DecodedFile {
    if let Some((encoding, mark)) = TextEncoding::from_byte_order_mark(bytes) {
        let (text, malformed) = encoding.decode(bytes.get(mark..).unwrap_or_default());
        return DecodedFile { text, encoding, bom: mark > 0, malformed };
    }
    let mut detector = EncodingSniffer::default();
    detector.feed(bytes);
    let encoding = detector.finish();
    let (text, malformed) = encoding.decode(bytes);
    DecodedFile { text, encoding, bom: false, malformed }
}

impl DecodedFile {
    /// Returns a new, empty file: UTF-8 without a byte order mark.
    pub fn empty() -> Self {
        Self { text: String::new(), encoding: TextEncoding::Utf8, bom: false, malformed: false }
    }

    /// Encodes a whole new text in the file's encoding.
    ///
    /// # Errors
    /// Returns an error if the encoding lacks a character.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = if self.bom { self.encoding.mark().to_vec() } else { Vec::new() };
        bytes.extend(self.encoding.encode(text).map_err(EncodeError::Unmappable)?);
        Ok(bytes)
    }

    /// Applies changes (sorted, not overlapping, at character boundaries) so that every byte
    /// outside of them is preserved. `source` is what was decoded.
    ///
    /// # Errors
    /// Returns an error if the encoding lacks a character, or the old bytes would change.
    pub fn splice(&self, source: &[u8], changes: &[Splice]) -> Result<Vec<u8>, EncodeError> {
        if self.encoding == TextEncoding::Utf8 && self.malformed {
            return self.splice_damaged(source, changes);
        }
        if self.encode(&self.text).as_deref() != Ok(source) {
            return Err(EncodeError::NotReversible);
        }
        let mut text = String::with_capacity(self.text.len());
        let mut done = 0;
        for change in changes {
            text.push_str(self.text.get(done..change.range.start).unwrap_or_default());
            text.push_str(&change.text);
            done = change.range.end;
        }
        text.push_str(self.text.get(done..).unwrap_or_default());
        self.encode(&text)
    }

    /// Splices UTF-8 with invalid bytes; each run of them is one U+FFFD in the text.
    fn splice_damaged(&self, source: &[u8], changes: &[Splice]) -> Result<Vec<u8>, EncodeError> {
        let mark = if self.bom { self.encoding.mark().len() } else { 0 };
        let body = source.get(mark..).unwrap_or_default();
        // Maps text offsets to byte offsets: (text, bytes) at each chunk.
        let mut borders = vec![(0usize, mark)];
        let (mut text, mut bytes) = (0, mark);
        for chunk in body.utf8_chunks() {
            text += chunk.valid().len();
            bytes += chunk.valid().len();
            borders.push((text, bytes));
            if !chunk.invalid().is_empty() {
                text += char::REPLACEMENT_CHARACTER.len_utf8();
                bytes += chunk.invalid().len();
                borders.push((text, bytes));
            }
        }
        let byte_offset = |offset: usize| {
            let index = borders.partition_point(|(text, _)| *text <= offset).saturating_sub(1);
            let (text, bytes) = borders.get(index).copied().unwrap_or((0, mark));
            bytes + (offset - text)
        };
        let mut out = Vec::with_capacity(source.len());
        let mut done = 0;
        for change in changes {
            out.extend_from_slice(
                source.get(done..byte_offset(change.range.start)).unwrap_or_default(),
            );
            out.extend_from_slice(change.text.as_bytes());
            done = byte_offset(change.range.end);
        }
        out.extend_from_slice(source.get(done..).unwrap_or_default());
        Ok(out)
    }
}

/// Whether the first bytes of a file ([`HEAD`] are enough) are binary: they are not UTF-16 or
/// UTF-32, and have many control characters (a few, if they are neither UTF-8 nor mostly ASCII) or
/// many NUL characters. Text with a few NUL characters is text.
pub fn looks_binary(head: &[u8]) -> bool {
    if head.is_empty() || TextEncoding::from_byte_order_mark(head).is_some() {
        return false;
    }
    let nul = head.iter().filter(|byte| **byte == 0).count();
    let controls = head.iter().filter(|byte| (1..9).contains(*byte) || (14..32).contains(*byte));
    // ESC is part of colored text.
    let controls = controls.filter(|byte| **byte != 0x1b).count();
    let is_cut = |error: std::str::Utf8Error| error.error_len().is_none();
    let is_utf8 = std::str::from_utf8(head).map_or_else(is_cut, |_| true);
    let high = head.iter().filter(|byte| !byte.is_ascii()).count();
    if nul == 0 {
        // Texts in code pages have few control characters, or few other letters.
        let is_noise = !is_utf8 && high * 10 > head.len() * 3 && controls * 50 > head.len();
        return controls * 10 > head.len() * 3 || is_noise;
    }
    let max_nul = if is_utf8 { head.len() / 4 } else { head.len() / 25 };
    nul > max_nul || controls * 50 > head.len() || (!is_utf8 && high * 10 > head.len() * 3)
}

/// The character that represents NUL in displayed text.
pub const SHOWN_NUL: char = '\u{2400}';

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_make_unknown_bytes_binary() {
        let noise: Vec<u8> = (0..200u32).map(|n| (n * n * 31 + 7 * n) as u8 | 1).collect();
        assert!(!noise.contains(&0) && looks_binary(&noise));
        let latin1 = b"d\xe9j\xe0 vu, na\xefve\r\n\tcaf\xe9\x0c\n";
        assert!(!looks_binary(latin1));
        for text in [
            &b"8=FIX.4.4\x0135=D\x0158=caf\xe9\x01\n"[..],
            b"rem \xfcber\r\n\x1a",
            b"N\x08NA\x08A r\xe9sum\xe9",
        ] {
            assert!(!looks_binary(text), "{text:?}");
        }
        assert!(!looks_binary("ein \u{1}Zeichen, eine Zeile und noch eine\n".as_bytes()));
    }

    #[test]
    fn utf16_without_mark_and_code_pages_with_nul_are_text() {
        for text in ["plain größe words\n", "a\tb\r\n", "Tätigkeit: „Prüfung“ – 5 €\n"]
        {
            for encoding in [TextEncoding::Utf16Le, TextEncoding::Utf16Be] {
                let bytes = encoding.encode(text).expect("encodable");
                let found = decode(&bytes);
                assert!(!looks_binary(&bytes), "{text}");
                assert_eq!((found.text.as_str(), found.encoding), (text, encoding));
                assert!(!found.bom && found.encode(text).as_deref() == Ok(bytes.as_slice()));
            }
        }
        let latin1 = b"first line\na\0b\ngr\xf6\xdfe, und weiter\n";
        assert!(!looks_binary(latin1));
        assert_eq!(decode(latin1).text, "first line\na\0b\ngröße, und weiter\n");
        for binary in [
            &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..],
            b"\x01\0\x02\0\x03\0\x04\0\x05\0",
            b"\0\0\0\0\0\0",
            b"ab\0\0\0cd\0",
            b"\0",
        ] {
            assert!(looks_binary(binary), "{binary:?}");
        }
    }

    #[test]
    fn byte_order_marks_and_code_pages_are_detected_and_kept() {
        let sentence = "Der Bär aß ölige Äpfel und übte täglich fünf Stunden für große Größe.\n";
        let latin1: Vec<u8> = sentence.chars().map(|c| u32::from(c) as u8).collect();
        let found = decode(&latin1);
        assert_eq!((found.text.as_str(), found.encoding.name()), (sentence, "windows-1252"));
        assert_eq!(found.encode(&found.text).as_deref(), Ok(latin1.as_slice()));
        assert_eq!(found.encode("日"), Err(EncodeError::Unmappable('日')));

        for encoding in [
            TextEncoding::Utf8,
            TextEncoding::Utf16Le,
            TextEncoding::Utf16Be,
            TextEncoding::Utf32Le,
            TextEncoding::Utf32Be,
        ] {
            let mut bytes = encoding.mark().to_vec();
            bytes.extend(encoding.encode("aß日😀\n").expect("encodes"));
            let found = decode(&bytes);
            assert_eq!(
                (found.text.as_str(), found.encoding, found.bom),
                ("aß日😀\n", encoding, true)
            );
            assert_eq!(found.encode(&found.text).as_deref(), Ok(bytes.as_slice()));
        }

        let (japanese, _, _) =
            encoding_rs::SHIFT_JIS.encode("これは日本語のテキストです。漢字も含みます。");
        assert_eq!(decode(&japanese).encoding.name(), "Shift_JIS");
    }

    #[test]
    fn invalid_byte_survives_an_edit() {
        let source = "grüße und änderung ende".as_bytes();
        let mut source = source.to_vec();
        source.insert(2, 0xff);
        let found = decode(&source);
        assert_eq!((found.encoding, found.malformed), (TextEncoding::Utf8, true));
        let offset = found.text.find("ende").expect("there");
        let change = Splice { range: offset..offset + 4, text: "schluß".into() };
        let mut expected = source[..source.len() - 4].to_vec();
        expected.extend_from_slice("schluß".as_bytes());
        assert_eq!(found.splice(&source, &[change]), Ok(expected));
    }

    #[test]
    fn lone_surrogate_is_not_silently_lost() {
        let source = [0xff, 0xfe, 0x00, 0xd8, 0x41, 0x00];
        let found = decode(&source);
        assert!(found.malformed);
        assert_eq!(found.splice(&source, &[]), Err(EncodeError::NotReversible));
    }

    proptest! {
        #[test]
        fn empty_splice_keeps_the_bytes_or_is_rejected(bytes: Vec<u8>, piece in 1usize..9) {
            let found = decode(&bytes);
            if let Ok(same) = found.splice(&bytes, &[]) {
                prop_assert_eq!(&same, &bytes);
            }
            // The result does not depend on the chunks.
            let mut whole = EncodingSniffer::default();
            whole.feed(&bytes);
            let mut pieces = EncodingSniffer::default();
            for piece in bytes.chunks(piece) {
                pieces.feed(piece);
            }
            prop_assert_eq!((whole.characters, whole.broken + u64::from(!whole.incomplete.is_empty())),
                (pieces.characters, pieces.broken + u64::from(!pieces.incomplete.is_empty())));
        }
    }
}
