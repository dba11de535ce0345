//! Vi mode: normal, insert, and visual mode. Keys without a meaning in the current mode are passed
//! on.

mod change;
mod motion;
mod object;
mod operate;
mod register;
#[cfg(test)]
mod tests;
mod visual;

use parallax_screen::{Key, KeyCode};

use super::buffer::Buffer;
use super::text::Position;
use change::RepeatableChange;
use motion::{Motion, MotionKind, MotionResult};
use operate::Operator;
use register::Registers;

/// Maximum count.
const MAX_COUNT: usize = 9999;

/// The vi mode shown in the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum VimMode {
    Normal,
    #[default]
    Insert,
    Visual,
    VisualLine,
}

impl VimMode {
    /// Returns the displayed name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Insert => "INSERT",
            Self::Visual => "VISUAL",
            Self::VisualLine => "VISUAL LINE",
        }
    }
}

/// What the next character is an argument of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum PendingInput {
    #[default]
    Command,
    /// After `g`.
    G,
    /// After `f`, `F`, `t`, or `T`, which is the value.
    Find(char),
    /// After `r`.
    Replace,
    /// After `"`.
    Register,
    /// After an operator and `i` or `a`; whether it was `a`.
    Object(bool),
    /// The pattern after `/` or `?`, and whether it was `/`.
    Pattern(String, bool),
}

/// The command typed so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct PendingCommand {
    count: Option<usize>,
    /// The operator and its count.
    operator: Option<(Operator, Option<usize>)>,
    register: Option<char>,
    pending_input: PendingInput,
    /// The characters without counts and registers, which `.` repeats.
    keys: String,
}

impl PendingCommand {
    /// Returns the product of the counts of operator and motion.
    fn total(&self) -> Option<usize> {
        match (self.operator.and_then(|(_, count)| count), self.count) {
            (None, count) | (count, None) => count,
            (Some(one), Some(other)) => Some(one.saturating_mul(other).min(MAX_COUNT)),
        }
    }

    fn repeat_count(&self) -> usize {
        self.total().unwrap_or(1)
    }
}

/// An insertion in progress.
#[derive(Debug, Clone)]
struct Insertion {
    start: Position,
    /// How often the text is repeated at the end.
    times: usize,
    /// Whether each repetition is on its own line.
    lines: bool,
}

/// The vi state.
#[derive(Debug, Clone, Default)]
pub struct Vim {
    mode: VimMode,
    pending: PendingCommand,
    registers: Registers,
    /// The last `f`, `F`, `t`, or `T` with its character.
    find: Option<(char, char)>,
    /// The last pattern, and whether the search was forward.
    pattern: Option<(String, bool)>,
    change: Option<RepeatableChange>,
    insertion: Option<Insertion>,
    /// The start of the selection.
    anchor: Position,
    /// The last selection: start, end, and mode.
    last_selection: Option<(Position, Position, VimMode)>,
    /// After `R`: the characters replaced by each typed character.
    overwritten: Option<Vec<Option<String>>>,
    /// The size of the selection of the running command.
    selected: Option<visual::SelectionSize>,
    repeating: bool,
}

impl Vim {
    /// Returns the mode.
    pub fn mode(&self) -> VimMode {
        self.mode
    }

    /// Returns the typed part of an unfinished command (`2d`, `/pattern`), for display.
    pub fn pending(&self) -> String {
        match &self.pending.pending_input {
            PendingInput::Pattern(pattern, forward) => {
                format!("{}{pattern}", if *forward { '/' } else { '?' })
            }
            _ => {
                let count = self.pending.total().map_or(String::new(), |count| count.to_string());
                format!("{count}{}", self.pending.keys)
            }
        }
    }

    /// Cancels pending commands after the text was replaced.
    pub fn cancel_pending_commands(&mut self, buffer: &mut Buffer) {
        self.pending = PendingCommand::default();
        (self.insertion, self.overwritten) = (None, None);
        buffer.end_group();
        if self.mode != VimMode::Insert {
            self.mode = VimMode::Normal;
        }
        self.clamp_cursor(buffer);
    }

