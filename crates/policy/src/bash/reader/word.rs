//! Reads words: quotes, escapes, and the parts attached to them.

use super::{ShellReader, ends_word};
use crate::bash::findings::{Reading, ShellToken, UnparsedReason};
use crate::bash::line::{Assignment, Word};
use crate::bash::variable_name::is_name;

/// A word under construction.
#[derive(Default)]
pub(super) struct WordBuilder {
    pub(super) text: String,
    pub(super) dynamic: bool,
    pub(super) quoted: bool,
    pub(super) glob: bool,
    brace: bool,
    pub(super) splits: bool,
    pub(super) has_substitution: bool,
    pub(super) variables: Vec<String>,
    /// Whether the word contains anything other than plain characters.
    has_special: bool,
}

impl WordBuilder {
    /// Adds a character without special meaning.
    pub(super) fn literal(&mut self, character: char) {
        self.text.push(character);
    }
}

impl ShellReader<'_, '_> {
    /// Reads the next word. If `assignable`, `NAME=…` is an assignment.
    pub(super) fn word(&mut self, assignable: bool) -> Reading<ShellToken> {
        self.peek();
        let start = self.at;
        let mut word = WordBuilder::default();
        let mut assigned: Option<(String, usize, usize)> = None;
        while let Some(character) = self.peek() {
            match character {
                '<' | '>' if self.peek_at(1) == Some('(') => {
                    self.process_substitution()?;
                    word.dynamic = true;
                    word.has_special = true;
                }
                '(' if array_may_begin(&word, assigned.as_ref(), self.at) => {
                    self.array()?;
                    word.dynamic = true;
                    word.has_special = true;
                    if self.peek().is_some_and(|next| !ends_word(next)) {
                        return Err(UnparsedReason::new("text is joined to an array"));
                    }
                    break;
                }
                end if ends_word(end) => break,
                '[' if assignable
                    && assigned.is_none()
                    && !word.has_special
                    && is_name(&word.text) =>
                {
                    self.bump();
                    word.text.push('[');
                    let from = self.at;
                    self.subscript()?;
                    let inside = self.source(from);
                    word.text.push_str(&inside);
                    word.glob = true;
                }
                '=' if assignable && assigned.is_none() && !word.has_special => {
                    self.bump();
                    word.text.push('=');
                    if let Some(name) = assigned_name(&word.text) {
                        assigned = Some((name, word.text.len(), self.at));
                    }
                }
                _ => self.part(&mut word)?,
            }
        }
        let source = self.source(start);
        word.glob |= word.brace && (source.contains(',') || source.contains(".."));
        if source.starts_with('{')
            && source.ends_with("]}")
            && matches!(self.peek(), Some('<' | '>'))
        {
            return Err(UnparsedReason::new("a redirection evaluates a subscript"));
        }
        if source.contains('\n') && (self.outer_waits || !self.here_documents.is_empty()) {
            return Err(UnparsedReason::new("a line ends before a pending here-document"));
        }
        let assignment = assigned.map(|(name, behind, value_start)| {
            let value = Word {
                text: (!word.dynamic)
                    .then(|| word.text.get(behind..).unwrap_or_default().to_owned()),
                source: self.source(value_start),
                glob: word.glob,
                quoted: word.quoted,
            };
            if !is_number(&value) {
                self.findings.values.assigned.insert(name.clone());
            }
            Assignment { name, value }
        });
        Ok(ShellToken {
            plain: !word.has_special && !word.dynamic,
            splits: word.splits,
            has_substitution: word.has_substitution,
            variables: word.variables,
            assignment,
            start,
            word: Word {
                text: (!word.dynamic).then_some(word.text),
                source,
                glob: word.glob,
                quoted: word.quoted,
            },
        })
    }

    /// Reads one part of an unquoted word.
    pub(super) fn part(&mut self, word: &mut WordBuilder) -> Reading<()> {
        let Some(character) = self.raw() else { return Ok(()) };
        match character {
            '\\' => {
                self.bump();
                let Some(next) = self.bump() else {
                    return Err(UnparsedReason::new("it ends with a backslash"));
                };
                word.has_special = true;
                word.quoted = true;
                word.literal(next);
            }
            '\'' => {
                word.has_special = true;
                word.quoted = true;
                let text = self.raw_string()?;
                word.text.push_str(&text);
            }
            '"' => {
                word.has_special = true;
                word.quoted = true;
                self.double_quoted(word)?;
            }
            '`' => {
                word.has_special = true;
                word.dynamic = true;
                word.splits = true;
                word.has_substitution = true;
                self.backtick(false)?;
            }
            '$' => {
                word.has_special = true;
                self.dollar(word, false)?;
            }
            other => {
                let tilde =
                    other == '~' && (word.text.is_empty() || word.text.ends_with(['=', ':']));
                word.glob |= tilde || matches!(other, '*' | '?' | '[');
                word.brace |= other == '{';
                word.literal(other);
                self.bump();
            }
        }
        Ok(())
    }

