//! The second pass: reads the matching lines and their context.

use std::io;

use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use parallax_files::SHOWN_NUL;
use unicode_segmentation::UnicodeSegmentation;

use super::ContextLines;
use super::sweep::{CancellableReader, MatchedFile, decode_file, searcher};
use crate::search_scope::StopSignal;

/// Once a result has this many bytes, no further file is shown.
pub(super) const MAX_OUTPUT: usize = 1024 * 1024;
/// Maximum number of graphemes of a line.
const MAX_GRAPHEMES: usize = 2_000;
/// Maximum number of bytes of a line examined for graphemes.
const MAX_BYTES: usize = 32 * 1024;

/// Appends the lines of one file: `L<n>: text` for matches, `L<n>- text` for context. Returns the
/// matches.
pub(super) fn append(
    text: &mut String,
    file: &MatchedFile,
    matcher: &RegexMatcher,
    context: ContextLines,
    stop: &StopSignal,
) -> Vec<(u64, String)> {
    let size = |lines: u64| usize::try_from(lines).unwrap_or(usize::MAX);
    let mut searcher = searcher(size(context.before), size(context.after));
    let start = text.len();
    let mut sink = MatchPrinter {
        text,
        hits: &file.hits,
        context,
        written_matches: 0,
        line_matches: Vec::new(),
    };
    // A file that can no longer be read shows what was read so far.
    let text_of_file = file.decoded.then(|| decode_file(file.path(), stop)).flatten();
    let result = match file.file.open() {
        Ok(_) if text_of_file.is_some() => {
            let text = text_of_file.unwrap_or_default();
            searcher.search_slice(matcher, text.as_bytes(), &mut sink).map_err(|_| ())
        }
        Ok((file, _)) => searcher
            .search_reader(matcher, CancellableReader { file, stop }, &mut sink)
            .map_err(|_| ()),
        Err(_) => Err(()),
    };
    let hits = sink.line_matches;
    if result.is_err() && text.len() == start {
        text.push_str("[no longer readable]\n");
    }
    hits
}

/// Writes the lines around the matches.
struct MatchPrinter<'a> {
    text: &'a mut String,
    hits: &'a [u64],
    context: ContextLines,
    /// How many of the matches are completely written.
    written_matches: usize,
    /// The matches by line number.
    line_matches: Vec<(u64, String)>,
}

impl MatchPrinter<'_> {
    /// Processes the next line; returns `false` when no more lines are needed.
    fn line(&mut self, number: u64, bytes: &[u8]) -> bool {
        while self
            .hits
            .get(self.written_matches)
            .is_some_and(|hit| number > hit + self.context.after)
        {
            self.written_matches += 1;
        }
        let Some(next) = self.hits.get(self.written_matches) else { return false };
        if number + self.context.before >= *next {
            let is_hit = self.hits.binary_search(&number).is_ok();
            let mark = if is_hit { ':' } else { '-' };
            let line = display_line(bytes);
            self.text.push_str(&format!("L{number}{mark} {line}\n"));
            if is_hit {
                self.line_matches.push((number, line));
            }
        }
        self.text.len() <= MAX_OUTPUT
            // After the last line, reading can stop.
            && self.hits.last().is_none_or(|last| number < last + self.context.after)
    }
}

impl Sink for MatchPrinter<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, hit: &SinkMatch<'_>) -> io::Result<bool> {
        Ok(self.line(hit.line_number().unwrap_or(0), hit.bytes()))
    }

    fn context(&mut self, _searcher: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.line(line.line_number().unwrap_or(0), line.bytes()))
    }
}

/// Returns a line without trailing whitespace, truncated if it is very long.
fn display_line(bytes: &[u8]) -> String {
    let head = bytes.get(..MAX_BYTES).unwrap_or(bytes);
    let text = String::from_utf8_lossy(head);
    let text = match text.contains('\0') {
        true => text.replace('\0', SHOWN_NUL.encode_utf8(&mut [0; 4])).into(),
        false => text,
    };
    let line = text.trim_end();
    // This many bytes contain at most as many graphemes.
    if line.len() <= MAX_GRAPHEMES && head.len() == bytes.len() {
        return line.to_owned();
    }
    match line.grapheme_indices(true).nth(MAX_GRAPHEMES) {
        Some((end, _)) => format!("{}... [truncated]", line.get(..end).unwrap_or(line)),
        None if head.len() < bytes.len() => format!("{line}... [truncated]"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_truncated_between_characters() {
        assert_eq!(display_line(b"text \r\n"), "text");
        let cut = display_line("👩‍🚀".repeat(2_001).as_bytes());
        assert_eq!(cut, "👩‍🚀".repeat(2_000) + "... [truncated]");
        assert_eq!(display_line("ä".repeat(2_000).as_bytes()), "ä".repeat(2_000));
        assert!(display_line(&vec![b'x'; 10_000_000]).len() < 2_100);
    }
}
