//! Shared code of the tools that change files: diffs, snippets, line endings, and the check for
//! unseen changes.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parallax_files::FileError;
use parallax_files::{
    AllowedPath, DecodedFile, ExpectedState, Freshness, SeenFiles, Snapshot, WriteResult,
    atomic_write, decode, hash, looks_binary, read_capped,
};
use parallax_protocol::tool::{Effects, FileContents, FileDiff, ToolError, ToolErrorKind};
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};

use crate::failure::write_failure;

/// Larger files in bytes are not edited as text.
pub(crate) const MAX_EDITED: u64 = 32 * 1024 * 1024;
/// Maximum size in bytes of a diff shown to the user.
const MAX_DIFF: usize = 64 * 1024;
/// Maximum size in bytes of the changed lines shown to the model.
const MAX_SNIPPET: usize = 16 * 1024;
/// Texts are not compared line by line if their differing parts are larger, in bytes.
const MAX_COMPARED: usize = 8 * 1024 * 1024;
const MAX_COMPARED_LINES: usize = 100_000;
/// Time limit for an exact comparison; after it, a coarser one is used.
const DIFF_TIME: Duration = Duration::from_millis(400);

/// The state of the file before the change.
#[derive(Debug, Clone)]
pub(crate) struct OriginalFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) decoded: DecodedFile,
    pub(crate) snapshot: Snapshot,
}

