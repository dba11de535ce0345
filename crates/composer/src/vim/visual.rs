//! Vi visual mode: the text is selected first, then the command is given.

use std::ops::Range;

use super::super::buffer::Buffer;
use super::super::text::Position;
use super::motion::MotionResult;
use super::object;
use super::operate::Operator;
use super::{PendingInput, Vim, VimMode};

/// The size of a selection, for `.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectionSize {
    lines: usize,
    /// Characters in the last line; `None` for whole lines.
    characters: Option<usize>,
}

impl Vim {
    pub(super) fn is_visual(&self) -> bool {
        matches!(self.mode, VimMode::Visual | VimMode::VisualLine)
    }

    /// Returns the selected range, or `None` outside of visual mode.
    pub fn selection(&self, buffer: &Buffer) -> Option<Range<Position>> {
        let cursor = buffer.cursor();
        // The text may have changed in the meantime.
        let anchor = buffer.snap(self.anchor);
        let (start, end) = (anchor.min(cursor), anchor.max(cursor));
        match self.mode {
            VimMode::Visual => {
                let in_line = end.byte < buffer.text().line(end.line).len();
                Some(start..if in_line { buffer.next(end) } else { end })
            }
            VimMode::VisualLine => {
                Some(Position::new(start.line, 0)..buffer.text().line_end(end.line))
            }
            _ => None,
        }
    }

    /// Handles a command in visual mode.
    pub(super) fn handle_visual_command(&mut self, buffer: &mut Buffer, char: char) {
        match char {
            'v' | 'V' => {
                let target_mode = if char == 'v' { VimMode::Visual } else { VimMode::VisualLine };
                self.mode = if self.mode == target_mode { VimMode::Normal } else { target_mode };
                self.reset();
            }
            'o' => {
                let cursor = buffer.cursor();
                buffer.set_cursor(self.anchor);
                self.anchor = cursor;
                self.reset();
            }
            'x' => self.visual_operator(buffer, Operator::Delete),
            's' => self.visual_operator(buffer, Operator::Change),
            'X' | 'D' | 'Y' | 'C' | 'S' | 'R' => {
                self.mode = VimMode::VisualLine;
                let operator = match char {
                    'X' | 'D' => Operator::Delete,
                    'Y' => Operator::Yank,
                    _ => Operator::Change,
                };
                self.visual_operator(buffer, operator);
            }
            'u' | 'U' | '~' => self.visual_operator(buffer, Operator::for_case_change(char)),
            'p' | 'P' => self.visual_put(buffer),
            'J' => self.visual_join(buffer),
            'r' => self.pending.pending_input = PendingInput::Replace,
            'I' | 'A' => self.visual_insert(buffer, char == 'A'),
            _ => match Operator::from_char(char) {
                Some(operator) => self.visual_operator(buffer, operator),
                None => match self.motion(buffer, char) {
                    MotionResult::NoMotion => self.reset(),
                    found => self.apply_motion(buffer, found),
                },
            },
        }
    }

    /// Starts inserting before the first line of the selection, or after its last.
    fn visual_insert(&mut self, buffer: &mut Buffer, behind: bool) {
        let Some(range) = self.selection(buffer) else { return self.reset() };
        self.leave_visual(buffer, &range);
        let at = match behind {
            true => buffer.text().line_end(range.end.line),
            false => Position::new(range.start.line, 0),
        };
        self.pending.count = None;
        buffer.begin_group();
        buffer.set_cursor(at);
        self.insert(buffer, 1, false);
    }

    /// `gv`: restores the last selection.
    pub(super) fn select_again(&mut self, buffer: &mut Buffer) {
        let Some((anchor, cursor, mode)) = self.last_selection else { return self.reset() };
        self.mode = mode;
        self.anchor = buffer.snap(anchor);
        buffer.set_cursor(cursor);
        self.reset();
    }

    pub(super) fn visual_operator(&mut self, buffer: &mut Buffer, operator: Operator) {
        let Some(range) = self.selection(buffer) else { return self.reset() };
        let lines = self.mode == VimMode::VisualLine;
        self.leave_visual(buffer, &range);
        // The count belonged to the motions of the selection.
        self.pending.count = None;
        if lines {
            buffer.set_cursor(range.start);
            self.operate_lines(buffer, operator, range.start.line, range.end.line);
        } else {
            self.operate(buffer, operator, range);
        }
    }

