//! The text buffer with its cursor: every change goes through it, so that each can be undone and
//! the cursor is never inside a character.

use std::ops::Range;

use super::boundary::Labels;
use super::image;
use super::kill_ring::KillRing;
use super::layout::{self, Atom};
use super::pastes::Pastes;
use super::text::{Position, Text, sanitize};
use super::undo::{MergeRule, Undo};

/// The last command, if it affects the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum LastCommand {
    #[default]
    Other,
    Kill,
    /// Text was inserted from the kill ring: its range, and its index in the ring.
    Yank(Range<Position>, usize),
}

/// The text, the cursor, and the editing state.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub(super) text: Text,
    pub(super) cursor: Position,
    /// The column that up and down try to keep.
    pub(super) preferred: Option<usize>,
    columns: usize,
    pub(super) undo: Undo,
    pub(super) pastes: Pastes,
    pub(super) kill_ring: KillRing,
    pub(super) last: LastCommand,
    version: u64,
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            text: Text::default(),
            cursor: Position::START,
            preferred: None,
            columns: 80,
            undo: Undo::default(),
            pastes: Pastes::default(),
            kill_ring: KillRing::default(),
            last: LastCommand::Other,
            version: 0,
        }
    }
}

impl Buffer {
    /// Returns the text as shown; labels represent pasted text.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// Returns the text with labels replaced by the pasted text.
    pub fn expanded_text(&self) -> String {
        self.pastes.expand(&self.text.to_string())
    }

    /// Returns the cursor position.
    pub fn cursor(&self) -> Position {
        self.cursor
    }

    /// Returns a number that changes with the text and the cursor.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether there is deleted text to insert again.
    pub fn can_yank(&self) -> bool {
        !self.kill_ring.is_empty()
    }

    /// Sets the columns of a row, which up and down use.
    pub fn set_columns(&mut self, columns: usize) {
        self.columns = columns.max(1);
    }

    /// Moves the cursor to the nearest valid position.
    pub fn set_cursor(&mut self, position: Position) {
        self.set_cursor_keeping_column(position);
        self.preferred = None;
    }

    /// Like [`set_cursor`](Self::set_cursor), but keeps the preferred column.
    pub(super) fn set_cursor_keeping_column(&mut self, position: Position) {
        self.cursor = self.snap(position);
        self.undo.close();
        self.last = LastCommand::Other;
        self.version += 1;
    }

    /// Replaces the text as one undoable step and moves the cursor to its end.
    pub fn set_text(&mut self, text: &str) {
        let all = Position::START..self.text.end();
        self.change(all, &sanitize(text), MergeRule::Nothing);
    }

    /// Replaces the text and clears the undo history and the pasted text.
    pub fn reset(&mut self, text: &str) {
        self.text = Text::from(sanitize(text).as_ref());
        self.undo = Undo::default();
        self.pastes.clear();
        self.set_cursor(self.text.end());
    }

    /// Replaces a range and puts the cursor after the new text.
    pub fn replace(&mut self, range: Range<Position>, text: &str) {
        self.change(range, &sanitize(text), MergeRule::Nothing);
    }

    /// Starts a group of changes that are undone together, until [`end_group`](Self::end_group).
    pub fn begin_group(&mut self) {
        self.undo.begin_group();
    }

    /// Ends a group.
    pub fn end_group(&mut self) {
        self.undo.end_group();
    }

    /// Undoes the last step. Returns `false` if there is none.
    pub fn undo(&mut self) -> bool {
        let Some(cursor) = self.undo.undo(&mut self.text) else { return false };
        self.set_cursor(cursor);
        true
    }

    /// Redoes the last undone step. Returns `false` if there is none.
    pub fn redo(&mut self) -> bool {
        let Some(cursor) = self.undo.redo(&mut self.text) else { return false };
        self.set_cursor(cursor);
        true
    }