    /// Handles a key. Returns `false` if it is passed on.
    pub fn key(&mut self, buffer: &mut Buffer, key: Key) -> bool {
        if self.is_visual() {
            self.last_selection = Some((self.anchor, buffer.cursor(), self.mode));
        }
        let is_escape = key == Key::plain(KeyCode::Escape) || key == Key::ctrl('[');
        if is_escape {
            return self.escape(buffer);
        }
        if self.mode == VimMode::Insert {
            return self.overwrite(buffer, key);
        }
        if let PendingInput::Pattern(pattern, forward) = &self.pending.pending_input {
            let (pattern, forward) = (pattern.clone(), *forward);
            return self.pattern_key(buffer, key, pattern, forward);
        }
        if key == Key::ctrl('r') {
            for _ in 0..self.pending.repeat_count() {
                buffer.redo();
            }
            self.reset();
            self.clamp_cursor(buffer);
            return true;
        }
        let Some(char) = self.char_of(key) else {
            let was_pending = self.pending != PendingCommand::default();
            self.reset();
            // An unfinished command is cancelled; other keys are passed on.
            return was_pending && key.code == KeyCode::Enter;
        };
        self.handle_char(buffer, char);
        self.clamp_cursor(buffer);
        true
    }

    /// Returns the command character of a key in normal and visual mode.
    fn char_of(&self, key: Key) -> Option<char> {
        if let Some(char) = key.character() {
            return Some(char);
        }
        let alone = key.modifiers == parallax_screen::Modifiers::NONE;
        match key.code {
            KeyCode::Enter if self.pending.pending_input == PendingInput::Replace => Some('\n'),
            KeyCode::Left | KeyCode::Backspace if alone => Some('h'),
            KeyCode::Right if alone => Some('l'),
            KeyCode::Home if alone => Some('0'),
            KeyCode::End if alone => Some('$'),
            KeyCode::Delete if alone => Some('x'),
            // Without an operator, these continue into the history.
            KeyCode::Up if alone && (self.is_visual() || self.pending.operator.is_some()) => {
                Some('k')
            }
            KeyCode::Down if alone && (self.is_visual() || self.pending.operator.is_some()) => {
                Some('j')
            }
            _ => None,
        }
    }

    fn escape(&mut self, buffer: &mut Buffer) -> bool {
        if self.mode == VimMode::Insert {
            self.leave_insert(buffer);
            return true;
        }
        let idle = self.pending == PendingCommand::default() && self.mode == VimMode::Normal;
        self.reset();
        self.mode = VimMode::Normal;
        self.clamp_cursor(buffer);
        !idle
    }

    fn reset(&mut self) {
        self.pending = PendingCommand::default();
        self.selected = None;
    }

    /// Moves the cursor onto a character in normal mode, where it cannot be after the last.
    pub fn clamp_cursor(&mut self, buffer: &mut Buffer) {
        let cursor = buffer.cursor();
        let behind = cursor.byte > 0 && cursor.byte >= buffer.current_line().len();
        if self.mode == VimMode::Normal && behind {
            let preferred = buffer.preferred;
            buffer.set_cursor_keeping_column(buffer.previous(cursor));
            buffer.preferred = preferred;
        }
    }

    fn handle_char(&mut self, buffer: &mut Buffer, char: char) {
        match std::mem::take(&mut self.pending.pending_input) {
            PendingInput::Command => self.handle_command(buffer, char),
            PendingInput::Register => self.pending.register = Some(char),
            PendingInput::G => {
                self.pending.keys.push(char);
                self.after_g(buffer, char);
            }
            PendingInput::Find(kind) => {
                self.pending.keys.push(char);
                self.find = Some((kind, char));
                let found = motion::find(buffer, kind, char, self.pending.repeat_count(), false);
                self.apply_motion(buffer, found);
            }
            PendingInput::Replace => {
                self.pending.keys.push(char);
                self.replace_chars(buffer, char);
            }
            PendingInput::Object(around) => {
                self.pending.keys.push(char);
                self.apply_text_object(buffer, char, around);
            }
            PendingInput::Pattern(..) => self.reset(),
        }
    }

