//! The tokens of an edit and their positions in the file.

use std::ops::Range;

/// Characters that a typed `-` may match.
pub(super) const DASHES: &[char] = &['‐', '‑', '‒', '–', '—', '―', '−', '﹣', '－'];

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word, a number, or a punctuation mark.
    Sign,
    /// Whitespace within a line.
    Space,
    /// Indentation, even if it is empty.
    Indent,
    /// A line ending, including the whitespace before it.
    LineEnd,
}

/// A token of a string.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    range: Range<usize>,
}

impl Token {
    pub(super) fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.range.clone()).unwrap_or_default()
    }
}

/// Whether the character is whitespace or an invisible zero-width character.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{200b}' | '\u{2060}' | '\u{feff}')
}

/// Whether the character belongs to a word or a number.
pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the plain form of quotes and dashes.
pub(super) fn fold_character(character: char) -> char {
    match character {
        '“' | '”' | '„' | '‟' | '″' | '«' | '»' | '＂' => '"',
        '‘' | '’' | '‚' | '‛' | '′' | '‹' | '›' | '＇' => '\'',
        // NUL is shown to the model as this character.
        '\0' => parallax_files::SHOWN_NUL,
        dash if DASHES.contains(&dash) => '-',
        other => other,
    }
}

/// Returns the number of leading whitespace bytes that do not end a line.
fn spaces(text: &str) -> usize {
    text.find(|character| character == '\n' || !is_space(character)).unwrap_or(text.len())
}

/// Returns the number of trailing whitespace bytes that do not end a line.
fn spaces_before(text: &str) -> usize {
    let rest = text.trim_end_matches(|character| character != '\n' && is_space(character));
    text.len() - rest.len()
}

/// Splits text with `\n` line endings into tokens; each line begins with its indentation.
fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut begins_line = true;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let blank = spaces(rest);
        let ends_line = rest.get(blank..).is_some_and(|rest| rest.starts_with('\n'));
        if begins_line {
            let length = if ends_line { 0 } else { blank };
            tokens.push(Token { kind: TokenKind::Indent, range: at..at + length });
            at += length;
            begins_line = false;
            if length > 0 {
                continue;
            }
        }
        let (kind, length) = match (ends_line, blank) {
            (true, _) => (TokenKind::LineEnd, blank + 1),
            (false, 0) => (TokenKind::Sign, token_length(rest)),
            (false, _) => (TokenKind::Space, blank),
        };
        tokens.push(Token { kind, range: at..at + length });
        at += length;
        begins_line = kind == TokenKind::LineEnd;
    }
    tokens
}

/// Returns the length of a word, a run of dots or dashes, or one character.
fn token_length(text: &str) -> usize {
    let first = text.chars().next().unwrap_or_default();
    let same = |character: char| match first {
        '.' | '-' => character == first,
        _ => is_word(first) && is_word(character),
    };
    let run = text.find(|character| !same(character)).unwrap_or(text.len());
    run.max(first.len_utf8())
}

/// Text from the model, split into tokens and lines.
pub(super) struct TokenizedText<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    /// The tokens of each line.
    pub(super) lines: Vec<Range<usize>>,
}

impl<'a> TokenizedText<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let tokens = tokenize(text);
        let lines = lines_of(&tokens);
        Self { text, tokens, lines }
    }

    pub(super) fn kind(&self, index: usize) -> Option<TokenKind> {
        self.tokens.get(index).map(|token| token.kind)
    }

    pub(super) fn token(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| token.text(self.text))
    }

    /// Returns the tokens of a line between its indentation and its line ending.
    pub(super) fn content(&self, line: usize) -> Range<usize> {
        let Some(line) = self.lines.get(line) else { return 0..0 };
        let is_sign = |index: &usize| self.kind(*index) == Some(TokenKind::Sign);
        match (line.clone().find(is_sign), line.clone().rfind(is_sign)) {
            (Some(first), Some(last)) => first..last + 1,
            _ => line.start..line.start,
        }
    }

    /// Returns the text of a range of tokens.
    pub(super) fn text_of(&self, tokens: &Range<usize>) -> &'a str {
        let tokens = self.tokens.get(tokens.clone()).unwrap_or_default();
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => {
                self.text.get(first.range.start..last.range.end).unwrap_or_default()
            }
            _ => "",
        }
    }
}

/// Returns the tokens of each line.
fn lines_of(tokens: &[Token]) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for (index, token) in tokens.iter().enumerate() {
        if token.kind == TokenKind::LineEnd {
            lines.push(start..index + 1);
            start = index + 1;
        }
    }
    if start < tokens.len() {
        lines.push(start..tokens.len());
    }
    lines
}

/// One step of the alignment: its position in the old text and in the file.
#[derive(Debug, Clone)]
pub(super) struct AlignedPair {
    pub(super) old: Range<usize>,
    pub(super) file: Range<usize>,
}

/// The contiguous positions of the old text's tokens in the file.
#[derive(Debug)]
pub(super) struct TokenPositions {
    /// The range of each token.
    pub(super) file: Vec<Range<usize>>,
    /// For an indentation token: whether it is also at the start of a line in the file.
    pub(super) begins_line: Vec<bool>,
}

