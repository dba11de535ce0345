//! The budget that all tasks of a batch share.

use std::collections::BTreeMap;

use crate::plan::PlannedTask;

/// Tolerance for rounding errors in sums of US dollars.
const ROUNDING: f64 = 1e-9;

/// The spent and reserved amounts, in US dollars.
#[derive(Debug)]
pub(crate) struct BatchBudget {
    limit: Option<f64>,
    /// US dollars spent by tasks that ended.
    spent: f64,
    /// The most that a task has cost, with all attempts.
    largest: f64,
    /// Whether a task has ended.
    has_ended: bool,
    running: BTreeMap<String, RunningCost>,
    /// What earlier attempts of tasks that run again cost; part of `spent`.
    earlier: BTreeMap<String, f64>,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct RunningCost {
    running_usd: f64,
    expected: f64,
}

/// Whether a task may start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BudgetDecision {
    /// It may start with this cost limit.
    Start(Option<f64>),
    /// It has to wait until another one has ended.
    Wait,
    /// The budget is used up; start no more tasks.
    Spent,
}

impl BatchBudget {
    pub(crate) fn new(limit: Option<f64>) -> Self {
        Self {
            limit,
            spent: 0.0,
            largest: 0.0,
            has_ended: false,
            running: BTreeMap::new(),
            earlier: BTreeMap::new(),
            is_closed: false,
        }
    }

    /// Returns what ended and running tasks have cost.
    pub(crate) fn total(&self) -> f64 {
        self.spent + self.running.values().map(|running| running.running_usd).sum::<f64>()
    }

    /// Returns what ended tasks and earlier attempts of running ones have cost.
    pub(crate) fn spent(&self) -> f64 {
        self.spent
    }

