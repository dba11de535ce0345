//! Reads `[[ … ]]`, whose operands are not commands, but some of which are evaluated.

use super::compound::unexpected_token;
use super::{ShellReader, ends_word};
use crate::bash::findings::{Reading, ShellToken, UnparsedReason};
use crate::bash::variable_name::is_name;

impl ShellReader<'_, '_> {
    /// Reads `[[ … ]]`.
    pub(super) fn condition(&mut self) -> Reading<()> {
        self.findings.is_bash_only = true;
        // The preceding words, to know the operands of an operator.
        let mut operator = String::new();
        let mut before: Option<ShellToken> = None;
        let mut open = 0usize;
        loop {
            self.skip_lines()?;
            if self.consume_if("&&") || self.consume_if("||") {
                operator.clear();
                before = None;
                continue;
            }
            let Some(next) = self.peek() else {
                return Err(UnparsedReason::new("unclosed `[[`"));
            };
            match next {
                '(' => {
                    if operator.is_empty() && before.is_none() {
                        open += 1;
                        self.consume(1);
                        continue;
                    }
                    if operator != "=~" {
                        return Err(UnparsedReason::new("a pattern in `[[` is not supported"));
                    }
                }
                ')' if open > 0 => {
                    open -= 1;
                    self.consume(1);
                    operator.clear();
                    continue;
                }
                '<' | '>' if self.peek_at(1) != Some('(') => {
                    self.consume(1);
                    operator = "<".to_owned();
                    continue;
                }
                '<' | '>' => {}
                end if ends_word(end) => return Err(unexpected_token(&end.to_string())),
                _ => {}
            }
            if self.peek_reserved_word() == Some("]]") && operator.is_empty() {
                self.consume(2);
                return if open == 0 { Ok(()) } else { Err(UnparsedReason::new("unclosed `[[`")) };
            }
            if operator == "=~" {
                self.findings.values.arrays = true;
                self.regular_expression()?;
                operator.clear();
                continue;
            }
            let token = self.word(false)?;
            let text = token.word.text.clone().unwrap_or_default();
            if operator.starts_with('-') {
                self.operand(&operator, &token)?;
                if is_arithmetic(&operator)
                    && let Some(left) = before.take()
                {
                    self.operand(&operator, &left)?;
                }
                operator.clear();
            } else if !operator.is_empty() {
                operator.clear();
            } else if token.plain
                && (text.starts_with('-') && text.len() > 1
                    || matches!(text.as_str(), "=~" | "==" | "=" | "!="))
            {
                operator = text;
            } else if !(token.plain && text == "!") {
                before = Some(token);
            }
        }
    }

    /// Checks an operand of an operator of `[[`; some operands are evaluated.
    fn operand(&mut self, operator: &str, token: &ShellToken) -> Reading<()> {
        if matches!(operator, "-v" | "-R") && !token.word.text.as_deref().is_some_and(is_name) {
            return Err(UnparsedReason::new(format!("`[[ {operator} …` evaluates a name")));
        }
        if !is_arithmetic(operator) {
            return Ok(());
        }
        if token.word.source.contains("$(") && !token.word.source.contains("$((")
            || token.word.source.contains('`')
        {
            self.findings.mark_unanalyzable("`[[` evaluates the output of a command");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_+-*/%$\"{}#?()@ \t".contains(c);
        if !token.word.source.chars().all(plain)
            || ["$@", "$*", "${@"].iter().any(|all| token.word.source.contains(all))
        {
            self.findings.mark_unanalyzable("`[[` evaluates an unsupported expression");
        }
        let mut parameter = false;
        for name in token.word.source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if is_name(name) {
                self.findings.values.evaluated.insert(name.to_owned());
            }
        }
        let mut rest = token.word.source.as_str();
        while let Some((_, behind)) = rest.split_once('$') {
            let digit = behind.trim_start_matches('{');
            parameter |= digit.starts_with(|c: char| c.is_ascii_digit());
            rest = behind;
        }
        if parameter {
            self.findings.mark_unanalyzable("`[[` evaluates a parameter");
        }
        Ok(())
    }

    /// Reads the word after `=~`, in which parentheses are not operators.
    fn regular_expression(&mut self) -> Reading<()> {
        let mut word = super::word::WordBuilder::default();
        let mut open = 0usize;
        while let Some(character) = self.peek() {
            match character {
                '(' => {
                    open += 1;
                    self.bump();
                }
                ')' if open > 0 => {
                    open -= 1;
                    self.bump();
                }
                '|' if open > 0 => {
                    self.bump();
                }
                ' ' | '\t' | '\n' if open == 0 => return Ok(()),
                end if ends_word(end) => {
                    return Err(UnparsedReason::new("a pattern in `[[` is not supported"));
                }
                _ => self.part(&mut word)?,
            }
        }
        Err(UnparsedReason::new("unclosed `[[`"))
    }
}

fn is_arithmetic(operator: &str) -> bool {
    matches!(operator, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge")
}
