//! Vi motions.

use std::ops::Range;

use super::super::boundary::LABEL_START;
use super::super::buffer::Buffer;
use super::super::text::Position;
use super::super::words::{self, SegmentClass};

/// How an operator uses a motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MotionKind {
    /// Up to the target.
    Exclusive,
    /// Including the character at the target.
    Inclusive,
    /// Whole lines.
    Linewise,
}

/// The target of a motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Motion {
    pub target: Position,
    pub kind: MotionKind,
}

/// The result of a character that may be a motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MotionResult {
    To(Motion),
    /// The cursor was already moved.
    Moved,
    /// A motion without a target here.
    Failed,
    NoMotion,
}

fn move_to(position: Position, kind: MotionKind) -> MotionResult {
    MotionResult::To(Motion { target: position, kind })
}

/// Returns motions that depend only on the text.
pub fn text_motion(
    buffer: &Buffer,
    char: char,
    count: Option<usize>,
    operating: bool,
) -> MotionResult {
    let times = count.unwrap_or(1);
    let from = buffer.cursor();
    let text = buffer.text();
    match char {
        'h' => move_to(
            repeat(from, times, |at| if at.byte == 0 { at } else { buffer.previous(at) }),
            MotionKind::Exclusive,
        ),
        'l' | ' ' => {
            let line_end = text.line(from.line).len();
            let step = |at: Position| if at.byte >= line_end { at } else { buffer.next(at) };
            move_to(repeat(from, times, step), MotionKind::Exclusive)
        }
        'j' if from.line == text.last_line() => MotionResult::Failed,
        'k' if from.line == 0 => MotionResult::Failed,
        'j' => move_to(
            Position::new((from.line + times).min(text.last_line()), from.byte),
            MotionKind::Linewise,
        ),
        'k' => {
            move_to(Position::new(from.line.saturating_sub(times), from.byte), MotionKind::Linewise)
        }
        '0' => move_to(Position::new(from.line, 0), MotionKind::Exclusive),
        '^' => move_to(first_non_blank(buffer, from.line), MotionKind::Exclusive),
        '_' | '+' | '-' => {
            let line = match char {
                '_' => from.line.saturating_add(times - 1),
                '+' => from.line.saturating_add(times),
                _ => from.line.saturating_sub(times),
            };
            move_to(first_non_blank(buffer, line.min(text.last_line())), MotionKind::Linewise)
        }
        '$' => {
            let line = from.line.saturating_add(times - 1).min(text.last_line());
            let end = text.line_end(line);
            let last = if end.byte == 0 { end } else { buffer.previous(end) };
            move_to(last, MotionKind::Inclusive)
        }
        '|' => {
            let start = Position::new(from.line, 0);
            let line_end = text.line(from.line).len();
            let step = |at: Position| if at.byte >= line_end { at } else { buffer.next(at) };
            move_to(repeat(start, times - 1, step), MotionKind::Exclusive)
        }
        'w' | 'W' => {
            let end = repeat(from, times, |at| word_forward(buffer, at, char == 'W'));
            move_to(
                if operating { word_for_operator(buffer, from, end) } else { end },
                MotionKind::Exclusive,
            )
        }
        'b' | 'B' => move_to(
            repeat(from, times, |at| word_back(buffer, at, char == 'B')),
            MotionKind::Exclusive,
        ),
        'e' | 'E' => move_to(
            repeat(from, times, |at| word_end(buffer, at, char == 'E')),
            MotionKind::Inclusive,
        ),
        '{' => {
            move_to(repeat(from, times, |at| paragraph(buffer, at, false)), MotionKind::Exclusive)
        }
        '}' => {
            move_to(repeat(from, times, |at| paragraph(buffer, at, true)), MotionKind::Exclusive)
        }
        '%' => {
            bracket(buffer).map_or(MotionResult::Failed, |at| move_to(at, MotionKind::Inclusive))
        }
        _ => MotionResult::NoMotion,
    }
}

