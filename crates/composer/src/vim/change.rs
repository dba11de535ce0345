//! Vi commands that change text without a motion, insert mode, and `.`.

use parallax_screen::{Key, KeyCode};

use super::super::buffer::Buffer;
use super::super::text::Position;
use super::motion::{self, CharClass};
use super::operate::Operator;
use super::visual::SelectionSize;
use super::{Insertion, PendingCommand, Vim, VimMode};

/// Maximum length of text inserted with a count.
const MAX_INSERTED: usize = 1 << 20;

/// The change that `.` repeats.
#[derive(Debug, Clone)]
pub struct RepeatableChange {
    /// The command without counts and registers.
    keys: String,
    count: Option<usize>,
    register: Option<char>,
    /// The size of the selection if the command began in visual mode.
    selected: Option<SelectionSize>,
    /// The inserted text if the command ended in insert mode.
    inserted: Option<String>,
}

impl Vim {
    /// Runs a command that is neither a motion nor an operator.
    pub(super) fn change(&mut self, buffer: &mut Buffer, char: char) {
        let times = self.pending.repeat_count();
        let cursor = buffer.cursor();
        let line_end = buffer.text().line_end(cursor.line);
        match char {
            'i' => self.begin_insert(buffer, cursor, times),
            'a' => {
                let at = if cursor == line_end { cursor } else { buffer.next(cursor) };
                self.begin_insert(buffer, at, times);
            }
            'I' => {
                let at = motion::first_non_blank(buffer, cursor.line);
                self.begin_insert(buffer, at, times);
            }
            'A' => self.begin_insert(buffer, line_end, times),
            'o' => {
                buffer.begin_group();
                buffer.replace(line_end..line_end, "\n");
                self.insert(buffer, times, true);
            }
            'O' => {
                buffer.begin_group();
                let start = Position::new(cursor.line, 0);
                buffer.replace(start..start, "\n");
                buffer.set_cursor(start);
                self.insert(buffer, times, true);
            }
            'x' if cursor == line_end => self.reset(),
            'x' => self.with_motion(buffer, Operator::Delete, 'l'),
            'X' if cursor.byte == 0 => self.reset(),
            'X' => self.with_motion(buffer, Operator::Delete, 'h'),
            's' => self.with_motion(buffer, Operator::Change, 'l'),
            'S' => {
                self.operate_lines(buffer, Operator::Change, cursor.line, cursor.line + times - 1)
            }
            'D' => self.with_motion(buffer, Operator::Delete, '$'),
            'C' => self.with_motion(buffer, Operator::Change, '$'),
            'Y' => self.operate_lines(buffer, Operator::Yank, cursor.line, cursor.line + times - 1),
            'J' => self.join(buffer, true),
            'p' | 'P' => self.put(buffer, char == 'p'),
            'r' => self.pending.pending_input = super::PendingInput::Replace,
            'R' => {
                self.begin_insert(buffer, cursor, times);
                self.overwritten = Some(Vec::new());
            }
            '~' => self.toggle_case(buffer, times),
            'u' => {
                for _ in 0..times {
                    buffer.undo();
                }
                self.reset();
            }
            '.' => self.repeat(buffer),
            'v' | 'V' => {
                self.anchor = cursor;
                self.mode = if char == 'v' { VimMode::Visual } else { VimMode::VisualLine };
                self.reset();
            }
            _ => self.reset(),
        }
    }

    fn with_motion(&mut self, buffer: &mut Buffer, operator: Operator, char: char) {
        self.pending.operator = Some((operator, None));
        let found = motion::text_motion(buffer, char, self.pending.total(), true);
        self.apply_motion(buffer, found);
    }

    /// `cw` changes to the end of the word, without the space after it.
    pub(super) fn change_word(&mut self, buffer: &mut Buffer, big: bool) {
        let from = buffer.cursor();
        if motion::sort(buffer, from, big) == CharClass::Blank {
            let found = motion::text_motion(
                buffer,
                if big { 'W' } else { 'w' },
                self.pending.total(),
                true,
            );
            return self.apply_motion(buffer, found);
        }
        let last = motion::end_of_current_word(buffer, from, self.pending.repeat_count(), big);
        let to = motion::Motion { target: last, kind: motion::MotionKind::Inclusive };
        self.apply_motion(buffer, motion::MotionResult::To(to));
    }

    fn toggle_case(&mut self, buffer: &mut Buffer, times: usize) {
        let start = buffer.cursor();
        let motion::MotionResult::To(way) = motion::text_motion(buffer, 'l', Some(times), true)
        else {
            return;
        };
        let text = buffer.text().slice(start..way.target);
        buffer.begin_group();
        if let Some(cased) = Operator::Toggle.change_case(&text) {
            buffer.replace(start..way.target, &cased);
        }
        self.finish(buffer);
    }

    /// Handles `r` and its character.
    pub(super) fn replace_chars(&mut self, buffer: &mut Buffer, char: char) {
        if self.is_visual() {
            return self.visual_replace(buffer, char);
        }
        let times = self.pending.repeat_count();
        let start = buffer.cursor();
        let mut end = start;
        for _ in 0..times {
            let next = buffer.next(end);
            // All or none are replaced, as in vi.
            if next.line != start.line || next == end {
                return self.reset();
            }
            end = next;
        }
        buffer.begin_group();
        if char == '\n' {
            buffer.replace(start..end, "\n");
        } else {
            buffer.replace(start..end, &char.to_string().repeat(times));
            buffer.set_cursor(buffer.previous(buffer.cursor()));
        }
        self.finish(buffer);
    }

