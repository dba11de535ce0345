//! Reads here-documents, whose bodies follow the line that opens them.

use super::ShellReader;
use crate::bash::findings::{Reading, UnparsedReason};
use crate::bash::line::{Redirection, RedirectionKind, Word};

/// Maximum number of here-documents in one text.
const MAX_COUNT: usize = 16;
const MAX_DELIMITER_LENGTH: usize = 64;

/// A here-document whose body has not been read yet.
pub(in crate::bash) struct PendingHereDocument {
    delimiter: String,
    literal: bool,
    strips_tabs: bool,
    redirection: usize,
    /// The indexes of the command that reads it and of the redirection of that command.
    reader: Option<(usize, usize)>,
}

impl ShellReader<'_, '_> {
    /// Reads the delimiter after `<<`.
    pub(super) fn here_document(&mut self, strips_tabs: bool) -> Reading<Redirection> {
        self.skip_blank();
        let token = self.word(false)?;
        let Some(delimiter) = token.word.text.clone() else {
            return Err(UnparsedReason::new(
                "the delimiter of a here-document is not a plain word",
            ));
        };
        let odd = |character: char| character.is_control() || matches!(character, '$' | '`');
        if delimiter.is_empty()
            || delimiter.len() > MAX_DELIMITER_LENGTH
            || delimiter.contains(odd)
            || token.word.source.contains(['$', '`', '\n'])
        {
            return Err(UnparsedReason::new(
                "the delimiter of a here-document is not a plain word",
            ));
        }
        self.findings.here_documents += 1;
        if self.findings.here_documents > MAX_COUNT {
            return Err(UnparsedReason::new("it has too many here-documents"));
        }
        self.findings.record_feature("here-document");
        self.here_documents.push(PendingHereDocument {
            delimiter,
            literal: token.word.quoted,
            strips_tabs,
            redirection: usize::MAX,
            reader: None,
        });
        Ok(Redirection {
            kind: RedirectionKind::HereDocument,
            target: token.word,
            is_standalone: false,
        })
    }

    /// Sets the index of the newest here-document among the redirections.
    pub(super) fn note_here_document(&mut self, redirection: usize) {
        if let Some(last) = self.here_documents.last_mut() {
            last.redirection = redirection;
        }
    }

    /// Assigns the here-documents from `first` to the command that reads them.
    pub(super) fn assign_here_documents(&mut self, first: usize, command: usize, own: &[usize]) {
        for (waiting, own) in self.here_documents.iter_mut().skip(first).zip(own) {
            waiting.reader = Some((command, *own));
        }
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.here_documents.len()
    }

    /// Consumes a line ending and the here-document bodies after it.
    pub(super) fn consume_line_ending(&mut self) -> Reading<()> {
        self.bump();
        if self.outer_waits {
            return Err(UnparsedReason::new("a line ends before a pending here-document"));
        }
        for waiting in std::mem::take(&mut self.here_documents) {
            self.body(&waiting)?;
        }
        Ok(())
    }

    fn body(&mut self, waiting: &PendingHereDocument) -> Reading<()> {
        let start = self.at;
        let stop = loop {
            let line_start = self.at;
            let Some(line) = self.body_line(waiting.literal) else {
                return Err(UnparsedReason::new("unterminated here-document"));
            };
            let line = if waiting.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if line == waiting.delimiter {
                break line_start;
            }
        };
        let after = self.at;
        let body = self.text.get(start..stop).unwrap_or_default().to_owned();
        let mut target = Word { source: body.clone(), quoted: waiting.literal, ..Word::default() };
        if waiting.literal {
            target.text = Some(body);
        } else {
            let end = std::mem::replace(&mut self.end, stop);
            self.at = start;
            let dynamic = self.nested(Self::body_expansions);
            self.end = end;
            self.at = after;
            if !dynamic? {
                target.text = Some(body);
            }
        }
        if waiting.strips_tabs {
            target.text = target.text.map(|text| {
                text.split_inclusive('\n').map(|line| line.trim_start_matches('\t')).collect()
            });
        }
        if let Some((command, own)) = waiting.reader
            && let Some(simple) = self.findings.commands.get_mut(command)
            && let Some(redirection) = simple.redirections.get_mut(own)
        {
            redirection.target = target.clone();
        }
        if let Some(redirection) = self.findings.redirections.get_mut(waiting.redirection) {
            redirection.target = target;
        }
        Ok(())
    }

    /// Reads one line. Unless the body is literal, a backslash joins it with the next line.
    fn body_line(&mut self, literal: bool) -> Option<String> {
        if self.at >= self.end {
            return None;
        }
        let mut line = String::new();
        while let Some(character) = self.bump() {
            match character {
                '\n' => break,
                '\\' if !literal => match self.bump() {
                    Some('\n') => {}
                    Some(next) => line.extend(['\\', next]),
                    None => line.push('\\'),
                },
                other => line.push(other),
            }
        }
        Some(line)
    }

    /// Reads the expansions of a body. Returns whether it contains any expansion or escape.
    fn body_expansions(&mut self) -> Reading<bool> {
        let mut dynamic = false;
        while let Some(character) = self.raw() {
            match character {
                '\\' => {
                    dynamic = true;
                    self.bump();
                    self.bump();
                }
                '$' | '`' => {
                    dynamic |= self.read_body_expansion()?;
                }
                _ => {
                    self.bump();
                }
            }
        }
        Ok(dynamic)
    }
}
