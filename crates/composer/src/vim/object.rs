//! Vi text objects: the word, string, bracket, or paragraph around the cursor.

use std::ops::Range;

use super::super::buffer::Buffer;
use super::super::text::Position;
use super::motion::{self, CharClass};

/// The range of a text object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextObject {
    pub range: Range<Position>,
    /// Whether the range consists of whole lines, from the first to the last.
    pub lines: bool,
}

/// Returns the object of a character after `i` or `a` (`around`).
pub fn find(buffer: &Buffer, char: char, around: bool, times: usize) -> Option<TextObject> {
    match char {
        'w' | 'W' => Some(word(buffer, char == 'W', around, times)),
        '"' | '\'' | '`' => find_quoted(buffer, char, around),
        '(' | ')' | 'b' => bracketed(buffer, '(', ')', around, times),
        '[' | ']' => bracketed(buffer, '[', ']', around, times),
        '{' | '}' | 'B' => bracketed(buffer, '{', '}', around, times),
        '<' | '>' => bracketed(buffer, '<', '>', around, times),
        'p' => Some(paragraph(buffer, around, times)),
        's' => Some(find_sentence(buffer, around, times)),
        't' => find_tagged(buffer, around, times),
        _ => None,
    }
}

fn charwise(range: Range<Position>) -> TextObject {
    TextObject { range, lines: false }
}

fn word(buffer: &Buffer, big: bool, around: bool, times: usize) -> TextObject {
    let cursor = buffer.cursor();
    let length = buffer.current_line().len();
    let sort = |at: Position| motion::sort(buffer, at, big);
    let run_end = |from: Position| {
        let kind = sort(from);
        let mut at = from;
        while at.byte < length && sort(at) == kind {
            at = buffer.next(at);
        }
        at
    };
    let mut start = cursor;
    while start.byte > 0 && sort(buffer.previous(start)) == sort(cursor) && cursor.byte < length {
        start = buffer.previous(start);
    }
    let mut end = cursor;
    let began_blank = sort(cursor) == CharClass::Blank;
    let mut spaced = false;
    for _ in 0..times {
        end = run_end(end);
        if around && end.byte < length && (began_blank || sort(end) == CharClass::Blank) {
            end = run_end(end);
            spaced = true;
        }
    }
    // If no space follows the word, include the space before it.
    if around && !spaced && !began_blank {
        while start.byte > 0 && sort(buffer.previous(start)) == CharClass::Blank {
            start = buffer.previous(start);
        }
    }
    charwise(start..end)
}

/// Returns the text between two quotes of the line: those around the cursor, or the next ones.
fn find_quoted(buffer: &Buffer, quote: char, around: bool) -> Option<TextObject> {
    let cursor = buffer.cursor();
    let line = buffer.current_line();
    let mut quotes = Vec::new();
    let mut escaped = false;
    for (offset, char) in line.char_indices() {
        if char == quote && !escaped {
            quotes.push(offset);
        }
        escaped = char == '\\' && !escaped;
    }
    let pair =
        quotes.chunks_exact(2).find(|pair| pair.iter().any(|offset| *offset >= cursor.byte))?;
    let [open, close] = *pair else { return None };
    let position_at = |byte| Position::new(cursor.line, byte);
    if !around {
        return Some(charwise(position_at(open + 1)..position_at(close)));
    }
    let behind = line.get(close + 1..)?;
    let space = behind.len() - behind.trim_start().len();
    let start = if space > 0 { open } else { line.get(..open)?.trim_end().len() };
    Some(charwise(position_at(start)..position_at(close + 1 + space)))
}

fn bracketed(
    buffer: &Buffer,
    open: char,
    close: char,
    around: bool,
    times: usize,
) -> Option<TextObject> {
    let text = buffer.text().to_string();
    let at = buffer.text().offset(buffer.cursor());
    let on_open = text.get(at..)?.starts_with(open);
    let mut start = if on_open { at } else { motion::opening_bracket(&text, at, open, close)? };
    for _ in 1..times {
        start = motion::opening_bracket(&text, start, open, close)?;
    }
    let end = motion::closing_bracket(&text, start + 1, open, close)?;
    let position_at = |offset| buffer.text().position(offset);
    if around {
        return Some(charwise(position_at(start)..position_at(end + 1)));
    }
    let inner = text.get(start + 1..end)?;
    // Brackets on their own lines: the lines between them.
    if let Some(rest) = inner.strip_prefix('\n')
        && let Some((lines, last)) = rest.rsplit_once('\n')
        && last.trim().is_empty()
    {
        let first = start + 2;
        return Some(TextObject {
            range: position_at(first)..position_at(first + lines.len()),
            lines: true,
        });
    }
    Some(charwise(position_at(start + 1)..position_at(end)))
}

