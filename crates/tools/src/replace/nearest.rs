//! Finds the text that an `old_string` without a match was probably meant for.

use std::collections::HashMap;

use similar::TextDiff;

use super::source::{SourceText, plain_ends};
use crate::edit_distance::edit_distance;

/// Maximum number of lines in the shown difference.
const MAX_SHOWN: usize = 5;
/// Maximum number of characters shown of a line.
const SHOWN_CHARACTERS: usize = 160;
/// Maximum number of lines and characters that are compared.
const MAX_LINES: usize = 200_000;
const MAX_OLD_LINES: usize = 2_000;
const MAX_LINE: usize = 300;
/// Maximum number of candidate places per line of the old text.
const MAX_PLACES: usize = 64;

/// The place most similar to the old text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NearestMatch {
    /// The first and last line, from 1.
    pub(crate) lines: (usize, usize),
    /// The share of equal lines, ignoring whitespace, or of equal characters if no line is equal.
    pub(crate) score: f64,
    /// The truncated difference.
    pub(crate) diff: String,
}

/// Finds the place; `None` if nothing is similar.
pub(crate) fn find(source: &SourceText<'_>, old: &str) -> Option<NearestMatch> {
    let old = plain_ends(old);
    let old: Vec<&str> =
        old.strip_suffix('\n').unwrap_or(&old).split('\n').take(MAX_OLD_LINES).collect();
    if source.line_count() > MAX_LINES {
        return None;
    }
    let lines = source.lines();
    let (first, score) =
        most_equal_lines(&lines, &old).or_else(|| most_similar_line(&lines, &old))?;
    let last = (first + old.len()).min(lines.len());
    let window = lines.get(first..last)?;
    Some(NearestMatch { lines: (first + 1, last), score, diff: difference(&old, window) })
}

/// Returns the offset at which most lines of the old text match.
fn most_equal_lines(lines: &[&str], old: &[&str]) -> Option<(usize, f64)> {
    let mut lines_by_text: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        let line = line.trim();
        if line.len() >= 4 {
            let indexes = lines_by_text.entry(line).or_default();
            if indexes.len() < MAX_PLACES {
                indexes.push(index);
            }
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (index, line) in old.iter().enumerate() {
        for line_index in lines_by_text.get(line.trim()).into_iter().flatten() {
            if let Some(first) = line_index.checked_sub(index) {
                *votes.entry(first).or_default() += 1;
            }
        }
    }
    let (first, count) =
        votes.into_iter().max_by_key(|(first, count)| (*count, std::cmp::Reverse(*first)))?;
    Some((first, count as f64 / old.len().max(1) as f64))
}

/// Returns the line that is most similar to the longest line of the old text.
fn most_similar_line(lines: &[&str], old: &[&str]) -> Option<(usize, f64)> {
    let (index, old_line) = old
        .iter()
        .enumerate()
        .map(|(index, line)| (index, line.trim()))
        .max_by_key(|(_, line)| line.len())?;
    let old_line: String = old_line.chars().take(MAX_LINE).collect();
    let length = old_line.chars().count();
    // At least half of it must match.
    let mut limit = length / 2;
    let mut best = None;
    let mut work = 0;
    for (line_index, line) in lines.iter().enumerate() {
        let line: String = line.trim().chars().take(MAX_LINE).collect();
        let characters = line.chars().count();
        if characters == 0 || characters.abs_diff(length) > limit {
            continue;
        }
        work += characters * length;
        if work > 100_000_000 {
            break;
        }
        if let Some(far) = edit_distance(&line, &old_line, limit) {
            let score = 1.0 - far as f64 / length.max(1) as f64;
            best = Some((line_index.saturating_sub(index), score));
            if far == 0 {
                break;
            }
            limit = far - 1;
        }
    }
    best.filter(|_| length >= 4)
}

/// Returns the first differing lines: `-` from the old text, `+` from the file.
fn difference(old: &[&str], file: &[&str]) -> String {
    let diff = TextDiff::from_slices(old, file);
    let mut shown = Vec::new();
    let mut more = 0;
    for change in diff.iter_all_changes() {
        let mark = match change.tag() {
            similar::ChangeTag::Equal => continue,
            similar::ChangeTag::Delete => '-',
            similar::ChangeTag::Insert => '+',
        };
        if shown.len() >= MAX_SHOWN {
            more += 1;
            continue;
        }
        let line: String = change.value().chars().take(SHOWN_CHARACTERS).collect();
        shown.push(format!("{mark}{line}"));
    }
    if more > 0 {
        shown.push(format!("({more} more differing lines)"));
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_block_is_reported_with_its_differences() {
        let text = "use a;\n\nfn one() {\n    start();\n    let x = 1;\n    finish();\n}\n";
        let old = "fn one() {\n    start();\n    let y = compute(2);\n    finish();\n}\n";
        let nearest = find(&SourceText::new(text), old).expect("near");
        assert_eq!(nearest.lines, (3, 7));
        assert_eq!(nearest.diff, "-    let y = compute(2);\n+    let x = 1;");
        assert!(nearest.score > 0.5);

        let nearest =
            find(&SourceText::new("alpha\nlet value = 17;\n"), "let value = 71").expect("near");
        assert_eq!(nearest.lines, (2, 2));
        assert!(find(&SourceText::new("alpha\nbeta\n"), "something else entirely").is_none());
    }
}
