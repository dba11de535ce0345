//! Reads a range of lines with bounded memory, however large the file or its lines.

use std::io::Read;

use crate::confined::{AllowedPath, FileMetadata};
use crate::encoding::{EncodingSniffer, TextEncoding};
use crate::error::FileError;
use crate::seen_files::{HASHED_SIZE, Hasher, Snapshot};

/// Maximum bytes per read.
const CHUNK: usize = 128 * 1024;
/// Maximum bytes of text per read.
const MAX_TEXT: usize = 4 * 1024 * 1024;
/// After the requested lines, lines are counted up to this offset.
const MAX_COUNTED: u64 = 4 * 1024 * 1024 * 1024;

/// The requested lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// The first line, from 1.
    pub first: u64,
    /// The last line, inclusive; `u64::MAX` for all.
    pub last: u64,
    /// Maximum characters per line; truncation is marked.
    pub line_characters: usize,
}

/// Lines of a text file.
#[derive(Debug, Clone, PartialEq)]
pub struct TextLines {
    /// The lines, joined by `\n` (even if the file has `\r\n`).
    pub text: String,
    /// The first line's number, from 1.
    pub first: u64,
    /// The last line's number; `first - 1` when there are none.
    pub last: u64,
    /// Lines in the file; a final line ending does not start another one.
    pub total: u64,
    /// Whether counting stopped early, so that there may be more.
    pub may_have_more: bool,
    /// Whether a long line was truncated.
    pub long_line_cut: bool,
    /// The encoding of the file.
    pub encoding: TextEncoding,
    /// Whether it starts with a byte order mark.
    pub bom: bool,
    /// Whether these lines contain invalid bytes.
    pub malformed: bool,
    /// The state of the file that was read.
    pub snapshot: Snapshot,
}

impl TextLines {
    /// Whether `text` is not the whole file.
    pub fn is_partial(&self) -> bool {
        self.first > 1 || self.last < self.total || self.long_line_cut || self.may_have_more
    }
}

/// Reads a range of lines. `cancelled` is checked between chunks.
///
/// # Errors
/// Returns an error if the file cannot be read, or the caller cancelled.
pub fn read_lines(
    path: &AllowedPath,
    range: LineRange,
    cancelled: &dyn Fn() -> bool,
) -> Result<TextLines, FileError> {
    let (file, metadata) = path.open()?;
    let display_path = path.display_path();
    read_from(file, metadata, range, cancelled).map_err(|error| match error {
        LineReadError::Cancelled => FileError::Cancelled { path: display_path.to_path_buf() },
        LineReadError::Io(error) => FileError::from_io(display_path, "read", error),
    })
}

/// Like [`read_lines`], from content in memory.
pub fn lines_from_bytes(bytes: &[u8], metadata: FileMetadata, range: LineRange) -> TextLines {
    let empty = Snapshot { metadata, hash: None };
    // Reading memory cannot fail or be cancelled.
    read_from(bytes, metadata, range, &|| false).unwrap_or_else(|_| {
        LineSplitter::new(range, None).finish(TextEncoding::Utf8, false, false, empty)
    })
}

enum LineReadError {
    Cancelled,
    Io(std::io::Error),
}

fn read_from(
    mut source: impl Read,
    metadata: FileMetadata,
    range: LineRange,
    cancelled: &dyn Fn() -> bool,
) -> Result<TextLines, LineReadError> {
    let mut chunk = vec![0; chunk_size(metadata.size)];
    let mut length = fill(&mut source, &mut chunk)?;
    let head = chunk.get(..length).unwrap_or_default();
    let mark = TextEncoding::from_byte_order_mark(head);
    let unit = mark.map_or(1, |(encoding, _)| encoding.unit_bytes());
    let mut skip = mark.map_or(0, |(_, length)| length);
    let mut splitter = LineSplitter::new(range, mark.map(|(encoding, _)| encoding));
    let mut detector = EncodingSniffer::default();
    let mut hasher = (metadata.size <= HASHED_SIZE).then(Hasher::new);
    let mut read: u64 = 0;
    let mut more = false;
    while length > 0 {
        if cancelled() {
            return Err(LineReadError::Cancelled);
        }
        let bytes = chunk.get(..length).unwrap_or_default();
        read += length as u64;
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        let body = bytes.get(skip..).unwrap_or_default();
        skip = 0;
        if mark.is_none() {
            detector.feed(body);
        }
        if unit == 1 {
            splitter.push_bytes(body)
        } else {
            splitter.push_units(body, unit)
        }
        if read >= MAX_COUNTED && splitter.is_done() {
            more = true;
            break;
        }
        length = fill(&mut source, &mut chunk)?;
    }
    let encoding = mark.map_or_else(|| detector.finish(), |(encoding, _)| encoding);
    let hash = hasher.filter(|_| !more && read <= HASHED_SIZE).map(Hasher::finish);
    let snapshot = Snapshot { metadata, hash };
    Ok(splitter.finish(encoding, mark.is_some_and(|(_, length)| length > 0), more, snapshot))
}

