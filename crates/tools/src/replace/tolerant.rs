//! Matches that differ from the file only in whitespace and in the shape of quotes, dashes, and
//! ellipses.
//!
//! Every letter, digit, and other character must be equal, so an edit can never restore an outdated
//! value. The characters of the old text are aligned with those of the file: what the edit does not
//! change keeps the file's own characters, and new lines get the file's indentation.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::hit::{Replacement, RequestedEdit};
use super::indentation::{FileStyle, IndentPair, Indentation};
use super::source::SourceText;
use super::tokens::{Token, TokenKind, TokenPositions, is_space, is_word, lines_of, tokenize};

/// In larger files (in bytes), only exact matches are found.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of character comparisons; the search then ends without a result.
const MAX_STEPS: usize = 200_000_000;
/// Maximum product of the token counts of an old and a new block; larger blocks are not compared.
const MAX_COMPARED: usize = 25_000_000;
/// Characters that a typed `-` may match.
const DASHES: &[char] = &['‐', '‑', '‒', '–', '—', '―', '−', '﹣', '－'];

/// A non-whitespace character.
#[derive(Debug, Clone, Copy)]
struct TextChar {
    at: u32,
    character: char,
    /// Whether whitespace precedes it.
    follows_space: bool,
}

impl TextChar {
    fn start(self) -> usize {
        self.at as usize
    }

    fn end(self) -> usize {
        self.at as usize + self.character.len_utf8()
    }
}

/// One step of the alignment: its position in the old text and in the file.
#[derive(Debug, Clone)]
struct AlignedPair {
    old: Range<usize>,
    file: Range<usize>,
}

/// Returns at most `limit` matches, sorted and without overlaps.
pub(super) fn find(
    source: &SourceText<'_>,
    requested_edit: &RequestedEdit,
    limit: usize,
) -> Vec<Replacement> {
    let text = source.text();
    if text.len() > MAX_BYTES || !requested_edit.old.chars().any(char::is_alphanumeric) {
        return Vec::new();
    }
    let (file, old) = (to_text_chars(text), to_text_chars(&requested_edit.old));
    let edit = TokenizedEdit::new(requested_edit, text);
    let mut hits = Vec::new();
    let mut steps = 0;
    let mut index = 0;
    while index < file.len() && hits.len() < limit {
        let rest = file.get(index..).unwrap_or_default();
        let matched = align(rest, &old, &mut steps).filter(|(_, pairs)| {
            is_on_word_boundaries(
                text,
                pairs.first().map(|p| &p.file),
                pairs.last().map(|p| &p.file),
            )
        });
        if steps > MAX_STEPS {
            return Vec::new();
        }
        match matched.and_then(|(score, pairs)| Some((score, edit.match_at(source, &pairs)?))) {
            Some((taken, hit)) => {
                hits.push(hit);
                index += taken;
            }
            None => index += 1,
        }
    }
    // The whitespace around two matches may overlap.
    hits.dedup_by(|next, hit| next.range.start < hit.range.end);
    hits
}

fn to_text_chars(text: &str) -> Vec<TextChar> {
    let mut characters = Vec::new();
    let mut follows_space = false;
    for (offset, character) in text.char_indices() {
        if is_space(character) {
            follows_space = true;
        } else {
            characters.push(TextChar {
                at: u32::try_from(offset).unwrap_or(u32::MAX),
                character,
                follows_space,
            });
            follows_space = false;
        }
    }
    characters
}

/// Aligns the whole old text with the beginning of `file`; returns how many of the file's
/// characters it covers.
fn align(
    file: &[TextChar],
    old: &[TextChar],
    steps: &mut usize,
) -> Option<(usize, Vec<AlignedPair>)> {
    let mut pairs: Vec<AlignedPair> = Vec::new();
    let (mut at_file, mut at_old) = (0, 0);
    let mut before: Option<char> = None;
    while at_old < old.len() {
        *steps += 1;
        let (file, old) = (file.get(at_file..)?, old.get(at_old..)?);
        let (of_file, of_old) = equivalent_length(file, old)?;
        let (first_file, first_old) = (file.first()?, old.first()?);
        // `new line` does not match `newline`.
        if before.is_some_and(is_word)
            && is_word(first_old.character)
            && first_file.follows_space != first_old.follows_space
        {
            return None;
        }
        let span = |characters: &[TextChar], count: usize| {
            Some(characters.first()?.start()..characters.get(count - 1)?.end())
        };
        pairs.push(AlignedPair { old: span(old, of_old)?, file: span(file, of_file)? });
        before = old.get(of_old - 1).map(|text_char| text_char.character);
        at_file += of_file;
        at_old += of_old;
    }
    Some((at_file, pairs))
}