    /// Records the size of the selection and switches to normal mode.
    fn leave_visual(&mut self, buffer: &Buffer, range: &Range<Position>) {
        let lines = range.end.line - range.start.line;
        let characters = (self.mode == VimMode::Visual).then(|| {
            let from = if lines == 0 { range.start } else { Position::new(range.end.line, 0) };
            let mut at = from;
            let mut count = 0;
            while at < range.end {
                at = buffer.next(at);
                count += 1;
            }
            count
        });
        self.selected = Some(SelectionSize { lines, characters });
        self.mode = VimMode::Normal;
    }

    /// Selects the same amount from the cursor.
    pub(super) fn select(&mut self, buffer: &mut Buffer, extent: SelectionSize) {
        let cursor = buffer.cursor();
        self.anchor = cursor;
        let line = (cursor.line + extent.lines).min(buffer.text().last_line());
        let Some(characters) = extent.characters else {
            self.mode = VimMode::VisualLine;
            return buffer.set_cursor(Position::new(line, 0));
        };
        self.mode = VimMode::Visual;
        let mut at = if line == cursor.line { cursor } else { Position::new(line, 0) };
        for _ in 1..characters {
            let next = buffer.next(at);
            if next.line != line || next == at {
                break;
            }
            at = next;
        }
        buffer.set_cursor(at);
    }

    fn visual_put(&mut self, buffer: &mut Buffer) {
        let (Some(range), Some(kept)) =
            (self.selection(buffer), self.registers.get(self.pending.register).cloned())
        else {
            return self.reset();
        };
        let lines = self.mode == VimMode::VisualLine;
        self.leave_visual(buffer, &range);
        buffer.begin_group();
        let text = match (lines, kept.lines) {
            (false, true) => format!("\n{}\n", kept.text),
            _ => kept.text,
        };
        let replaced = buffer.text().slice(range.clone());
        buffer.replace(range.clone(), &text);
        if lines || text.contains('\n') {
            buffer.set_cursor(range.start);
        } else {
            buffer.set_cursor(buffer.previous(buffer.cursor()).max(range.start));
        }
        // The replaced text can be put elsewhere.
        self.registers.store(None, super::register::RegisterText { text: replaced, lines }, false);
        self.finish(buffer);
    }

    fn visual_join(&mut self, buffer: &mut Buffer) {
        let Some(range) = self.selection(buffer) else { return self.reset() };
        self.leave_visual(buffer, &range);
        buffer.set_cursor(range.start);
        self.join_lines(buffer, (range.end.line - range.start.line).max(1), true);
    }

    pub(super) fn visual_replace(&mut self, buffer: &mut Buffer, char: char) {
        let Some(range) = self.selection(buffer) else { return self.reset() };
        self.leave_visual(buffer, &range);
        let mut text = String::new();
        let mut at = range.start;
        while at < range.end {
            let next = buffer.next(at);
            text.push(if next.line == at.line { char } else { '\n' });
            at = next;
        }
        buffer.begin_group();
        buffer.replace(range.clone(), &text);
        buffer.set_cursor(range.start);
        self.finish(buffer);
    }

    /// Applies the operator to a text object, or selects it.
    pub(super) fn apply_text_object(&mut self, buffer: &mut Buffer, char: char, around: bool) {
        let Some(object) = object::find(buffer, char, around, self.pending.repeat_count()) else {
            return self.reset();
        };
        match self.pending.operator {
            Some((operator, _)) if object.lines => {
                let Range { start, end } = object.range;
                buffer.set_cursor(start);
                self.operate_lines(buffer, operator, start.line, end.line);
            }
            Some((operator, _)) => self.operate(buffer, operator, object.range),
            None => {
                self.anchor = object.range.start;
                if object.lines {
                    self.mode = VimMode::VisualLine;
                }
                buffer.set_cursor(buffer.previous(object.range.end).max(object.range.start));
                self.reset();
            }
        }
    }
}
