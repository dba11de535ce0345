//! Tables: drawn with lines if they fit, otherwise as a list of entries.

use parallax_screen::{Line, Span, longest_word, wrap};
use pulldown_cmark::{Alignment, Event, Tag, TagEnd};

use super::inline::InlineBuilder;
use crate::render_options::RenderOptions;

/// Minimum width of a column of a drawn table.
const MIN_COLUMN: usize = 5;

/// A table being parsed.
pub(super) struct Table<'l> {
    options: &'l RenderOptions<'l>,
    alignments: Vec<Alignment>,
    /// The rows, starting with the header. A cell has the lines of its text.
    rows: Vec<Vec<Vec<Line>>>,
    cell: Option<InlineBuilder<'l>>,
    in_head: bool,
}

impl<'l> Table<'l> {
    pub(super) fn new(options: &'l RenderOptions<'l>, alignments: Vec<Alignment>) -> Self {
        Self { options, alignments, rows: Vec::new(), cell: None, in_head: false }
    }

    pub(super) fn handle_event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                self.in_head = matches!(event, Event::Start(Tag::TableHead));
                self.rows.push(Vec::new());
            }
            Event::Start(Tag::TableCell) => {
                let base = if self.in_head { self.options.base.bold() } else { self.options.base };
                self.cell = Some(InlineBuilder::for_table_cell(self.options, base));
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
            Some(widths) if !self.options.plain => self.render_boxes(&widths),
            _ => self.render_as_list(columns),
        }
    }

    /// Returns the width of each column, or `None` if they do not fit.
    fn widths(&self, count: usize, columns: usize) -> Option<Vec<usize>> {
        let room = columns.checked_sub(3 * count + 1)?;
        let of = |width: fn(&Line) -> usize| -> Vec<usize> {
            let cells = |column| self.rows.iter().filter_map(move |row| row.get(column)).flatten();
            (0..count).map(|column| cells(column).map(width).max().unwrap_or(0).max(1)).collect()
        };
        divide_width(&of(Line::width), &of(longest_word), room)
    }

    fn render_boxes(&self, widths: &[usize]) -> Vec<Line> {
        let border = self.options.theme.border;
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

    /// Lists one cell per line, named by the header, with an empty row between entries.
    fn render_as_list(&self, columns: usize) -> Vec<Line> {
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

/// Divides `room` among columns with known natural widths and longest words. Returns `None` if a
/// column would be too narrow.
///
/// Each gets the width of its longest word first; the rest is divided in proportion to what they
/// lack. If not even the words fit, the longest are broken.
fn divide_width(natural: &[usize], words: &[usize], room: usize) -> Option<Vec<usize>> {
    let least: Vec<usize> = words
        .iter()
        .zip(natural)
        .map(|(word, natural)| MIN_COLUMN.min(*natural).max(*word))
        .collect();
    let within = |cap: usize| least.iter().map(move |least| (*least).min(cap));
    let longest = least.iter().copied().max().unwrap_or(0);
    let cap = (MIN_COLUMN..=longest.min(room).max(MIN_COLUMN))
        .rev()
        .find(|cap| within(*cap).sum::<usize>() <= room)?;
    let mut widths: Vec<usize> = within(cap).collect();
    let goal = if cap < longest { &least[..] } else { natural };
    let lacks: Vec<usize> =
        goal.iter().zip(&widths).map(|(goal, width)| goal.saturating_sub(*width)).collect();
    let (spare, lacking) = (room - widths.iter().sum::<usize>(), lacks.iter().sum::<usize>());
    for (width, lack) in widths.iter_mut().zip(&lacks) {
        *width += if lacking <= spare { *lack } else { lack * spare / lacking };
    }
    if lacking > spare {
        // The remainder of the division goes to the first columns.
        let mut left = room - widths.iter().sum::<usize>();
        for (width, _) in widths.iter_mut().zip(&lacks).filter(|(_, lack)| **lack > 0) {
            *width += usize::from(left > 0);
            left = left.saturating_sub(1);
        }
    }
    Some(widths)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No word is broken while another column has space that its own words do not need.
        #[test]
        fn table_columns_fit_words_before_spare_width(
            columns in proptest::collection::vec((1usize..30, 0usize..60), 1..7),
            room in 1usize..150,
        ) {
            let words: Vec<usize> = columns.iter().map(|(word, _)| *word).collect();
            let natural: Vec<usize> = columns.iter().map(|(word, more)| word + more).collect();
            let Some(widths) = divide_width(&natural, &words, room) else {
                let least = natural.iter().map(|width| (*width).min(MIN_COLUMN)).sum::<usize>();
                prop_assert!(least > room);
                return Ok(());
            };
            prop_assert!(widths.iter().sum::<usize>() <= room, "{widths:?}");
            prop_assert!(widths.iter().zip(&natural).all(|(width, natural)| width <= natural));
            let breaks = widths.iter().zip(&words).any(|(width, word)| width < word);
            let has_room = widths.iter().zip(&words).any(|(width, word)| *width > MIN_COLUMN.max(*word));
            prop_assert!(!(breaks && has_room), "{words:?} {natural:?} {widths:?}");
            let all: usize = natural.iter().sum();
            prop_assert_eq!(widths.iter().sum::<usize>(), all.min(room));
        }
    }
}
