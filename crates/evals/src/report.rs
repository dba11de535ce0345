//! Aggregates the results of many runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::results::{JudgeUse, RunResult};
use crate::statistics::{Proportion, all_pass};

/// The aggregated results of several runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunGroup {
    /// What the runs have in common: a model, a tag, or everything.
    pub name: String,
    /// The number of runs.
    pub runs: u64,
    /// The number of passed runs.
    pub passed: u64,
    /// The pass rate.
    pub pass_rate: f64,
    /// The 95 % interval of the pass rate (Wilson).
    pub interval: (f64, f64),
    /// The probability that all runs of a case pass, averaged over the cases.
    pub all_runs_pass: f64,
    /// Tokens of all runs.
    pub tokens: u64,
    /// The cost of all runs in US dollars; `None` if the price of one is unknown.
    pub cost: Option<f64>,
    /// The median duration of a run in milliseconds.
    pub median_duration_ms: u64,
    /// Tool calls of all runs.
    pub tool_calls: u64,
}

/// The groups of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// All runs.
    pub total: RunGroup,
    /// By model.
    pub models: Vec<RunGroup>,
    /// By tag.
    pub tags: Vec<RunGroup>,
    /// The largest number of runs of one case with one model.
    pub runs_per_case: u64,
    /// What all judges used, if there were any. It is not part of the runs.
    pub judges: Option<JudgeUse>,
}

impl Report {
    /// Aggregates results.
    pub fn from_results(results: &[RunResult]) -> Self {
        let mut models: BTreeMap<&str, Vec<&RunResult>> = BTreeMap::new();
        let mut tags: BTreeMap<&str, Vec<&RunResult>> = BTreeMap::new();
        for result in results {
            models.entry(&result.model).or_default().push(result);
            for tag in &result.tags {
                tags.entry(tag).or_default().push(result);
            }
        }
        let all: Vec<&RunResult> = results.iter().collect();
        let runs_per_case =
            counts_by_case(&all).values().map(|(_, runs)| *runs).max().unwrap_or_default();
        let groups = |groups: BTreeMap<&str, Vec<&RunResult>>| {
            groups.into_iter().map(|(name, runs)| group(name, &runs, runs_per_case)).collect()
        };
        Self {
            total: group("all", &all, runs_per_case),
            models: groups(models),
            tags: groups(tags),
            runs_per_case,
            judges: judges(results),
        }
    }

    /// Returns a table for the terminal.
    pub fn table(&self) -> String {
        let groups = std::iter::once(&self.total).chain(&self.models).chain(&self.tags);
        let width = groups.clone().map(|group| group.name.chars().count()).max().unwrap_or(0);
        let width = width.clamp(6, 40);
        let every = format!("pass^{}", self.runs_per_case);
        let mut text = format!(
            "{:<width$}  {:>9}  {:>6}  {:>13}  {:>7}  {:>9}  {:>9}  {:>8}  {:>5}\n",
            "", "passed", "rate", "95 % interval", every, "tokens", "cost", "median", "calls"
        );
        let mut rows = |title: &str, groups: &[RunGroup]| {
            if !groups.is_empty() && !title.is_empty() {
                let _ = writeln!(text, "{title}");
            }
            for group in groups {
                let cost = group.cost.map_or_else(|| "–".to_owned(), |cost| format!("${cost:.4}"));
                let (low, high) = group.interval;
                let name: String = group.name.chars().take(width).collect();
                let _ = writeln!(
                    text,
                    "{name:<width$}  {:>9}  {:>5.1}%  {:>5.1}–{:>5.1} %  {:>6.1}%  {:>9}  {cost:>9}  {:>7.1}s  {:>5}",
                    format!("{}/{}", group.passed, group.runs),
                    group.pass_rate * 100.0,
                    low * 100.0,
                    high * 100.0,
                    group.all_runs_pass * 100.0,
                    group.tokens,
                    seconds(group.median_duration_ms),
                    group.tool_calls,
                );
            }
        };
        rows("", std::slice::from_ref(&self.total));
        if self.models.len() > 1 {
            rows("models", &self.models);
        }
        rows("tags", &self.tags);
        if let Some(judges) = &self.judges {
            let cost = judges.cost.map_or_else(|| "–".to_owned(), |cost| format!("${cost:.4}"));
            let _ = writeln!(text, "Judges used {} more tokens, cost {cost}.", judges.tokens);
        }
        text
    }
}

