//! The local executor: a queue in this process that starts an agent for each task.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::BatchError;
use crate::plan::{Plan, PlannedTask};
use crate::result::{TaskResult, TaskState};
use crate::run_task::{TaskRunner, TaskUpdate};

/// Updates that wait to be shown.
const UPDATES: usize = 256;

/// How a batch is run.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// Tasks at a time.
    pub jobs: usize,
    /// US dollars for all tasks.
    pub max_cost: Option<f64>,
    /// Whether tasks that failed before run again.
    pub retry_failed: bool,
}

/// What happens to tasks.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueEvent {
    /// It has a result from an earlier run.
    Skipped(TaskResult),
    /// It starts, or resumes.
    Started(String),
    /// It works.
    Update(TaskUpdate),
    /// It ended.
    Ended(TaskResult),
}

/// How a batch ended.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchEnd {
    /// Whether the budget ended it.
    pub budget_spent: bool,
    /// Whether it was stopped.
    pub drained: bool,
    /// Whether all tasks of the plan succeeded.
    pub all_succeeded: bool,
    /// US dollars of all results.
    pub cost: f64,
}

/// Whether an earlier result makes a run unnecessary.
fn is_done(result: &TaskResult, options: &QueueOptions) -> bool {
    match result.state {
        TaskState::Succeeded => true,
        TaskState::Cancelled => false,
        TaskState::Failed | TaskState::Timeout | TaskState::OverBudget => !options.retry_failed,
    }
}

/// Runs all tasks of a plan that have no result yet. `drain` stops it: no task starts, and running
/// ones end as soon as they can be resumed.
///
/// # Errors
/// When results cannot be written.
pub async fn run_queue(
    runner: Arc<TaskRunner>,
    plan: &Plan,
    options: &QueueOptions,
    drain: CancellationToken,
    mut report: impl FnMut(QueueEvent),
) -> Result<BatchEnd, BatchError> {
    let mut waiting: Vec<&PlannedTask> = Vec::new();
    let mut budget = BatchBudget::new(options.max_cost);
    let mut all_succeeded = true;
    for task in plan.tasks.iter().rev() {
        match runner.directory.task(&task.id).result_of(task) {
            Some(result) if is_done(&result, options) => {
                runner.clean_up(task).await?;
                all_succeeded &= result.state == TaskState::Succeeded;
                budget.spent += result.cost;
                report(QueueEvent::Skipped(result));
            }
            _ => waiting.push(task),
        }
    }
    let (updates, mut received) = mpsc::channel(UPDATES);
    let mut running: JoinSet<(String, Result<TaskResult, BatchError>)> = JoinSet::new();
    let mut failure = None;
    loop {
        while !drain.is_cancelled()
            && failure.is_none()
            && running.len() < options.jobs
            && !waiting.is_empty()
            && let Some(allowance) = budget.allow(waiting.last().copied())
            && let Some(task) = waiting.pop()
        {
            report(QueueEvent::Started(task.id.clone()));
            let (runner, task) = (Arc::clone(&runner), task.clone());
            let (drain, updates) = (drain.clone(), updates.clone());
            running.spawn(async move {
                let result = runner.run(&task, allowance, &drain, &updates).await;
                (task.id, result)
            });
        }
        tokio::select! {
            ended = running.join_next() => match ended {
                None => break,
                Some(Ok((id, Ok(result)))) => {
                    budget.end(&id, result.cost);
                    all_succeeded &= result.state == TaskState::Succeeded;
                    report(QueueEvent::Ended(result));
                }
                Some(Ok((_, Err(error)))) => failure = Some(error),
                Some(Err(error)) => {
                    failure = Some(BatchError::Input(format!("A task crashed: {error}")));
                }
            },
            Some(update) = received.recv() => {
                budget.update(&update.id, update.cost);
                if budget.is_spent() {
                    // Those that run are stopped, too; a later run may resume them.
                    drain.cancel();
                }
                report(QueueEvent::Update(update));
            }
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let left = !waiting.is_empty();
    Ok(BatchEnd {
        budget_spent: budget.is_spent() && left,
        drained: drain.is_cancelled() && !budget.is_spent(),
        all_succeeded: all_succeeded && !left,
        cost: budget.spent,
    })
}

/// What all tasks together may cost.
#[derive(Debug)]
struct BatchBudget {
    limit: Option<f64>,
    /// By tasks that ended.
    spent: f64,
    /// By those that run.
    live: BTreeMap<String, f64>,
}

impl BatchBudget {
    fn new(limit: Option<f64>) -> Self {
        Self { limit, spent: 0.0, live: BTreeMap::new() }
    }

    fn total(&self) -> f64 {
        self.spent + self.live.values().sum::<f64>()
    }

    fn is_spent(&self) -> bool {
        self.limit.is_some_and(|limit| self.total() >= limit)
    }

    /// What a task may cost if it may start: `None` without a limit.
    fn allow(&self, task: Option<&PlannedTask>) -> Option<Option<f64>> {
        let Some(limit) = self.limit else { return Some(None) };
        let left = limit - self.total();
        let _ = task;
        (left > 0.0).then_some(Some(left))
    }

    fn update(&mut self, id: &str, cost: f64) {
        self.live.insert(id.to_owned(), cost);
    }

    fn end(&mut self, id: &str, cost: f64) {
        self.live.remove(id);
        self.spent += cost;
    }
}
