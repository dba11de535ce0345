//! The local executor: a queue in this process that starts an agent for each task.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::budget::{BatchBudget, BudgetDecision};
use crate::error::BatchError;
use crate::plan::{Plan, PlannedTask};
use crate::result::{TaskResult, TaskState};
use crate::run_task::TaskRunner;
use crate::task_update::TaskUpdate;

/// Maximum number of updates waiting to be shown.
const UPDATES: usize = 256;

/// How a batch is run.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// Maximum number of concurrent tasks.
    pub jobs: usize,
    /// Cost limit for all tasks in US dollars.
    pub max_cost: Option<f64>,
    /// Whether tasks that failed before run again.
    pub retry_failed: bool,
}

/// What happens to tasks.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueEvent {
    /// It has a result from an earlier run.
    Skipped(Box<TaskResult>),
    /// It started or resumed.
    Started(String),
    /// It made progress.
    Update(TaskUpdate),
    /// It ended.
    Ended(Box<TaskResult>),
    /// A notice for the user about the whole batch; safe to print.
    Notice(String),
}

/// How a batch ended.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchOutcome {
    /// Whether tasks were not started because of the budget.
    pub budget_spent: bool,
    /// Whether it was stopped before all tasks ended.
    pub was_drained: bool,
    /// Whether all tasks of the plan succeeded.
    pub all_succeeded: bool,
    /// US dollars of all results.
    pub cost: f64,
}

type FinishedTask = (String, Result<TaskResult, BatchError>);

/// Runs all tasks of a plan that have no result yet. `drain` stops it: no task starts, and running
/// ones end as soon as they can be resumed.
///
/// # Errors
/// Returns an error if results cannot be written.
pub async fn run_queue(
    runner: Arc<TaskRunner>,
    plan: &Plan,
    options: &QueueOptions,
    drain: CancellationToken,
    mut report: impl FnMut(QueueEvent),
) -> Result<BatchOutcome, BatchError> {
    // The next task is the last one.
    let mut waiting: Vec<&PlannedTask> = Vec::new();
    let mut budget = BatchBudget::new(options.max_cost);
    runner.reset_budget().await?;
    let mut all_succeeded = true;
    for task in plan.tasks.iter().rev() {
        match runner.earlier_result(task, options.retry_failed) {
            Some(result) => {
                runner.clean_up(task).await?;
                all_succeeded &= result.state == TaskState::Succeeded;
                budget.skip(result.cost);
                report(QueueEvent::Skipped(Box::new(result)));
            }
            None => {
                if let Some(cost) = runner.earlier_cost(task) {
                    budget.add_earlier(&task.id, cost);
                }
                waiting.push(task);
            }
        }
    }
    if let Some(limit) = options.max_cost {
        runner.limit_cost(limit, budget.spent()).await?;
    }
    let (updates, mut received) = mpsc::channel(UPDATES);
    let mut running: JoinSet<FinishedTask> = JoinSet::new();
    let mut failure = None;
    // Cancelled by the user's token, or when the budget is exhausted.
    let stop = drain.child_token();
    loop {
        while !stop.is_cancelled()
            && failure.is_none()
            && running.len() < options.jobs
            && let Some(task) = waiting.last().copied()
            && let BudgetDecision::Start(allowance) = budget.allow(task)
        {
            waiting.pop();
            budget.start(task, allowance);
            report(QueueEvent::Started(task.id.clone()));
            let (runner, task) = (Arc::clone(&runner), task.clone());
            let (stop, updates) = (stop.clone(), updates.clone());
            running.spawn(async move {
                let result = runner.run(&task, allowance, &stop, &updates).await;
                (task.id, result)
            });
        }
        tokio::select! {
            ended = running.join_next() => match ended {
                None => break,
                Some(Ok((id, Ok(result)))) => {
                    budget.end(&id, result.cost);
                    if result.state == TaskState::Cancelled && !stop.is_cancelled() {
                        budget.close();
                    }
                    if let Some(limit) = options.max_cost {
                        runner.limit_cost(limit, budget.spent()).await?;
                    }
                    all_succeeded &= result.state == TaskState::Succeeded;
                    report(QueueEvent::Ended(Box::new(result)));
                }
                Some(Ok((_, Err(error)))) => failure = Some(error),
                Some(Err(error)) => {
                    failure = Some(BatchError::Input(format!("A task crashed: {error}")));
                }
            },
            Some(update) = received.recv() => {
                budget.update(&update.id, update.cost);
                report(QueueEvent::Update(update));
            }
        }
        if budget.is_exceeded() {
            // Those that run are stopped, too; a later run resumes them.
            stop.cancel();
        }
    }
    let restored = runner.restore_branches().await;
    if let Some(failure) = failure {
        return Err(failure);
    }
    restored?;
    let has_waiting = !waiting.is_empty();
    let drained = drain.is_cancelled();
    Ok(BatchOutcome {
        budget_spent: !drained && (has_waiting || budget.is_closed() || budget.is_exceeded()),
        was_drained: drained && (has_waiting || !all_succeeded),
        all_succeeded: all_succeeded && !has_waiting,
        cost: budget.total(),
    })
}