    /// Prevents further tasks from starting: the remaining budget does not cover a request of one.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether no more tasks may start because a request of one did not fit.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether the limit is exceeded.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.limit.is_some_and(|limit| self.total() > limit + ROUNDING)
    }

    /// Returns what a task may cost. It is expected to cost its own limit, or as much as the most
    /// expensive task so far. All tasks share the same remainder: each request reserves what it may
    /// cost.
    pub(crate) fn allow(&self, task: &PlannedTask) -> BudgetDecision {
        let Some(limit) = self.limit else { return BudgetDecision::Start(None) };
        let reserved: f64 =
            self.running.values().map(|cost| (cost.expected - cost.running_usd).max(0.0)).sum();
        let remaining = limit - self.total() - reserved;
        let expected = self.expected_cost(task);
        let is_too_little = remaining <= ROUNDING || remaining < expected - ROUNDING;
        if self.is_closed || is_too_little {
            return if self.running.is_empty() {
                BudgetDecision::Spent
            } else {
                BudgetDecision::Wait
            };
        }
        // Several tasks of unknown cost could spend a multiple of the limit.
        if expected == 0.0 && !self.has_ended && !self.running.is_empty() {
            return BudgetDecision::Wait;
        }
        BudgetDecision::Start(Some(remaining))
    }

    fn expected_cost(&self, task: &PlannedTask) -> f64 {
        task.max_cost.unwrap_or(self.largest)
    }

    pub(crate) fn start(&mut self, task: &PlannedTask, allowance: Option<f64>) {
        let expected = match self.expected_cost(task) {
            0.0 => allowance.unwrap_or_default(),
            expected => expected,
        };
        self.running.insert(task.id.clone(), RunningCost { running_usd: 0.0, expected });
    }

    /// `cost`: of all attempts of the task.
    pub(crate) fn update(&mut self, id: &str, cost: f64) {
        let earlier = self.earlier_cost(id);
        if let Some(running) = self.running.get_mut(id) {
            running.running_usd = cost - earlier;
        }
    }

    /// `cost`: of all attempts of the task.
    pub(crate) fn end(&mut self, id: &str, cost: f64) {
        self.running.remove(id);
        self.skip(cost - self.earlier_cost(id));
    }

    /// Counts the earlier attempts of a task that runs again.
    pub(crate) fn add_earlier(&mut self, id: &str, cost: f64) {
        self.spent += cost;
        // Another attempt may cost as much.
        self.largest = self.largest.max(cost);
        self.earlier.insert(id.to_owned(), cost);
    }

    fn earlier_cost(&self, id: &str) -> f64 {
        self.earlier.get(id).copied().unwrap_or_default()
    }

    /// Counts a task that an earlier run ended.
    pub(crate) fn skip(&mut self, cost: f64) {
        self.spent += cost;
        self.has_ended = true;
        self.largest = self.largest.max(cost);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::plan::Repository;

    fn task(id: &str, max_cost: Option<f64>) -> PlannedTask {
        PlannedTask {
            id: id.to_owned(),
            repository: Repository::Directory(PathBuf::new()),
            reference: None,
            prompt: String::new(),
            model: None,
            approval_mode: None,
            max_cost,
            timeout: None,
            setup: Vec::new(),
            check: Vec::new(),
            env: Vec::new(),
            labels: BTreeMap::new(),
        }
    }

    #[test]
    fn task_does_not_start_when_the_remaining_budget_is_too_small() {
        let mut budget = BatchBudget::new(Some(1.0));
        assert_eq!(budget.allow(&task("a", None)), BudgetDecision::Start(Some(1.0)));
        budget.start(&task("a", None), Some(1.0));
        budget.update("a", 0.1);
        // Its cost is unknown, so no other one starts next to it.
        assert_eq!(budget.allow(&task("b", None)), BudgetDecision::Wait);
        budget.end("a", 0.3);
        // Now a task is expected to cost 0.3.
        let BudgetDecision::Start(Some(remaining)) = budget.allow(&task("b", None)) else {
            panic!("b")
        };
        assert!((remaining - 0.7).abs() < 1e-9);
        budget.start(&task("b", None), Some(remaining));
        budget.start(&task("c", None), Some(0.4));
        assert_eq!(budget.allow(&task("d", None)), BudgetDecision::Wait);
        budget.end("b", 0.3);
        budget.end("c", 0.3);
        assert_eq!(budget.allow(&task("d", None)), BudgetDecision::Spent);
        assert!(matches!(budget.allow(&task("e", Some(0.1))), BudgetDecision::Start(_)));
        assert!(!budget.is_exceeded());
    }

    #[test]
    fn cost_of_earlier_attempts_is_counted_once() {
        let mut budget = BatchBudget::new(Some(3.0));
        budget.add_earlier("a", 1.4);
        assert!(matches!(budget.allow(&task("a", None)), BudgetDecision::Start(Some(_))));
        budget.start(&task("a", None), Some(1.6));
        budget.update("a", 2.0);
        assert!((budget.total() - 2.0).abs() < 1e-9);
        budget.end("a", 2.8);
        assert!((budget.total() - 2.8).abs() < 1e-9);
        assert_eq!(budget.allow(&task("b", None)), BudgetDecision::Spent);
    }

    #[test]
    fn retry_cost_is_estimated_from_earlier_attempts() {
        let mut budget = BatchBudget::new(Some(0.05));
        for id in ["a", "b", "c"] {
            budget.add_earlier(id, 0.014);
        }
        assert_eq!(budget.allow(&task("a", None)), BudgetDecision::Spent);
        let mut budget = BatchBudget::new(Some(3.0));
        budget.add_earlier("a", 2.8);
        assert_eq!(budget.allow(&task("a", None)), BudgetDecision::Spent);
        assert!(matches!(budget.allow(&task("a", Some(0.2))), BudgetDecision::Start(_)));
    }

    #[test]
    fn costs_are_summed_exactly() {
        let mut budget = BatchBudget::new(Some(0.3));
        for id in ["a", "b", "c"] {
            assert!(matches!(budget.allow(&task(id, None)), BudgetDecision::Start(_)), "{id}");
            budget.start(&task(id, None), None);
            budget.end(id, 0.1);
        }
        assert_eq!(budget.allow(&task("d", None)), BudgetDecision::Spent);
    }
}
