//! Reads lists, pipelines, and compound commands.

use super::{ShellReader, ends_word};
use crate::bash::builtins;
use crate::bash::findings::{Reading, UnparsedReason};
use crate::bash::line::CommandPosition;
use crate::bash::variable_name::is_name;

const RESERVED: [&str; 23] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while", "{", "}", "@",
];

pub(super) fn unexpected_token(what: &str) -> UnparsedReason {
    UnparsedReason::new(format!("unexpected `{what}`"))
}

impl ShellReader<'_, '_> {
    /// Reads commands up to the end of the text, a `)`, the end of a case, or one of the reserved
    /// words in `stops`, which are not consumed.
    pub(super) fn list(&mut self, stops: &[&str]) -> Reading<()> {
        loop {
            self.skip_lines()?;
            match self.peek() {
                None | Some(')') => return Ok(()),
                Some(';') if matches!(self.peek_at(1), Some(';' | '&')) => return Ok(()),
                _ => {}
            }
            if let Some(word) = self.peek_reserved_word()
                && stops.contains(&word)
            {
                return Ok(());
            }
            let first = self.findings.commands.len();
            self.read_and_or()?;
            self.skip_blank();
            match self.peek() {
                None | Some('\n' | ')') => {}
                Some(';') if matches!(self.peek_at(1), Some(';' | '&')) => {}
                Some(';') => self.consume(1),
                Some('&') => {
                    self.consume(1);
                    self.findings.record_feature("background job");
                    for simple in self.findings.commands.iter_mut().skip(first) {
                        simple.command.background = true;
                    }
                }
                Some(other) => {
                    // A reserved word may directly follow a compound command.
                    if !self.peek_reserved_word().is_some_and(|word| stops.contains(&word)) {
                        return Err(unexpected_token(&other.to_string()));
                    }
                }
            }
        }
    }