/// Returns the bytes per read for a file of this size: whole pages, with room to see its end.
fn chunk_size(size: u64) -> usize {
    let needed = usize::try_from(size).unwrap_or(CHUNK).saturating_add(1);
    needed.min(CHUNK).next_multiple_of(4096)
}

/// Fills the buffer completely if possible, so that units of two and four bytes are never split
/// across chunks.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> Result<usize, LineReadError> {
    let mut length = 0;
    while let Some(room) = buffer.get_mut(length..).filter(|room| !room.is_empty()) {
        match source.read(room) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LineReadError::Io(error)),
        }
    }
    Ok(length)
}

/// Splits bytes into lines and keeps the requested ones.
struct LineSplitter {
    range: LineRange,
    encoding: Option<TextEncoding>,
    /// The line of the next byte, from 1.
    line: u64,
    /// Raw bytes of the requested lines; the end of each line is in `line_ends`.
    raw_bytes: Vec<u8>,
    line_ends: Vec<usize>,
    /// Bytes of the current line that were kept.
    stored_in_line: usize,
    is_full: bool,
    /// Whether the last byte so far ended a line.
    at_line_end: bool,
}

impl LineSplitter {
    fn new(range: LineRange, encoding: Option<TextEncoding>) -> Self {
        let raw_bytes = Vec::new();
        Self {
            range,
            encoding,
            line: 1,
            raw_bytes,
            line_ends: Vec::new(),
            stored_in_line: 0,
            is_full: false,
            at_line_end: false,
        }
    }

    fn is_in_range(&self) -> bool {
        !self.is_full && self.line >= self.range.first && self.line <= self.range.last
    }

    fn is_done(&self) -> bool {
        self.is_full || self.line > self.range.last
    }

    /// Returns the maximum number of bytes per line, enough for any encoding.
    fn line_bytes(&self) -> usize {
        self.range.line_characters.saturating_mul(4).saturating_add(64)
    }

    fn append(&mut self, piece: &[u8]) {
        let room = self.line_bytes().saturating_sub(self.stored_in_line);
        let piece = piece.get(..room.min(piece.len())).unwrap_or_default();
        self.raw_bytes.extend_from_slice(piece);
        self.stored_in_line += piece.len();
    }

    fn end_line(&mut self) {
        if self.is_in_range() {
            self.line_ends.push(self.raw_bytes.len());
            self.stored_in_line = 0;
            self.is_full = self.raw_bytes.len() > MAX_TEXT;
        }
        self.line += 1;
    }

    fn push_bytes(&mut self, mut rest: &[u8]) {
        if let Some(last) = rest.last() {
            self.at_line_end = *last == b'\n';
        }
        while !rest.is_empty() {
            if self.is_done() {
                self.line += memchr::memchr_iter(b'\n', rest).count() as u64;
                return;
            }
            if self.line < self.range.first {
                let missing = self.range.first - self.line;
                let count = memchr::memchr_iter(b'\n', rest).count() as u64;
                if count < missing {
                    self.line += count;
                    return;
                }
            }
            let end = memchr::memchr(b'\n', rest);
            let (line, next) = rest.split_at(end.unwrap_or(rest.len()));
            if self.is_in_range() {
                self.append(line);
            }
            if end.is_some() {
                self.end_line();
            }
            rest = next.get(1..).unwrap_or_default();
        }
    }

    fn push_units(&mut self, bytes: &[u8], unit: usize) {
        let high_first =
            matches!(self.encoding, Some(TextEncoding::Utf16Be | TextEncoding::Utf32Be));
        let high_index = if high_first { unit - 1 } else { 0 };
        for piece in bytes.chunks(unit) {
            let is_end = piece.len() == unit
                && piece
                    .iter()
                    .enumerate()
                    .all(|(index, byte)| *byte == if index == high_index { b'\n' } else { 0 });
            self.at_line_end = is_end;
            if is_end {
                self.end_line();
            } else if self.is_in_range() {
                self.append(piece);
            }
        }
    }