    /// Reads `'…'`.
    pub(super) fn raw_string(&mut self) -> Reading<String> {
        self.bump();
        let Some(length) = self.rest().find('\'') else {
            return Err(UnparsedReason::new("unclosed single quote"));
        };
        let text = self.rest().get(..length).unwrap_or_default().to_owned();
        self.at += length + 1;
        Ok(text)
    }

    /// Reads `"…"`.
    pub(super) fn double_quoted(&mut self, word: &mut WordBuilder) -> Reading<()> {
        self.bump();
        loop {
            match self.raw() {
                None => return Err(UnparsedReason::new("unclosed double quote")),
                Some('"') => {
                    self.bump();
                    return Ok(());
                }
                Some('\\') => {
                    self.bump();
                    match self.bump() {
                        None => return Err(UnparsedReason::new("unclosed double quote")),
                        Some('\n') => {}
                        Some(next @ ('$' | '`' | '"' | '\\')) => word.literal(next),
                        Some(next) => {
                            word.literal('\\');
                            word.literal(next);
                        }
                    }
                }
                Some('`') => {
                    word.dynamic = true;
                    self.backtick(true)?;
                }
                Some('$') => self.dollar(word, true)?,
                Some(other) => {
                    word.literal(other);
                    self.bump();
                }
            }
        }
    }

    /// Reads `(…)` of `NAME=(…)`.
    fn array(&mut self) -> Reading<()> {
        self.bump();
        self.findings.is_bash_only = true;
        self.findings.values.arrays = true;
        self.nested(|reader| {
            loop {
                reader.skip_lines()?;
                match reader.peek() {
                    Some(')') => {
                        reader.bump();
                        return Ok(());
                    }
                    // `[key]=value`: the key is evaluated.
                    Some('[') => {
                        reader.bump();
                        reader.subscript()?;
                        if !reader.consume_if("=") {
                            return Err(UnparsedReason::new("an array element is not supported"));
                        }
                        if reader.peek().is_some_and(|next| !ends_word(next)) {
                            reader.word(false)?;
                        }
                    }
                    Some('<' | '>') if reader.peek_at(1) == Some('(') => {
                        reader.word(false)?;
                    }
                    Some(end) if ends_word(end) => {
                        return Err(UnparsedReason::new("an array element is not supported"));
                    }
                    Some(_) => {
                        reader.word(false)?;
                    }
                    None => return Err(UnparsedReason::new("unclosed array")),
                }
            }
        })
    }

    /// Reads up to the `]` of an array subscript, which is arithmetic.
    pub(super) fn subscript(&mut self) -> Reading<()> {
        let start = self.at;
        loop {
            match self.peek() {
                Some(']') => {
                    let inside = self.source(start);
                    self.bump();
                    let names = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    for name in names.filter(|name| is_name(name)) {
                        self.findings.values.evaluated.insert(name.to_owned());
                    }
                    return Ok(());
                }
                Some('$') => {
                    let name_follows = self.peek_at(1).is_some_and(|next| {
                        next.is_ascii_alphabetic() || matches!(next, '_' | '#' | '?')
                    });
                    if !name_follows {
                        return Err(UnparsedReason::new("an array subscript is not supported"));
                    }
                    self.consume(2);
                }
                Some(plain)
                    if plain.is_ascii_alphanumeric()
                        || matches!(plain, '_' | '@' | '*' | '+' | '-' | '.' | '/' | ':') =>
                {
                    self.bump();
                }
                _ => return Err(UnparsedReason::new("an array subscript is not supported")),
            }
        }
    }
}

fn array_may_begin(
    word: &WordBuilder,
    assigned: Option<&(String, usize, usize)>,
    at: usize,
) -> bool {
    assigned.is_some_and(|(_, behind, start)| *start == at && *behind == word.text.len())
}

/// Returns the `NAME` of `NAME=`, `NAME+=`, or `NAME[…]=`.
fn assigned_name(text: &str) -> Option<String> {
    let left = text.strip_suffix('=')?;
    let left = left.strip_suffix('+').unwrap_or(left);
    let name = match left.split_once('[') {
        Some((name, subscript)) if subscript.ends_with(']') => name,
        Some(_) => return None,
        None => left,
    };
    is_name(name).then(|| name.to_owned())
}

/// Whether the value is always a number.
fn is_number(value: &Word) -> bool {
    let source = value.source.as_str();
    let digits = source.strip_prefix('-').unwrap_or(source);
    let calculated = source.starts_with("$((")
        && source.ends_with("))")
        && source.matches('$').count() == 1
        && !source.contains('`');
    digits.bytes().all(|byte| byte.is_ascii_digit())
        || calculated
        || matches!(source, "$#" | "$?" | "$$" | "$!")
}
