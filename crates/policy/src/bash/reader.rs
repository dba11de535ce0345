//! Reads a string as bash does, character by character, keeping track of quotes, nesting, and
//! here-documents. It gives up on rarely used syntax.

mod arithmetic;
mod compound;
mod condition;
mod expansion;
mod here_document;
mod simple;
mod word;

use super::findings::{Reading, ShellFindings, UnparsedReason};
use super::line::CommandPosition;

/// Maximum nesting depth.
const MAX_DEPTH: usize = 40;

/// The position in a string and its context.
pub(super) struct ShellReader<'t, 'f> {
    text: &'t str,
    at: usize,
    end: usize,
    depth: usize,
    position: CommandPosition,
    /// Whether positions are offsets in the whole text.
    has_offsets: bool,
    here_documents: Vec<here_document::PendingHereDocument>,
    /// Whether here-documents of the text around a substitution still wait for their bodies.
    outer_waits: bool,
    findings: &'f mut ShellFindings,
}

/// Reads the whole text. If the reader gives up, the reason is recorded as trouble.
pub(super) fn read(
    text: &str,
    position: CommandPosition,
    has_offsets: bool,
    depth: usize,
    findings: &mut ShellFindings,
) {
    let mut reader = ShellReader {
        text,
        at: 0,
        end: text.len(),
        depth,
        position,
        has_offsets,
        here_documents: Vec::new(),
        outer_waits: false,
        findings,
    };
    // The text after an error is read as far as possible, for denying rules.
    loop {
        let result = reader.read_all();
        let Err(UnparsedReason(reason)) = result else { return };
        reader.findings.mark_unanalyzable(reason);
        reader.here_documents.clear();
        let rest = reader.text.get(reader.at..).unwrap_or_default();
        match rest.find(['\n', ';', '&', '|']) {
            Some(end) => reader.at += end + 1,
            None => return,
        }
        reader.depth = depth;
        reader.position = position;
        reader.end = text.len();
    }
}

/// Whether the character ends an unquoted word.
pub(super) fn ends_word(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}

impl ShellReader<'_, '_> {
    fn read_all(&mut self) -> Reading<()> {
        self.list(&[])?;
        match self.peek() {
            None if self.here_documents.is_empty() => Ok(()),
            None => Err(UnparsedReason::new("unterminated here-document")),
            Some(character) => Err(UnparsedReason::new(format!(
                "unexpected `{character}` at the beginning of a command"
            ))),
        }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    /// Returns the current character as written.
    fn raw(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Returns the current character, after skipping line continuations.
    fn peek(&mut self) -> Option<char> {
        while self.rest().starts_with("\\\n") {
            self.at += 2;
        }
        self.raw()
    }

    /// Returns the character `count` positions ahead, not counting line continuations.
    fn peek_at(&self, count: usize) -> Option<char> {
        let mut rest = self.rest();
        let mut seen = 0;
        loop {
            while let Some(joined) = rest.strip_prefix("\\\n") {
                rest = joined;
            }
            let character = rest.chars().next()?;
            if seen == count {
                return Some(character);
            }
            seen += 1;
            rest = rest.get(character.len_utf8()..)?;
        }
    }

    /// Consumes the current character.
    fn bump(&mut self) -> Option<char> {
        let character = self.raw()?;
        self.at += character.len_utf8();
        Some(character)
    }

    /// Consumes `count` characters, not counting line continuations.
    fn consume(&mut self, count: usize) {
        for _ in 0..count {
            self.peek();
            self.bump();
        }
    }

    /// Whether `text` is next.
    fn is_next(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, expected)| self.peek_at(index) == Some(expected))
    }

    /// Consumes `text` if it is next.
    fn consume_if(&mut self, text: &str) -> bool {
        let stands = self.is_next(text);
        if stands {
            self.consume(text.chars().count());
        }
        stands
    }

    /// Skips spaces, tabs, and a comment.
    fn skip_blank(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('#') => {
                    let length = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.at += length;
                }
                _ => return,
            }
        }
    }

    /// Skips whitespace, comments, and line endings.
    fn skip_lines(&mut self) -> Reading<()> {
        loop {
            self.skip_blank();
            if self.raw() != Some('\n') {
                return Ok(());
            }
            self.consume_line_ending()?;
        }
    }

    fn source(&self, start: usize) -> String {
        self.text.get(start..self.at).unwrap_or_default().to_owned()
    }

    /// Runs `inner` one nesting level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Reading<T>) -> Reading<T> {
        if self.depth >= MAX_DEPTH {
            return Err(UnparsedReason::new("it is nested too deeply"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Reads commands in a nested text: `$(…)`, `<(…)`, or a function body.
    fn nested_in<T>(
        &mut self,
        position: CommandPosition,
        inner: impl FnOnce(&mut Self) -> Reading<T>,
    ) -> Reading<T> {
        let before = std::mem::replace(&mut self.position, position);
        let result = self.nested(inner);
        self.position = before;
        result
    }

    /// Reads a substitution; here-documents that begin in it must end in it.
    fn substitution<T>(&mut self, inner: impl FnOnce(&mut Self) -> Reading<T>) -> Reading<T> {
        let waiting = std::mem::take(&mut self.here_documents);
        let outer_waits = self.outer_waits;
        self.outer_waits |= !waiting.is_empty();
        let result = self.nested_in(CommandPosition::Substitution, inner);
        let open = !self.here_documents.is_empty();
        self.here_documents = waiting;
        self.outer_waits = outer_waits;
        if result.is_ok() && open {
            return Err(UnparsedReason::new("unterminated here-document in a substitution"));
        }
        result
    }
}