    /// Returns the reserved word that is next, without consuming it.
    pub(super) fn peek_reserved_word(&self) -> Option<&'static str> {
        let mut word = String::new();
        while let Some(character) = self.peek_at(word.len()) {
            if ends_word(character) {
                break;
            }
            if word.len() > 8 || !(character.is_ascii_lowercase() || "{}![]".contains(character)) {
                return None;
            }
            word.push(character);
        }
        RESERVED.iter().find(|reserved| **reserved == word).copied()
    }

    fn expect(&mut self, word: &str) -> Reading<()> {
        self.skip_blank();
        if self.peek_reserved_word()
            == Some(RESERVED.iter().find(|known| **known == word).copied().unwrap_or("@"))
        {
            self.consume(word.len());
            return Ok(());
        }
        Err(UnparsedReason::new(format!("`{word}` is missing")))
    }

    fn read_and_or(&mut self) -> Reading<()> {
        let chain = self.findings.commands.len();
        let mut in_chain = self.depth == 0 && self.position == CommandPosition::Line;
        loop {
            let first = self.findings.commands.len();
            let pipelines = self.findings.pipelines.len();
            // A negated or compound command may succeed although a command in it failed.
            let is_simple = self.peek_reserved_word().is_none() && self.peek() != Some('(');
            self.pipeline()?;
            if in_chain
                && is_simple
                && self.findings.pipelines.len() == pipelines
                && let Some([only]) = self.findings.commands.get_mut(first..)
            {
                only.command.and_chain = Some(chain);
            }
            self.skip_blank();
            if self.consume_if("||") {
                in_chain = false;
            } else if !self.consume_if("&&") {
                return Ok(());
            }
            self.skip_lines()?;
        }
    }

    fn pipeline(&mut self) -> Reading<()> {
        let mut timed = None;
        loop {
            self.skip_blank();
            match self.peek_reserved_word() {
                Some("!") => self.consume(1),
                Some("time") if timed.is_none() => {
                    timed = Some(self.at);
                    self.findings.is_bash_only = true;
                    self.consume(4);
                    self.skip_blank();
                    for option in ["-p", "--"] {
                        if self.is_next(option) && self.peek_at(2).is_none_or(ends_word) {
                            self.consume(2);
                            self.skip_blank();
                        }
                    }
                }
                _ => break,
            }
        }
        let first = self.findings.commands.len();
        if let Some(at) = timed {
            if self.at_end_of_command() {
                self.findings.uncompared_ranges.push(at..at + 4);
                return Ok(());
            }
            self.findings.prefixed.push((at, first));
        }
        self.command()?;
        let mut stages: Vec<_> = std::iter::once(first..self.findings.commands.len()).collect();
        loop {
            self.skip_blank();
            let piped = !self.is_next("||") && (self.is_next("|&") || self.is_next("|"));
            if !piped {
                if stages.len() > 1 {
                    self.findings.pipelines.push(stages);
                }
                return Ok(());
            }
            if self.consume_if("|&") {
                self.findings.is_bash_only = true;
            } else {
                self.consume_if("|");
            }
            self.skip_lines()?;
            let stage = self.findings.commands.len();
            // After a pipe, `time` is a program, and `!` is not allowed.
            if self.peek_reserved_word() == Some("time") {
                self.simple()?;
            } else {
                self.command()?;
            }
            stages.push(stage..self.findings.commands.len());
        }
    }

    fn at_end_of_command(&mut self) -> bool {
        self.skip_blank();
        self.peek().is_none_or(|next| matches!(next, '\n' | ';' | '&' | ')' | '|'))
    }

    fn command(&mut self) -> Reading<()> {
        self.skip_blank();
        if self.peek() == Some('(') {
            self.nested(Self::parenthesis)?;
            return self.redirections();
        }
        match self.peek_reserved_word() {
            Some(word) => {
                self.nested(|inner| inner.compound(word))?;
                match word {
                    "coproc" | "function" => Ok(()),
                    _ => self.redirections(),
                }
            }
            None => self.simple(),
        }
    }

    /// Reads the redirections after a compound command.
    fn redirections(&mut self) -> Reading<()> {
        loop {
            self.skip_blank();
            if self.redirection()?.is_none() {
                return Ok(());
            }
        }
    }

    fn parenthesis(&mut self) -> Reading<()> {
        if self.is_next("((") {
            self.findings.is_bash_only = true;
            self.consume(2);
            return self.arithmetic(false);
        }
        self.consume(1);
        self.findings.record_feature("subshell");
        self.list(&[])?;
        if self.consume_if(")") { Ok(()) } else { Err(UnparsedReason::new("unclosed subshell")) }
    }

    fn compound(&mut self, word: &str) -> Reading<()> {
        let start = self.at;
        self.consume(word.len());
        match word {
            "{" => {
                self.list(&["}"])?;
                self.expect("}")
            }
            "if" => loop {
                self.list(&["then"])?;
                self.expect("then")?;
                self.list(&["elif", "else", "fi"])?;
                match self.peek_reserved_word() {
                    Some("elif") => self.consume(4),
                    Some("else") => {
                        self.consume(4);
                        self.list(&["fi"])?;
                        return self.expect("fi");
                    }
                    _ => return self.expect("fi"),
                }
            },
            "while" | "until" => {
                self.findings.record_feature("loop");
                self.list(&["do"])?;
                self.expect("do")?;
                self.list(&["done"])?;
                self.expect("done")
            }
            "for" | "select" => self.read_for_loop(word),
            "case" => self.case(),
            "[[" => self.condition(),
            "function" => {
                self.findings.is_bash_only = true;
                self.skip_blank();
                let name = self.word(false)?;
                self.skip_blank();
                if self.consume_if("(") {
                    self.skip_blank();
                    if !self.consume_if(")") {
                        return Err(unexpected_token("("));
                    }
                }
                self.function(name.word.text.as_deref())
            }
            "coproc" => self.coprocess(start),
            other => Err(unexpected_token(other)),
        }
    }

    /// Reads the body of a function.
    pub(super) fn function(&mut self, name: Option<&str>) -> Reading<()> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(UnparsedReason::new("a function name is not a plain word"));
        };
        self.findings.record_feature("function definition");
        self.findings.functions.push(name.to_owned());
        if builtins::has_meaning(name) {
            self.findings.mark_unanalyzable(format!("it redefines `{name}` as a function"));
        }
        self.nested_in(CommandPosition::Function, |reader| {
            reader.skip_lines()?;
            let compound = reader.peek() == Some('(')
                || reader.peek_reserved_word().is_some_and(|word| {
                    matches!(
                        word,
                        "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[["
                    )
                });
            if compound {
                reader.command()
            } else {
                Err(UnparsedReason::new("a function has no body"))
            }
        })
    }

    fn read_for_loop(&mut self, keyword: &str) -> Reading<()> {
        self.skip_blank();
        if keyword == "select" {
            self.findings.is_bash_only = true;
            self.findings.record_feature("loop");
            self.findings.values.assigned.insert("REPLY".to_owned());
        }
        if keyword == "for" && self.consume_if("((") {
            self.findings.is_bash_only = true;
            self.findings.record_feature("loop");
            self.arithmetic(true)?;
            self.skip_blank();
            self.consume_if(";");
        } else {
            let name = self.word(false)?;
            let Some(name) = name.word.text.filter(|name| is_name(name)) else {
                return Err(UnparsedReason::new("a loop variable is not a plain word"));
            };
            self.findings.values.assigned.insert(name.clone());
            self.skip_lines()?;
            if self.peek_reserved_word() == Some("in") {
                self.consume(2);
                let mut words = Vec::new();
                loop {
                    self.skip_blank();
                    match self.peek() {
                        Some(';') => {
                            self.consume(1);
                            break;
                        }
                        Some('\n') => break,
                        Some('<' | '>') if self.peek_at(1) == Some('(') => {
                            self.word(false)?;
                        }
                        Some(end) if ends_word(end) => {
                            return Err(unexpected_token(&end.to_string()));
                        }
                        None => return Err(UnparsedReason::new("a loop has no body")),
                        Some(_) => words.push(self.word(false)?.word),
                    }
                }
                self.findings.loops.push((name, words));
            } else {
                self.consume_if(";");
            }
        }
        self.skip_lines()?;
        let (open, close) =
            if self.peek_reserved_word() == Some("{") { ("{", "}") } else { ("do", "done") };
        self.expect(open)?;
        self.list(&[close])?;
        self.expect(close)
    }

    fn case(&mut self) -> Reading<()> {
        self.skip_blank();
        self.word(false)?;
        self.skip_lines()?;
        self.expect("in")?;
        loop {
            self.skip_lines()?;
            if self.peek_reserved_word() == Some("esac") {
                return self.expect("esac");
            }
            let opened = self.consume_if("(");
            if !opened && self.position == CommandPosition::Substitution {
                // Older shells treat its `)` as the end of the substitution.
                return Err(UnparsedReason::new("a `case` is inside a substitution"));
            }
            loop {
                self.skip_blank();
                if self.peek().is_none_or(ends_word) {
                    return Err(UnparsedReason::new("a `case` has no pattern"));
                }
                self.word(false)?;
                self.skip_blank();
                if self.consume_if(")") {
                    break;
                }
                if !self.consume_if("|") {
                    return Err(UnparsedReason::new("a `case` pattern is not supported"));
                }
            }
            self.list(&["esac"])?;
            if self.consume_if(";;&") || self.consume_if(";&") {
                self.findings.is_bash_only = true;
            } else if !self.consume_if(";;") {
                return self.expect("esac");
            }
        }
    }

    fn coprocess(&mut self, start: usize) -> Reading<()> {
        self.findings.is_bash_only = true;
        self.findings.record_feature("co-process");
        let first = self.findings.commands.len();
        self.findings.prefixed.push((start, first));
        self.skip_blank();
        let before = self.at;
        // `coproc NAME { …; }`
        let named = self.peek_reserved_word().is_none()
            && self.peek().is_some_and(|next| !ends_word(next))
            && {
                let word = self.word(false)?;
                self.skip_blank();
                word.plain && (self.peek() == Some('(') || self.peek_reserved_word().is_some())
            };
        if named {
            return Err(UnparsedReason::new("a co-process has a name"));
        }
        self.at = before;
        self.command()?;
        for simple in self.findings.commands.iter_mut().skip(first) {
            simple.command.background = true;
        }
        Ok(())
    }
}
