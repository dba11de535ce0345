//! Reads simple commands and redirections.

use super::{ShellReader, ends_word};
use crate::bash::builtins;
use crate::bash::findings::{Reading, ShellToken, SimpleCommand, UnparsedReason};
use crate::bash::line::{Redirection, RedirectionKind, Word};
use crate::bash::variable_name::is_name;

const OPERATORS: [(&str, RedirectionKind); 12] = [
    ("&>>", RedirectionKind::Append),
    ("<<<", RedirectionKind::HereString),
    ("<<-", RedirectionKind::HereDocument),
    ("&>", RedirectionKind::Write),
    (">>", RedirectionKind::Append),
    ("<<", RedirectionKind::HereDocument),
    (">&", RedirectionKind::Descriptor),
    ("<&", RedirectionKind::Descriptor),
    ("<>", RedirectionKind::Write),
    (">|", RedirectionKind::Write),
    ("<", RedirectionKind::Read),
    (">", RedirectionKind::Write),
];

impl ShellReader<'_, '_> {
    /// Reads a simple command or a function definition.
    pub(super) fn simple(&mut self) -> Reading<()> {
        let index = self.findings.commands.len();
        let first_waiting = self.waiting_count();
        let first_prefixed = self.findings.prefixed.len();
        let first_pipeline = self.findings.pipelines.len();
        let first_redirection = self.findings.redirections.len();
        let start = self.at;
        let mut simple = SimpleCommand::default();
        let mut here_documents = Vec::new();
        let mut declares = false;
        loop {
            self.skip_blank();
            if let Some(redirection) = self.redirection()? {
                if redirection.kind == RedirectionKind::HereDocument {
                    here_documents.push(simple.redirections.len());
                }
                simple.redirections.push(redirection);
                continue;
            }
            match self.peek() {
                None => break,
                Some('<' | '>') => {}
                Some('(') => {
                    let alone = simple.tokens.len() == 1
                        && simple.command.assignments.is_empty()
                        && simple.redirections.is_empty();
                    self.consume(1);
                    self.skip_blank();
                    let (true, Some(name)) = (alone && self.consume_if(")"), simple.tokens.first())
                    else {
                        return Err(UnparsedReason::new("unexpected `(`"));
                    };
                    let text = name.word.text.clone().filter(|_| !name.word.quoted);
                    return self.function(text.as_deref());
                }
                Some(end) if ends_word(end) => break,
                Some(_) => {}
            }
            let leading = simple.tokens.is_empty();
            let token = match self.word(leading || declares) {
                Ok(token) => token,
                Err(refusal) => {
                    // Record the incomplete command for denying rules.
                    if !simple.tokens.is_empty() {
                        self.findings.commands.push(self.finish_command(start, simple, declares));
                    }
                    return Err(refusal);
                }
            };
            if leading && let Some(assignment) = token.assignment.clone() {
                simple.command.assignments.push(assignment);
                continue;
            }
            if leading {
                declares = token.word.text.as_deref().is_some_and(builtins::is_declaration_builtin);
            }
            simple.tokens.push(token);
        }
        if simple.tokens.is_empty() && simple.command.assignments.is_empty() {
            if simple.redirections.is_empty() {
                return Err(UnparsedReason::new("a command is missing"));
            }
            for redirection in self.findings.redirections.iter_mut().skip(first_redirection) {
                redirection.is_standalone = true;
            }
            return Ok(());
        }
        let simple = self.finish_command(start, simple, declares);
        self.push((index, first_prefixed, first_waiting), &here_documents, simple);
        for stage in self.findings.pipelines.iter_mut().skip(first_pipeline).flatten() {
            *stage = stage.start + 1..stage.end + 1;
        }
        Ok(())
    }

    fn finish_command(
        &self,
        start: usize,
        mut simple: SimpleCommand,
        declares: bool,
    ) -> SimpleCommand {
        simple.start = simple.tokens.first().filter(|_| self.has_offsets).map(|token| token.start);
        simple.command.words = simple.tokens.iter().map(|token| token.word.clone()).collect();
        if simple.command.words.is_empty() {
            simple.command.words.push(Word { text: Some(String::new()), ..Word::default() });
        }
        if declares {
            simple
                .command
                .assignments
                .extend(simple.tokens.iter().filter_map(|token| token.assignment.clone()));
        }
        simple.command.position = self.position;
        simple.command.source = self.source(start).trim_end().to_owned();
        simple
    }

