//! Expands words whose results the line determines: variables that it sets, braces, and
//! substitutions that only print text.

use super::super::ansi;
use super::super::line::Word;
use super::super::variable_name::is_name;
use super::output::PrintedText;
use super::variables::{Value, ValueSegment, Variables};
use super::{braces, printed_text};

/// The default word separators, used if the line does not set `IFS`.
const SEPARATORS: &str = " \t\n";

/// Returns the words that the shell produces from this word, as far as the line determines them.
pub(super) fn expand_word(word: &Word, variables: &Variables, depth: usize) -> Vec<Word> {
    let has_braces = word.glob && word.source.contains('{');
    if word.text.is_some() && !has_braces {
        return vec![word.clone()];
    }
    let sources = braces::expand(&word.source);
    let fields = sources.iter().flat_map(|source| {
        let mut scanner = Scanner::new(variables, depth);
        scanner.scan(source, false);
        scanner.into_fields()
    });
    fields.map(|field| field.word()).collect()
}

/// Expands the value of an assignment or the text of a here-string, without splitting it into
/// words.
pub(super) fn value(source: &str, variables: &Variables, depth: usize) -> Vec<ValueSegment> {
    let mut scanner = Scanner { splits: false, ..Scanner::new(variables, depth) };
    scanner.scan(source, false);
    read_segments(scanner)
}

/// Expands the body of a here-document.
pub(super) fn body(source: &str, variables: &Variables, depth: usize) -> Vec<ValueSegment> {
    let mut scanner = Scanner { is_body: true, ..Scanner::new(variables, depth) };
    scanner.scan(source, true);
    read_segments(scanner)
}

/// Returns the text of the pieces if all of them are known.
pub(super) fn text(pieces: &[ValueSegment]) -> Option<String> {
    let known = |piece: &ValueSegment| match piece {
        ValueSegment::Text(text) => Some(text.clone()),
        ValueSegment::Source(_) => None,
    };
    pieces.iter().map(known).collect()
}

/// Returns the pieces as source text.
pub(super) fn source(pieces: &[ValueSegment]) -> String {
    let written = |piece: &ValueSegment| match piece {
        ValueSegment::Text(text) | ValueSegment::Source(text) => text.clone(),
    };
    pieces.iter().map(written).collect()
}

fn read_segments(scanner: Scanner<'_>) -> Vec<ValueSegment> {
    let fields = scanner.into_fields();
    fields.into_iter().flat_map(|field| field.parts).map(|part| part.piece).collect()
}

#[derive(Debug, Default)]
struct Field {
    parts: Vec<FieldPart>,
    glob: bool,
    quoted: bool,
}

#[derive(Debug)]
struct FieldPart {
    piece: ValueSegment,
    quoted: bool,
}

impl Field {
    fn push(&mut self, text: &str, quoted: bool) {
        self.quoted |= quoted;
        if let Some(FieldPart { piece: ValueSegment::Text(last), quoted: same }) =
            self.parts.last_mut()
            && *same == quoted
        {
            last.push_str(text);
            return;
        }
        self.parts.push(FieldPart { piece: ValueSegment::Text(text.to_owned()), quoted });
    }

    fn word(&self) -> Word {
        let known = self.parts.iter().map(|part| match &part.piece {
            ValueSegment::Text(text) => Some(text.as_str()),
            ValueSegment::Source(_) => None,
        });
        Word {
            text: known.collect(),
            source: self.parts.iter().map(source_text).collect(),
            glob: self.glob,
            quoted: self.quoted,
        }
    }
}

fn source_text(part: &FieldPart) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,+@%^".contains(c);
    match &part.piece {
        ValueSegment::Text(text) if part.quoted && !text.chars().all(is_plain) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        ValueSegment::Source(source) if part.quoted => format!("\"{source}\""),
        ValueSegment::Text(text) | ValueSegment::Source(text) => text.clone(),
    }
}

struct Scanner<'v> {
    variables: &'v Variables,
    depth: usize,
    /// Whether expansions outside quotes are split into words.
    splits: bool,
    /// Whether `"` is an ordinary character.
    is_body: bool,
    fields: Vec<Field>,
    field: Option<Field>,
}

impl<'v> Scanner<'v> {
    fn new(variables: &'v Variables, depth: usize) -> Self {
        Self { variables, depth, splits: true, is_body: false, fields: Vec::new(), field: None }
    }