/// Reads the file to change; `None` if it does not exist.
pub(crate) fn load(target: &AllowedPath) -> Result<Option<OriginalFile>, FileError> {
    match read_capped(target, MAX_EDITED) {
        Ok((bytes, facts)) => {
            let snapshot = Snapshot::from_bytes(facts, &bytes);
            let binary = looks_binary(bytes.get(..4096).unwrap_or(&bytes));
            let decoded = if binary { as_utf8(&bytes) } else { decode(&bytes) };
            Ok(Some(OriginalFile { decoded, bytes, snapshot }))
        }
        Err(FileError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Decodes binary data as UTF-8, without guessing an encoding.
fn as_utf8(bytes: &[u8]) -> DecodedFile {
    DecodedFile {
        text: String::from_utf8_lossy(bytes).into_owned(),
        malformed: std::str::from_utf8(bytes).is_err(),
        ..DecodedFile::empty()
    }
}

/// A change to a file that the model has not seen.
pub(crate) struct UnseenChange {
    /// The changed lines, if there are few.
    diff: Option<String>,
    /// The text that the model saw, if a copy was kept.
    pub(crate) seen_text: Option<String>,
}

impl UnseenChange {
    /// Returns the change since the model last saw the file, if there is one.
    pub(crate) fn detect(
        seen_files: &SeenFiles,
        target: &AllowedPath,
        before: &OriginalFile,
    ) -> Option<Self> {
        let Freshness::Changed(old) = seen_files.compare(target.path(), &before.snapshot) else {
            return None;
        };
        let seen_text = old.map(|old| decode(&old).text);
        let diff = seen_text.as_ref().and_then(|old| short_diff(old, &before.decoded.text, 40));
        Some(Self { diff, seen_text })
    }

    /// Whether the message shows the whole change to the model.
    pub(crate) fn is_shown(&self) -> bool {
        self.diff.is_some()
    }

    /// Returns the error for a call that must not run on the changed file, with the reason why it
    /// would fail anyway, if it would. If the message contains the whole change, the model has then
    /// seen it.
    pub(crate) fn reject_stale_edit(
        self,
        seen_files: &SeenFiles,
        target: &AllowedPath,
        before: &OriginalFile,
        reason: Option<&ToolError>,
    ) -> ToolError {
        let display_path = target.display_path().display();
        let mut message = format!("`{display_path}` was changed on disk since you last saw it.");
        if let Some(reason) = reason {
            message.push_str(&format!(" {}.", reason.message.trim_end_matches('.')));
        }
        match self.diff {
            Some(diff) => {
                seen_files.record(target.path(), before.snapshot, Some(&before.bytes));
                message.push_str(&format!(
                    " Nothing was written. The change:\n{diff}\nAdapt your edit and try again"
                ));
            }
            None => {
                message.push_str(" Nothing was written. Read it again, then repeat your change")
            }
        }
        ToolError::new(ToolErrorKind::FileChangedOnDisk, message)
    }

    /// Returns the note for an edit that was applied despite the change.
    pub(crate) fn note(&self) -> String {
        match &self.diff {
            Some(diff) => format!(
                "The file had also changed on disk since you last saw it:\n{diff}"
            ),
            None => "The file had also changed on disk since you last saw it; read it again before you rely on other parts of it.".to_owned(),
        }
    }
}

/// Returns an error if the file changed since the model saw it.
pub(crate) fn check_fresh(
    seen_files: &SeenFiles,
    target: &AllowedPath,
    before: &OriginalFile,
) -> Result<(), ToolError> {
    match UnseenChange::detect(seen_files, target, before) {
        Some(change) => Err(change.reject_stale_edit(seen_files, target, before, None)),
        None => Ok(()),
    }
}

/// Writes the bytes if the file is unchanged since `before`, and records the new state as seen.
pub(crate) fn commit(
    seen_files: &SeenFiles,
    target: &AllowedPath,
    before: Option<&OriginalFile>,
    bytes: &[u8],
) -> Result<WriteResult, ToolError> {
    let written = commit_unseen(target, before, bytes)?;
    seen_files.record(target.path(), written.snapshot, Some(bytes));
    Ok(written)
}

/// Like [`commit`], for a file that the model has not seen completely.
pub(crate) fn commit_unseen(
    target: &AllowedPath,
    before: Option<&OriginalFile>,
    bytes: &[u8],
) -> Result<WriteResult, ToolError> {
    let expected =
        before.map_or(ExpectedState::Absent, |before| ExpectedState::Content(hash(&before.bytes)));
    atomic_write(target, bytes, expected).map_err(|error| write_failure(&error))
}

/// The part in which two strings differ, extended to whole lines.
struct DiffWindow<'a> {
    /// The number of lines before it.
    skipped: usize,
    old: &'a str,
    new: &'a str,
}

impl<'a> DiffWindow<'a> {
    fn new(old: &'a str, new: &'a str, context: usize) -> Self {
        let same = old.bytes().zip(new.bytes()).take_while(|(one, two)| one == two).count();
        let mut start = line_start(old, same);
        for _ in 0..context {
            start = line_start(old, start.saturating_sub(1));
        }
        let limit = old.len().min(new.len()) - start;
        let same = old
            .bytes()
            .rev()
            .zip(new.bytes().rev())
            .take(limit)
            .take_while(|(one, two)| one == two)
            .count();
        // Move forward to a line boundary on both sides, then over the context lines.
        let mut end = same;
        for _ in 0..=context {
            let tail = old.as_bytes().get(old.len() - end..).unwrap_or_default();
            match tail.iter().position(|byte| *byte == b'\n') {
                Some(place) => end -= place + 1,
                None => end = 0,
            }
        }
        Self {
            skipped: old.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count(),
            old: old.get(start..old.len() - end).unwrap_or_default(),
            new: new.get(start..new.len() - end).unwrap_or_default(),
        }
    }

    fn diff(&self) -> Option<TextDiff<'a, 'a, str>> {
        if !is_comparable(self.old, self.new) {
            return None;
        }
        Some(
            TextDiff::configure()
                .algorithm(Algorithm::Myers)
                .timeout(DIFF_TIME)
                .diff_lines(self.old, self.new),
        )
    }
}

/// Whether both sides can be compared line by line in bounded time and memory.
fn is_comparable(old: &str, new: &str) -> bool {
    let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
    old.len() + new.len() <= MAX_COMPARED && lines(old) + lines(new) <= MAX_COMPARED_LINES
}

/// Returns the start of the line that contains a byte offset.
fn line_start(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before.iter().rposition(|byte| *byte == b'\n').map_or(0, |offset| offset + 1)
}

/// Returns the diff shown to the user, with counts. `name` is the file name in the diff.
pub fn file_diff(path: &Path, name: &Path, old: &str, new: &str, is_new: bool) -> FileDiff {
    let window = DiffWindow::new(old, new, 3);
    let name = name.display();
    let texts = FileContents { old: old.to_owned(), new: new.to_owned() };
    let texts = Some(Arc::new(texts));
    let mut text = format!("--- {name}\tCurrent\n+++ {name}\tProposed\n");
    let (mut lines_added, mut lines_removed) = (0, 0);
    let Some(diff) = window.diff() else {
        text.push_str("(the change is too large to show)\n");
        return FileDiff {
            file_path: path.to_path_buf(),
            diff: text,
            lines_added: window.new.lines().count() as u64,
            lines_removed: window.old.lines().count() as u64,
            is_new_file: is_new,
            texts,
        };
    };
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => lines_added += 1,
            ChangeTag::Delete => lines_removed += 1,
            ChangeTag::Equal => {}
        }
    }
    'hunks: for group in diff.grouped_ops(3) {
        let (old_range, new_range) = span(&group);
        text.push_str(&format!(
            "@@ -{} +{} @@\n",
            hunk_range(&old_range, window.skipped),
            hunk_range(&new_range, window.skipped)
        ));
        for op in &group {
            for change in diff.iter_changes(op) {
                let value = change.value();
                if text.len() + value.len() > MAX_DIFF {
                    text.push_str("(the rest of the diff is not shown)\n");
                    break 'hunks;
                }
                text.push_str(match change.tag() {
                    ChangeTag::Equal => " ",
                    ChangeTag::Insert => "+",
                    ChangeTag::Delete => "-",
                });
                text.push_str(value);
                if !value.ends_with('\n') {
                    text.push_str("\n\\ No newline at end of file\n");
                }
            }
        }
    }
    FileDiff {
        file_path: path.to_path_buf(),
        diff: text,
        lines_added,
        lines_removed,
        is_new_file: is_new,
        texts,
    }
}

