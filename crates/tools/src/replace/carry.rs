//! Decides which tokens of the new text keep the file's characters.
//!
//! The rule: a token is written with the file's characters if the model's old text has the same
//! token in the same context; all other tokens are written as the model wrote them. The context
//! comes from a comparison of the model's old text with its new text: a line that both have, moved
//! and duplicated lines included, or an equal word of a changed line and the marks and spaces next
//! to it.
//!
//! Only whole lines are copied. A line that the new text keeps has no changed form, and a token of
//! a changed line serves once, so a new line that resembles a kept line is the model's own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::tokens::{TokenKind, TokenizedText, fold_character, is_word};

/// Maximum product of the token counts of an old and a new block; larger blocks are not compared.
const MAX_COMPARED: usize = 25_000_000;

/// Maximum number of equal lines considered before and after a line.
const MAX_COPIES: usize = 64;

/// Maximum number of old lines that a changed line may come from.
const MAX_CANDIDATES: usize = 8;

/// The old token that a new token equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CarriedToken {
    pub(super) old: usize,
    /// Whether the preceding token is carried over with it.
    pub(super) is_left_carried: bool,
    /// Whether the following token is carried over with it.
    pub(super) is_right_carried: bool,
    /// Whether it is one of a pair of quotation marks.
    pub(super) is_quote: bool,
}

/// Where a line of the new text comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineOrigin {
    /// The corresponding line of the old text.
    pub(super) old: usize,
    /// Whether the line is unchanged, including its indentation.
    pub(super) is_unchanged: bool,
}

/// The tokens of the new text that keep the file's characters.
#[derive(Debug)]
pub(super) struct CarriedTokens {
    /// For each token of the new text.
    pub(super) tokens: Vec<Option<CarriedToken>>,
    /// For each line of the new text.
    pub(super) lines: Vec<LineOrigin>,
}

impl CarriedTokens {
    /// Compares the old and the new text of an edit.
    pub(super) fn compare(old: &TokenizedText<'_>, new: &TokenizedText<'_>) -> Self {
        let mut comparison = EditComparison {
            old,
            new,
            old_partners: quote_partners(old),
            new_partners: quote_partners(new),
            sources: vec![None; new.tokens.len()],
            lines: vec![LineOrigin::default(); new.lines.len()],
            served: vec![false; old.tokens.len()],
            unchanged: HashSet::new(),
        };
        let old_lines: Vec<&str> = old.text.split_inclusive('\n').collect();
        let new_lines: Vec<&str> = new.text.split_inclusive('\n').collect();
        let ops = capture_diff_slices(Algorithm::Patience, &old_lines, &new_lines);
        let contents = contents_of(old);
        let blocks: Vec<(Range<usize>, Vec<usize>)> = ops
            .into_iter()
            .map(|op| (op.old_range(), comparison.carry_equal_lines(op, &contents)))
            .collect();
        let changed: Vec<usize> = blocks.iter().flat_map(|(_, changed)| changed).copied().collect();
        if old.tokens.len().saturating_mul(changed.len()) <= MAX_COMPARED {
            comparison.compare_similar_lines(&changed);
        }
        // Lines that were split or joined.
        for (old_lines, changed) in blocks {
            let old_lines: Vec<usize> =
                old_lines.filter(|line| !comparison.unchanged.contains(line)).collect();
            comparison.compare_changed_lines(&old_lines, &changed);
        }
        Self { tokens: comparison.carried_tokens(), lines: comparison.lines }
    }
}

/// Returns the lines of the text by their content, without indentation.
fn contents_of<'a>(text: &TokenizedText<'a>) -> HashMap<&'a str, Vec<usize>> {
    let mut contents: HashMap<&str, Vec<usize>> = HashMap::new();
    for line in 0..text.lines.len() {
        let content = text.text_of(&text.content(line));
        if !content.is_empty() {
            contents.entry(content).or_default().push(line);
        }
    }
    contents
}

struct EditComparison<'a> {
    old: &'a TokenizedText<'a>,
    new: &'a TokenizedText<'a>,
    old_partners: Vec<Option<usize>>,
    new_partners: Vec<Option<usize>>,
    /// For each new token, the old token that it equals.
    sources: Vec<Option<usize>>,
    lines: Vec<LineOrigin>,
    /// For each old token, whether a new token equals it.
    served: Vec<bool>,
    /// The old lines that are carried over as a whole.
    unchanged: HashSet<usize>,
}

