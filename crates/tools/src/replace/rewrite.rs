//! Writes the new text of an edit with the characters and the indentation of the file.

use super::carry::{CarriedToken, CarriedTokens};
use super::hit::{Replacement, RequestedEdit};
use super::indentation::{FileStyle, IndentPair, Indentation, LineIndent, is_aligned};
use super::source::SourceText;
use super::tokens::{AlignedPair, TokenKind, TokenPositions, TokenizedText};

/// The edit, split into tokens once for all matches.
pub(super) struct TokenizedEdit<'a> {
    old: TokenizedText<'a>,
    new: TokenizedText<'a>,
    carried: CarriedTokens,
    style: FileStyle,
}

impl<'a> TokenizedEdit<'a> {
    pub(super) fn new(requested_edit: &'a RequestedEdit, file: &str) -> Self {
        let old = TokenizedText::new(&requested_edit.old);
        let new = TokenizedText::new(&requested_edit.new);
        let carried = CarriedTokens::compare(&old, &new);
        Self { old, new, carried, style: FileStyle::detect(file) }
    }

    /// Returns the change at one place; `None` if it does not match after all.
    pub(super) fn match_at(
        &self,
        source: &SourceText<'_>,
        pairs: &[AlignedPair],
    ) -> Option<Replacement> {
        let text = source.text();
        let positions = TokenPositions::from_pairs(text, &self.old.tokens, pairs)?;
        let range = positions.file.first()?.start..positions.file.last()?.end;
        let last = range.end.saturating_sub(1).max(range.start);
        let lines = (source.line_number(range.start), source.line_number(last));
        let indentation = self.indentation(text, &positions);
        let mut rewrite = Rewrite {
            edit: self,
            text,
            positions,
            indentation,
            output: String::new(),
            above: None,
        };
        for line in 0..self.new.lines.len() {
            rewrite.write_line(line);
        }
        Some(Replacement { range, new: rewrite.output, lines })
    }

    /// Determines how the model's indentation maps to the file's.
    fn indentation(&self, text: &str, positions: &TokenPositions) -> Indentation {
        let mut above = "";
        let mut pairs = Vec::new();
        for line in 0..self.old.lines.len() {
            let content = self.old.text_of(&self.old.content(line));
            let Some(first) = self.old.lines.get(line).map(|line| line.start) else { continue };
            if content.is_empty() {
                continue;
            }
            let model = self.old.token(first);
            let in_file = positions.file.get(first).and_then(|range| text.get(range.clone()));
            if positions.begins_line.get(first) == Some(&true)
                && !is_aligned(above, model)
                && let Some(file) = in_file
            {
                // Only unchanged lines keep no-break spaces in their indentation.
                let plain = |c: char| if c.is_whitespace() && !c.is_ascii() { ' ' } else { c };
                let file = file.chars().map(plain).collect();
                pairs.push(IndentPair { line, model: model.to_owned(), file });
            }
            above = self.old.lines.get(line).map_or("", |line| self.old.text_of(line));
        }
        Indentation::learn(pairs, &self.style, &[self.old.text, self.new.text])
    }
}

/// The replacement text of one match.
struct Rewrite<'a> {
    edit: &'a TokenizedEdit<'a>,
    text: &'a str,
    positions: TokenPositions,
    indentation: Indentation,
    output: String,
    /// The indentation of the last line with content.
    above: Option<LineIndent<'a>>,
}

impl Rewrite<'_> {
    fn write_line(&mut self, line: usize) {
        let edit = self.edit;
        let Some(tokens) = edit.new.lines.get(line).cloned() else { return };
        let origin = edit.carried.lines.get(line).copied().unwrap_or_default();
        let start = self.output.len();
        for index in tokens.clone() {
            let carried = edit.carried.tokens.get(index).copied().flatten();
            match edit.new.kind(index) {
                Some(TokenKind::Indent) if !origin.is_unchanged => {
                    self.write_indent(index, line, origin.old);
                }
                _ => self.write_token(index, carried),
            }
        }
        let model = edit.new.token(tokens.start);
        let line = edit.new.text_of(&tokens);
        if line.trim().is_empty() {
            return;
        }
        let written = self.output.get(start..).unwrap_or_default();
        let indent = written.len() - written.trim_start_matches([' ', '\t']).len();
        let file = written.get(..indent).unwrap_or_default().to_owned();
        let is_continuation =
            self.above.as_ref().is_some_and(|above| self.indentation.is_continuation(above, model));
        self.above = Some(LineIndent { line, model, file, is_continuation });
    }

    /// Writes a token: with the file's characters if it is carried over, otherwise as the model
    /// wrote it.
    fn write_token(&mut self, index: usize, carried: Option<CarriedToken>) {
        let own = self.edit.new.token(index);
        let in_file = carried.and_then(|carried| {
            let in_file = self.text.get(self.positions.file.get(carried.old)?.clone())?;
            Some((carried, in_file))
        });
        let is_line_end = self.edit.new.kind(index) == Some(TokenKind::LineEnd);
        self.output.push_str(match in_file {
            Some((carried, in_file)) if is_line_end => line_ending(carried, in_file),
            // Next to new text, only plain characters are kept: a no-break space or a dash there
            // belonged to the text that was replaced.
            Some((carried, in_file))
                if in_file.is_ascii()
                    || carried.is_quote
                    || (carried.is_left_carried && carried.is_right_carried) =>
            {
                in_file
            }
            _ if is_line_end => "\n",
            _ => own,
        });
    }

    fn write_indent(&mut self, index: usize, line: usize, old_line: usize) {
        let own = self.edit.new.token(index);
        let blank = self.edit.new.content(line).is_empty();
        let begins_line = self.positions.begins_line.first() == Some(&true);
        if self.output.is_empty() && index == 0 && !begins_line {
            // The match begins within a line, so the text before it is not indentation.
            let old = self.edit.old.token(0);
            let file_range = self.positions.file.first().filter(|_| old == own);
            let in_file = file_range.and_then(|file_range| self.text.get(file_range.clone()));
            self.output.push_str(in_file.unwrap_or(own));
        } else if !blank && (self.output.is_empty() || self.output.ends_with('\n')) {
            let indent = self.indentation.translate(own, old_line, self.above.as_ref());
            self.output.push_str(&indent);
        }
    }
}

/// Returns the line ending of a carried token. Trailing whitespace belongs to the line before it.
fn line_ending(carried: CarriedToken, in_file: &str) -> &str {
    match in_file.find('\n') {
        Some(_) if carried.is_left_carried => in_file,
        Some(end) => in_file.get(end..).unwrap_or_default(),
        // The file has both lines in one, or ends here.
        None if carried.is_right_carried && (carried.is_left_carried || in_file.is_empty()) => {
            in_file
        }
        None => "\n",
    }
}