/// Repeats a step until it has no effect.
fn repeat(from: Position, times: usize, step: impl Fn(Position) -> Position) -> Position {
    let mut at = from;
    for _ in 0..times {
        let next = step(at);
        if next == at {
            break;
        }
        at = next;
    }
    at
}

/// Returns the first non-whitespace character of a line, numbered from 1.
pub fn to_line(buffer: &Buffer, number: usize) -> MotionResult {
    let line = number.saturating_sub(1).min(buffer.text().last_line());
    move_to(first_non_blank(buffer, line), MotionKind::Linewise)
}

/// Returns the first non-whitespace character of a line.
pub fn first_non_blank(buffer: &Buffer, line: usize) -> Position {
    let text = buffer.text().line(line);
    let byte = text.find(|char: char| !char.is_whitespace()).unwrap_or(text.len());
    Position::new(line, byte)
}

/// `g_`: returns the last non-whitespace character of the line.
pub fn last_non_blank(buffer: &Buffer) -> MotionResult {
    let line = buffer.cursor().line;
    let end = buffer.text().line(line).trim_end().len();
    let end = Position::new(line, end);
    move_to(if end.byte == 0 { end } else { buffer.previous(end) }, MotionKind::Inclusive)
}

/// The class of a character for `w` and similar motions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CharClass {
    Blank,
    Word(SegmentClass),
    Punctuation,
    Label,
    /// With `W`: everything but whitespace.
    Big,
}

/// Returns the class of the character at a position; the end of a line is blank.
pub fn sort(buffer: &Buffer, at: Position, big: bool) -> CharClass {
    let line = buffer.text().line(at.line);
    if at.byte >= line.len() {
        return CharClass::Blank;
    }
    let cluster = line.get(at.byte..buffer.next(at).byte).unwrap_or("");
    if cluster.trim().is_empty() {
        CharClass::Blank
    } else if big {
        CharClass::Big
    } else if cluster.starts_with(LABEL_START) {
        CharClass::Label
    } else {
        match words::class(cluster) {
            SegmentClass::Separator => CharClass::Punctuation,
            class => CharClass::Word(class),
        }
    }
}

fn word_forward(buffer: &Buffer, from: Position, big: bool) -> Position {
    let mut at = from;
    let first = sort(buffer, at, big);
    while first != CharClass::Blank && sort(buffer, at, big) == first {
        at = buffer.next(at);
    }
    while sort(buffer, at, big) == CharClass::Blank {
        let next = buffer.next(at);
        if next == at {
            break;
        }
        // An empty line counts as a word.
        let empty = next.line != at.line && buffer.text().line(next.line).is_empty();
        at = next;
        if empty {
            break;
        }
    }
    at
}

/// Returns the end of `w` with an operator, which stays in the line on its last word.
fn word_for_operator(buffer: &Buffer, from: Position, end: Position) -> Position {
    let mut end = end;
    while end.line > from.line {
        let before = buffer.text().line(end.line).get(..end.byte).unwrap_or("");
        if !before.trim().is_empty() {
            break;
        }
        end = buffer.text().line_end(end.line - 1);
    }
    end
}

/// Returns the end of the word at a position, for `cw`.
pub fn end_of_current_word(buffer: &Buffer, from: Position, times: usize, big: bool) -> Position {
    let mut at = from;
    let kind = sort(buffer, at, big);
    while sort(buffer, at, big) == kind && at.byte < buffer.text().line(at.line).len() {
        at = buffer.next(at);
    }
    let last = buffer.previous(at).max(from);
    repeat(last, times - 1, |at| word_end(buffer, at, big))
}

fn word_end(buffer: &Buffer, from: Position, big: bool) -> Position {
    let mut at = buffer.next(from);
    while sort(buffer, at, big) == CharClass::Blank {
        let next = buffer.next(at);
        if next == at {
            return at;
        }
        at = next;
    }
    let kind = sort(buffer, at, big);
    loop {
        let next = buffer.next(at);
        if next.line != at.line || next == at || sort(buffer, next, big) != kind {
            return at;
        }
        at = next;
    }
}