    fn push(
        &mut self,
        (index, first_prefixed, first_waiting): (usize, usize, usize),
        here_documents: &[usize],
        simple: SimpleCommand,
    ) {
        self.findings.commands.insert(index, simple);
        // The commands found inside its words move back by one.
        for (_, behind) in self.findings.prefixed.iter_mut().skip(first_prefixed) {
            *behind += 1;
        }
        self.assign_here_documents(first_waiting, index, here_documents);
    }

    /// Reads a redirection, if one is next.
    pub(super) fn redirection(&mut self) -> Reading<Option<Redirection>> {
        let descriptor = self.descriptor();
        let skipped = match &descriptor {
            Some(Descriptor::Number(length)) => *length,
            Some(Descriptor::Name(name)) => name.len() + 2,
            None => 0,
        };
        let stands = |operator: &str| {
            operator
                .chars()
                .enumerate()
                .all(|(index, expected)| self.peek_at(skipped + index) == Some(expected))
        };
        let Some((operator, kind)) = OPERATORS.iter().find(|(operator, _)| stands(operator)) else {
            return Ok(None);
        };
        let (operator, mut kind) = (*operator, *kind);
        // `<(…)` is a word.
        if matches!(operator, "<" | ">") && self.peek_at(skipped + 1) == Some('(') {
            if skipped > 0 {
                return Err(UnparsedReason::new("a redirection is joined to a substitution"));
            }
            return Ok(None);
        }
        // In `1&>x`, the `1` is a word.
        if operator.starts_with('&') && skipped > 0 {
            return Ok(None);
        }
        if let Some(Descriptor::Name(name)) = descriptor {
            self.findings.values.assigned.insert(name);
            self.findings.is_bash_only = true;
        }
        self.findings.is_bash_only |= operator.starts_with('&') || matches!(operator, "<<<");
        self.consume(skipped + operator.len());
        if kind == RedirectionKind::HereDocument {
            let redirection = self.here_document(operator == "<<-")?;
            self.note_here_document(self.findings.redirections.len());
            self.findings.redirections.push(redirection.clone());
            return Ok(Some(redirection));
        }
        self.skip_blank();
        let target = self.word(false)?;
        if target.word.source.is_empty() {
            return Err(UnparsedReason::new(format!("`{operator}` has no target")));
        }
        if kind == RedirectionKind::Descriptor {
            kind = self.descriptor_kind(operator, &target);
        }
        if target.word.text.as_deref().is_some_and(|text| {
            ["/dev/tcp/", "/dev/udp/"].iter().any(|network| text.contains(network))
        }) {
            self.findings.mark_unanalyzable("a redirection opens a connection");
        }
        let redirection = Redirection { kind, target: target.word, is_standalone: false };
        self.findings.redirections.push(redirection.clone());
        Ok(Some(redirection))
    }

    fn descriptor_kind(&mut self, operator: &str, target: &ShellToken) -> RedirectionKind {
        let number = |text: &str| {
            text == "-"
                || (!text.is_empty()
                    && text
                        .strip_suffix('-')
                        .unwrap_or(text)
                        .bytes()
                        .all(|byte| byte.is_ascii_digit()))
        };
        if target.word.text.as_deref().is_some_and(number) {
            return RedirectionKind::Descriptor;
        }
        self.findings.is_bash_only = true;
        if operator == "<&" { RedirectionKind::Read } else { RedirectionKind::Write }
    }

    /// Returns the `2` of `2>`, or the `{name}` of `{name}>`.
    fn descriptor(&self) -> Option<Descriptor> {
        let mut text = String::new();
        while let Some(character) = self.peek_at(text.len()).filter(|next| next.is_ascii_digit()) {
            text.push(character);
        }
        if !text.is_empty() {
            return self.is_redirection_at(text.len()).then_some(Descriptor::Number(text.len()));
        }
        if self.peek_at(0) != Some('{') {
            return None;
        }
        while let Some(character) =
            self.peek_at(text.len() + 1).filter(|next| next.is_ascii_alphanumeric() || *next == '_')
        {
            text.push(character);
        }
        (is_name(&text)
            && self.peek_at(text.len() + 1) == Some('}')
            && self.is_redirection_at(text.len() + 2))
        .then_some(Descriptor::Name(text))
    }

    fn is_redirection_at(&self, at: usize) -> bool {
        matches!(self.peek_at(at), Some('<' | '>'))
    }
}

enum Descriptor {
    Number(usize),
    Name(String),
}