    pub(super) fn change(&mut self, range: Range<Position>, new: &str, joins: MergeRule) {
        let before = self.cursor;
        let start = self.text.clamp(range.start);
        let (removed, after) = self.text.replace(start..range.end, new);
        if !(removed.is_empty() && new.is_empty()) {
            self.undo.record(start, removed, new.to_owned(), before, joins);
        }
        self.cursor = self.snap(after);
        self.preferred = None;
        self.last = LastCommand::Other;
        self.version += 1;
    }

    pub(super) fn labels(&self) -> &Labels {
        self.pastes.labels()
    }

    /// Returns the line of the cursor.
    pub fn current_line(&self) -> &str {
        self.text.line(self.cursor.line)
    }

    /// Returns the nearest valid cursor position, to the right if needed.
    pub fn snap(&self, position: Position) -> Position {
        let position = self.text.clamp(position);
        let line = self.text.line(position.line);
        Position::new(position.line, self.labels().snap(line, position.byte))
    }

    /// Returns the position one character to the right, on the next line at the end of a line.
    pub fn next(&self, position: Position) -> Position {
        let position = self.text.clamp(position);
        let line = self.text.line(position.line);
        if position.byte < line.len() {
            Position::new(position.line, self.labels().next(line, position.byte))
        } else if position.line < self.text.last_line() {
            Position::new(position.line + 1, 0)
        } else {
            position
        }
    }

    /// Returns the position one character to the left, on the previous line at the start of a line.
    pub fn previous(&self, position: Position) -> Position {
        let position = self.text.clamp(position);
        if position.byte > 0 {
            let line = self.text.line(position.line);
            Position::new(position.line, self.labels().previous(line, position.byte))
        } else if position.line > 0 {
            self.text.line_end(position.line - 1)
        } else {
            position
        }
    }

    /// Returns what a line shows, left to right: clusters, labels, images.
    pub(super) fn atoms(&self, number: usize) -> Box<dyn Iterator<Item = Atom<'_>> + '_> {
        let line = self.text.line(number);
        let mut labels: Vec<(Range<usize>, Option<String>)> =
            self.labels().ranges(line).into_iter().map(|range| (range, None)).collect();
        let touched = |range: &Range<usize>| {
            self.cursor.line == number
                && range.start <= self.cursor.byte
                && self.cursor.byte <= range.end
        };
        for range in image::ranges(line).into_iter().filter(|range| !touched(range)) {
            let apart = |other: &Range<usize>| other.end <= range.start || range.end <= other.start;
            if labels.iter().all(|(other, _)| apart(other)) {
                let word = line.get(range.clone()).unwrap_or("");
                labels.push((range.clone(), Some(image::label(word))));
            }
        }
        labels.sort_by_key(|(range, _)| range.start);
        layout::atoms(line, labels, self.columns)
    }

    /// Returns the atoms of a line that begin in a range, which starts at an atom.
    pub(super) fn atoms_in(
        &self,
        number: usize,
        range: Range<usize>,
    ) -> Box<dyn Iterator<Item = Atom<'_>> + '_> {
        let line = self.text.line(number);
        if memchr::memchr2(b'[', b'@', line.as_bytes()).is_none() {
            // No labels or images: only the range itself is examined.
            let end = range.end.min(line.len());
            let piece = line.get(range.start..end).unwrap_or("");
            let atoms = layout::atoms(piece, Vec::new(), self.columns);
            return Box::new(atoms.map(move |mut atom| {
                atom.byte += range.start;
                atom
            }));
        }
        let atoms = self.atoms(number).skip_while(move |atom| atom.byte < range.start);
        Box::new(atoms.take_while(move |atom| atom.byte < range.end))
    }

    /// Returns the byte positions where the rows of a line begin.
    pub(super) fn rows(&self, number: usize) -> Vec<usize> {
        let line = self.text.line(number);
        if layout::is_simple(line) {
            return layout::simple_row_starts(line, self.columns);
        }
        layout::row_starts(self.atoms(number), self.columns)
    }
}
