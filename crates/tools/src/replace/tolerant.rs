//! Matches that differ from the file only in whitespace and in the shape of quotes, dashes, and
//! ellipses.
//!
//! Every letter, digit, and other character must be equal, so an edit can never restore an outdated
//! value. The characters of the old text are aligned with those of the file; `rewrite` then writes
//! the new text.

use std::ops::Range;

use super::hit::{Replacement, RequestedEdit};
use super::rewrite::TokenizedEdit;
use super::source::SourceText;
use super::tokens::{AlignedPair, DASHES, fold_character, is_space, is_word};

/// In larger files (in bytes), only exact matches are found.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of character comparisons; the search then ends without a result.
const MAX_STEPS: usize = 200_000_000;

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
        let (file_count, old_count) = equivalent_length(file, old)?;
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
        pairs.push(AlignedPair { old: span(old, old_count)?, file: span(file, file_count)? });
        before = old.get(old_count - 1).map(|text_char| text_char.character);
        at_file += file_count;
        at_old += old_count;
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