impl TokenPositions {
    /// Computes the positions from the alignment of the old text with the file. Returns `None` if
    /// the old text begins a line and the file's text does not.
    pub(super) fn from_pairs(text: &str, tokens: &[Token], pairs: &[AlignedPair]) -> Option<Self> {
        let mut places =
            Self { file: vec![0..0; tokens.len()], begins_line: vec![false; tokens.len()] };
        let mut pairs = pairs.iter().peekable();
        let mut before: Option<usize> = None;
        for (index, token) in tokens.iter().enumerate() {
            if token.kind != TokenKind::Sign {
                continue;
            }
            let first = pairs.next()?;
            let mut range = first.file.clone();
            while let Some(pair) = pairs.next_if(|pair| pair.old.start < token.range.end) {
                range.end = pair.file.end;
            }
            match before {
                None => places.place_leading(text, tokens, index, range.start)?,
                Some(before) => {
                    let start = places.file.get(before)?.end;
                    places.place_gap(text, tokens, before + 1..index, start..range.start);
                }
            }
            *places.file.get_mut(index)? = range;
            before = Some(index);
        }
        places.place_trailing(text, tokens, before?);
        Some(places)
    }

    fn set(&mut self, index: usize, range: Range<usize>) {
        if let Some(slot) = self.file.get_mut(index) {
            *slot = range;
        }
    }

    fn set_begins_line(&mut self, index: usize) {
        if let Some(slot) = self.begins_line.get_mut(index) {
            *slot = true;
        }
    }

    /// Places the whitespace before the first character.
    fn place_leading(
        &mut self,
        text: &str,
        tokens: &[Token],
        first: usize,
        start: usize,
    ) -> Option<()> {
        let head = text.get(..start)?;
        let line_start = head.rfind('\n').map_or(0, |offset| offset + 1);
        let indent = start - spaces_before(head);
        let begins_line = indent <= line_start;
        let mut at = start;
        for index in (0..first).rev() {
            let token = tokens.get(index)?;
            let range = match token.kind {
                TokenKind::Indent if at == start && begins_line => {
                    self.set_begins_line(index);
                    line_start..start
                }
                TokenKind::Indent if at == start && !token.range.is_empty() => indent..start,
                TokenKind::LineEnd if !begins_line => return None,
                TokenKind::LineEnd => line_ending_before(text, at, index == 1),
                _ => at..at,
            };
            at = range.start;
            self.set(index, range);
        }
        Some(())
    }

    /// Places the whitespace between two characters.
    fn place_gap(&mut self, text: &str, tokens: &[Token], gap: Range<usize>, range: Range<usize>) {
        let white = text.get(range.clone()).unwrap_or_default();
        let last_end = gap
            .clone()
            .rev()
            .find(|index| tokens.get(*index).is_some_and(|token| token.kind == TokenKind::LineEnd));
        let Some(last_end) = last_end else {
            if gap.is_empty() {
                if let Some(before) = self.file.get_mut(gap.start.saturating_sub(1)) {
                    before.end = range.end;
                }
            } else {
                self.set(gap.start, range);
            }
            return;
        };
        // If the file has no line ending there, the first token gets all the whitespace.
        let lines_end = white.rfind('\n').map_or(range.end, |offset| range.start + offset + 1);
        let mut at = range.start;
        for index in gap {
            let kind = tokens.get(index).map(|token| token.kind);
            let end = match kind {
                Some(TokenKind::LineEnd) if index == last_end => lines_end,
                Some(TokenKind::LineEnd) => {
                    let rest = text.get(at..lines_end).unwrap_or_default();
                    rest.find('\n').map_or(lines_end, |found| at + found + 1)
                }
                Some(TokenKind::Indent) if index > last_end => {
                    if white.contains('\n') {
                        self.set_begins_line(index);
                    }
                    range.end
                }
                _ => at,
            };
            self.set(index, at..end);
            at = end;
        }
    }

    /// Places the whitespace after the last character.
    fn place_trailing(&mut self, text: &str, tokens: &[Token], last: usize) {
        let mut at = self.file.get(last).map_or(0, |range| range.end);
        for (index, token) in tokens.iter().enumerate().skip(last + 1) {
            let rest = text.get(at..).unwrap_or_default();
            let blank = spaces(rest);
            let ends_line = rest.get(blank..).is_some_and(|rest| rest.starts_with('\n'));
            let length = match token.kind {
                TokenKind::LineEnd if ends_line => blank + 1,
                TokenKind::Space => blank,
                TokenKind::Indent if !token.range.is_empty() => blank,
                _ => 0,
            };
            self.set(index, at..at + length);
            at += length;
        }
    }
}

/// Returns the line ending before `at`, including the preceding blank line; for the first token
/// only the line ending.
fn line_ending_before(text: &str, at: usize, only_end: bool) -> Range<usize> {
    let head = text.get(..at).unwrap_or_default();
    let Some(line) = head.strip_suffix('\n') else { return at..at };
    if only_end {
        return at - 1..at;
    }
    let start = line.rfind('\n').map_or(0, |found| found + 1);
    let blank = line.get(start..).is_some_and(|line| line.chars().all(is_space));
    if blank { start..at } else { at..at }
}