    /// Joins lines: `J` with a space between them, `gJ` without.
    pub(super) fn join(&mut self, buffer: &mut Buffer, spaced: bool) {
        let times = self.pending.repeat_count().max(2) - 1;
        self.join_lines(buffer, times, spaced);
    }

    pub(super) fn join_lines(&mut self, buffer: &mut Buffer, times: usize, spaced: bool) {
        let line = buffer.cursor().line;
        buffer.begin_group();
        for _ in 0..times {
            if line >= buffer.text().last_line() {
                break;
            }
            let end = buffer.text().line_end(line);
            let next = buffer.text().line(line + 1);
            let (cut, gap) = if spaced {
                let rest = next.trim_start();
                let ends_open = buffer.text().line(line).ends_with([' ', '\t']) || end.byte == 0;
                let gap =
                    if ends_open || rest.is_empty() || rest.starts_with(')') { "" } else { " " };
                (next.len() - rest.len(), gap)
            } else {
                (0, "")
            };
            buffer.replace(end..Position::new(line + 1, cut), gap);
            buffer.set_cursor(end);
        }
        self.finish(buffer);
    }

    /// After `R`, handles a key of insert mode: overwrites the character under the cursor, and
    /// Backspace restores it. Returns whether the key was handled.
    pub(super) fn overwrite(&mut self, buffer: &mut Buffer, key: Key) -> bool {
        let Some(gone) = self.overwritten.as_mut() else { return false };
        let cursor = buffer.cursor();
        if key.code == KeyCode::Backspace {
            match gone.pop() {
                None => buffer.move_left(),
                Some(text) => {
                    buffer.delete_left();
                    let at = buffer.cursor();
                    buffer.replace(at..at, text.as_deref().unwrap_or(""));
                    buffer.set_cursor(at);
                }
            }
            return true;
        }
        if key.character().is_some() {
            let end = buffer.next(cursor);
            let is_there = end.line == cursor.line && end > cursor;
            let text = is_there.then(|| buffer.text().slice(cursor..end));
            if is_there {
                buffer.replace(cursor..end, "");
                buffer.set_cursor(cursor);
            }
            gone.push(text);
        }
        false
    }

    fn begin_insert(&mut self, buffer: &mut Buffer, at: Position, times: usize) {
        buffer.begin_group();
        buffer.set_cursor(at);
        self.insert(buffer, times, false);
    }

    /// Switches to insert mode; the typed text is repeated `repeat_count` times.
    pub(super) fn insert(&mut self, buffer: &mut Buffer, times: usize, lines: bool) {
        self.mode = VimMode::Insert;
        self.insertion = Some(Insertion { start: buffer.cursor(), times, lines });
        self.remember();
        self.reset();
    }

    pub(super) fn leave_insert(&mut self, buffer: &mut Buffer) {
        self.overwritten = None;
        if let Some(insertion) = self.insertion.take() {
            let end = buffer.cursor();
            let text = if insertion.start <= end {
                buffer.text().slice(insertion.start..end)
            } else {
                String::new()
            };
            let times = insertion.times.min(MAX_INSERTED / text.len().max(1)).max(1);
            let repeated_text = if insertion.lines { format!("\n{text}") } else { text.clone() };
            if times > 1 {
                buffer.insert(&repeated_text.repeat(times - 1));
            }
            if let Some(change) = self.change.as_mut().filter(|_| !self.repeating) {
                change.inserted = Some(text);
            }
        }
        buffer.end_group();
        self.mode = VimMode::Normal;
        let cursor = buffer.cursor();
        if cursor.byte > 0 {
            buffer.set_cursor(buffer.previous(cursor));
        }
        self.reset();
    }

    /// Saves the command for `.`.
    pub(super) fn remember(&mut self) {
        if self.repeating {
            return;
        }
        self.change = Some(RepeatableChange {
            keys: self.pending.keys.clone(),
            count: self.pending.total(),
            register: self.pending.register,
            selected: self.selected.take(),
            inserted: None,
        });
    }

    fn repeat(&mut self, buffer: &mut Buffer) {
        let count = self.pending.total();
        self.reset();
        let Some(mut change) = self.change.take() else { return };
        // A count replaces the previous one, including for the next repetition.
        change.count = count.or(change.count);
        self.repeating = true;
        if let Some(extent) = change.selected {
            self.select(buffer, extent);
        }
        self.pending = PendingCommand {
            count: change.count,
            register: change.register,
            ..PendingCommand::default()
        };
        for char in change.keys.chars() {
            if let super::PendingInput::Pattern(pattern, forward) = &mut self.pending.pending_input
            {
                if char != '\n' {
                    pattern.push(char);
                    continue;
                }
                let (pattern, forward) = (std::mem::take(pattern), *forward);
                let found = motion::search(buffer, &pattern, forward, self.pending.repeat_count());
                self.apply_motion(buffer, found);
            } else {
                self.handle_char(buffer, char);
            }
        }
        if self.mode == VimMode::Insert {
            let text = change.inserted.as_deref().unwrap_or("");
            if self.overwritten.is_some() {
                let start = buffer.cursor();
                let mut end = start;
                for _ in text.chars() {
                    let next = buffer.next(end);
                    end = if next.line == start.line { next } else { end };
                }
                buffer.replace(start..end, "");
                buffer.set_cursor(start);
            }
            buffer.insert(text);
            self.leave_insert(buffer);
        }
        self.repeating = false;
        self.selected = None;
        self.change = Some(change);
    }
}