/// Returns how many characters of both strings are equivalent.
fn equivalent_length(file: &[TextChar], old: &[TextChar]) -> Option<(usize, usize)> {
    let (one, two) = (file.first()?.character, old.first()?.character);
    if one == two {
        return Some((1, 1));
    }
    let run = |characters: &[TextChar], repeated: char| {
        let same = |(index, text_char): &(usize, &TextChar)| {
            text_char.character == repeated && (*index == 0 || !text_char.follows_space)
        };
        characters.iter().enumerate().take(3).take_while(same).count()
    };
    match (one, two) {
        ('…', '.') if run(old, '.') == 3 => Some((1, 3)),
        ('.', '…') if run(file, '.') == 3 => Some((3, 1)),
        (one, '-') if DASHES.contains(&one) => Some((1, run(old, '-'))),
        ('-', two) if DASHES.contains(&two) => Some((run(file, '-'), 1)),
        _ => (fold_character(one) == fold_character(two)).then_some((1, 1)),
    }
}

fn fold_character(character: char) -> char {
    match character {
        '“' | '”' | '„' | '‟' | '″' | '«' | '»' | '＂' => '"',
        '‘' | '’' | '‚' | '‛' | '′' | '‹' | '›' | '＇' => '\'',
        // NUL is shown to the model as this character.
        '\0' => parallax_files::SHOWN_NUL,
        dash if DASHES.contains(&dash) => '-',
        other => other,
    }
}

/// Whether the match neither begins nor ends inside a word of the file.
fn is_on_word_boundaries(
    text: &str,
    first: Option<&Range<usize>>,
    last: Option<&Range<usize>>,
) -> bool {
    let (Some(first), Some(last)) = (first, last) else { return false };
    let before = text.get(..first.start).and_then(|text| text.chars().next_back());
    let starts = text.get(first.start..).and_then(|text| text.chars().next());
    let ends = text.get(..last.end).and_then(|text| text.chars().next_back());
    let after = text.get(last.end..).and_then(|text| text.chars().next());
    let inside =
        |one: Option<char>, two: Option<char>| one.is_some_and(is_word) && two.is_some_and(is_word);
    !inside(before, starts) && !inside(ends, after)
}

/// The edit, split into tokens once for all matches.
struct TokenizedEdit<'a> {
    old: &'a str,
    new: &'a str,
    old_tokens: Vec<Token>,
    new_tokens: Vec<Token>,
    old_lines: Vec<Range<usize>>,
    new_lines: Vec<Range<usize>>,
    /// The line differences; for each, the old tokens that equal the new ones.
    ops: Vec<(DiffOp, Vec<Option<usize>>)>,
    style: FileStyle,
}

impl<'a> TokenizedEdit<'a> {
    fn new(requested_edit: &'a RequestedEdit, file: &str) -> Self {
        let (old, new) = (requested_edit.old.as_str(), requested_edit.new.as_str());
        let (old_tokens, new_tokens) = (tokenize(old), tokenize(new));
        let (old_lines, new_lines) = (lines_of(&old_tokens), lines_of(&new_tokens));
        let texts = |text: &'a str| text.split_inclusive('\n').collect::<Vec<&'a str>>();
        let ops = capture_diff_slices(Algorithm::Patience, &texts(old), &texts(new));
        let style = FileStyle::detect(file);
        let ops_with_tokens = Vec::with_capacity(ops.len());
        let mut edit = Self {
            old,
            new,
            old_tokens,
            new_tokens,
            old_lines,
            new_lines,
            ops: ops_with_tokens,
            style,
        };
        for op in ops {
            let same = edit.same_tokens(&op);
            edit.ops.push((op, same));
        }
        edit
    }

    /// Returns the change at one place; `None` if it does not match after all.
    fn match_at(&self, source: &SourceText<'_>, pairs: &[AlignedPair]) -> Option<Replacement> {
        let text = source.text();
        let pairs: Vec<_> = pairs.iter().map(|pair| (&pair.old, &pair.file)).collect();
        let positions = TokenPositions::from_pairs(text, &self.old_tokens, &pairs)?;
        let range = positions.file.first()?.start..positions.file.last()?.end;
        let last = range.end.saturating_sub(1).max(range.start);
        let lines = (source.line_number(range.start), source.line_number(last));
        let indentation = self.indentation(text, &positions);
        let mut rewrite =
            Rewrite { edit: self, text, positions, indentation, output: String::new() };
        for (op, same) in &self.ops {
            rewrite.apply(op, same);
        }
        Some(Replacement { range, new: rewrite.output, lines })
    }

