//! Tables: drawn with lines where they fit, else one entry below the other.

use parallax_screen::{Line, Span, wrap};
use pulldown_cmark::{Alignment, Event, Tag, TagEnd};

use super::Look;
use super::inline::Inline;

/// The narrowest column of a table that is drawn.
const MIN_COLUMN: usize = 5;

/// A table as it is read.
pub(super) struct Table<'l> {
    look: &'l Look<'l>,
    alignments: Vec<Alignment>,
    /// The head first. A cell has the lines of its text.
    rows: Vec<Vec<Vec<Line>>>,
    cell: Option<Inline<'l>>,
    in_head: bool,
}

impl<'l> Table<'l> {
    pub(super) fn new(look: &'l Look<'l>, alignments: Vec<Alignment>) -> Self {
        Self { look, alignments, rows: Vec::new(), cell: None, in_head: false }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                self.in_head = matches!(event, Event::Start(Tag::TableHead));
                self.rows.push(Vec::new());
            }
            Event::Start(Tag::TableCell) => {
                let base = if self.in_head { self.look.base.bold() } else { self.look.base };
                self.cell = Some(Inline::new(self.look, base));
            }
            Event::End(TagEnd::TableCell) => {
                if let (Some(cell), Some(row)) = (self.cell.take(), self.rows.last_mut()) {
                    row.push(cell.end());
                }
            }
            other => {
                if let Some(cell) = &mut self.cell {
                    cell.event(other);
                }
            }
        }
    }

    pub(super) fn rows(mut self, columns: usize) -> Vec<Line> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if count == 0 {
            return Vec::new();
        }
        for row in &mut self.rows {
            row.resize(count, Vec::new());
        }
        match self.widths(count, columns) {
            Some(widths) if !self.look.plain => self.drawn(&widths),
            _ => self.listed(columns),
        }
    }

    /// How wide each column is, or nothing where they do not fit.
    fn widths(&self, count: usize, columns: usize) -> Option<Vec<usize>> {
        let room = columns.checked_sub(3 * count + 1)?;
        let natural: Vec<usize> = (0..count)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column)).flatten();
                cells.map(Line::width).max().unwrap_or(0).max(1)
            })
            .collect();
        let total: usize = natural.iter().sum();
        if total <= room {
            return Some(natural);
        }
        let least: Vec<usize> = natural.iter().map(|width| (*width).min(MIN_COLUMN)).collect();
        let least_total: usize = least.iter().sum();
        let spare = room.checked_sub(least_total)?;
        // What is left is shared out by what each column lacks.
        let lacking = total - least_total;
        let mut widths: Vec<usize> = natural
            .iter()
            .zip(&least)
            .map(|(natural, least)| least + (natural - least) * spare / lacking)
            .collect();
        let mut left = room - widths.iter().sum::<usize>();
        for (width, natural) in widths.iter_mut().zip(&natural) {
            if left > 0 && *width < *natural {
                *width += 1;
                left -= 1;
            }
        }
        Some(widths)
    }

    fn drawn(&self, widths: &[usize]) -> Vec<Line> {
        let border = self.look.theme.border;
        let rule = |left: &str, middle: &str, right: &str| {
            let bars: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
            Line::styled(format!("{left}{}{right}", bars.join(middle)), border)
        };
        let mut rows = vec![rule("┌", "┬", "┐")];
        for (index, cells) in self.rows.iter().enumerate() {
            if index == 1 {
                rows.push(rule("├", "┼", "┤"));
            }
            let cells: Vec<Vec<Line>> = cells
                .iter()
                .zip(widths)
                .map(|(lines, width)| {
                    lines.iter().flat_map(|line| wrap(line, *width, &[])).collect()
                })
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            for at in 0..height {
                let mut row = Line::EMPTY;
                for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                    row.push(Span::styled(if column == 0 { "│ " } else { " │ " }, border));
                    let line = cell.get(at).cloned().unwrap_or_default();
                    let missing = width.saturating_sub(line.width());
                    let (left, right) = match self.alignments.get(column) {
                        Some(Alignment::Right) => (missing, 0),
                        Some(Alignment::Center) => (missing / 2, missing - missing / 2),
                        _ => (0, missing),
                    };
                    let space = |count: usize| Span::raw(" ".repeat(count));
                    row.spans.extend((left > 0).then(|| space(left)));
                    row.spans.extend(line.spans);
                    row.spans.extend((right > 0).then(|| space(right)));
                }
                row.push(Span::styled(" │", border));
                rows.push(row);
            }
        }
        rows.push(rule("└", "┴", "┘"));
        rows
    }

    /// One line a cell, named by the head; an empty row between entries.
    fn listed(&self, columns: usize) -> Vec<Line> {
        let Some((head, body)) = self.rows.split_first() else { return Vec::new() };
        let mut rows = Vec::new();
        if body.is_empty() {
            rows.extend(head.iter().flatten().flat_map(|line| wrap(line, columns, &[])));
        }
        for (index, cells) in body.iter().enumerate() {
            if index > 0 {
                rows.push(Line::EMPTY);
            }
            for (name, cell) in head.iter().zip(cells) {
                let mut line = Line::EMPTY;
                line.spans.extend(name.iter().flat_map(|line| line.spans.iter().cloned()));
                line.push(Span::raw(": "));
                for (at, piece) in cell.iter().enumerate() {
                    if at > 0 {
                        line.push(Span::raw(" "));
                    }
                    line.spans.extend(piece.spans.iter().cloned());
                }
                rows.extend(wrap(&line, columns, &[Span::raw("  ")]));
            }
        }
        rows
    }
}