fn paragraph(buffer: &Buffer, around: bool, times: usize) -> TextObject {
    let text = buffer.text();
    let blank = |line: usize| text.line(line).trim().is_empty();
    let run_end = |from: usize| {
        let mut last = from;
        while last < text.last_line() && blank(last + 1) == blank(from) {
            last += 1;
        }
        last
    };
    let here = buffer.cursor().line;
    let mut first = here;
    while first > 0 && blank(first - 1) == blank(here) {
        first -= 1;
    }
    let mut last = here;
    let mut whole = true;
    for time in 0..times {
        if time > 0 {
            if last == text.last_line() {
                break;
            }
            last += 1;
        }
        last = run_end(last);
        if around {
            whole = last < text.last_line();
            if whole {
                last = run_end(last + 1);
            }
        }
    }
    // If no blank lines follow, include those before it.
    if around && !whole {
        while first > 0 && blank(first - 1) {
            first -= 1;
        }
    }
    TextObject { range: Position::new(first, 0)..text.line_end(last), lines: true }
}

/// Splits text into alternating sentences and spaces. A sentence ends with `.`, `!` or `?` (and
/// closing characters) before a space, and at an empty line.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut start, mut in_space, mut ended) = (0, false, false);
    let mut before = None;
    for (offset, char) in text.char_indices() {
        let space = char.is_whitespace();
        let breaks = match (in_space, space) {
            (false, true) => {
                ended || (char == '\n' && text.get(offset..).is_some_and(is_empty_line))
            }
            (true, false) => true,
            _ => false,
        };
        if breaks && before.is_some() {
            found.push(start..offset);
            start = offset;
        }
        in_space = if breaks { space } else { in_space };
        ended = match char {
            '.' | '!' | '?' => true,
            ')' | ']' | '"' | '\'' => ended,
            _ => false,
        };
        before = Some(char);
    }
    found.push(start..text.len());
    found
}

/// Whether a string that starts with a line break continues with an empty line.
fn is_empty_line(rest: &str) -> bool {
    rest.get(1..).and_then(|rest| rest.split('\n').next()).is_some_and(|it| it.trim().is_empty())
}

fn find_sentence(buffer: &Buffer, around: bool, times: usize) -> TextObject {
    let text = buffer.text().to_string();
    let at = buffer.text().offset(buffer.cursor());
    let all = sentences(&text);
    let is_space =
        |part: &Range<usize>| text.get(part.clone()).is_some_and(|it| it.trim().is_empty());
    let here = all.iter().position(|part| at < part.end).unwrap_or(all.len() - 1);
    let count = if around { times.saturating_mul(2) } else { times };
    let last = here.saturating_add(count - 1).min(all.len() - 1);
    let mut first = here;
    // If no space follows, include the space before it.
    let ends_in_space = all.get(last).is_some_and(is_space);
    if around && !ends_in_space && here > 0 && !all.get(here).is_some_and(is_space) {
        first -= 1;
    }
    let edge = |part: usize| all.get(part).cloned().unwrap_or(0..0);
    let position_at = |offset| buffer.text().position(offset);
    charwise(position_at(edge(first).start)..position_at(edge(last).end))
}

/// Returns the text between `<name …>` and `</name>`, the `repeat_count`th pair around the cursor.
fn find_tagged(buffer: &Buffer, around: bool, times: usize) -> Option<TextObject> {
    let text = buffer.text().to_string();
    let at = buffer.text().offset(buffer.cursor());
    let mut open: Vec<(&str, Range<usize>)> = Vec::new();
    let mut pairs: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..)?.find('<').map(|found| from + found) {
        from = start + 1;
        let Some(end) = text.get(start..)?.find('>').map(|found| start + found + 1) else { break };
        let inner = text.get(start + 1..end - 1)?;
        let name = inner.trim_start_matches('/');
        let name = name.split(|char: char| char.is_whitespace() || char == '/').next()?;
        if !name.starts_with(char::is_alphabetic) || inner.ends_with('/') {
            continue;
        }
        from = end;
        if !inner.starts_with('/') {
            open.push((name, start..end));
        } else if let Some(place) = open.iter().rposition(|(other, _)| *other == name) {
            let (_, begin) = open.swap_remove(place);
            open.truncate(place);
            pairs.push((begin, start..end));
        }
    }
    // Inner pairs close first.
    let (begin, end) = pairs
        .into_iter()
        .filter(|(begin, end)| begin.start <= at && at < end.end)
        .nth(times - 1)?;
    let position_at = |offset| buffer.text().position(offset);
    Some(charwise(match around {
        true => position_at(begin.start)..position_at(end.end),
        false => position_at(begin.end)..position_at(end.start),
    }))
}
