//! Finds the words that changed between removed lines and their replacements.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::hunks::DiffRow;

/// Maximum number of lines per side of a block that is compared word by word.
const MAX_LINES: usize = 60;
/// Maximum length in bytes of the lines of such a block.
const MAX_LINE: usize = 1_000;
/// Time limit of one comparison.
const LIMIT: Duration = Duration::from_millis(20);

/// The pieces of a line: the end of each, and whether it changed. Empty if nothing is marked.
pub(super) type WordMarks = Vec<(usize, bool)>;

/// Returns the marks of the removed and added lines.
pub(super) fn mark_words(
    removed: &[DiffRow<'_>],
    added: &[DiffRow<'_>],
) -> (Vec<WordMarks>, Vec<WordMarks>) {
    let text = |rows: &[DiffRow<'_>]| -> Vec<String> {
        let lines = rows.iter().map(|row| match row {
            DiffRow::Line { text, .. } => format!("{text}\n"),
            DiffRow::Gap => String::new(),
        });
        lines.collect()
    };
    let (old, new) = (text(removed), text(added));
    let mut marks = (vec![WordMarks::new(); old.len()], vec![WordMarks::new(); new.len()]);
    let fits = |lines: &[String]| {
        (1..=MAX_LINES).contains(&lines.len()) && lines.iter().all(|line| line.len() <= MAX_LINE)
    };
    if !fits(&old) || !fits(&new) {
        return marks;
    }
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let mut config = TextDiff::configure();
    let diff = config.timeout(LIMIT).diff_slices(&old, &new);
    for op in diff.ops() {
        for change in diff.iter_inline_changes(op) {
            let mark = match change.tag() {
                ChangeTag::Delete => change.old_index().and_then(|at| marks.0.get_mut(at)),
                ChangeTag::Insert => change.new_index().and_then(|at| marks.1.get_mut(at)),
                ChangeTag::Equal => None,
            };
            let Some(mark) = mark else { continue };
            let pieces = change.values();
            // A completely new line needs no marks.
            if pieces.iter().all(|(marked, text)| *marked || text.trim().is_empty()) {
                continue;
            }
            let mut end = 0;
            for (marked, text) in pieces {
                end += text.len();
                mark.push((end, *marked && !text.trim().is_empty()));
            }
            // Without the line break added for the comparison.
            if let Some(last) = mark.last_mut() {
                last.0 -= 1;
            }
        }
    }
    marks
}