/// Adds up what judges used.
fn judges(results: &[RunResult]) -> Option<JudgeUse> {
    let used = results.iter().filter_map(|result| result.judge);
    used.reduce(|one, other| JudgeUse {
        tokens: one.tokens.saturating_add(other.tokens),
        cost: one.cost.zip(other.cost).map(|(one, other)| one + other),
    })
}

#[expect(clippy::cast_precision_loss, reason = "no run takes 2^52 ms")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

/// Returns the passed and total runs by case and model.
fn counts_by_case<'a>(results: &[&'a RunResult]) -> BTreeMap<(&'a str, &'a str), (u64, u64)> {
    let mut cases = BTreeMap::new();
    for result in results {
        let counts: &mut (u64, u64) =
            cases.entry((result.case.as_str(), result.model.as_str())).or_default();
        counts.0 += u64::from(result.pass);
        counts.1 += 1;
    }
    cases
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 cases")]
fn group(name: &str, results: &[&RunResult], runs_per_case: u64) -> RunGroup {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let passed = count(results.iter().filter(|result| result.pass).count());
    let share = Proportion { passed, total: count(results.len()) };
    let cases = counts_by_case(results);
    let all: f64 = cases
        .values()
        .map(|(passed, total)| all_pass(*passed, *total, runs_per_case.min(*total)))
        .sum();
    let mut durations: Vec<u64> = results.iter().map(|result| result.duration_ms).collect();
    durations.sort_unstable();
    RunGroup {
        name: name.to_owned(),
        runs: share.total,
        passed,
        pass_rate: share.rate(),
        interval: share.interval(),
        all_runs_pass: all / cases.len().max(1) as f64,
        tokens: results.iter().map(|result| result.tokens).sum(),
        cost: results.iter().map(|result| result.cost).sum(),
        median_duration_ms: durations.get(durations.len() / 2).copied().unwrap_or_default(),
        tool_calls: results.iter().map(|result| result.tool_calls).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(case: &str, run: u32, pass: bool) -> RunResult {
        RunResult {
            case: case.to_owned(),
            model: "m".to_owned(),
            run,
            pass,
            tokens: 10,
            cost: Some(0.5),
            duration_ms: 1000,
            tool_calls: 1,
            checks: Vec::new(),
            judge: None,
            session_id: None,
            tags: vec!["t".to_owned()],
            wrong_step: None,
            devtools: None,
            error: None,
        }
    }

    #[test]
    fn report_counts_runs_by_model_and_tag() {
        let results = [
            result("a", 1, true),
            result("a", 2, false),
            result("b", 1, true),
            result("b", 2, true),
        ];
        let report = Report::from_results(&results);
        assert_eq!((report.total.passed, report.total.runs), (3, 4));
        assert_eq!((report.runs_per_case, report.total.cost), (2, Some(2.0)));
        assert!((report.total.all_runs_pass - 0.5).abs() < 1e-9, "b passes always, a does not");
        assert_eq!(report.tags[0].name, "t");
        let table = report.table();
        assert_eq!(report.judges, None);
        assert!(table.contains("pass^2") && table.contains("3/4") && table.contains("$2.0000"));
    }

    #[test]
    fn judge_usage_is_counted_separately() {
        let judged =
            |cost| RunResult { judge: Some(JudgeUse { tokens: 7, cost }), ..result("a", 1, true) };
        let report = Report::from_results(&[judged(Some(0.25)), judged(Some(0.5))]);
        assert_eq!((report.total.tokens, report.total.cost), (20, Some(1.0)));
        assert_eq!(report.judges, Some(JudgeUse { tokens: 14, cost: Some(0.75) }));
        let table = report.table();
        assert!(table.contains("Judges used 14 more tokens, cost $0.7500."), "{table}");
        let report = Report::from_results(&[judged(Some(0.25)), judged(None)]);
        assert!(report.table().contains("cost –."));
    }
}
