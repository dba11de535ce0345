//! A change split into hunks, so that the user can apply only some of them.

use parallax_screen::{Line, Span, Style};

use crate::layout::truncate_text;
use crate::sanitize;
use crate::theme::Theme;
use crate::tokens::pointer;

/// Returns the style and the checkbox of a hunk.
pub(crate) fn mark(is_selected: bool, theme: &Theme) -> (Style, &'static str) {
    if is_selected { (theme.success, "[x]") } else { (theme.secondary, "[ ]") }
}

/// The hunks of a unified diff and which of them are selected.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hunks {
    /// The rows of each hunk, starting with its `@@` row.
    hunks: Vec<Vec<String>>,
    selected: Vec<bool>,
    cursor: usize,
}

impl Hunks {
    /// Parses a unified diff of one file.
    pub(crate) fn parse(diff: &str) -> Self {
        let mut hunks: Vec<Vec<String>> = Vec::new();
        for line in diff.lines() {
            if line.starts_with("@@") {
                hunks.push(vec![line.to_owned()]);
            } else if let Some(hunk) = hunks.last_mut() {
                hunk.push(line.to_owned());
            }
        }
        let selected = vec![true; hunks.len()];
        Self { hunks, selected, cursor: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.hunks.len()
    }

    /// Moves the cursor, wrapping around at the ends.
    pub(crate) fn step(&mut self, by: isize) {
        let count = self.hunks.len().max(1);
        self.cursor = (self.cursor + count).saturating_add_signed(by) % count;
    }

    /// Selects or deselects the hunk under the cursor.
    pub(crate) fn toggle(&mut self) {
        if let Some(is_selected) = self.selected.get_mut(self.cursor) {
            *is_selected = !*is_selected;
        }
    }

    /// Returns the indexes of the selected hunks.
    pub(crate) fn selected_indexes(&self) -> Vec<usize> {
        self.selected
            .iter()
            .enumerate()
            .filter(|(_, is_selected)| **is_selected)
            .map(|(at, _)| at)
            .collect()
    }

    /// Returns the hunks as rows, starting with the one under the cursor.
    pub(crate) fn rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let mut rows = Vec::new();
        for (index, hunk) in self.hunks.iter().enumerate().skip(self.cursor) {
            let (style, sign) = mark(self.selected.get(index).copied().unwrap_or(false), theme);
            let pointer = pointer(index == self.cursor);
            for (at, line) in hunk.iter().enumerate() {
                let line = line.strip_suffix('\r').unwrap_or(line);
                let text = sanitize::line_in_full(line).replace('\t', "    ");
                let mut row = Line::EMPTY;
                let look = match line.as_bytes().first() {
                    Some(b'+') => theme.added,
                    Some(b'-') => theme.removed,
                    Some(b'@') => theme.secondary,
                    _ => theme.text,
                };
                if at == 0 {
                    row.push(Span::styled(pointer, theme.accent));
                    row.push(Span::styled(sign, style));
                    row.push(Span::raw(" "));
                } else {
                    row.push(Span::raw("      "));
                }
                row.push(Span::styled(truncate_text(&text, width.saturating_sub(6)), look));
                rows.push(row);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_selected_individually() {
        let mut hunks = Hunks::parse(
            "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n@@ -9 +9 @@\n-u\n+v\n@@ -20 +20 @@\n+w\n",
        );
        assert_eq!(hunks.len(), 3);
        hunks.step(1);
        hunks.toggle();
        hunks.step(-2);
        assert_eq!(hunks.cursor, 2);
        assert_eq!(hunks.selected_indexes(), [0, 2]);
    }
}
