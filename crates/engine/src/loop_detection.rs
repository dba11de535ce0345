//! Detects loops without asking a model.
//!
//! Two detectors. *Batches*: the calls of one response with their results form one key; a
//! repeating cycle of one to five keys is a loop. A changed result is progress, so polling
//! never counts. *Text*: the same fifty characters over and over in one stream.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use parallax_protocol::Object;
use serde_json::Value;

/// Number of repetitions after which the model gets a hint.
const NUDGE_AT: usize = 5;
/// Number of repetitions after which the turn ends.
const STOP_AT: usize = 8;
/// The longest cycle that is detected.
const MAX_CYCLE: usize = 5;

/// The reaction to a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoopAction {
    /// Tell the model what repeats.
    Nudge(Repetition),
    /// End the turn.
    Stop(Repetition),
}

/// What repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Text of a response.
    Text,
    /// Calls with the same results.
    Calls {
        /// The tool of the first call of the last batch.
        tool: String,
        /// The number of batches that repeat.
        cycle: usize,
        times: usize,
    },
}

impl Repetition {
    /// Describes the repetition. `format_tool` returns how the reader knows a tool, by its name in
    /// calls.
    pub(crate) fn describe(&self, format_tool: impl Fn(&str) -> String) -> String {
        match self {
            Self::Text => "the same text was repeated".to_owned(),
            Self::Calls { tool, cycle: 1, times } => format!(
                "{} was called {times} times with the same arguments and the same result",
                format_tool(tool)
            ),
            Self::Calls { tool, cycle, times } => format!(
                "the same {cycle} calls ({} last) repeated {times} times with the same results",
                format_tool(tool)
            ),
        }
    }
}

/// The loop detector of one turn.
#[derive(Debug, Default)]
pub(crate) struct LoopDetector {
    /// Whether nothing is detected.
    is_disabled: bool,
    batches: VecDeque<u64>,
    has_nudged: bool,
    text: RepetitionDetector,
}

impl LoopDetector {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { is_disabled: !enabled, ..Self::default() }
    }

    /// Forgets the turn.
    pub(crate) fn reset(&mut self) {
        *self = Self { is_disabled: self.is_disabled, ..Self::default() };
    }

    /// Detects nothing from now on.
    pub(crate) fn disable(&mut self) {
        self.is_disabled = true;
    }

    /// Adds text of a response. Returns whether it completes a repetition.
    pub(crate) fn push_text(&mut self, text: &str) -> bool {
        !self.is_disabled && self.text.push(text)
    }

    /// Adds a batch: name, arguments, and result text of each call.
    pub(crate) fn record_batch<'a>(
        &mut self,
        calls: impl Iterator<Item = (&'a str, Option<&'a Object>, &'a str)>,
    ) -> Option<LoopAction> {
        if self.is_disabled {
            return None;
        }
        self.text.reset();
        let mut hasher = DefaultHasher::new();
        let mut first = None;
        for (name, args, result) in calls {
            first.get_or_insert(name);
            name.hash(&mut hasher);
            args.map_or(0, |args| args.len()).hash(&mut hasher);
            for (key, value) in args.into_iter().flat_map(sort_fields) {
                (key, canonical_json(value)).hash(&mut hasher);
            }
            for line in result.lines().filter(|line| !is_process_id_line(line)) {
                line.hash(&mut hasher);
            }
        }
        let first = first?.to_owned();
        if self.batches.len() == STOP_AT * MAX_CYCLE {
            self.batches.pop_front();
        }
        self.batches.push_back(hasher.finish());
        let (cycle, times) = self.longest_repetition();
        if times < NUDGE_AT || (times < STOP_AT && self.has_nudged) {
            return None;
        }
        let repetition = Repetition::Calls { tool: first, cycle, times };
        if times >= STOP_AT {
            return Some(LoopAction::Stop(repetition));
        }
        self.has_nudged = true;
        Some(LoopAction::Nudge(repetition))
    }

    /// Returns the cycle at the end that repeats most often, and how often.
    fn longest_repetition(&self) -> (usize, usize) {
        let keys: Vec<u64> = self.batches.iter().copied().collect();
        (1..=MAX_CYCLE)
            .map(|cycle| {
                let equal = keys.iter().rev().zip(keys.iter().rev().skip(cycle));
                let run = equal.take_while(|(a, b)| a == b).count();
                (cycle, run / cycle + 1)
            })
            .max_by_key(|(cycle, times)| (*times, std::cmp::Reverse(*cycle)))
            .unwrap_or((1, 0))
    }

    /// Counts repeated text as a repetition in the same turn.
    pub(crate) fn record_text_repetition(&mut self) -> LoopAction {
        self.text.reset();
        if std::mem::replace(&mut self.has_nudged, true) {
            LoopAction::Stop(Repetition::Text)
        } else {
            LoopAction::Nudge(Repetition::Text)
        }
    }
}

/// Returns the fields of an object by name: the order of arguments makes no difference.
fn sort_fields(object: &Object) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| key.as_str());
    fields
}

fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let fields = sort_fields(object).into_iter();
            let fields: Vec<String> =
                fields.map(|(key, value)| format!("{key:?}:{}", canonical_json(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical_json).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Whether the line contains process ids, which differ in every result of a command and do not
/// indicate progress.
fn is_process_id_line(line: &str) -> bool {
    line.starts_with("Process Group PGID:") || line.starts_with("Background PIDs:")
}

/// Number of characters in a window.
const WINDOW: usize = 50;
/// Number of characters kept.
const KEPT_CHARACTERS: usize = 5000;
/// Minimum occurrences of one window in a loop.
const OCCURRENCES: usize = 10;
/// Maximum average distance between these occurrences, in characters.
const MAX_AVERAGE_GAP: usize = 250;

/// Characters between two exact checks of text that repeats without being a loop: each check
/// scans all kept text.
const CHECK_INTERVAL: usize = 200;

/// Characters of a divider that are compared; the rest of it is skipped.
const DIVIDER_START: usize = 3;
/// Longest divider in characters. Anything longer is repeated text.
const MAX_DIVIDER: usize = 1000;

/// Passes a precomputed hash through.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Detects repeated text in a stream. Structure resets it: fences, tables, lists, headings, and
/// quotes repeat for good reasons.
#[derive(Debug, Default)]
pub(crate) struct RepetitionDetector {
    chars: VecDeque<char>,
    /// Approximate count of each window among the kept characters: a cheap filter before the exact
    /// check.
    window_counts: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    hash: u64,
    /// Characters left until the next exact check.
    until_check: usize,
    in_fence: bool,
    /// Length of the divider at the end: characters other than letters and digits, or one character
    /// again and again.
    divider: usize,
    last: Option<char>,
}

const BASE: u64 = 0x100_0000_01b3;

/// BASE^WINDOW, to remove the oldest character from the rolling hash.
const OUT: u64 = {
    let (mut power, mut left) = (1u64, WINDOW);
    while left > 0 {
        power = power.wrapping_mul(BASE);
        left -= 1;
    }
    power
};

impl RepetitionDetector {
    /// Resets the detector.
    pub(crate) fn reset(&mut self) {
        self.in_fence = false;
        self.clear();
    }

    fn clear(&mut self) {
        self.chars.clear();
        self.window_counts.clear();
        self.hash = 0;
        self.until_check = 0;
        self.divider = 0;
        self.last = None;
    }

    /// Adds a piece of text; returns true when it completes a loop.
    pub(crate) fn push(&mut self, text: &str) -> bool {
        let fences = text.matches("```").count();
        if fences > 0 {
            self.in_fence ^= fences % 2 == 1;
            self.clear();
            return false;
        }
        if self.in_fence {
            return false;
        }
        if text.lines().any(is_markup_line) || is_divider(text) {
            self.clear();
            return false;
        }
        text.chars().any(|c| self.push_char(c))
    }

    fn push_char(&mut self, c: char) -> bool {
        let is_divider = !c.is_alphanumeric() || self.last == Some(c);
        self.divider = if is_divider { self.divider + 1 } else { 0 };
        self.last = Some(c);
        if (DIVIDER_START + 1..=MAX_DIVIDER).contains(&self.divider) {
            return false;
        }
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(u64::from(u32::from(c)) + 1);
        if let Some(old) = self.chars.len().checked_sub(WINDOW).and_then(|at| self.chars.get(at)) {
            let old = u64::from(u32::from(*old)) + 1;
            self.hash = self.hash.wrapping_sub(old.wrapping_mul(OUT));
        }
        self.chars.push_back(c);
        if self.chars.len() > 2 * KEPT_CHARACTERS {
            self.chars.drain(..KEPT_CHARACTERS);
            self.window_counts.clear();
        }
        if self.chars.len() < WINDOW {
            return false;
        }
        let count = self.window_counts.entry(self.hash).or_default();
        *count += 1;
        self.until_check = self.until_check.saturating_sub(1);
        if (*count as usize) < OCCURRENCES || self.until_check > 0 {
            return false;
        }
        let is_repetition = self.is_repetition();
        if !is_repetition {
            self.until_check = CHECK_INTERVAL;
        }
        is_repetition
    }

    /// Whether the newest window occurs ten times close together with at most five different ones
    /// between.
    fn is_repetition(&mut self) -> bool {
        let chars: Vec<char> = self.chars.iter().copied().collect();
        let Some((_, window)) = chars.split_at_checked(chars.len().saturating_sub(WINDOW)) else {
            return false;
        };
        let positions: Vec<usize> = chars
            .windows(WINDOW)
            .enumerate()
            .rev()
            .filter_map(|(at, other)| (other == window).then_some(at))
            .take(OCCURRENCES)
            .collect();
        let (Some(newest), Some(oldest)) = (positions.first(), positions.last()) else {
            return false;
        };
        if positions.len() < OCCURRENCES || (newest - oldest) / (OCCURRENCES - 1) > MAX_AVERAGE_GAP
        {
            // The filter counted characters that are gone: count again.
            self.window_counts.insert(self.hash, 0);
            return false;
        }
        let mut between: Vec<&[char]> = positions
            .iter()
            .zip(positions.iter().skip(1))
            .filter_map(|(to, from)| chars.get(*from..*to))
            .collect();
        between.sort_unstable();
        between.dedup();
        between.len() <= 5
    }
}

fn is_markup_line(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with(['#', '>', '|'])
        || line.starts_with("- ")
        || line.starts_with("* ")
        || line.starts_with("+ ")
        || line.split_once(['.', ')']).is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        })
}