fn word_back(buffer: &Buffer, from: Position, big: bool) -> Position {
    let mut at = buffer.previous(from);
    while sort(buffer, at, big) == CharClass::Blank {
        let empty = buffer.text().line(at.line).is_empty();
        if at == Position::START || empty {
            return at;
        }
        at = buffer.previous(at);
    }
    let kind = sort(buffer, at, big);
    while at.byte > 0 && sort(buffer, buffer.previous(at), big) == kind {
        at = buffer.previous(at);
    }
    at
}

/// `ge`: returns the end of the previous word.
pub fn word_end_back(buffer: &Buffer, times: usize, big: bool) -> MotionResult {
    let step = |from: Position| {
        let mut at = from;
        let first = sort(buffer, at, big);
        while first != CharClass::Blank && at != Position::START && sort(buffer, at, big) == first {
            at = buffer.previous(at);
        }
        while sort(buffer, at, big) == CharClass::Blank && at != Position::START {
            at = buffer.previous(at);
        }
        at
    };
    move_to(repeat(buffer.cursor(), times, step), MotionKind::Inclusive)
}

fn paragraph(buffer: &Buffer, from: Position, forward: bool) -> Position {
    let text = buffer.text();
    let blank = |line: usize| text.line(line).trim().is_empty();
    let mut line = from.line;
    let mut filled = !blank(line);
    loop {
        let next = if forward { line + 1 } else { line.wrapping_sub(1) };
        if next >= text.line_count() {
            return if forward { text.end() } else { Position::START };
        }
        line = next;
        if blank(line) && filled {
            return Position::new(line, 0);
        }
        filled |= !blank(line);
    }
}

const PAIRS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];

/// Returns the match of the first bracket at or after the cursor in its line.
fn bracket(buffer: &Buffer) -> Option<Position> {
    let cursor = buffer.cursor();
    let rest = buffer.current_line().get(cursor.byte..)?;
    let (offset, char) = rest
        .char_indices()
        .find(|(_, char)| PAIRS.iter().any(|(open, close)| char == open || char == close))?;
    let text = buffer.text().to_string();
    let at = buffer.text().offset(cursor) + offset;
    let (open, close) = PAIRS.into_iter().find(|(open, close)| char == *open || char == *close)?;
    let partner = if char == open {
        closing_bracket(&text, at + 1, open, close)
    } else {
        opening_bracket(&text, at, open, close)
    };
    partner.map(|offset| buffer.text().position(offset))
}

/// Returns the bracket that closes the one open at `from`.
pub fn closing_bracket(text: &str, from: usize, open: char, close: char) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, char) in text.get(from..)?.char_indices() {
        if char == close {
            if depth == 0 {
                return Some(from + offset);
            }
            depth -= 1;
        } else if char == open {
            depth += 1;
        }
    }
    None
}

/// Returns the bracket that opened the one open before `target`.
pub fn opening_bracket(text: &str, to: usize, open: char, close: char) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, char) in text.get(..to)?.char_indices().rev() {
        if char == open {
            if depth == 0 {
                return Some(offset);
            }
            depth -= 1;
        } else if char == close {
            depth += 1;
        }
    }
    None
}

/// Reverses the direction of `f`, `F`, `t`, or `T`.
pub fn reverse_direction(kind: char) -> char {
    if kind.is_lowercase() { kind.to_ascii_uppercase() } else { kind.to_ascii_lowercase() }
}

