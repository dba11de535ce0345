//! The plain text of the input: lines, positions, and replacement of ranges.

use std::ops::Range;

use parallax_screen::sanitize::without_sequences;

/// A position between two characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The line index.
    pub line: usize,
    /// Bytes from the start of the line, always at a character boundary.
    pub byte: usize,
}

impl Position {
    /// The start of the text.
    pub const START: Self = Self { line: 0, byte: 0 };

    /// Creates a position.
    pub const fn new(line: usize, byte: usize) -> Self {
        Self { line, byte }
    }

    /// Returns the position after `text` if it began here.
    #[must_use]
    pub fn advance_by(self, text: &str) -> Self {
        match text.rsplit_once('\n') {
            None => Self::new(self.line, self.byte + text.len()),
            Some((before, last)) => {
                let breaks = memchr::memchr_iter(b'\n', before.as_bytes()).count() + 1;
                Self::new(self.line + breaks, last.len())
            }
        }
    }
}

/// Lines without line breaks; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    lines: Vec<String>,
}

impl Default for Text {
    fn default() -> Self {
        Self { lines: vec![String::new()] }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self { lines: text.split('\n').map(str::to_owned).collect() }
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            f.write_str(line)?;
        }
        Ok(())
    }
}

impl Text {
    /// Returns a line; empty if it does not exist.
    pub fn line(&self, number: usize) -> &str {
        self.lines.get(number).map_or("", String::as_str)
    }

    /// Returns all lines; at least one.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the number of lines; at least one.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Returns the index of the last line.
    pub fn last_line(&self) -> usize {
        self.lines.len() - 1
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 1 && self.line(0).is_empty()
    }

    /// Whether the text is only whitespace.
    pub fn is_blank(&self) -> bool {
        self.lines.iter().all(|line| line.trim().is_empty())
    }

    /// Returns the position after the last character.
    pub fn end(&self) -> Position {
        self.line_end(self.last_line())
    }

    /// Returns the position after the last character of a line.
    pub fn line_end(&self, line: usize) -> Position {
        Position::new(line, self.line(line).len())
    }

    /// Returns the nearest existing position at or before `position`.
    pub fn clamp(&self, position: Position) -> Position {
        if position.line >= self.lines.len() {
            return self.end();
        }
        let line = self.line(position.line);
        Position::new(position.line, line.floor_char_boundary(position.byte))
    }

    /// Returns the text between two positions.
    pub fn slice(&self, range: Range<Position>) -> String {
        let Range { start, end } = self.clamp_range(range);
        if start.line == end.line {
            return self.line(start.line).get(start.byte..end.byte).unwrap_or("").to_owned();
        }
        let mut text = self.line(start.line).get(start.byte..).unwrap_or("").to_owned();
        for line in start.line + 1..end.line {
            text.push('\n');
            text.push_str(self.line(line));
        }
        text.push('\n');
        text.push_str(self.line(end.line).get(..end.byte).unwrap_or(""));
        text
    }

    /// Replaces a range with `text`. Returns the replaced text and the position after the new text.
    pub fn replace(&mut self, range: Range<Position>, text: &str) -> (String, Position) {
        let range = self.clamp_range(range);
        let removed = self.slice(range.clone());
        let Range { start, end } = range;
        let after = start.advance_by(text);
        if start.line == end.line && after.line == start.line {
            if let Some(line) = self.lines.get_mut(start.line) {
                line.replace_range(start.byte..end.byte, text);
            }
            return (removed, after);
        }
        let tail = self.line(end.line).get(end.byte..).unwrap_or("").to_owned();
        let mut new: Vec<String> = text.split('\n').map(str::to_owned).collect();
        if let Some(last) = new.last_mut() {
            last.push_str(&tail);
        }
        if let Some(first) = new.first_mut() {
            first.insert_str(0, self.line(start.line).get(..start.byte).unwrap_or(""));
        }
        self.lines.splice(start.line..=end.line, new);
        (removed, after)
    }

    fn clamp_range(&self, range: Range<Position>) -> Range<Position> {
        let start = self.clamp(range.start);
        start..self.clamp(range.end).max(start)
    }

    /// Returns the byte offset from the start, including line breaks.
    pub fn offset(&self, position: Position) -> usize {
        let before: usize = self.lines.iter().take(position.line).map(|line| line.len() + 1).sum();
        before + position.byte
    }

    /// Returns the position at a byte offset.
    pub fn position(&self, offset: usize) -> Position {
        let mut rest = offset;
        for (number, line) in self.lines.iter().enumerate() {
            if rest <= line.len() {
                return self.clamp(Position::new(number, rest));
            }
            rest -= line.len() + 1;
        }
        self.end()
    }
}

/// Sanitizes text for the input: line breaks become `\n`; escape sequences and control characters
/// other than tabs are removed.
pub fn sanitize(text: &str) -> std::borrow::Cow<'_, str> {
    let fits = |char: char| !char.is_control() || char == '\n' || char == '\t';
    if text.chars().all(fits) {
        return text.into();
    }
    let text = without_sequences(text);
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\r' => {
                chars.next_if_eq(&'\n');
                clean.push('\n');
            }
            char if fits(char) => clean.push(char),
            _ => {}
        }
    }
    clean.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_joins_and_splits_lines() {
        let mut text = Text::from("one\ntwo\nthree");
        let (removed, after) = text.replace(Position::new(0, 2)..Position::new(2, 2), "X\nY");
        assert_eq!((removed.as_str(), after), ("e\ntwo\nth", Position::new(1, 1)));
        assert_eq!(text.to_string(), "onX\nYree");
        text.replace(Position::START..text.end(), "");
        assert!(text.is_empty());
    }

    #[test]
    fn offsets_and_positions_round_trip() {
        let text = Text::from("añb\n\nc");
        for offset in [0, 1, 3, 4, 5, 6, 7] {
            assert_eq!(text.offset(text.position(offset)), offset);
        }
        assert_eq!(text.position(99), text.end());
    }

    #[test]
    fn control_characters_are_not_inserted() {
        assert_eq!(sanitize("a\r\nb\rc\td"), "a\nb\nc\td");
        assert_eq!(sanitize("\u{1b}[31mred\u{1b}[0m\u{7}\u{9b}!\u{1b}"), "red!");
    }
}
