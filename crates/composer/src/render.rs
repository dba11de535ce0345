//! Renders the input as rows.

use std::ops::Range;

use parallax_screen::{Attributes, Line, Span, Style, text_width};

use super::layout::{AtomKind, row_of};
use super::text::Position;
use super::{Composer, InputMode, VimMode};
use parallax_screen::layout::{SEARCH, truncate_text};
use parallax_screen::theme::Theme;

/// Maximum length in bytes of a line that is highlighted.
const MAX_COLOURED_LINE: usize = 10_000;

/// The rendered input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedInput {
    /// The rows, at least one.
    pub rows: Vec<Line>,
    /// The cursor position in the rows: column and row, from 0.
    pub cursor: (usize, usize),
}

impl Composer {
    /// Renders the input as at most `max_rows` rows of at most `columns` columns, around the
    /// cursor.
    pub fn render(&mut self, columns: usize, max_rows: usize, theme: &Theme) -> RenderedInput {
        let max_rows = max_rows.max(1);
        let (prefix, prefix_style) = self.prefix(theme);
        if let Some(search) = &self.search {
            let mut row = Line::styled(SEARCH, theme.accent);
            let room = columns.saturating_sub(text_width(SEARCH) + 1);
            let mut query = search.query();
            while text_width(query) > room && !query.is_empty() {
                let next = self.buffer.labels().next(query, 0);
                query = query.get(next..).unwrap_or("");
            }
            let cursor = (text_width(SEARCH) + text_width(query), 0);
            row.push(Span::styled(query.to_owned(), theme.text));
            return RenderedInput { rows: vec![row], cursor };
        }
        // One column is reserved for the cursor after a full row.
        let room = columns.saturating_sub(text_width(prefix) + 1).max(1);
        self.buffer.set_columns(room);
        if self.buffer.is_empty() {
            let hint = self.placeholder();
            let hint = format!(" {}", truncate_text(hint, room.saturating_sub(1)));
            let row = Line::styled(prefix, prefix_style).with_span(hint, theme.secondary);
            self.top = (0, 0);
            return RenderedInput { rows: vec![row], cursor: (text_width(prefix), 0) };
        }
        self.scroll(max_rows);
        let cursor = self.buffer.cursor();
        let mut rows = Vec::new();
        let mut at = (0, 0);
        let (first_line, first_row) = self.top;
        for line in first_line..self.buffer.text().line_count() {
            let starts = self.buffer.rows(line);
            let skip = if line == first_line { first_row } else { 0 };
            let styles = self.styles(line, theme);
            for (row, start) in starts.iter().enumerate().skip(skip) {
                if rows.len() == max_rows {
                    return RenderedInput { rows, cursor: at };
                }
                if line == cursor.line && row_of(&starts, cursor.byte) == row {
                    let column = self.buffer.width_between(line, *start, cursor.byte);
                    at = (text_width(prefix) + column, rows.len());
                }
                let is_first = line == 0 && row == 0;
                let mut shown = if is_first {
                    Line::styled(prefix, prefix_style)
                } else {
                    Line::raw(" ".repeat(text_width(prefix)))
                };
                let end = starts.get(row + 1).copied().unwrap_or(usize::MAX);
                self.push_row(&mut shown, line, *start..end, &styles, theme);
                rows.push(shown);
            }
        }
        RenderedInput { rows, cursor: at }
    }

    fn prefix(&self, theme: &Theme) -> (&'static str, Style) {
        match self.mode {
            InputMode::Shell => ("! ", theme.warning),
            InputMode::Prompt if self.context.shows_warning => ("* ", theme.error),
            InputMode::Prompt => ("> ", theme.accent),
        }
    }