/// Finds a character in the line. `is_repeat` is whether `;` or `,` was used, where `t` must not
/// stop at the character that it is next to.
pub fn find(
    buffer: &Buffer,
    kind: char,
    char: char,
    times: usize,
    is_repeat: bool,
) -> MotionResult {
    let from = buffer.cursor();
    let line = buffer.current_line();
    let forward = kind.is_lowercase();
    let until = kind.eq_ignore_ascii_case(&'t');
    let next_to = if forward { buffer.next(from) } else { buffer.previous(from) };
    let positions: Vec<usize> = if forward {
        let start = buffer.next(from).byte;
        line.match_indices(char)
            .map(|(at, _)| at)
            .filter(|at| *at >= start && next_to.line == from.line)
            .collect()
    } else {
        line.match_indices(char)
            .map(|(offset, _)| offset)
            .filter(|offset| *offset < from.byte)
            .rev()
            .collect()
    };
    let adjacent =
        is_repeat && until && next_to.line == from.line && positions.first() == Some(&next_to.byte);
    let index = times - 1 + usize::from(adjacent && times == 1);
    let Some(byte) = positions.get(index) else { return MotionResult::Failed };
    let at = buffer.snap(Position::new(from.line, *byte));
    let at = match (until, forward) {
        (true, true) => buffer.previous(at),
        (true, false) => buffer.next(at),
        (false, _) => at,
    };
    move_to(at, if forward { MotionKind::Inclusive } else { MotionKind::Exclusive })
}

/// Returns the word at or after the cursor in its line, and its start.
pub fn word_at(buffer: &Buffer) -> Option<(Position, String)> {
    let cursor = buffer.cursor();
    let line = buffer.current_line();
    let mut at = cursor;
    while at.byte < line.len() && !matches!(sort(buffer, at, false), CharClass::Word(_)) {
        at = buffer.next(at);
    }
    let kind = sort(buffer, at, false);
    if !matches!(kind, CharClass::Word(_)) {
        return None;
    }
    let mut start = at;
    while start.byte > 0 && sort(buffer, buffer.previous(start), false) == kind {
        start = buffer.previous(start);
    }
    let mut end = at;
    while end.byte < line.len() && sort(buffer, end, false) == kind {
        end = buffer.next(end);
    }
    line.get(start.byte..end.byte).map(|word| (start, word.to_owned()))
}

/// Returns the next match of a pattern, wrapping around. Uppercase in the pattern makes the match
/// case-sensitive.
pub fn search(buffer: &Buffer, pattern: &str, forward: bool, times: usize) -> MotionResult {
    let from = buffer.cursor();
    let mut positions = Vec::new();
    for (number, line) in buffer.text().lines().iter().enumerate() {
        positions.extend(
            matches(line, pattern).map(|range| buffer.snap(Position::new(number, range.start))),
        );
    }
    positions.dedup();
    if positions.is_empty() {
        return MotionResult::Failed;
    }
    let count = positions.len();
    let index = if forward {
        positions.partition_point(|position| *position <= from) + times - 1
    } else {
        let before = positions.partition_point(|position| *position < from);
        before + count - 1 - (times - 1) % count
    };
    positions
        .get(index % count)
        .map_or(MotionResult::Failed, |at| move_to(*at, MotionKind::Exclusive))
}

fn matches<'a>(line: &'a str, pattern: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let exact = pattern.chars().any(char::is_uppercase);
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(rest) =
            line.get(from..).filter(|rest| !rest.is_empty() && !pattern.is_empty())
        {
            let at = from;
            from += rest.chars().next().map_or(1, char::len_utf8);
            let length = if exact {
                rest.starts_with(pattern).then_some(pattern.len())
            } else {
                folded_prefix(rest, pattern)
            };
            if let Some(length) = length {
                return Some(at..at + length);
            }
        }
        None
    })
}

/// Returns the length in bytes of the start of `text` that equals `pattern` when case is ignored.
fn folded_prefix(text: &str, pattern: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    for pattern_char in pattern.chars() {
        let (_, char) = chars.next()?;
        if char != pattern_char && !char.to_lowercase().eq(pattern_char.to_lowercase()) {
            return None;
        }
    }
    Some(chars.next().map_or(text.len(), |(at, _)| at))
}
