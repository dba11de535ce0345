//! Vi operators on ranges and lines, and putting text from registers.

use std::ops::Range;

use super::super::buffer::Buffer;
use super::super::kill_ring::Side;
use super::super::text::Position;
use super::motion::first_non_blank;
use super::register::RegisterText;
use super::{Vim, VimMode};

/// The indentation added by `>`.
const INDENT: &str = "    ";
/// Maximum length of text put with a count.
const MAX_PUT: usize = 1 << 20;

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Delete,
    Change,
    Yank,
    Indent,
    Outdent,
    Lower,
    Upper,
    Toggle,
}

impl Operator {
    /// Returns the operator of a character.
    pub fn from_char(char: char) -> Option<Self> {
        match char {
            'd' => Some(Self::Delete),
            'c' => Some(Self::Change),
            'y' => Some(Self::Yank),
            '>' => Some(Self::Indent),
            '<' => Some(Self::Outdent),
            _ => None,
        }
    }

    /// Returns the operator of `gu`, `gU`, or `g~`.
    pub fn for_case_change(char: char) -> Self {
        match char {
            'u' => Self::Lower,
            'U' => Self::Upper,
            _ => Self::Toggle,
        }
    }

    /// Returns the text with changed case, or `None` for other operators.
    pub fn change_case(self, text: &str) -> Option<String> {
        match self {
            Self::Lower => Some(text.to_lowercase()),
            Self::Upper => Some(text.to_uppercase()),
            Self::Toggle => Some(toggle_case(text)),
            _ => None,
        }
    }
}

fn toggle_case(text: &str) -> String {
    let mut toggled = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_uppercase() {
            toggled.extend(char.to_lowercase());
        } else {
            toggled.extend(char.to_uppercase());
        }
    }
    toggled
}

impl Vim {
    /// Applies the operator to a range and ends the command.
    pub(super) fn operate(
        &mut self,
        buffer: &mut Buffer,
        operator: Operator,
        range: Range<Position>,
    ) {
        match operator {
            Operator::Indent | Operator::Outdent => {
                return self.operate_lines(buffer, operator, range.start.line, range.end.line);
            }
            Operator::Delete | Operator::Change | Operator::Yank => {
                let text = buffer.text().slice(range.clone());
                self.store_register(buffer, text, false, operator);
            }
            _ => {}
        }
        let start = range.start;
        match operator {
            Operator::Yank => {
                buffer.set_cursor(start);
                self.reset();
            }
            Operator::Change => {
                buffer.begin_group();
                buffer.replace(range, "");
                self.insert(buffer, 1, false);
            }
            _ => {
                buffer.begin_group();
                let text =
                    operator.change_case(&buffer.text().slice(range.clone())).unwrap_or_default();
                buffer.replace(range, &text);
                buffer.set_cursor(start);
                self.finish(buffer);
            }
        }
    }

    /// Applies the operator to whole lines and ends the command.
    pub(super) fn operate_lines(
        &mut self,
        buffer: &mut Buffer,
        operator: Operator,
        first: usize,
        last: usize,
    ) {
        let last = last.min(buffer.text().last_line());
        let whole = Position::new(first, 0)..buffer.text().line_end(last);
        if matches!(operator, Operator::Delete | Operator::Change | Operator::Yank) {
            let text = buffer.text().slice(whole.clone());
            self.store_register(buffer, text, true, operator);
        }
        if operator == Operator::Yank {
            // The cursor moves up to the first line, but stays if it is in it.
            if first < buffer.cursor().line {
                buffer.set_cursor(Position::new(first, buffer.cursor().byte));
            }
            return self.reset();
        }
        buffer.begin_group();
        match operator {
            Operator::Change => {
                buffer.replace(whole, "");
                return self.insert(buffer, 1, false);
            }
            Operator::Delete => {
                let range = if last < buffer.text().last_line() {
                    whole.start..Position::new(last + 1, 0)
                } else if let Some(before) = first.checked_sub(1) {
                    buffer.text().line_end(before)..whole.end
                } else {
                    whole
                };
                buffer.replace(range, "");
            }
            Operator::Indent | Operator::Outdent => {
                for line in first..=last {
                    indent(buffer, line, operator == Operator::Indent);
                }
            }
            _ => {
                let text =
                    operator.change_case(&buffer.text().slice(whole.clone())).unwrap_or_default();
                buffer.replace(whole, &text);
            }
        }
        let line = first.min(buffer.text().last_line());
        buffer.set_cursor(first_non_blank(buffer, line));
        self.finish(buffer);
    }

    fn store_register(
        &mut self,
        buffer: &mut Buffer,
        text: String,
        lines: bool,
        operator: Operator,
    ) {
        if operator != Operator::Yank && self.pending.register != Some('_') {
            let killed = if lines { format!("{text}\n") } else { text.clone() };
            buffer.kill_ring.push(killed, Side::Right, false);
        }
        let copied = operator == Operator::Yank;
        self.registers.store(self.pending.register, RegisterText { text, lines }, copied);
    }

    /// Handles `p` and `P`.
    pub(super) fn put(&mut self, buffer: &mut Buffer, behind: bool) {
        let Some(register) = self.registers.get(self.pending.register).cloned() else {
            return self.reset();
        };
        let times = self.pending.repeat_count().min(MAX_PUT / register.text.len().max(1)).max(1);
        buffer.begin_group();
        let cursor = buffer.cursor();
        if register.lines {
            let text = vec![register.text.as_str(); times].join("\n");
            let line = if behind {
                let end = buffer.text().line_end(cursor.line);
                buffer.replace(end..end, &format!("\n{text}"));
                cursor.line + 1
            } else {
                let start = Position::new(cursor.line, 0);
                buffer.replace(start..start, &format!("{text}\n"));
                cursor.line
            };
            buffer.set_cursor(first_non_blank(buffer, line));
        } else {
            let in_line = cursor.byte < buffer.current_line().len();
            let at = if behind && in_line { buffer.next(cursor) } else { cursor };
            buffer.replace(at..at, &register.text.repeat(times));
            if register.text.contains('\n') {
                buffer.set_cursor(at);
            } else {
                buffer.set_cursor(buffer.previous(buffer.cursor()).max(at));
            }
        }
        self.finish(buffer);
    }

    /// Ends the command; its changes are one undo step, and `.` repeats it.
    pub(super) fn finish(&mut self, buffer: &mut Buffer) {
        buffer.end_group();
        self.remember();
        self.reset();
        if self.mode != VimMode::Insert {
            self.mode = VimMode::Normal;
        }
    }
}

fn indent(buffer: &mut Buffer, line: usize, more: bool) {
    let start = Position::new(line, 0);
    let text = buffer.text().line(line);
    if more {
        if !text.is_empty() {
            buffer.replace(start..start, INDENT);
        }
        return;
    }
    let cut = match text.strip_prefix('\t') {
        Some(_) => 1,
        None => text.bytes().take(INDENT.len()).take_while(|byte| *byte == b' ').count(),
    };
    buffer.replace(start..Position::new(line, cut), "");
}
