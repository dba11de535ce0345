//! Cursor movements.

use super::buffer::Buffer;
use super::layout::row_of;
use super::text::Position;
use super::words;

impl Buffer {
    /// Moves one character left.
    pub fn move_left(&mut self) {
        self.set_cursor(self.previous(self.cursor));
    }

    /// Moves one character right.
    pub fn move_right(&mut self) {
        self.set_cursor(self.next(self.cursor));
    }

    /// Moves to the start of the word before the cursor.
    pub fn move_word_left(&mut self) {
        self.set_cursor(self.word_left_of(self.cursor));
    }

    /// Moves to the end of the word after the cursor.
    pub fn move_word_right(&mut self) {
        self.set_cursor(self.word_right_of(self.cursor));
    }

    /// Returns the target of [`move_word_left`](Self::move_word_left).
    pub fn word_left_of(&self, from: Position) -> Position {
        let line = self.text.line(from.line);
        let previous = self.previous(from);
        let labels = self.labels().ranges(line);
        if from.byte == 0 || labels.iter().any(|label| label.end == from.byte) {
            return previous;
        }
        let before = labels.iter().rev().find(|label| label.end <= from.byte);
        let start = before.map_or(0, |label| label.end);
        let word = start + words::start_of_last(line.get(start..from.byte).unwrap_or(""));
        // Never inside a cluster, and always at least one step.
        self.snap(Position::new(from.line, word)).min(previous)
    }

    /// Returns the target of [`move_word_right`](Self::move_word_right).
    pub fn word_right_of(&self, from: Position) -> Position {
        let line = self.text.line(from.line);
        let labels = self.labels().ranges(line);
        if from.byte >= line.len() || labels.iter().any(|label| label.start == from.byte) {
            return self.next(from);
        }
        let behind = labels.iter().find(|label| label.start >= from.byte);
        let end = behind.map_or(line.len(), |label| label.start);
        let word = from.byte + words::end_of_first(line.get(from.byte..end).unwrap_or(""));
        self.snap(Position::new(from.line, word))
    }

    /// Moves to the start of the row, or from there to the start of the line.
    pub fn move_home(&mut self) {
        let starts = self.rows(self.cursor.line);
        let start = starts.get(row_of(&starts, self.cursor.byte)).copied().unwrap_or(0);
        let start = if start == self.cursor.byte { 0 } else { start };
        self.set_cursor(Position::new(self.cursor.line, start));
    }

    /// Moves to the end of the row, or from there to the end of the line.
    pub fn end(&mut self) {
        let line_end = self.text.line_end(self.cursor.line);
        let starts = self.rows(self.cursor.line);
        let end = match starts.get(row_of(&starts, self.cursor.byte) + 1) {
            // The end of a row is the start of the next, so the cursor stays before it.
            Some(next) => self.previous(Position::new(self.cursor.line, *next)),
            None => line_end,
        };
        self.set_cursor(if end == self.cursor { line_end } else { end });
    }

    /// Moves to the start of the text.
    pub fn move_to_text_start(&mut self) {
        self.set_cursor(Position::START);
    }

    /// Moves to the end of the text.
    pub fn move_to_text_end(&mut self) {
        self.set_cursor(self.text.end());
    }

    /// Moves one row up. Returns `false` on the first row.
    pub fn move_up(&mut self) -> bool {
        let starts = self.rows(self.cursor.line);
        let row = row_of(&starts, self.cursor.byte);
        let column = self.preferred_column(&starts, row);
        let (line, starts, row) = if row > 0 {
            (self.cursor.line, starts, row - 1)
        } else if let Some(line) = self.cursor.line.checked_sub(1) {
            let starts = self.rows(line);
            let last = starts.len() - 1;
            (line, starts, last)
        } else {
            return false;
        };
        self.go_to_row(line, &starts, row, column);
        true
    }

    /// Moves one row down. Returns `false` on the last row.
    pub fn down(&mut self) -> bool {
        let starts = self.rows(self.cursor.line);
        let row = row_of(&starts, self.cursor.byte);
        let column = self.preferred_column(&starts, row);
        let (line, starts, row) = if row + 1 < starts.len() {
            (self.cursor.line, starts, row + 1)
        } else if self.cursor.line < self.text.last_line() {
            (self.cursor.line + 1, self.rows(self.cursor.line + 1), 0)
        } else {
            return false;
        };
        self.go_to_row(line, &starts, row, column);
        true
    }

    /// Whether the cursor is in the first row.
    pub fn is_first_row(&self) -> bool {
        self.cursor.line == 0 && row_of(&self.rows(0), self.cursor.byte) == 0
    }

    /// Whether the cursor is in the last row.
    pub fn is_last_row(&self) -> bool {
        let starts = self.rows(self.cursor.line);
        self.cursor.line == self.text.last_line()
            && row_of(&starts, self.cursor.byte) + 1 == starts.len()
    }

    fn preferred_column(&self, starts: &[usize], row: usize) -> usize {
        self.preferred.unwrap_or_else(|| {
            let start = starts.get(row).copied().unwrap_or(0);
            self.width_between(self.cursor.line, start, self.cursor.byte)
        })
    }

    /// Returns the columns of a part of a line.
    pub(super) fn width_between(&self, line: usize, start: usize, end: usize) -> usize {
        self.atoms_in(line, start..end).map(|atom| atom.width).sum()
    }

    /// Moves the cursor into a row, as near to a column as possible.
    pub(super) fn go_to_row(&mut self, line: usize, starts: &[usize], row: usize, column: usize) {
        let start = starts.get(row).copied().unwrap_or(0);
        let next = starts.get(row + 1).copied();
        let mut byte = start;
        let mut used = 0;
        let mut through = true;
        for atom in self.atoms_in(line, start..next.unwrap_or(usize::MAX)) {
            byte = atom.byte;
            used += atom.width;
            if used > column {
                through = false;
                break;
            }
        }
        if through && next.is_none() {
            byte = self.text.line(line).len();
        }
        self.set_cursor_keeping_column(Position::new(line, byte));
        self.preferred = Some(column);
    }
}