fn is_divider(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty()
        && text.chars().all(|c| "-=_*+~#".contains(c) || ('\u{2500}'..='\u{257F}').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(
        guard: &mut LoopDetector,
        times: usize,
        result: impl Fn(usize) -> String,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        for turn in 1..=times {
            let result = result(turn);
            match guard.record_batch(std::iter::once(("poll", None, result.as_str()))) {
                Some(LoopAction::Nudge(_)) => found.push(turn),
                Some(LoopAction::Stop(_)) => {
                    found.push(turn + 100);
                    break;
                }
                None => {}
            }
        }
        found
    }

    #[test]
    fn equal_calls_with_equal_results_are_nudged_at_5_and_stopped_at_8() {
        let found = repeat(&mut LoopDetector::default(), 20, |_| "same".into());
        assert_eq!(found, [5, 108]);
    }

    #[test]
    fn polling_with_changing_results_is_not_a_loop() {
        assert!(repeat(&mut LoopDetector::default(), 100, |turn| turn.to_string()).is_empty());
    }

    #[test]
    fn process_ids_and_argument_order_are_ignored() {
        let mut guard = LoopDetector::default();
        let orders = [r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#];
        let found = (0..5).filter_map(|turn| {
            let args: Object = serde_json::from_str(orders[turn % 2]).expect("args");
            let result = format!("Output: same\nProcess Group PGID: {turn}");
            guard.record_batch(std::iter::once(("run", Some(&args), result.as_str())))
        });
        assert_eq!(found.count(), 1);
    }

    #[test]
    fn cycles_of_up_to_five_calls_are_found() {
        for cycle in 1..=MAX_CYCLE {
            let mut guard = LoopDetector::default();
            let mut stopped = None;
            for turn in 0..100 {
                let name = format!("t{}", turn % cycle);
                let finding = guard.record_batch(std::iter::once((name.as_str(), None, "r")));
                if let Some(LoopAction::Stop(_)) = finding {
                    stopped = Some(turn + 1);
                    break;
                }
            }
            assert_eq!(stopped, Some(cycle * STOP_AT), "cycle of {cycle}");
        }
    }

    #[test]
    fn dividers_within_text_are_not_a_loop() {
        let dividers = [
            "-", "=", "*", "_", "~", "#", "─", "═", "▬", "·", ".", "…", "=-", "- ", "+--", " ",
            "0", "x", "\n", "⭐", "<>",
        ];
        for divider in dividers {
            for length in [58, 59, 60, 80, 120, 400] {
                let line: String = divider.chars().cycle().take(length).collect();
                let texts = [
                    format!("Report\n\n{line}\nA"),
                    format!("Report\n    {line}\n    text {line} more\n{line}\n"),
                    format!("loading{line} done"),
                    format!("// {line}\n// section\n// {line}"),
                ];
                for text in texts {
                    let mut whole = RepetitionDetector::default();
                    assert!(!whole.push(&text), "{text}");
                    let mut pieces = RepetitionDetector::default();
                    let chars: Vec<char> = text.chars().collect();
                    let is_loop =
                        chars.chunks(7).any(|piece| pieces.push(&piece.iter().collect::<String>()));
                    assert!(!is_loop, "{text}");
                }
            }
        }
        for endless in ["x! ", "....", "\u{1F600}", "no"] {
            let mut guard = RepetitionDetector::default();
            assert!(guard.push(&format!("Well, {}", endless.repeat(1500))), "{endless}");
        }
    }

    #[test]
    fn repetition_is_detected_and_prose_is_not() {
        let mut guard = RepetitionDetector::default();
        assert!(
            (0..40).any(|_| guard.push("I will now check the file again and see what it says. "))
        );
        let mut guard = RepetitionDetector::default();
        for n in 0..3000 {
            assert!(!guard.push(&format!(
                "Sentence {n} tells of {} things and of {}. ",
                n * 7,
                n * n
            )));
        }
        // Text that repeats without being a loop.
        let mut guard = RepetitionDetector::default();
        let repeated = "the same fifty characters and some more stand here, again and again: ";
        for n in 0..2_000 {
            assert!(!guard.push(&format!("{repeated}{} ", n * 7919 % 100_003)));
        }
        let mut guard = RepetitionDetector::default();
        assert!(
            (0..400)
                .all(|_| !guard.push("- the same list item over and over, as lists may have\n"))
        );
    }
}
