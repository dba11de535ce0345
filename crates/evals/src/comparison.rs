//! Compares two result files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::results::RunResult;
use crate::statistics::{Proportion, difference, sign_test};

/// The significance level.
const LEVEL: f64 = 0.05;
/// Number of cases that must change in the same direction for the sign test to reach that level.
const MIN_CHANGED: usize = 6;

/// The differences between two result files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first file.
    pub before: PassRate,
    /// The second file.
    pub after: PassRate,
    /// The number of cases that are in both files.
    pub common_cases: usize,
    /// The second pass rate minus the first, over the cases that are in both files; `None` if there
    /// are none.
    pub difference: Option<f64>,
    /// The 95 % interval of the difference (Newcombe).
    pub interval: Option<(f64, f64)>,
    /// The p-value of the changes of single cases (two-sided sign test over the cases that are in
    /// both files).
    pub p_value: Option<f64>,
    /// Cases in both files whose pass rate changed.
    pub changed: Vec<ChangedCase>,
    /// Cases that are in only one of the files.
    #[serde(rename = "unpaired")]
    pub unpaired_cases: Vec<String>,
}

/// The runs of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PassRate {
    /// Passed runs.
    pub passed: u64,
    /// All runs.
    pub runs: u64,
    /// The pass rate.
    pub pass_rate: f64,
    /// The 95 % interval of the pass rate.
    pub interval: (f64, f64),
    /// Mean tokens per run.
    pub mean_tokens: f64,
    /// Mean cost per run in US dollars, if prices are known.
    pub mean_cost: Option<f64>,
    /// Mean duration of a run in milliseconds.
    pub mean_duration_ms: f64,
}

/// A case whose pass rate changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedCase {
    /// The name.
    pub case: String,
    /// The pass rate in the first file.
    pub before: f64,
    /// The pass rate in the second file.
    pub after: f64,
}

impl Comparison {
    /// Compares results by case.
    pub fn new(before: &[RunResult], after: &[RunResult]) -> Self {
        let (first, second) = (pass_rates_by_case(before), pass_rates_by_case(after));
        let mut changed = Vec::new();
        let mut unpaired_cases: Vec<String> = Vec::new();
        let (mut better, mut worse) = (0, 0);
        for (case, share) in &first {
            let Some(other) = second.get(case) else {
                unpaired_cases.push((*case).to_owned());
                continue;
            };
            let (old, new) = (share.rate(), other.rate());
            if (old - new).abs() > f64::EPSILON {
                better += u64::from(new > old);
                worse += u64::from(new < old);
                changed.push(ChangedCase { case: (*case).to_owned(), before: old, after: new });
            }
        }
        let only_new = second.keys().filter(|case| !first.contains_key(*case));
        unpaired_cases.extend(only_new.map(|case| (*case).to_owned()));
        let in_both = |result: &&RunResult| {
            first.contains_key(result.case.as_str()) && second.contains_key(result.case.as_str())
        };
        let one = proportion(before.iter().filter(in_both));
        let other = proportion(after.iter().filter(in_both));
        let common_cases = first.keys().filter(|case| second.contains_key(*case)).count();
        let is_comparable = common_cases > 0;
        Self {
            before: share(before),
            after: share(after),
            common_cases,
            difference: is_comparable.then(|| other.rate() - one.rate()),
            interval: is_comparable.then(|| difference(one, other)),
            p_value: is_comparable.then(|| sign_test(better, worse)),
            changed,
            unpaired_cases,
        }
    }

    /// Returns a string for the terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, share) in [("A", &self.before), ("B", &self.after)] {
            let cost = share.mean_cost.map_or_else(|| "–".to_owned(), |cost| format!("${cost:.4}"));
            let _ = writeln!(
                text,
                "{name}  {}/{} passed, {:.1} % ({:.1}–{:.1} %)  {:.0} tokens, {cost}, {:.1} s per run",
                share.passed,
                share.runs,
                share.pass_rate * 100.0,
                share.interval.0 * 100.0,
                share.interval.1 * 100.0,
                share.mean_tokens,
                share.mean_duration_ms / 1000.0,
            );
        }
        text.push('\n');
        match (self.difference, self.interval, self.p_value) {
            (Some(difference), Some(interval), Some(p_value)) => {
                let p_text = match p_value < 0.001 {
                    true => "p < 0.001".to_owned(),
                    false => format!("p = {p_value:.3}"),
                };
                let cases = match self.common_cases {
                    1 => "the case".to_owned(),
                    count => format!("the {count} cases"),
                };
                let _ = writeln!(
                    text,
                    "B − A: {:+.1} percentage points (95 % interval over runs {:+.1} to {:+.1}); \
                     sign test over cases: {p_text}; over {cases} in both",
                    difference * 100.0,
                    interval.0 * 100.0,
                    interval.1 * 100.0,
                );
                // The interval treats runs of one case as independent, so that the test over cases
                // counts, too.
                let excludes_zero = interval.0 > 0.0 || interval.1 < 0.0;
                let is_clear = excludes_zero && p_value < LEVEL;
                text.push_str(match (is_clear, difference > 0.0) {
                    (false, _) => "The results do not show which one is better.\n",
                    (true, true) => "B is better.\n",
                    (true, false) => "A is better.\n",
                });
                if excludes_zero && !is_clear {
                    let _ = writeln!(
                        text,
                        "The interval treats all runs as independent. Over cases, the changes may \
                         be due to chance ({p_text}); at least {MIN_CHANGED} cases must change in \
                         the same direction to show a difference.",
                    );
                }
            }
            _ => text.push_str("No case is in both files: the results cannot be compared.\n"),
        }
        if !self.changed.is_empty() {
            text.push_str("\nChanged cases\n");
        }
        for case in &self.changed {
            let sign = if case.after > case.before { '+' } else { '−' };
            let (before, after) = (case.before * 100.0, case.after * 100.0);
            let _ = writeln!(text, "  {sign} {}  {before:.0} % → {after:.0} %", case.case);
        }
        if !self.unpaired_cases.is_empty() {
            let _ = writeln!(text, "\nOnly in one file: {}", self.unpaired_cases.join(", "));
        }
        text
    }
}

