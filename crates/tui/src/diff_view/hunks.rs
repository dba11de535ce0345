//! Parses unified diffs.

/// The kind of change of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineChange {
    Same,
    Added,
    Removed,
}

/// A row of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DiffRow<'t> {
    /// Omitted lines.
    Gap,
    /// A line with its numbers in the old and new file.
    Line { change: LineChange, text: &'t str, old: usize, new: usize },
}

/// Parses a unified diff. Everything outside hunks is skipped.
pub(super) fn parse(diff: &str) -> Vec<DiffRow<'_>> {
    let mut rows = Vec::new();
    let (mut old, mut new, mut in_hunk) = (0usize, 0usize, false);
    // The remaining lines according to the hunk header; a `---` after them is a file header.
    let (mut old_left, mut new_left) = (0usize, 0usize);
    for line in diff.split('\n') {
        if let Some(head) = line.strip_prefix("@@ ").filter(|_| old_left + new_left == 0) {
            let Some(((old_begin, old_count), (new_begin, new_count))) = ranges(head) else {
                continue;
            };
            // Lines between two hunks, or before the first, are omitted.
            if if in_hunk { old_begin > old } else { old_begin > 1 } {
                rows.push(DiffRow::Gap);
            }
            (old, new, old_left, new_left) = (old_begin, new_begin, old_count, new_count);
            in_hunk = true;
            continue;
        }
        if !in_hunk || old_left + new_left == 0 {
            continue;
        }
        let (change, text) = match line.as_bytes().first() {
            Some(b'+') => (LineChange::Added, &line[1..]),
            Some(b'-') => (LineChange::Removed, &line[1..]),
            Some(b' ') => (LineChange::Same, &line[1..]),
            None => (LineChange::Same, line),
            _ => continue,
        };
        let text = text.strip_suffix('\r').unwrap_or(text);
        rows.push(DiffRow::Line { change, text, old, new });
        if change != LineChange::Added {
            old = old.saturating_add(1);
            old_left = old_left.saturating_sub(1);
        }
        if change != LineChange::Removed {
            new = new.saturating_add(1);
            new_left = new_left.saturating_sub(1);
        }
    }
    rows
}

type HunkRange = (usize, usize);

/// Parses the ranges of a hunk header, `-1,3 +1,4 @@`: first line and count.
fn ranges(head: &str) -> Option<(HunkRange, HunkRange)> {
    let mut words = head.split(' ');
    let side = |word: &str| -> Option<HunkRange> {
        match word.split_once(',') {
            Some((begin, count)) => Some((begin.parse().ok()?, count.parse().ok()?)),
            None => Some((word.parse().ok()?, 1)),
        }
    };
    Some((side(words.next()?.strip_prefix('-')?)?, side(words.next()?.strip_prefix('+')?)?))
}

/// Whether removed and added lines differ only in whitespace.
pub(super) fn only_whitespace_changed(rows: &[DiffRow<'_>]) -> bool {
    let side = |wanted: LineChange| {
        rows.iter()
            .filter_map(move |row| match row {
                DiffRow::Line { change, text, .. } if *change == wanted => Some(*text),
                _ => None,
            })
            .flat_map(|text| text.chars().filter(|char| !char.is_whitespace()))
    };
    side(LineChange::Removed).eq(side(LineChange::Added))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_read_with_their_numbers() {
        let rows = parse(
            "--- a/x\n+++ b/x\n@@ -3,2 +3,3 @@ fn\n a\n-b\n+--- c\n+d\n@@ -20 +21 @@\n-x\n\\ No \
             newline at end of file\n+y\n",
        );
        let line = |change, text, old, new| DiffRow::Line { change, text, old, new };
        assert_eq!(
            rows,
            [
                DiffRow::Gap,
                line(LineChange::Same, "a", 3, 3),
                line(LineChange::Removed, "b", 4, 4),
                line(LineChange::Added, "--- c", 5, 4),
                line(LineChange::Added, "d", 5, 5),
                DiffRow::Gap,
                line(LineChange::Removed, "x", 20, 21),
                line(LineChange::Added, "y", 21, 21),
            ]
        );
    }

    #[test]
    fn whitespace_only_change_is_detected() {
        assert!(only_whitespace_changed(&parse("@@ -1,2 +1,2 @@\n-a b\n-c\n+ab\n+  c\n")));
        assert!(!only_whitespace_changed(&parse("@@ -1 +1 @@\n-a\n+b\n")));
    }
}
