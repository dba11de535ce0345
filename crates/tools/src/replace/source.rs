//! Text with normalized `\n` line endings, and the mapping to the original text.

use std::ops::Range;

use parallax_files::Splice;

use crate::change::{LineEndings, with_line_endings_of};

/// The text as the matcher sees it.
#[derive(Debug, Clone)]
pub struct SourceText<'a> {
    raw: &'a str,
    /// The text with `\n` for `\r\n`.
    text: String,
    /// Offsets in `text` of the line endings that lost a `\r`.
    lost_carriage_returns: Vec<u32>,
    /// Offsets in `text` at which lines begin.
    line_starts: Vec<u32>,
    line_endings: LineEndings,
}

impl<'a> SourceText<'a> {
    /// Normalizes text.
    pub fn new(raw: &'a str) -> Self {
        let mut text = String::with_capacity(raw.len());
        let mut lost_carriage_returns = Vec::new();
        let mut pieces = raw.split("\r\n").peekable();
        while let Some(piece) = pieces.next() {
            text.push_str(piece);
            if pieces.peek().is_some() {
                lost_carriage_returns.push(offset_of(text.len()));
                text.push('\n');
            }
        }
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(offset, _)| offset_of(offset + 1)));
        Self {
            raw,
            text,
            lost_carriage_returns,
            line_starts,
            line_endings: LineEndings::detect(raw),
        }
    }

    /// Returns the text with `\n` line endings.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of lines; the text after the last line ending counts as one.
    pub(crate) fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// Returns all lines, without line endings.
    pub(crate) fn lines(&self) -> Vec<&str> {
        self.text.split('\n').collect()
    }

    /// Returns the line number of an offset, from 1.
    pub(crate) fn line_number(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start as usize <= offset)
    }

    /// Returns the same position in the raw text.
    fn raw_offset(&self, offset: usize) -> usize {
        offset + self.lost_carriage_returns.partition_point(|lost| (*lost as usize) < offset)
    }

    /// Returns the smallest change to the raw text, with the appropriate line endings.
    pub(crate) fn splice(&self, range: &Range<usize>, new: &str) -> Splice {
        let old = self.text.get(range.clone()).unwrap_or_default();
        let (head, tail) = common_ends(old, new);
        let range = range.start + head..range.end - tail;
        let new = new.get(head..new.len() - tail).unwrap_or_default();
        let raw = self.raw_offset(range.start)..self.raw_offset(range.end);
        let text = match self.line_endings {
            LineEndings::Lf => new.to_owned(),
            LineEndings::CrLf => new.replace('\n', "\r\n"),
            LineEndings::Mixed => self.with_line_endings_at(&raw, new),
        };
        Splice { range: raw, text }
    }

    /// In text with mixed line endings, uses those of the replaced lines, or else those of the next
    /// line.
    fn with_line_endings_at(&self, raw: &Range<usize>, new: &str) -> String {
        let old = self.raw.get(raw.clone()).unwrap_or_default();
        if old.contains('\n') {
            return with_line_endings_of(old, new);
        }
        let after = self.raw.get(raw.end..).unwrap_or_default();
        let next =
            after.find('\n').map(|offset| after.get(..offset).unwrap_or_default().ends_with('\r'));
        let before = self.raw.get(..raw.start).unwrap_or_default();
        let windows = next.unwrap_or_else(|| {
            before
                .rfind('\n')
                .is_some_and(|at| before.get(..at).unwrap_or_default().ends_with('\r'))
        });
        if windows { new.replace('\n', "\r\n") } else { new.to_owned() }
    }
}

/// Converts an offset; edited files are much smaller than 4 GiB.
fn offset_of(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// Returns the lengths of the common prefix and suffix in bytes, on character boundaries and
/// without overlap.
fn common_ends(one: &str, two: &str) -> (usize, usize) {
    let head: usize =
        one.chars().zip(two.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (one, two) = (one.get(head..).unwrap_or_default(), two.get(head..).unwrap_or_default());
    let tail = one
        .chars()
        .rev()
        .zip(two.chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    (head, tail)
}

/// Replaces `\r\n` by `\n`.
pub(crate) fn plain_ends(text: &str) -> String {
    text.replace("\r\n", "\n")
}
