//! Matches with a few wrong characters.

use std::collections::BTreeSet;

use super::distance::distance;
use super::matching::{Hit, Wanted, block};
use super::source::Source;

/// A match may differ from the old text by this share of it.
const THRESHOLD: f64 = 0.10;
/// Another place that is worse by less than this makes the match ambiguous.
const MARGIN: f64 = 0.05;
/// Blanks weigh this much.
const BLANK_WEIGHT: f64 = 0.1;
/// Shorter texts are like too many others.
const MIN_CHARACTERS: usize = 10;
/// Lines × length² beyond which the search is not begun.
const MAX_COST: f64 = 4e8;

struct Candidate {
    first: usize,
    score: f64,
}

/// The places that are close enough, and, when there is exactly one, those
/// that are nearly as close.
pub(crate) fn find(source: &Source<'_>, wanted: &Wanted) -> (Vec<Hit>, Vec<(usize, usize)>) {
    let old: Vec<&str> = wanted.old_lines();
    let pattern = Pattern::new(&old);
    let cost = source.line_count() as f64 * (pattern.length as f64).powi(2);
    if pattern.length < MIN_CHARACTERS || cost > MAX_COST {
        return (Vec::new(), Vec::new());
    }
    let lines = source.lines();
    let mut candidates: Vec<Candidate> = lines
        .windows(old.len())
        .enumerate()
        .filter_map(|(first, window)| {
            let score = pattern.score(window, THRESHOLD + MARGIN)?;
            Some(Candidate { first, score })
        })
        .collect();
    candidates.sort_by(|one, two| one.score.total_cmp(&two.score).then(one.first.cmp(&two.first)));
    let mut taken = BTreeSet::new();
    let mut apart: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let near = candidate.first.saturating_sub(old.len() - 1)..candidate.first + old.len();
        if taken.range(near).next().is_none() {
            taken.insert(candidate.first);
            apart.push(candidate);
        }
    }
    let best = apart.first().map_or(0.0, |candidate| candidate.score);
    let (mut good, near): (Vec<_>, Vec<_>) =
        apart.into_iter().partition(|candidate| candidate.score <= THRESHOLD);
    let rivals = near
        .iter()
        .filter(|candidate| good.len() == 1 && candidate.score - best <= MARGIN)
        .map(|candidate| (candidate.first + 1, candidate.first + old.len()))
        .collect();
    good.sort_by_key(|candidate| candidate.first);
    let hits =
        good.iter().map(|candidate| block(source, wanted, candidate.first, old.len())).collect();
    (hits, rivals)
}

/// The old text, ready to be compared with many windows.
pub(crate) struct Pattern {
    raw: Vec<char>,
    dense: Vec<char>,
    counts: [i32; 64],
    /// Characters of the old text.
    length: usize,
}

impl Pattern {
    pub(crate) fn new(lines: &[&str]) -> Self {
        let raw = joined(lines);
        let dense = without_blanks(&raw);
        let counts = histogram(&dense);
        Self { length: raw.len(), raw, dense, counts }
    }

    /// How far a window is from the old text, 0 for equal, if it is at most
    /// `limit`.
    pub(crate) fn score(&self, window: &[&str], limit: f64) -> Option<f64> {
        let length = self.length.max(1) as f64;
        // Rounded down: a distance is whole.
        let allowed = (limit * length) as usize;
        let bytes: usize = window.iter().map(|line| line.trim().len()).sum();
        if bytes + allowed < self.dense.len() {
            return None;
        }
        let raw = joined(window);
        let dense = without_blanks(&raw);
        if dense.len().abs_diff(self.dense.len()) > allowed
            || self.at_least(&histogram(&dense)) > allowed
        {
            return None;
        }
        let far = distance(&dense, &self.dense, allowed)?;
        let blanks = ((limit * length - far as f64) / BLANK_WEIGHT).max(0.0) as usize;
        let far_raw = distance(&raw, &self.raw, far + blanks)?;
        let score = (far as f64 + far_raw.saturating_sub(far) as f64 * BLANK_WEIGHT) / length;
        (score <= limit).then_some(score)
    }

    /// Each edit changes two counts at most.
    fn at_least(&self, counts: &[i32; 64]) -> usize {
        let sum: u32 = self.counts.iter().zip(counts).map(|(one, two)| one.abs_diff(*two)).sum();
        usize::try_from(sum.div_ceil(2)).unwrap_or(usize::MAX)
    }
}

fn joined(lines: &[&str]) -> Vec<char> {
    let mut text = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.extend(line.trim_end().chars());
    }
    text
}

fn without_blanks(text: &[char]) -> Vec<char> {
    text.iter().copied().filter(|character| !character.is_whitespace()).collect()
}

fn histogram(text: &[char]) -> [i32; 64] {
    let mut counts = [0; 64];
    for character in text {
        if let Some(count) = counts.get_mut(u32::from(*character) as usize % 64) {
            *count += 1;
        }
    }
    counts
}
