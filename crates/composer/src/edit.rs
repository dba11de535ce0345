//! The editing commands: typing, deleting, the kill ring, pasted text.

use std::ops::Range;

use super::buffer::{Buffer, LastCommand};
use super::kill_ring::Side;
use super::pastes::Pastes;
use super::text::{Position, sanitize};
use super::undo::MergeRule;

impl Buffer {
    /// Inserts typed text.
    pub fn insert(&mut self, text: &str) {
        self.change(self.cursor..self.cursor, &sanitize(text), MergeRule::Typing);
    }

    /// Starts a new line.
    pub fn insert_newline(&mut self) {
        self.change(self.cursor..self.cursor, "\n", MergeRule::Nothing);
    }

    /// Inserts pasted text, or a label for long text.
    pub fn paste(&mut self, text: &str) {
        let text = sanitize(text);
        if Pastes::is_long(&text) {
            let label = self.pastes.add(text.into_owned(), &self.text.to_string());
            self.change(self.cursor..self.cursor, &label, MergeRule::Nothing);
        } else {
            self.change(self.cursor..self.cursor, &text, MergeRule::Nothing);
        }
    }

    /// Replaces the label at the cursor, before or after it, with its pasted text. Returns `false`
    /// if there is none.
    pub fn expand_paste(&mut self) -> bool {
        let line = self.current_line();
        let byte = self.cursor.byte;
        let ranges = self.labels().ranges(line);
        let Some(range) = ranges.into_iter().find(|range| range.start <= byte && byte <= range.end)
        else {
            return false;
        };
        let label = line.get(range.clone()).unwrap_or("");
        let Some(content) = self.pastes.content(label).map(str::to_owned) else { return false };
        let at = |byte| Position::new(self.cursor.line, byte);
        self.change(at(range.start)..at(range.end), &content, MergeRule::Nothing);
        true
    }

    /// Deletes the character before the cursor.
    pub fn delete_left(&mut self) {
        self.change(self.previous(self.cursor)..self.cursor, "", MergeRule::Deleting);
    }

    /// Deletes the character after the cursor.
    pub fn delete_right(&mut self) {
        self.change(self.cursor..self.next(self.cursor), "", MergeRule::Deleting);
    }

    /// Deletes the word before the cursor.
    pub fn delete_word_left(&mut self) {
        self.kill(self.word_left_of(self.cursor)..self.cursor, Side::Left);
    }

    /// Deletes the word after the cursor.
    pub fn delete_word_right(&mut self) {
        self.kill(self.cursor..self.word_right_of(self.cursor), Side::Right);
    }

    /// Deletes to the start of the line.
    pub fn delete_to_line_start(&mut self) {
        self.kill(Position::new(self.cursor.line, 0)..self.cursor, Side::Left);
    }

    /// Deletes to the end of the line, or the line break if the cursor is there.
    pub fn delete_to_line_end(&mut self) {
        let end = self.text.line_end(self.cursor.line);
        let end = if end == self.cursor { self.next(end) } else { end };
        self.kill(self.cursor..end, Side::Right);
    }

    /// Deletes everything, as one step.
    pub fn clear(&mut self) {
        let text = self.text.to_string();
        self.change(Position::START..self.text.end(), "", MergeRule::Nothing);
        self.kill_ring.push(text, Side::Right, false);
    }

    fn kill(&mut self, range: Range<Position>, side: Side) {
        let joined = self.last == LastCommand::Kill;
        let text = self.text.slice(range.clone());
        if text.is_empty() {
            return;
        }
        self.change(range, "", MergeRule::Nothing);
        self.kill_ring.push(text, side, joined);
        self.last = LastCommand::Kill;
    }

    /// Inserts the text deleted last. Returns `false` if there is none.
    pub fn yank(&mut self) -> bool {
        self.yank_back(self.cursor..self.cursor, 0)
    }

    /// Directly after [`yank`](Self::yank), replaces the inserted text with the one deleted before
    /// it, if any. Returns `false` at other times, when the key may have another meaning.
    pub fn yank_pop(&mut self) -> bool {
        let LastCommand::Yank(range, back) = self.last.clone() else { return false };
        !self.kill_ring.has_several() || self.yank_back(range, back + 1)
    }

    fn yank_back(&mut self, range: Range<Position>, back: usize) -> bool {
        let Some(text) = self.kill_ring.get(back).map(str::to_owned) else { return false };
        let start = range.start;
        self.change(range, &text, MergeRule::Nothing);
        self.last = LastCommand::Yank(start..start.advance_by(&text), back);
        true
    }
}