fn span(group: &[DiffOp]) -> (Range<usize>, Range<usize>) {
    match (group.first(), group.last()) {
        (Some(first), Some(last)) => (
            first.old_range().start..last.old_range().end,
            first.new_range().start..last.new_range().end,
        ),
        _ => (0..0, 0..0),
    }
}

fn hunk_range(range: &Range<usize>, skipped: usize) -> String {
    // An empty range refers to the line before it.
    let start = range.start + skipped + usize::from(!range.is_empty());
    format!("{start},{}", range.len())
}

/// Returns removed and added lines with their markers; `None` if there are more than `max_lines` or
/// they are long.
pub(crate) fn short_diff(old: &str, new: &str, max_lines: usize) -> Option<String> {
    let window = DiffWindow::new(old, new, 1);
    let diff = window.diff()?;
    let mut lines = Vec::new();
    for group in diff.grouped_ops(1) {
        let (_, new_range) = span(&group);
        lines.push(format!("@@ line {}", new_range.start + window.skipped + 1));
        for op in &group {
            for change in diff.iter_changes(op) {
                let mark = match change.tag() {
                    ChangeTag::Equal => ' ',
                    ChangeTag::Insert => '+',
                    ChangeTag::Delete => '-',
                };
                let value = change.value();
                if lines.len() >= max_lines || value.len() > 500 {
                    return None;
                }
                lines.push(format!("{mark}{}", value.trim_end_matches(['\n', '\r'])));
            }
        }
    }
    Some(lines.join("\n"))
}