    fn handle_command(&mut self, buffer: &mut Buffer, char: char) {
        match char {
            '1'..='9' => return self.handle_digit(char),
            '0' if self.pending.count.is_some() => return self.handle_digit(char),
            '"' => {
                self.pending.pending_input = PendingInput::Register;
                return;
            }
            _ => {}
        }
        self.pending.keys.push(char);
        match char {
            'g' => self.pending.pending_input = PendingInput::G,
            'f' | 'F' | 't' | 'T' => self.pending.pending_input = PendingInput::Find(char),
            '/' | '?' => {
                self.pending.pending_input = PendingInput::Pattern(String::new(), char == '/')
            }
            'i' | 'a' if self.pending.operator.is_some() || self.is_visual() => {
                self.pending.pending_input = PendingInput::Object(char == 'a');
            }
            _ if self.is_visual() => self.handle_visual_command(buffer, char),
            _ => match Operator::from_char(char).or_else(|| self.doubled_case(char)) {
                Some(operator) => self.handle_operator(buffer, operator),
                None => self.move_or_change(buffer, char),
            },
        }
    }

    /// `guu`, `gUU` and `g~~`: the repeated letter is the same operator.
    fn doubled_case(&self, char: char) -> Option<Operator> {
        let (operator, _) = self.pending.operator?;
        let same = matches!(char, 'u' | 'U' | '~') && Operator::for_case_change(char) == operator;
        same.then_some(operator)
    }

    fn handle_digit(&mut self, char: char) {
        let digit = char.to_digit(10).unwrap_or(0) as usize;
        let count = self.pending.count.unwrap_or(0).saturating_mul(10).saturating_add(digit);
        self.pending.count = Some(count.min(MAX_COUNT));
    }

    fn move_or_change(&mut self, buffer: &mut Buffer, char: char) {
        let is_change = matches!(self.pending.operator, Some((Operator::Change, _)));
        if is_change && matches!(char, 'w' | 'W') {
            return self.change_word(buffer, char == 'W');
        }
        match self.motion(buffer, char) {
            MotionResult::NoMotion if self.pending.operator.is_none() => self.change(buffer, char),
            MotionResult::NoMotion => self.reset(),
            found => self.apply_motion(buffer, found),
        }
    }

    /// Handles an operator: waits for its motion, or takes whole lines if doubled.
    fn handle_operator(&mut self, buffer: &mut Buffer, operator: Operator) {
        match self.pending.operator {
            Some((same, _)) if same == operator => {
                let first = buffer.cursor().line;
                let last = first.saturating_add(self.pending.repeat_count() - 1);
                self.operate_lines(buffer, operator, first, last);
            }
            Some(_) => self.reset(),
            None => {
                self.pending.operator = Some((operator, self.pending.count.take()));
            }
        }
    }

    fn after_g(&mut self, buffer: &mut Buffer, char: char) {
        let times = self.pending.repeat_count();
        match (char, self.is_visual()) {
            ('g', _) => {
                let found = motion::to_line(buffer, self.pending.total().unwrap_or(1));
                self.apply_motion(buffer, found);
            }
            ('e', _) => self.apply_motion(buffer, motion::word_end_back(buffer, times, false)),
            ('E', _) => self.apply_motion(buffer, motion::word_end_back(buffer, times, true)),
            ('_', _) => self.apply_motion(buffer, motion::last_non_blank(buffer)),
            ('J', false) => self.join(buffer, false),
            ('v', _) => self.select_again(buffer),
            ('u' | 'U' | '~', true) => {
                self.visual_operator(buffer, Operator::for_case_change(char))
            }
            ('u' | 'U' | '~', false) => {
                self.handle_operator(buffer, Operator::for_case_change(char))
            }
            _ => self.reset(),
        }
    }