    fn placeholder(&self) -> &'static str {
        match (self.mode, self.vim_is_normal()) {
            // Esc cancels the running command.
            (InputMode::Shell, _) if self.context.running => "Type your shell command (! to leave)",
            (InputMode::Shell, _) => "Type your shell command (esc to leave)",
            (_, true) => "Press i to insert text",
            _ => self.context.placeholder,
        }
    }

    /// Scrolls so that the cursor is visible and no row is empty that could show text.
    fn scroll(&mut self, max_rows: usize) {
        let cursor = self.buffer.cursor();
        let row = row_of(&self.buffer.rows(cursor.line), cursor.byte);
        let here = (cursor.line, row);
        let end = self.buffer.text().last_line();
        let last = (end, self.buffer.rows(end).len().saturating_sub(1));
        let earliest = self.rows_above(here, max_rows - 1);
        let latest = self.rows_above(last, max_rows - 1);
        self.top = self.top.max(earliest).min(here).min(latest);
    }

    fn rows_above(&self, from: (usize, usize), count: usize) -> (usize, usize) {
        let (mut line, mut row) = from;
        let mut remaining = count;
        while remaining > row {
            let Some(above) = line.checked_sub(1) else { return (0, 0) };
            remaining -= row + 1;
            line = above;
            row = self.buffer.rows(line).len().saturating_sub(1);
        }
        (line, row - remaining)
    }

    /// Returns the styled ranges of a line.
    fn styles(&self, number: usize, theme: &Theme) -> Vec<(Range<usize>, Style)> {
        let line = self.buffer.text().line(number);
        let mut styles = Vec::new();
        if line.len() <= MAX_COLOURED_LINE && self.mode == InputMode::Prompt {
            if number == 0
                && line.starts_with('/')
                && !line.starts_with("//")
                && !line.starts_with("/*")
            {
                let end = line.find(char::is_whitespace).unwrap_or(line.len());
                styles.push((0..end, theme.accent));
            }
            if let Some(find) = self.highlights {
                styles.extend(find(line).into_iter().map(|range| (range, theme.accent)));
            }
        }
        if let Some(selection) = self.selection() {
            let start = if selection.start.line < number { 0 } else { selection.start.byte };
            let end = if selection.end.line > number { usize::MAX } else { selection.end.byte };
            if (selection.start.line..=selection.end.line).contains(&number) {
                styles.push((start..end, Style::PLAIN.with(Attributes::REVERSE)));
            }
        }
        styles
    }

    fn push_row(
        &self,
        row: &mut Line,
        line: usize,
        range: Range<usize>,
        styles: &[(Range<usize>, Style)],
        theme: &Theme,
    ) {
        let mut text = String::new();
        let mut style = theme.text;
        for atom in self.buffer.atoms_in(line, range) {
            let mut own = theme.text;
            if atom.kind == AtomKind::Label {
                own = own.patch(theme.accent);
            }
            for (_, over) in styles.iter().filter(|(range, _)| range.contains(&atom.byte)) {
                own = own.patch(*over);
            }
            if own != style && !text.is_empty() {
                row.push(Span::styled(std::mem::take(&mut text), style));
            }
            style = own;
            text.push_str(&atom.display_text);
        }
        if !text.is_empty() {
            row.push(Span::styled(text, style));
        }
    }

    /// Moves the cursor to a mouse click, given as column and row of the last
    /// [`render`](Self::render). A click on the label at the cursor (a double click) expands it.
    pub fn click(&mut self, column: usize, row: usize) {
        let (mut line, mut number) = self.top;
        for _ in 0..row {
            if number + 1 < self.buffer.rows(line).len() {
                number += 1;
            } else if line < self.buffer.text().last_line() {
                line += 1;
                number = 0;
            } else {
                return;
            }
        }
        let before = self.buffer.cursor();
        let starts = self.buffer.rows(line);
        self.buffer.go_to_row(line, &starts, number, column.saturating_sub(2));
        let at = self.buffer.cursor();
        self.buffer.set_cursor(at);
        let on_label = self.buffer.labels().offset(self.buffer.text().line(at.line), at.byte);
        if before == at && on_label.is_some() {
            self.buffer.expand_paste();
        }
    }

    /// Returns the selected range (visual mode) without its end.
    fn selection(&self) -> Option<Range<Position>> {
        self.vim.as_ref()?.selection(&self.buffer)
    }

    fn vim_is_normal(&self) -> bool {
        self.vim_mode() == Some(VimMode::Normal)
    }
}