/// Returns the changed regions of the new text with five lines of context. Lines are separated by
/// `\n`, whatever the file uses.
pub(crate) fn snippet(old: &str, new: &str) -> String {
    let window = DiffWindow::new(old, new, 5);
    let (old, new) = (normalize_line_endings(window.old), normalize_line_endings(window.new));
    if !is_comparable(&old, &new) || (old == new && window.old != window.new) {
        return truncate(&new);
    }
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(DIFF_TIME)
        .diff_lines(old.as_ref(), new.as_ref());
    let lines: Vec<&str> = new.split_inclusive('\n').collect();
    let regions: Vec<String> = diff
        .grouped_ops(5)
        .iter()
        .map(|group| lines.get(span(group).1).unwrap_or_default().concat())
        .map(|region| region.trim_end_matches('\n').to_owned())
        .collect();
    truncate(&regions.join("\n...\n"))
}

fn normalize_line_endings(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    }
}

/// Truncates a long text at a line boundary.
pub(crate) fn truncate(text: &str) -> String {
    if text.len() <= MAX_SNIPPET {
        return text.to_owned();
    }
    let mut end = MAX_SNIPPET;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    let head = head.rfind('\n').and_then(|end| head.get(..end)).unwrap_or(head);
    format!("{head}\n... [{} more bytes]", text.len() - head.len())
}

/// The line endings of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEndings {
    Lf,
    CrLf,
    Mixed,
}

impl LineEndings {
    pub(crate) fn detect(text: &str) -> Self {
        let all = text.bytes().filter(|byte| *byte == b'\n').count();
        let windows = text.matches("\r\n").count();
        match windows {
            0 => Self::Lf,
            windows if windows == all => Self::CrLf,
            _ => Self::Mixed,
        }
    }
}

/// Converts a new text (with `\n`) to the line endings of the old text: lines that both contain
/// keep their old ending; other lines get the most common one.
pub(crate) fn with_line_endings_of(old: &str, new: &str) -> String {
    let ends = LineEndings::detect(old);
    if ends == LineEndings::Lf {
        return new.to_owned();
    }
    let windows = old.matches("\r\n").count() * 2 >= old.matches('\n').count();
    let plain = new.replace("\r\n", "\n");
    let end = if windows { "\r\n" } else { "\n" };
    if ends == LineEndings::CrLf || !is_comparable(old, new) {
        return plain.replace('\n', end);
    }
    let old_plain = old.replace("\r\n", "\n");
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = plain.split_inclusive('\n').collect();
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&old_plain, &plain);
    let mut out = String::with_capacity(new.len());
    for op in diff.ops() {
        if let DiffOp::Equal { .. } = op {
            out.push_str(&old_lines.get(op.old_range()).unwrap_or_default().concat());
        } else {
            let lines = new_lines.get(op.new_range()).unwrap_or_default().concat();
            out.push_str(&lines.replace('\n', end));
        }
    }
    out
}

/// Returns the first line that is a placeholder for omitted code (`// rest of code ...`).
pub(crate) fn omission_placeholder(text: &str) -> Option<&str> {
    text.lines().find(|line| is_placeholder(line))
}

fn is_placeholder(line: &str) -> bool {
    let mut text = line.trim();
    for (start, end) in [("<!--", "-->"), ("/*", "*/"), ("//", ""), ("--", ""), ("#", "")] {
        if let Some(rest) = text.strip_prefix(start) {
            text = rest.strip_suffix(end).unwrap_or(rest).trim();
            break;
        }
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        text = inner.trim();
    }
    let words = text.trim_end_matches(['.', '…']);
    let dots = text.get(words.len()..).unwrap_or_default();
    if !(dots.contains('…') || dots.len() >= 3) {
        return false;
    }
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    matches!(
        words.join(" ").as_str(),
        "rest of"
            | "rest of method"
            | "rest of methods"
            | "rest of code"
            | "unchanged code"
            | "unchanged method"
            | "unchanged methods"
    )
}

