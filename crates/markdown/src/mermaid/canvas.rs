//! A canvas of character cells.

use parallax_screen::{Line, Span, Style, grapheme_width, text_width};
use unicode_segmentation::UnicodeSegmentation;

/// Rows of cells. The second cell of a wide cluster is empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Canvas {
    rows: Vec<Vec<String>>,
    width: usize,
}

impl Canvas {
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        self.rows.len()
    }

    /// Writes text over the existing cells.
    pub(super) fn write_text(&mut self, column: usize, row: usize, text: &str) {
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Vec::new());
        }
        let Some(cells) = self.rows.get_mut(row) else { return };
        let end = column + text_width(text);
        if cells.len() < end {
            cells.resize(end, " ".to_owned());
        }
        let mut at = column;
        for cluster in text.graphemes(true) {
            let width = grapheme_width(cluster);
            if width == 0 {
                continue;
            }
            for (offset, cell) in cells.iter_mut().skip(at).take(width).enumerate() {
                *cell = if offset == 0 { cluster.to_owned() } else { String::new() };
            }
            at += width;
        }
        self.width = self.width.max(end);
    }

    /// Draws a box with text and returns its width.
    pub(super) fn draw_box(&mut self, column: usize, row: usize, text: &str) -> usize {
        let rule = "─".repeat(text_width(text) + 2);
        self.write_text(column, row, &format!("┌{rule}┐"));
        self.write_text(column, row + 1, &format!("│ {text} │"));
        self.write_text(column, row + 2, &format!("└{rule}┘"));
        text_width(text) + 4
    }

    /// Copies another canvas to a position.
    pub(super) fn copy(&mut self, from: &Self, column: usize, row: usize) {
        for (index, cells) in from.rows.iter().enumerate() {
            let text: String = cells.concat();
            let trimmed = text.trim_start_matches(' ');
            let skipped = text.len() - trimmed.len();
            if !trimmed.is_empty() {
                self.write_text(column + skipped, row + index, trimmed.trim_end());
            }
        }
        self.width = self.width.max(column + from.width);
    }

    /// Returns the rows, with separate styles for lines and text.
    pub(super) fn rows(&self, line: Style, text: Style) -> Vec<Line> {
        let is_line =
            |cell: &str| cell.chars().all(|char| matches!(char, '─'..='╿' | '▲'..='◀' | ' '));
        let row = |cells: &Vec<String>| {
            let mut row = Line::EMPTY;
            for cell in cells {
                let style = if is_line(cell) { line } else { text };
                match row.spans.last_mut() {
                    Some(last) if last.style == style => last.text.to_mut().push_str(cell),
                    _ => row.push(Span::styled(cell.clone(), style)),
                }
            }
            row
        };
        self.rows.iter().map(row).collect()
    }
}