    fn motion(&mut self, buffer: &mut Buffer, char: char) -> MotionResult {
        let times = self.pending.repeat_count();
        match char {
            'j' | 'k' if self.pending.operator.is_none() => {
                for _ in 0..times {
                    let moved = if char == 'j' { buffer.down() } else { buffer.move_up() };
                    if !moved {
                        break;
                    }
                }
                MotionResult::Moved
            }
            'G' => motion::to_line(buffer, self.pending.total().unwrap_or(usize::MAX)),
            ';' | ',' => match self.find {
                Some((kind, char_sought)) => {
                    let kind = if char == ';' { kind } else { motion::reverse_direction(kind) };
                    motion::find(buffer, kind, char_sought, times, true)
                }
                None => MotionResult::Failed,
            },
            'n' | 'N' => match self.pattern.clone() {
                Some((pattern, forward)) => {
                    motion::search(buffer, &pattern, forward == (char == 'n'), times)
                }
                None => MotionResult::Failed,
            },
            '*' | '#' => match motion::word_at(buffer) {
                Some((start, word)) => {
                    // Otherwise `#` would find the word at the cursor.
                    buffer.set_cursor(start);
                    self.pattern = Some((word.clone(), char == '*'));
                    motion::search(buffer, &word, char == '*', times)
                }
                None => MotionResult::Failed,
            },
            _ => motion::text_motion(
                buffer,
                char,
                self.pending.total(),
                self.pending.operator.is_some(),
            ),
        }
    }

    /// Moves the cursor, extends the selection, or applies the operator.
    fn apply_motion(&mut self, buffer: &mut Buffer, found: MotionResult) {
        let MotionResult::To(motion) = found else { return self.reset() };
        match self.pending.operator {
            Some((operator, _)) => self.operate_motion(buffer, operator, motion),
            None => {
                let to_line_end = self.pending.keys == "$";
                buffer.set_cursor(motion.target);
                if to_line_end {
                    buffer.preferred = Some(usize::MAX);
                }
                self.reset();
            }
        }
    }

    fn operate_motion(&mut self, buffer: &mut Buffer, operator: Operator, motion: Motion) {
        let from = buffer.cursor();
        let (start, end) = (from.min(motion.target), from.max(motion.target));
        match motion.kind {
            MotionKind::Linewise => self.operate_lines(buffer, operator, start.line, end.line),
            MotionKind::Exclusive => self.operate(buffer, operator, start..end),
            MotionKind::Inclusive => {
                let in_line = end.byte < buffer.text().line(end.line).len();
                let end = if in_line { buffer.next(end) } else { end };
                self.operate(buffer, operator, start..end);
            }
        }
    }

    fn pattern_key(
        &mut self,
        buffer: &mut Buffer,
        key: Key,
        mut pattern: String,
        forward: bool,
    ) -> bool {
        match key.code {
            KeyCode::Enter => {
                if pattern.is_empty() {
                    // An empty pattern repeats the previous one, as in vi.
                    pattern = self.pattern.take().map_or(String::new(), |(pattern, _)| pattern);
                }
                self.pattern = (!pattern.is_empty()).then_some((pattern.clone(), forward));
                self.pending.keys.push_str(&pattern);
                self.pending.keys.push('\n');
                let found = motion::search(buffer, &pattern, forward, self.pending.repeat_count());
                self.apply_motion(buffer, found);
                self.clamp_cursor(buffer);
            }
            KeyCode::Backspace => match pattern.pop() {
                Some(_) => self.pending.pending_input = PendingInput::Pattern(pattern, forward),
                None => self.reset(),
            },
            _ => {
                pattern.extend(key.character());
                self.pending.pending_input = PendingInput::Pattern(pattern, forward);
            }
        }
        true
    }
}