/// Returns the effects of an edit of one file, named as `shown`.
pub(crate) fn edit_effects(path: &Path, display_path: &Path, is_new: bool) -> Effects {
    let writes = vec![path.to_owned()];
    let creates = if is_new { writes.clone() } else { Vec::new() };
    let link = (display_path != path).then(|| (display_path.to_owned(), path.to_owned()));
    Effects { writes, creates, links: link.into_iter().collect(), ..Effects::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn diff_numbers_lines_from_the_start_of_the_file() {
        let old: String = (1..=50).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 30\n", "changed\nadded\n");
        let diff = file_diff(Path::new("/w/a"), Path::new("a"), &old, &new, false);
        assert_eq!((diff.lines_added, diff.lines_removed), (2, 1));
        assert_eq!(
            diff.diff,
            "--- a\tCurrent\n+++ a\tProposed\n@@ -27,7 +27,8 @@\n line 27\n line 28\n line 29\n-line 30\n+changed\n+added\n line 31\n line 32\n line 33\n"
        );
        assert_eq!(
            snippet(&old, &new),
            "line 25\nline 26\nline 27\nline 28\nline 29\nchanged\nadded\nline 31\nline 32\nline 33\nline 34\nline 35"
        );
        let two = new.replace("line 2\n", "second\n");
        assert!(snippet(&old, &two).contains("line 7\n...\nline 25"));
        let windows = |text: &str| text.replace('\n', "\r\n");
        assert_eq!(snippet(&windows(&old), &windows(&new)), snippet(&old, &new));
        let alone = |text: &str| text.replace('\n', "\r");
        assert_eq!(snippet(&alone(&old), &alone(&new)), snippet(&old, &new));
        assert_eq!(snippet("a\rb\nc\n", "a\rb\nd\n"), "a\nb\nd");
        assert_eq!(snippet("a\r\nb\r\n", "a\r\nb\n"), "a\nb\n");
        let ended = file_diff(Path::new("/w/a"), Path::new("a"), "a", "a\n", false);
        assert!(ended.diff.ends_with("-a\n\\ No newline at end of file\n+a\n"), "{}", ended.diff);
    }

    #[test]
    fn omission_placeholders_are_detected() {
        for text in [
            "// rest of code ...",
            "(rest of methods ...)",
            "  // (Unchanged   Code...)  ",
            "# rest of code ...",
            "<!-- unchanged code … -->",
            "/* rest of method .... */",
            "-- rest of ...",
        ] {
            assert!(omission_placeholder(text).is_some(), "{text}");
        }
        for text in [
            "rest of code",
            "// rest of code ... and more",
            "let rest = ..;",
            "...",
            "# the rest of us...",
        ] {
            assert!(omission_placeholder(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn applied_diff_yields_the_new_text(
            old in "([abc]{0,2}\n){0,12}[ab]?", new in "([abc]{0,2}\n){0,12}[ab]?",
        ) {
            let diff = file_diff(Path::new("/a"), Path::new("a"), &old, &new, false);
            prop_assert_eq!(apply(&old, &diff.diff), new);
        }

        #[test]
        fn unchanged_lines_keep_their_line_endings(lines in proptest::collection::vec(("[abc]{1,3}", any::<bool>()), 1..20)) {
            let raw: String = lines.iter().map(|(text, windows)| format!("{text}{}\n", if *windows { "\r" } else { "" })).collect();
            let plain = raw.replace("\r\n", "\n");
            prop_assert_eq!(with_line_endings_of(&raw, &plain), raw);
        }
    }

    /// Returns a minimal parser of unified diffs.
    fn apply(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        let mut lines = diff.lines().skip(2).peekable();
        while let Some(line) = lines.next() {
            if let Some(header) = line.strip_prefix("@@ -") {
                let (start, rest) = header.split_once(',').expect("start");
                let length: usize =
                    rest.split(' ').next().expect("length").parse().expect("number");
                let start: usize =
                    start.parse::<usize>().expect("number") - usize::from(length > 0);
                out.extend(old[at..start].iter().copied());
                at = start;
                continue;
            }
            let bare = lines.peek().is_some_and(|next| next.starts_with('\\'));
            let text = format!("{}{}", &line[1..], if bare { "" } else { "\n" });
            match &line[..1] {
                " " => {
                    out.push_str(&text);
                    at += 1;
                }
                "-" => at += 1,
                "+" => out.push_str(&text),
                _ => {}
            }
        }
        out.extend(old[at..].iter().copied());
        out
    }
}
