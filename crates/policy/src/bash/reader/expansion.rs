//! Reads expansions that begin with `$` or a backtick.

use super::word::WordBuilder;
use super::{ShellReader, read};
use crate::bash::ansi::{self, DecodeError};
use crate::bash::findings::{Reading, UnparsedReason};
use crate::bash::line::CommandPosition;
use crate::bash::variable_name::is_name_character;

impl ShellReader<'_, '_> {
    /// Reads the expansion at the current `$` as a part of a word.
    pub(super) fn dollar(&mut self, word: &mut WordBuilder, quoted: bool) -> Reading<()> {
        match self.peek_at(1) {
            Some('\'') if !quoted => return self.ansi_string(word),
            Some('"') if !quoted => {
                return Err(UnparsedReason::new("`$\"…\"` is translated at run time"));
            }
            _ => {}
        }
        let before = self.at;
        match self.expansion(quoted)? {
            None => {
                self.at = before;
                self.consume(1);
                word.literal('$');
            }
            Some(expanded) => {
                word.dynamic = true;
                if !quoted {
                    word.splits = true;
                    word.has_substitution |= expanded.is_empty();
                    word.variables.push(expanded);
                }
            }
        }
        Ok(())
    }

    /// Reads a `$` or backtick in the body of a here-document. Returns whether it is an expansion.
    pub(super) fn read_body_expansion(&mut self) -> Reading<bool> {
        if self.raw() == Some('`') {
            self.backtick(true)?;
            return Ok(true);
        }
        let before = self.at;
        if self.expansion(true)?.is_some() {
            return Ok(true);
        }
        self.at = before;
        self.consume(1);
        Ok(false)
    }

    /// Reads an expansion. Returns the name of the variable, an empty string for a substitution, or
    /// `None` if the `$` is literal.
    pub(super) fn expansion(&mut self, quoted: bool) -> Reading<Option<String>> {
        let Some(next) = self.peek_at(1) else { return Ok(None) };
        match next {
            '(' if self.peek_at(2) == Some('(') => {
                self.consume(3);
                self.nested(|reader| reader.arithmetic(false))?;
                // The result is a number.
                Ok(Some("#".to_owned()))
            }
            '(' => {
                self.consume(2);
                self.command_substitution()?;
                Ok(Some(String::new()))
            }
            '{' => {
                self.consume(2);
                self.nested(|reader| reader.parameter(quoted)).map(Some)
            }
            '[' => Err(UnparsedReason::new("`$[…]` is evaluated at run time")),
            first if first.is_ascii_alphabetic() || first == '_' => {
                self.consume(1);
                Ok(Some(self.variable_name()))
            }
            special
                if special.is_ascii_digit()
                    || matches!(special, '@' | '*' | '#' | '?' | '-' | '$' | '!') =>
            {
                self.consume(2);
                Ok(Some(special.to_string()))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn variable_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(character) = self.peek().filter(|character| is_name_character(*character)) {
            name.push(character);
            self.bump();
        }
        name
    }

    /// Reads the rest of `$(…)`.
    pub(super) fn command_substitution(&mut self) -> Reading<()> {
        self.findings.record_feature("command substitution");
        self.substitution(Self::read_to_parenthesis)
    }

    /// Reads `<(…)` or `>(…)`.
    pub(super) fn process_substitution(&mut self) -> Reading<()> {
        self.consume(2);
        self.findings.is_bash_only = true;
        self.findings.record_feature("process substitution");
        self.substitution(Self::read_to_parenthesis)
    }

    fn read_to_parenthesis(&mut self) -> Reading<()> {
        self.list(&[])?;
        if self.consume_if(")") {
            Ok(())
        } else {
            Err(UnparsedReason::new("unclosed substitution"))
        }
    }

    /// Reads a substitution in backticks.
    pub(super) fn backtick(&mut self, quoted: bool) -> Reading<()> {
        self.bump();
        self.findings.record_feature("command substitution");
        let start = self.at;
        let mut escaped = false;
        let end = loop {
            match self.bump() {
                None => return Err(UnparsedReason::new("unclosed backtick")),
                Some('`') => break self.at - 1,
                Some('\\') => {
                    escaped = true;
                    let next = self.bump();
                    if next == Some('\n') || (quoted && next == Some('"')) {
                        return Err(UnparsedReason::new("backticks contain an ambiguous escape"));
                    }
                }
                Some(_) => {}
            }
        };
        let behind = self.at;
        if !escaped {
            let outer_end = std::mem::replace(&mut self.end, end);
            self.at = start;
            let result = self.substitution(|reader| {
                reader.list(&[])?;
                match reader.peek() {
                    None => Ok(()),
                    Some(_) => Err(UnparsedReason::new("backticks contain an incomplete command")),
                }
            });
            self.end = outer_end;
            self.at = behind;
            return result;
        }
        let mut text = String::new();
        let inside = self.text.get(start..end).unwrap_or_default();
        let mut characters = inside.chars();
        while let Some(character) = characters.next() {
            match (character, characters.clone().next()) {
                ('\\', Some(next @ ('$' | '`' | '\\'))) => {
                    characters.next();
                    text.push(next);
                }
                _ => text.push(character),
            }
        }
        self.findings.uncompared_ranges.push(start..end);
        self.nested(|reader| {
            read(&text, CommandPosition::Substitution, false, reader.depth, reader.findings);
            Ok(())
        })
    }

    /// Reads `$'…'`.
    fn ansi_string(&mut self, word: &mut WordBuilder) -> Reading<()> {
        self.findings.is_bash_only = true;
        self.consume(2);
        word.quoted = true;
        let decoded = ansi::decode(self.rest()).map_err(|reason| {
            UnparsedReason::new(match reason {
                DecodeError::NotClosed => "unclosed quote `$'`",
                DecodeError::Ambiguous => "a quote `$'` contains an unsupported escape",
            })
        })?;
        self.at += decoded.length;
        match decoded.text {
            Some(text) => word.text.push_str(&text),
            None => word.dynamic = true,
        }
        Ok(())
    }
}