impl EditComparison<'_> {
    /// Carries over the lines that both strings have; returns the other new lines of the block.
    fn carry_equal_lines(
        &mut self,
        op: DiffOp,
        contents: &HashMap<&str, Vec<usize>>,
    ) -> Vec<usize> {
        let (old_lines, new_lines) = (op.old_range(), op.new_range());
        if matches!(op, DiffOp::Equal { .. }) {
            for (old, new) in old_lines.zip(new_lines) {
                self.carry_line(old, new);
                self.set_origin(new, LineOrigin { old, is_unchanged: true });
            }
            return Vec::new();
        }
        let mut changed = Vec::new();
        for (offset, line) in new_lines.enumerate() {
            let nearest = old_lines.start + offset.min(old_lines.len().saturating_sub(1));
            let content = self.new.text_of(&self.new.content(line));
            // Of several equal lines, each copy gets its own.
            let same = contents.get(content).and_then(|same| {
                let preference =
                    |old: &usize| (self.unchanged.contains(old), old.abs_diff(nearest));
                let first = same.partition_point(|old| *old < nearest).saturating_sub(MAX_COPIES);
                same.iter().copied().skip(first).take(2 * MAX_COPIES).min_by_key(preference)
            });
            self.set_origin(line, LineOrigin { old: same.unwrap_or(nearest), is_unchanged: false });
            match same {
                Some(same) => self.carry_line(same, line),
                None => changed.push(line),
            }
        }
        changed
    }

    fn set_origin(&mut self, line: usize, origin: LineOrigin) {
        if let Some(slot) = self.lines.get_mut(line) {
            *slot = origin;
        }
    }

    fn carry(&mut self, new: usize, old: usize) {
        if let (Some(slot @ None), Some(served)) =
            (self.sources.get_mut(new), self.served.get_mut(old))
        {
            *slot = Some(old);
            *served = true;
        }
    }

    /// Carries over a line whose content is equal; its indentation may differ.
    fn carry_line(&mut self, old: usize, new: usize) {
        let lines = (self.old.lines.get(old).cloned(), self.new.lines.get(new).cloned());
        let (Some(old_line), Some(new_line)) = lines else { return };
        self.unchanged.insert(old);
        self.carry(new_line.start, old_line.start);
        for (new, old) in self.new.content(new).zip(self.old.content(old)) {
            self.carry(new, old);
        }
        self.carry_line_ending(old, new);
    }

    /// Aligns the words of changed lines. Equal marks and spaces next to an aligned word, or at the
    /// same end of a line, are carried over with it.
    fn compare_changed_lines(&mut self, old_lines: &[usize], new_lines: &[usize]) {
        let is_free = |word: &LineWord| self.served.get(word.index) == Some(&false);
        let is_own = |word: &LineWord| self.sources.get(word.index) == Some(&None);
        let old: Vec<LineWord> = words_in(self.old, old_lines).filter(is_free).collect();
        let new: Vec<LineWord> = words_in(self.new, new_lines).filter(is_own).collect();
        if old.len().saturating_mul(new.len()) > MAX_COMPARED {
            return;
        }
        let texts = |text: &TokenizedText<'_>, words: &[LineWord]| -> Vec<String> {
            words.iter().map(|word| text.token(word.index).to_owned()).collect()
        };
        let ops =
            capture_diff_slices(Algorithm::Myers, &texts(self.old, &old), &texts(self.new, &new));
        let mut compared = BTreeSet::new();
        for op in ops {
            let DiffOp::Equal { old_index, new_index, len } = op else { continue };
            for (old, new) in old.iter().skip(old_index).zip(new.iter().skip(new_index)).take(len) {
                self.carry(new.index, old.index);
                self.extend_left(new.index, old.index);
                self.extend_right(new.index, old.index);
                compared.insert(new.line);
            }
        }
        for line in compared {
            if let Some(old) = self.main_source(line) {
                self.set_origin(line, LineOrigin { old, is_unchanged: false });
                self.carry_line_ends(old, line);
            }
        }
        // The line ending before the next unchanged line stays.
        if let (Some(old), Some(new)) = (old_lines.last(), new_lines.last()) {
            self.carry_line_ending(*old, *new);
        }
    }

    /// Returns the old line that most words of a new line come from.
    fn main_source(&self, line: usize) -> Option<usize> {
        let source = |word: LineWord| self.sources.get(word.index).copied().flatten();
        let line_of = |old: usize| self.old.lines.partition_point(|line| line.end <= old);
        let lines: Vec<usize> =
            words_in(self.new, &[line]).filter_map(source).map(line_of).collect();
        most_common(&lines)
    }

    /// Carries over what two changed lines have in common at both ends.
    fn carry_line_ends(&mut self, old: usize, new: usize) {
        let lines = (self.old.lines.get(old).cloned(), self.new.lines.get(new).cloned());
        let (Some(old_line), Some(new_line)) = lines else { return };
        self.carry(new_line.start, old_line.start);
        self.extend_right(new_line.start, old_line.start);
        self.carry_line_ending(old, new);
        self.extend_left(self.new.content(new).end, self.old.content(old).end);
    }

    /// Carries over a line ending if both lines have one.
    fn carry_line_ending(&mut self, old: usize, new: usize) {
        let last = |text: &TokenizedText<'_>, line: usize| {
            let last = text.lines.get(line)?.end.checked_sub(1)?;
            (text.kind(last)? == TokenKind::LineEnd).then_some(last)
        };
        if let (Some(old), Some(new)) = (last(self.old, old), last(self.new, new)) {
            self.carry(new, old);
        }
    }

    fn extend_left(&mut self, new: usize, old: usize) {
        let (mut new, mut old) = (new, old);
        while let (Some(new_before), Some(old_before)) = (new.checked_sub(1), old.checked_sub(1)) {
            if !self.carry_neighbor(new_before, old_before) {
                return;
            }
            (new, old) = (new_before, old_before);
        }
    }

    fn extend_right(&mut self, new: usize, old: usize) {
        let (mut new, mut old) = (new + 1, old + 1);
        while self.carry_neighbor(new, old) {
            (new, old) = (new + 1, old + 1);
        }
    }

    /// Carries over an equal mark or space.
    fn carry_neighbor(&mut self, new: usize, old: usize) -> bool {
        let is_inside = matches!(self.new.kind(new), Some(TokenKind::Sign | TokenKind::Space));
        let token = self.new.token(new);
        let is_free = self.sources.get(new) == Some(&None) && self.served.get(old) == Some(&false);
        let is_same = self.new.kind(new) == self.old.kind(old) && token == self.old.token(old);
        let extends = is_inside && is_free && is_same && !token.contains(is_word);
        if extends {
            self.carry(new, old);
        }
        extends
    }

    /// Compares each changed line, moved or not, with the old line that shares most words with it,
    /// and at least half of the words of one of them. An old line has one changed form.
    fn compare_similar_lines(&mut self, changed: &[usize]) {
        let mut words: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        let gone: Vec<usize> =
            (0..self.old.lines.len()).filter(|line| !self.unchanged.contains(line)).collect();
        for word in words_in(self.old, &gone) {
            words.entry(self.old.token(word.index)).or_default().insert(word.line);
        }
        let mut pairs = Vec::new();
        for new in changed {
            let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
            let new_words = distinct_words(self.new, *new);
            for old in new_words.iter().filter_map(|word| words.get(word)).flatten() {
                *shared.entry(*old).or_default() += 1;
            }
            let count = |old: usize| distinct_words(self.old, old).len().min(new_words.len());
            shared.retain(|old, shared| *shared * 2 >= count(*old));
            let nearest = self.lines.get(*new).map_or(0, |origin| origin.old);
            let rank = |(old, count): (usize, usize)| (Reverse(count), old.abs_diff(nearest), old);
            let mut ranked: Vec<_> = shared.into_iter().map(rank).collect();
            ranked.sort_unstable();
            ranked.truncate(MAX_CANDIDATES);
            pairs.extend(ranked.into_iter().map(|rank| (rank, *new)));
        }
        pairs.sort_unstable();
        let (mut paired_old, mut paired_new) = (HashSet::new(), HashSet::new());
        for ((_, _, old), new) in pairs {
            if !paired_old.contains(&old) && paired_new.insert(new) {
                paired_old.insert(old);
                self.compare_changed_lines(&[old], &[new]);
            }
        }
    }

    /// Returns the carried tokens, without the quotation marks whose partner is not carried.
    fn carried_tokens(&self) -> Vec<Option<CarriedToken>> {
        let source = |new: usize| self.sources.get(new).copied().flatten();
        let carried =
            |new: usize| {
                let old = source(new)?;
                let before = |index: usize| index.checked_sub(1);
                // At either end of a line of the old text, nothing next to the token was replaced.
                let is_sign = self.new.kind(new) == Some(TokenKind::Sign);
                let is_line_end = |neighbor: Option<usize>| {
                    let kind = neighbor.and_then(|index| self.old.kind(index));
                    is_sign && !matches!(kind, Some(TokenKind::Sign | TokenKind::Space))
                };
                let is_left_carried = self.new.kind(new) == Some(TokenKind::Indent)
                    || before(new).and_then(source) == before(old)
                    || is_line_end(before(old));
                let is_right_carried = is_line_end(Some(old + 1))
                    || if new + 1 == self.new.tokens.len() {
                        old + 1 == self.old.tokens.len()
                    } else {
                        source(new + 1) == Some(old + 1)
                    };
                // A quotation mark belongs to the text outside the quotation.
                let partner = self.new_partners.get(new).copied().flatten();
                let is_outside_carried = partner.is_none_or(|partner| {
                    if new < partner { is_left_carried } else { is_right_carried }
                });
                let is_quote = partner.is_some();
                is_outside_carried.then_some(CarriedToken {
                    old,
                    is_left_carried,
                    is_right_carried,
                    is_quote,
                })
            };
        let tokens: Vec<Option<CarriedToken>> = (0..self.new.tokens.len()).map(carried).collect();
        let position = |index: usize| tokens.get(index).copied().flatten().map(|token| token.old);
        let with_partner = |(new, token): (usize, &Option<CarriedToken>)| {
            let token = (*token)?;
            let Some(partner) = self.new_partners.get(new).copied().flatten() else {
                return Some(token);
            };
            let old_partner = self.old_partners.get(token.old).copied().flatten()?;
            (position(partner) == Some(old_partner)).then_some(token)
        };
        tokens.iter().enumerate().map(with_partner).collect()
    }
}

