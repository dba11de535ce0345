//! Runs one task in its own process next to other tasks of the same batch, as on a cluster.

use std::time::Duration;

use parallax_store::{Renewals, SharedBudgetFile, TaskStart};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::error::BatchError;
use crate::plan::PlannedTask;
use crate::result::TaskResult;
use crate::run_task::{TaskRunner, budget_error};
use crate::task_update::TaskUpdate;

/// How often a waiting task checks whether it may start.
const POLL: Duration = Duration::from_millis(200);
/// How often a running task shows that its process is alive.
const RENEWAL: Duration = Duration::from_secs(10);

/// How it ended.
#[derive(Debug)]
pub enum SingleTaskEnd {
    /// With this result.
    Ended(Box<TaskResult>),
    /// It did not start, because the remaining budget does not cover it.
    Refused,
    /// It was stopped before it started.
    Drained,
}

impl TaskRunner {
    /// Runs a task like [`run`](Self::run) when the remainder of a budget shared with tasks of
    /// other processes covers it.
    ///
    /// # Errors
    /// Returns an error if the result or the budget cannot be written.
    pub async fn run_single(
        &self,
        task: &PlannedTask,
        allowance: Option<f64>,
        drain: &CancellationToken,
        updates: &mpsc::Sender<TaskUpdate>,
    ) -> Result<SingleTaskEnd, BatchError> {
        let ended = |result| SingleTaskEnd::Ended(Box::new(result));
        if allowance.is_none() {
            return self.run(task, allowance, drain, updates).await.map(ended);
        }
        let budget = self.lock.budget.clone();
        match wait_for_start(&budget, task, drain).await? {
            TaskStart::Started => {}
            TaskStart::Wait => return Ok(SingleTaskEnd::Drained),
            TaskStart::Refused => return Ok(SingleTaskEnd::Refused),
        }
        let running = self.run(task, allowance, drain, updates);
        tokio::pin!(running);
        let result = loop {
            tokio::select! {
                result = &mut running => break result,
                () = tokio::time::sleep(RENEWAL) => {
                    let (budget, id) = (budget.clone(), task.id.clone());
                    // The agent reports a budget that cannot be used.
                    let _ = blocking(move || budget.renew_task(&id).map_err(budget_error)).await;
                }
            }
        };
        let cost = result.as_ref().map_or(0.0, |result| result.cost);
        let id = task.id.clone();
        blocking(move || budget.finish_task(&id, cost).map_err(budget_error)).await?;
        result.map(ended)
    }
}

/// Waits until the task may start, or is rejected. [`TaskStart::Wait`] means that it was stopped
/// before.
async fn wait_for_start(
    budget: &SharedBudgetFile,
    task: &PlannedTask,
    drain: &CancellationToken,
) -> Result<TaskStart, BatchError> {
    let mut renewals = Renewals::default();
    loop {
        let (budget, id, max_cost) = (budget.clone(), task.id.clone(), task.max_cost);
        let ask = move || {
            let start = budget.start_task(&id, max_cost, &mut renewals).map_err(budget_error)?;
            Ok((start, renewals))
        };
        let (start, seen) = blocking(ask).await?;
        renewals = seen;
        if start != TaskStart::Wait {
            return Ok(start);
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = drain.cancelled() => return Ok(TaskStart::Wait),
        }
    }
}
