//! Reads arithmetic and `${…}`, whose evaluation may run commands.

use super::ShellReader;
use crate::bash::findings::{Reading, UnparsedReason};
use crate::bash::variable_name::is_name_character;

impl ShellReader<'_, '_> {
    /// Reads arithmetic up to the closing `))`.
    pub(super) fn arithmetic(&mut self, semicolons: bool) -> Reading<()> {
        let mut open = 0usize;
        loop {
            let Some(character) = self.peek() else {
                return Err(UnparsedReason::new("unclosed arithmetic expression"));
            };
            match character {
                ')' if open > 0 => {
                    open -= 1;
                    self.bump();
                }
                ')' if self.peek_at(1) == Some(')') => {
                    self.consume(2);
                    return Ok(());
                }
                '(' => {
                    open += 1;
                    self.bump();
                }
                ';' if semicolons => {
                    self.bump();
                }
                '[' | ']' | '?' | ':' => {
                    self.bump();
                }
                _ => self.arithmetic_part(character)?,
            }
        }
    }

    /// Reads one part of arithmetic.
    fn arithmetic_part(&mut self, character: char) -> Reading<()> {
        match character {
            '$' => self.value_in_arithmetic(),
            digit if digit.is_ascii_digit() => {
                while self.peek().is_some_and(|next| is_name_character(next) || next == '#') {
                    self.bump();
                }
                Ok(())
            }
            first if is_name_character(first) => {
                let name = self.variable_name();
                self.findings.values.evaluated.insert(name);
                Ok(())
            }
            ' ' | '\t' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|' | '^'
            | '~' | ',' => {
                self.bump();
                Ok(())
            }
            _ => Err(UnparsedReason::new("arithmetic contains an unsupported expression")),
        }
    }

    fn value_in_arithmetic(&mut self) -> Reading<()> {
        let calculated = self.peek_at(1) == Some('(') && self.peek_at(2) == Some('(');
        match self.expansion(true)? {
            None => return Err(UnparsedReason::new("arithmetic contains a single `$`")),
            Some(_) if calculated => {}
            Some(name) if name.is_empty() => {
                self.findings.mark_unanalyzable("arithmetic evaluates the output of a command");
            }
            Some(name)
                if name.starts_with(is_name_character)
                    && !name.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                self.findings.values.evaluated.insert(name);
            }
            Some(name) if matches!(name.as_str(), "#" | "?" | "$" | "!") => {}
            Some(_) => self.findings.mark_unanalyzable("arithmetic evaluates a parameter"),
        }
        Ok(())
    }

    /// Reads the rest of `${…}` and returns the name of the variable.
    pub(super) fn parameter(&mut self, quoted: bool) -> Reading<String> {
        let closes_next = self.peek_at(1) == Some('}');
        let length = !closes_next && self.consume_if("#");
        let indirect = !length && !closes_next && self.consume_if("!");
        let name = match self.peek() {
            Some(first) if is_name_character(first) => self.variable_name(),
            Some(special @ ('@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                self.bump();
                special.to_string()
            }
            _ => return Err(UnparsedReason::new("`${…}` has no plain name")),
        };
        let mut all_of_array = false;
        if self.peek() == Some('[') {
            self.bump();
            all_of_array = self.is_next("@]") || self.is_next("*]");
            self.subscript()?;
        }
        if indirect {
            let names = self.is_next("*}") || self.is_next("@}");
            if !(names || all_of_array && self.is_next("}")) {
                return Err(UnparsedReason::new("`${!…}` expands to a variable name at run time"));
            }
            if names {
                self.bump();
            }
        }
        match self.peek() {
            Some('}') => {
                self.bump();
                return Ok(if length { "#".to_owned() } else { name });
            }
            Some('@') => {
                self.bump();
                if !matches!(self.bump(), Some('U' | 'u' | 'L' | 'Q' | 'a' | 'A' | 'E' | 'K' | 'k'))
                {
                    return Err(UnparsedReason::new("`${…@P}` executes its value"));
                }
                if !self.consume_if("}") {
                    return Err(UnparsedReason::new("unclosed `${…}`"));
                }
                return Ok(name);
            }
            Some(':') if !matches!(self.peek_at(1), Some('-' | '=' | '?' | '+')) => {
                self.bump();
                self.slice()?;
                return Ok(name);
            }
            Some(':' | '=') => {
                if self.is_next("=") || self.is_next(":=") {
                    self.findings.values.assigned.insert(name.clone());
                }
                self.bump();
            }
            Some('-' | '?' | '+' | '#' | '%' | '/' | '^' | ',') => {
                self.bump();
            }
            _ => return Err(UnparsedReason::new("`${…}` uses an unsupported form")),
        }
        self.parameter_word(quoted)?;
        // The result is text, not just the value of the variable.
        Ok("@".to_owned())
    }

    /// Reads the arithmetic of `${x:offset:length}`.
    fn slice(&mut self) -> Reading<()> {
        loop {
            match self.peek() {
                Some('}') => {
                    self.bump();
                    return Ok(());
                }
                Some(':' | '(' | ')') => {
                    self.bump();
                }
                Some(character) => self.arithmetic_part(character)?,
                None => return Err(UnparsedReason::new("unclosed `${…}`")),
            }
        }
    }

    /// Reads the word of `${x:-word}` and similar expansions.
    fn parameter_word(&mut self, quoted: bool) -> Reading<()> {
        let mut word = super::word::WordBuilder::default();
        loop {
            match self.peek() {
                Some('}') => {
                    self.bump();
                    return Ok(());
                }
                Some('"' | '\'') if quoted => {
                    return Err(UnparsedReason::new("a quoted `${…}` contains quotes"));
                }
                Some('<' | '>') if self.peek_at(1) == Some('(') => {
                    return Err(UnparsedReason::new("`${…}` contains a process substitution"));
                }
                Some('{' | '\n') | None => {
                    return Err(UnparsedReason::new(
                        "`${…}` uses an unsupported \
                    form",
                    ));
                }
                Some('$') if quoted => self.dollar(&mut word, true)?,
                Some('`') if quoted => self.backtick(true)?,
                Some(_) => self.part(&mut word)?,
            }
        }
    }
}