    /// Returns, for each new token of a replaced block, the old token that it equals.
    fn same_tokens(&self, op: &DiffOp) -> Vec<Option<usize>> {
        let DiffOp::Replace { old_index, old_len, new_index, new_len } = *op else {
            return Vec::new();
        };
        let old = tokens_of(&self.old_lines, old_index, old_len);
        let new = tokens_of(&self.new_lines, new_index, new_len);
        let texts = |text: &'a str, tokens: &[Token], range: &Range<usize>| -> Vec<&'a str> {
            let tokens = tokens.get(range.clone()).unwrap_or_default();
            tokens.iter().map(|token| token.text(text)).collect()
        };
        let mut same = vec![None; new.len()];
        if old.len().saturating_mul(new.len()) > MAX_COMPARED {
            return same;
        }
        let ops = capture_diff_slices(
            Algorithm::Myers,
            &texts(self.old, &self.old_tokens, &old),
            &texts(self.new, &self.new_tokens, &new),
        );
        for op in ops {
            if let DiffOp::Equal { old_index, new_index, len } = op {
                for offset in 0..len {
                    if let Some(same) = same.get_mut(new_index + offset) {
                        *same = Some(old.start + old_index + offset);
                    }
                }
            }
        }
        same
    }

    /// Determines how the model's indentation maps to the file's.
    fn indentation(&self, text: &str, positions: &TokenPositions) -> Indentation {
        let pair = |(number, line): (usize, &Range<usize>)| {
            let first = line.start;
            let (indent, next) = (self.old_tokens.get(first)?, self.old_tokens.get(first + 1)?);
            if next.kind == TokenKind::LineEnd || !*positions.begins_line.get(first)? {
                return None;
            }
            Some(IndentPair {
                line: number,
                model: indent.text(self.old).to_owned(),
                file: text.get(positions.file.get(first)?.clone())?.to_owned(),
            })
        };
        let pairs = self.old_lines.iter().enumerate().filter_map(pair).collect();
        Indentation::learn(pairs, &self.style, &[self.old, self.new])
    }
}

/// The replacement text of one match.
struct Rewrite<'a> {
    edit: &'a TokenizedEdit<'a>,
    text: &'a str,
    positions: TokenPositions,
    indentation: Indentation,
    output: String,
}

impl Rewrite<'_> {
    fn apply(&mut self, op: &DiffOp, same: &[Option<usize>]) {
        let edit = self.edit;
        match *op {
            DiffOp::Equal { old_index, len, .. } => {
                let tokens = tokens_of(&edit.old_lines, old_index, len);
                for range in self.positions.file.get(tokens).unwrap_or_default() {
                    self.output.push_str(self.text.get(range.clone()).unwrap_or_default());
                }
            }
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { old_index, new_index, new_len }
            | DiffOp::Replace { old_index, new_index, new_len, .. } => {
                self.write(old_index, tokens_of(&edit.new_lines, new_index, new_len), same);
            }
        }
    }

    /// Writes new tokens; those that equal an old token are copied from the file. `line` is the
    /// corresponding line of the old text.
    fn write(&mut self, mut line: usize, tokens: Range<usize>, same: &[Option<usize>]) {
        for (offset, index) in tokens.enumerate() {
            let Some(token) = self.edit.new_tokens.get(index) else { continue };
            let own = token.text(self.edit.new);
            if token.kind == TokenKind::Indent {
                self.indent(index, own, line);
                line += 1;
                continue;
            }
            let in_file = same
                .get(offset)
                .copied()
                .flatten()
                .and_then(|old| self.text.get(self.positions.file.get(old)?.clone()));
            match (token.kind, in_file) {
                (_, Some(in_file)) => self.output.push_str(in_file),
                (TokenKind::LineEnd, None) => self.output.push('\n'),
                (_, None) => self.output.push_str(own),
            }
        }
    }

    fn indent(&mut self, index: usize, own: &str, line: usize) {
        let next = self.edit.new_tokens.get(index + 1);
        let blank = next.is_none_or(|next| next.kind == TokenKind::LineEnd);
        let begins_line = self.positions.begins_line.first() == Some(&true);
        if self.output.is_empty() && index == 0 && !begins_line {
            // The match begins within a line, so the text before it is not indentation.
            let old = self.edit.old_tokens.first().map_or("", |token| token.text(self.edit.old));
            let file_range = self.positions.file.first().filter(|_| old == own);
            let in_file = file_range.and_then(|file_range| self.text.get(file_range.clone()));
            self.output.push_str(in_file.unwrap_or(own));
        } else if !blank && (self.output.is_empty() || self.output.ends_with('\n')) {
            self.output.push_str(&self.indentation.translate(own, line));
        }
    }
}

/// Returns the tokens of a range of lines.
fn tokens_of(lines: &[Range<usize>], first: usize, count: usize) -> Range<usize> {
    let lines = lines.get(first..first + count).unwrap_or_default();
    match (lines.first(), lines.last()) {
        (Some(first), Some(last)) => first.start..last.end,
        _ => 0..0,
    }
}