    fn into_fields(mut self) -> Vec<Field> {
        self.end_field();
        self.fields
    }

    fn end_field(&mut self) {
        self.fields.extend(self.field.take());
    }

    fn field(&mut self) -> &mut Field {
        self.field.get_or_insert_default()
    }

    fn scan(&mut self, text: &str, mut double: bool) {
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let behind = rest.get(character.len_utf8()..).unwrap_or_default();
            let next = behind.chars().next();
            let piece = match character {
                '\\' => {
                    match next {
                        Some('\n') | None => {}
                        Some(next) if double && !"$`\"\\".contains(next) => {
                            self.field().push(&format!("\\{next}"), true);
                        }
                        Some(next) => self.field().push(&next.to_string(), true),
                    }
                    1 + next.map_or(0, char::len_utf8)
                }
                '\'' if !double => {
                    let length = behind.find('\'').unwrap_or(behind.len());
                    self.field().push(behind.get(..length).unwrap_or_default(), true);
                    length + 2
                }
                '"' if !self.is_body => {
                    double = !double;
                    self.field().push("", true);
                    1
                }
                '$' if next == Some('\'') && !double => self.ansi_string(rest),
                '$' => self.dollar(rest, double),
                '`' => {
                    let length = find_closing_backtick(behind);
                    let inner = behind.get(..length).unwrap_or_default().replace("\\`", "`");
                    self.substitution(&inner, rest.get(..length + 2).unwrap_or(rest), double);
                    length + 2
                }
                '<' | '>' if next == Some('(') && !double => {
                    let length = 1 + find_closing_bracket(behind, '(', ')');
                    let source = rest.get(..length).unwrap_or(rest).to_owned();
                    self.push_unknown(source, false);
                    length
                }
                plain => {
                    let glob = !double && "*?[~{".contains(plain);
                    let field = self.field();
                    field.glob |= glob;
                    field.push(&plain.to_string(), double);
                    plain.len_utf8()
                }
            };
            rest = rest.get(piece..).unwrap_or_default();
        }
    }

    fn push_unknown(&mut self, source: String, quoted: bool) {
        let field = self.field();
        field.quoted |= quoted;
        field.parts.push(FieldPart { piece: ValueSegment::Source(source), quoted });
    }

    /// Reads `$'…'` and returns its length in bytes.
    fn ansi_string(&mut self, rest: &str) -> usize {
        match ansi::decode(rest.get(2..).unwrap_or_default()) {
            Ok(decoded) => {
                let length = decoded.length + 2;
                match decoded.text {
                    Some(text) => self.field().push(&text, true),
                    None => self.push_unknown(rest.get(..length).unwrap_or(rest).to_owned(), false),
                }
                length
            }
            Err(_) => {
                self.push_unknown(rest.to_owned(), false);
                rest.len()
            }
        }
    }

    /// Reads an expansion that begins with `$` and returns its length in bytes.
    fn dollar(&mut self, rest: &str, double: bool) -> usize {
        let behind = rest.get(1..).unwrap_or_default();
        let Some(next) = behind.chars().next() else {
            self.field().push("$", true);
            return 1;
        };
        if behind.starts_with("((") {
            let length = 1 + find_closing_bracket(behind, '(', ')');
            self.push_unknown(rest.get(..length).unwrap_or(rest).to_owned(), double);
            return length;
        }
        if next == '(' {
            let length = find_closing_bracket(behind, '(', ')');
            let inner = behind.get(1..length.saturating_sub(1)).unwrap_or_default();
            self.substitution(inner, rest.get(..length + 1).unwrap_or(rest), double);
            return length + 1;
        }
        if next == '{' {
            let length = find_closing_bracket(behind, '{', '}');
            let inner = behind.get(1..length.saturating_sub(1)).unwrap_or_default();
            self.parameter(inner, rest.get(..length + 1).unwrap_or(rest), double);
            return length + 1;
        }
        let length = name_length(behind);
        let name = match length {
            0 if next.is_ascii_digit() || "@*#?-$!".contains(next) => next.to_string(),
            0 => {
                self.field().push("$", true);
                return 1;
            }
            length => behind.get(..length).unwrap_or_default().to_owned(),
        };
        let source = rest.get(..name.len() + 1).unwrap_or(rest);
        match self.lookup(&name) {
            Some(value) => self.push_value(&value, double, matches!(name.as_str(), "@" | "*")),
            None => self.push_unknown(source.to_owned(), double),
        }
        name.len() + 1
    }

    fn lookup(&self, name: &str) -> Option<Value> {
        match name.parse::<usize>() {
            Ok(number) if number > 0 => {
                let value = self.variables.get("@")?.get(number - 1)?;
                Some(vec![value.clone()])
            }
            _ if name == "*" => self.variables.get("@").cloned(),
            _ => self.variables.get(name).cloned(),
        }
    }

    /// Reads the inside of `${…}`.
    fn parameter(&mut self, inner: &str, source: &str, double: bool) {
        let (indirect, plain) = match inner.strip_prefix('!') {
            Some(plain) => (true, plain),
            None => (false, inner),
        };
        let length = match plain.chars().next() {
            Some(special @ ('@' | '*')) => special.len_utf8(),
            Some(digit) if digit.is_ascii_digit() => {
                plain.find(|c: char| !c.is_ascii_digit()).unwrap_or(plain.len())
            }
            _ => name_length(plain),
        };
        let (name, rest) = plain.split_at_checked(length).unwrap_or((plain, ""));
        let mut value = self.lookup(name);
        if indirect {
            let named = value.as_ref().and_then(|value| value.first()).and_then(|it| text(it));
            value = named.and_then(|named| self.lookup(&named));
        }
        let (all, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some(("@" | "*", rest)) => (true, rest),
            Some((index, rest)) => {
                let index = index.parse::<usize>().ok();
                value = value.and_then(|value| Some(vec![value.get(index?)?.clone()]));
                (false, rest)
            }
            None => (matches!(name, "@" | "*"), rest),
        };
        let operator = rest.strip_prefix(':').unwrap_or(rest);
        let word = operator.get(1..).unwrap_or_default();
        match (operator.chars().next(), value) {
            _ if name.is_empty() => self.push_unknown(source.to_owned(), double),
            (Some('+'), _) => self.scan(word, double),
            (None | Some('-' | '=' | '?'), Some(value)) if !rest.starts_with("::") => {
                self.push_value(&value, double, all);
            }
            // If the environment sets the variable, the user chose its value.
            (Some('-' | '='), None) => self.scan(word, double),
            _ => self.push_unknown(source.to_owned(), double),
        }
    }

    fn push_value(&mut self, value: &Value, quoted: bool, all: bool) {
        let count = if all { value.len() } else { 1 };
        for (number, element) in value.iter().take(count).enumerate() {
            if number > 0 && self.splits {
                self.end_field();
            }
            for piece in element {
                match piece {
                    ValueSegment::Source(source) => self.push_unknown(source.clone(), quoted),
                    ValueSegment::Text(text) => self.push_expanded(text, quoted),
                }
            }
        }
    }

    /// Adds the result of an expansion, which is split into words outside quotes.
    fn push_expanded(&mut self, text: &str, quoted: bool) {
        if quoted || !self.splits {
            self.field().push(text, true);
            return;
        }
        let set = self.variables.get("IFS").and_then(|value| value.first());
        let separators = set.and_then(|it| self::text(it)).unwrap_or(SEPARATORS.to_owned());
        for character in text.chars() {
            if separators.contains(character) {
                self.end_field();
                continue;
            }
            let field = self.field();
            field.glob |= "*?[".contains(character);
            field.push(&character.to_string(), false);
        }
    }

    fn substitution(&mut self, inner: &str, source: &str, double: bool) {
        match printed_text(inner, self.variables, self.depth + 1) {
            PrintedText::Text(text) => {
                self.push_expanded(text.trim_end_matches('\n'), double);
            }
            PrintedText::Derived | PrintedText::Unknown => {
                self.push_unknown(source.to_owned(), double)
            }
        }
    }
}

/// Returns the length of the variable name at the start of the text.
fn name_length(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if is_name(text.get(..end).unwrap_or_default()) { end } else { 0 }
}

/// Returns the length in bytes up to and including the bracket that closes the one at the start of
/// the text.
pub(super) fn find_closing_bracket(text: &str, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for (offset, character) in text.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some('\''), '\'') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(character),
            (Some('"'), '"') => quote = None,
            (None, _) if character == open => depth += 1,
            (None, _) if character == close => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return offset + close.len_utf8();
                }
            }
            _ => {}
        }
    }
    text.len()
}

fn find_closing_backtick(text: &str) -> usize {
    let mut escaped = false;
    for (offset, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '`' => return offset,
            _ => {}
        }
    }
    text.len()
}
