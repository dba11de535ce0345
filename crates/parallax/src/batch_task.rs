//! `parallax batch run-task`: one task of a plan, for schedulers of a cluster.

use parallax_batch::{
    BatchDirectory, Plan, PlannedTask, SingleTaskEnd, Summary, TaskResult, TaskRunner, TaskState,
    print_results,
};
use parallax_headless::{ExitCode, Signals, one_line};
use parallax_protocol::CancellationToken;
use parallax_protocol::event::Failure;
use tokio::sync::mpsc;

use crate::batch_arguments::RunTaskArguments;
use crate::batch_failure::{failure, input_failure, print_line, run_blocking};
use crate::batch_runner::{results_of, runner};

/// Maximum number of pending updates.
const UPDATES: usize = 16;
/// Tolerance for rounding errors in sums of US dollars.
const ROUNDING: f64 = 1e-9;

/// Runs one task of a plan.
///
/// # Errors
/// Returns an error if the plan cannot be used, or if results cannot be written.
pub(crate) async fn run(arguments: RunTaskArguments) -> Result<ExitCode, Failure> {
    let RunTaskArguments { plan, index, max_cost, .. } = arguments;
    let out = arguments.task.out.clone().unwrap_or_else(|| results_of(&plan));
    let (plan, directory, lock) = run_blocking(move || {
        let plan = Plan::load(&plan)?;
        let directory = BatchDirectory::create(&out)?;
        let lock = directory.lock_shared()?;
        directory.set_plan(&plan.tasks)?;
        Ok((plan, directory, lock))
    })
    .await?;
    let Some(task) = plan.tasks.get(index) else {
        return Err(input_failure(format!(
            "`--index {index}`: the plan has {} tasks, counted from 0",
            plan.tasks.len()
        )));
    };
    let mut runner = runner(directory, lock, &arguments.task)?;
    // git runs in another directory.
    let absolute = arguments.repositories.map(std::path::absolute).transpose();
    runner.repositories = absolute
        .map_err(|error| input_failure(format!("`--repositories` is not a directory: {error}")))?;
    if arguments.clone_only {
        return clone(&runner, task).await;
    }
    if let Some(result) = runner.earlier_result(task, !arguments.keep_failed) {
        runner.clean_up(task).await.map_err(|error| failure(&error))?;
        if arguments.print_results {
            print(&runner, task).await?;
        }
        return Ok(code_of(&result, None));
    }
    let allowance = match max_cost {
        None => None,
        Some(limit) => {
            let directory = runner.directory.clone();
            let spent = run_blocking(move || Ok(Summary::read(&directory)?.cost)).await?;
            if spent >= limit - ROUNDING {
                print_line(&format!(
                    "{}: not started: the tasks have already cost ${spent:.2}",
                    task.id
                ));
                return Ok(ExitCode::BUDGET);
            }
            let limited = runner.limit_cost(limit, spent).await;
            limited.map_err(|error| failure(&error))?;
            Some(limit - spent)
        }
    };
    let drain = CancellationToken::new();
    let (updates, mut received) = mpsc::channel(UPDATES);
    let running = runner.run_single(task, allowance, &drain, &updates);
    tokio::pin!(running);
    let (mut signals, mut signal) = (Signals::listen(), None);
    let end = loop {
        tokio::select! {
            end = &mut running => break end.map_err(|error| failure(&error))?,
            // Nothing shows it.
            _ = received.recv() => {}
            number = signals.next() => {
                if signal.replace(number).is_some() {
                    runner.stop_tools.cancel();
                }
                drain.cancel();
            }
        }
    };
    let result = match end {
        SingleTaskEnd::Ended(result) => result,
        SingleTaskEnd::Refused => {
            print_line(&format!(
                "{}: not started: the rest of the budget does not cover it",
                task.id
            ));
            return Ok(ExitCode::BUDGET);
        }
        SingleTaskEnd::Drained => {
            print_line(&format!("{}: not started: the batch was stopped", task.id));
            return Ok(ExitCode::signal(signal.unwrap_or(15)));
        }
    };
    let mut line = format!("{}: {}", result.id, result.state.as_str());
    if !result.reason.is_empty() {
        line.push_str(&format!(": {}", one_line(&result.reason)));
    }
    print_line(&line);
    if arguments.print_results {
        print(&runner, task).await?;
    }
    Ok(code_of(&result, signal))
}

/// Clones the repository. A failure is a result, which is printed: the task itself does not start.
async fn clone(runner: &TaskRunner, task: &PlannedTask) -> Result<ExitCode, Failure> {
    let Err(error) = runner.clone_repository(task).await else { return Ok(ExitCode::SUCCESS) };
    let result = runner.fail(task, error.to_string()).await.map_err(|error| failure(&error))?;
    print_line(&format!("{}: {}", result.id, one_line(&result.reason)));
    print(runner, task).await?;
    Ok(ExitCode::GENERAL)
}

async fn print(runner: &TaskRunner, task: &PlannedTask) -> Result<(), Failure> {
    let (files, id) = (runner.directory.task(&task.id), task.id.clone());
    run_blocking(move || print_results(&files, &id, &mut std::io::stdout().lock())).await
}

/// Returns the exit code of a process that runs one task.
fn code_of(result: &TaskResult, signal: Option<u8>) -> ExitCode {
    let agent_code =
        result.exit_code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    match result.state {
        TaskState::Succeeded => ExitCode::SUCCESS,
        TaskState::Cancelled if signal.is_none() && agent_code == Some(ExitCode::BUDGET.0) => {
            ExitCode::BUDGET
        }
        TaskState::Cancelled => ExitCode::signal(signal.unwrap_or(15)),
        TaskState::OverBudget => ExitCode::BUDGET,
        TaskState::Failed | TaskState::Timeout => agent_code.map_or(ExitCode::GENERAL, ExitCode),
    }
}