    fn finish(
        mut self,
        encoding: TextEncoding,
        bom: bool,
        may_have_more: bool,
        snapshot: Snapshot,
    ) -> TextLines {
        let total = self.line - u64::from(self.at_line_end && !may_have_more);
        if self.is_in_range() && !may_have_more {
            self.line_ends.push(self.raw_bytes.len());
        }
        let mut text = String::with_capacity(self.raw_bytes.len());
        let (mut malformed, mut long_line_cut) = (false, false);
        let mut start = 0;
        for (index, end) in self.line_ends.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            let raw = self.raw_bytes.get(start..*end).unwrap_or_default();
            start = *end;
            let (line, broken) = encoding.decode(raw);
            let line = line.strip_suffix('\r').unwrap_or(&line);
            match line.char_indices().nth(self.range.line_characters) {
                Some((cut, _)) => {
                    text.push_str(line.get(..cut).unwrap_or_default());
                    text.push_str("... [truncated]");
                    long_line_cut = true;
                }
                None => {
                    text.push_str(line);
                    malformed |= broken;
                }
            }
        }
        let count = self.line_ends.len() as u64;
        TextLines {
            text,
            first: self.range.first,
            // Text after the final line ending is included, but not counted as a line.
            last: (self.range.first + count).saturating_sub(1).min(total.max(self.range.first - 1)),
            total,
            may_have_more,
            long_line_cut,
            encoding,
            bom,
            malformed,
            snapshot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn metadata(size: u64) -> FileMetadata {
        FileMetadata {
            kind: crate::EntryKind::File,
            size,
            modified: (0, 0),
            identity: (0, 0),
            mode: 0,
            links: 1,
            owner: (0, 0),
        }
    }

    fn lines(bytes: &[u8], first: u64, last: u64) -> TextLines {
        let range = LineRange { first, last, line_characters: 2000 };
        let metadata = metadata(bytes.len() as u64);
        match read_from(bytes, metadata, range, &|| false) {
            Ok(lines) => lines,
            Err(_) => panic!("reads"),
        }
    }

    #[test]
    fn final_line_ending_starts_no_new_line() {
        let read = lines(b"a\r\nb\nc\n", 2, 2);
        assert_eq!((read.text.as_str(), read.first, read.last, read.total), ("b", 2, 2, 3));
        let read = lines(b"a\r\nb\nc\n", 1, u64::MAX);
        assert_eq!((read.text.as_str(), read.is_partial()), ("a\nb\nc\n", false));
        let read = lines(b"", 1, 2000);
        assert_eq!((read.text.as_str(), read.last, read.total), ("", 1, 1));
        let read = lines(b"a\n", 9, 20);
        assert_eq!((read.text.as_str(), read.total), ("", 1));
        assert!(read.last < read.first);
        let read = lines(b"a\nb\n", 1, 2);
        assert_eq!((read.text.as_str(), read.last, read.is_partial()), ("a\nb", 2, false));
    }

    #[test]
    fn utf16_lines_split_at_line_endings() {
        // U+0A0A and U+0D00 contain the bytes of line endings but are not line endings.
        let text = "a\u{0a0a}\r\n\u{0d00}b\nc";
        for (mark, bytes) in [
            (vec![0xff, 0xfe], text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()),
            (vec![0xfe, 0xff], text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ] {
            let read = lines(&[mark, bytes].concat(), 1, 2);
            assert_eq!((read.text.as_str(), read.total), ("a\u{0a0a}\n\u{0d00}b", 3));
        }
    }

    proptest! {
        #[test]
        fn line_ranges_match_the_complete_text(
            parts in proptest::collection::vec("[a-zäß\r]{0,12}", 0..40), first in 1u64..50, count in 0u64..50,
        ) {
            let text = parts.join("\n");
            let all: Vec<&str> =
                text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
            let last = first + count;
            let read = lines(text.as_bytes(), first, last);
            let expected: Vec<&str> =
                all.iter().skip(first as usize - 1).take(count as usize + 1).copied().collect();
            prop_assert_eq!(read.text, expected.join("\n"));
            let total = all.len() as u64 - u64::from(text.ends_with('\n'));
            prop_assert_eq!(read.total, total);
            let provided = (first - 1 + expected.len() as u64).min(total.max(first - 1));
            prop_assert_eq!(read.last, provided);
        }
    }
}