/// A word of a text.
struct LineWord {
    line: usize,
    /// The index of the token.
    index: usize,
}

fn words_in<'a>(
    text: &'a TokenizedText<'_>,
    lines: &'a [usize],
) -> impl Iterator<Item = LineWord> + 'a {
    lines.iter().flat_map(|line| {
        let is_word = |index: &usize| text.token(*index).contains(is_word);
        text.content(*line).filter(is_word).map(|index| LineWord { line: *line, index })
    })
}

fn distinct_words<'a>(text: &TokenizedText<'a>, line: usize) -> BTreeSet<&'a str> {
    words_in(text, &[line]).map(|word| text.token(word.index)).collect()
}

/// Returns the most common of some line numbers.
fn most_common(lines: &[usize]) -> Option<usize> {
    let count = |line: &usize| lines.iter().filter(|other| *other == line).count();
    lines.iter().copied().max_by_key(|line| (count(line), Reverse(*line)))
}

/// Returns for each quotation mark the index of its partner in the same line.
fn quote_partners(text: &TokenizedText<'_>) -> Vec<Option<usize>> {
    let mut partners = vec![None; text.tokens.len()];
    let ends_in_word = |token: &str| token.ends_with(is_word);
    for line in &text.lines {
        let mut open: [Option<usize>; 2] = [None, None];
        for index in line.clone() {
            let kind = match text.token(index).chars().next().map(fold_character) {
                Some('"') => 0,
                Some('\'') => 1,
                _ => continue,
            };
            let before = index.checked_sub(1).map_or("", |before| text.token(before));
            let is_apostrophe =
                kind == 1 && ends_in_word(before) && text.token(index + 1).starts_with(is_word);
            let Some(slot) = open.get_mut(kind).filter(|_| !is_apostrophe) else { continue };
            match slot.take() {
                None => *slot = Some(index),
                Some(first) => set_partners(&mut partners, first, index),
            }
        }
    }
    partners
}

fn set_partners(partners: &mut [Option<usize>], first: usize, second: usize) {
    for (one, two) in [(first, second), (second, first)] {
        if let Some(slot) = partners.get_mut(one) {
            *slot = Some(two);
        }
    }
}