fn pass_rates_by_case(results: &[RunResult]) -> BTreeMap<&str, Proportion> {
    let mut cases = BTreeMap::new();
    for result in results {
        let share = cases.entry(result.case.as_str()).or_insert(Proportion { passed: 0, total: 0 });
        share.passed += u64::from(result.pass);
        share.total += 1;
    }
    cases
}

fn proportion<'a>(results: impl Iterator<Item = &'a RunResult>) -> Proportion {
    let mut share = Proportion { passed: 0, total: 0 };
    for result in results {
        share.passed += u64::from(result.pass);
        share.total += 1;
    }
    share
}

#[expect(clippy::cast_precision_loss, reason = "no sum reaches 2^52")]
fn share(results: &[RunResult]) -> PassRate {
    let proportion = proportion(results.iter());
    let runs = results.len().max(1) as f64;
    let cost: Option<f64> = results.iter().map(|result| result.cost).sum();
    PassRate {
        passed: proportion.passed,
        runs: proportion.total,
        pass_rate: proportion.rate(),
        interval: proportion.interval(),
        mean_tokens: results.iter().map(|result| result.tokens as f64).sum::<f64>() / runs,
        mean_cost: cost.map(|cost| cost / runs),
        mean_duration_ms: results.iter().map(|it| it.duration_ms as f64).sum::<f64>() / runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(passed: &[(&str, bool)]) -> Vec<RunResult> {
        let result = |(case, pass): &(&str, bool)| RunResult {
            case: (*case).to_owned(),
            model: "m".to_owned(),
            run: 1,
            pass: *pass,
            tokens: 1,
            cost: None,
            duration_ms: 1,
            tool_calls: 0,
            checks: Vec::new(),
            judge: None,
            session_id: None,
            tags: Vec::new(),
            wrong_step: None,
            devtools: None,
            error: None,
        };
        passed.iter().map(result).collect()
    }

    #[test]
    fn clear_and_unclear_differences_are_distinguished() {
        let names: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
        let all = |pass: bool| -> Vec<RunResult> {
            results(&names.iter().map(|name| (name.as_str(), pass)).collect::<Vec<_>>())
        };
        let clear = Comparison::new(&all(false), &all(true));
        assert!(clear.p_value < Some(0.001) && clear.text().contains("B is better."));
        assert!(clear.text().contains("p < 0.001; over the 20 cases in both"), "{}", clear.text());
        let one = Comparison::new(
            &results(&[("a", true), ("b", false)]),
            &results(&[("a", true), ("b", true)]),
        );
        assert!(one.text().contains("do not show") && one.text().contains("+ b  0 % → 100 %"));
        let all_three = |pass: bool| results(&[("a", pass), ("b", pass), ("c", pass)]);
        let few = Comparison::new(&all_three(true), &all_three(false));
        let text = few.text();
        assert!(few.interval.is_some_and(|(_, high)| high < 0.0), "{text}");
        assert!(
            text.contains("do not show") && text.contains("due to chance (p = 0.250)"),
            "{text}"
        );
        assert!(sign_test(MIN_CHANGED as u64, 0) < LEVEL);
        assert!(sign_test(MIN_CHANGED as u64 - 1, 0) > LEVEL);
        let other = Comparison::new(&results(&[("a", true)]), &results(&[("z", true)]));
        assert_eq!(other.unpaired_cases, ["a", "z"]);
        assert_eq!((other.common_cases, other.difference, other.p_value), (0, None, None));
        let text = other.text();
        assert!(text.contains("No case is in both files") && !text.contains("B − A"), "{text}");
    }
}
