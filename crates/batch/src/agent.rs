//! Starts an agent and follows it to its end.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parallax_exec::ProcessExit;
use parallax_exec::agent_process::{AgentProcess, AgentProgram, MemoryLimits};
use parallax_store::SharedBudgetFile;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::error::BatchError;
use crate::events::{EventReader, EventSummary};
use crate::log_limit::limit_log;
use crate::plan::PlannedTask;
use crate::task_update::TaskUpdate;

/// How often the events of an agent are read.
const POLL: Duration = Duration::from_millis(100);
/// How long a stopped agent may take to finish its tool calls.
const DRAIN_TIME: Duration = Duration::from_secs(60);
/// How long an agent that ran out of time may take to end.
const END_TIME: Duration = Duration::from_secs(10);

/// A process to start.
#[derive(Debug)]
pub(crate) struct AgentCommand {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) stdin: Option<PathBuf>,
    /// Its stdout is appended to this file.
    pub(crate) stdout: PathBuf,
    /// Its stderr is appended to this file.
    pub(crate) stderr: PathBuf,
    pub(crate) limits: MemoryLimits,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentExit {
    /// It exited by itself with this code (128 plus the number of a signal).
    Exited(i32),
    /// It exceeded its time limit.
    TimedOut,
    /// The batch is stopped.
    Drained,
}

pub(crate) fn start(command: AgentCommand) -> Result<AgentProcess, BatchError> {
    let append = |file: &Path| {
        let opened = OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|source| BatchError::Write { file: file.to_owned(), source })
    };
    let stdin = command.stdin.map(|file| {
        File::open(&file).map_err(|source| BatchError::Read { file: file.clone(), source })
    });
    let program = AgentProgram {
        arguments: command.arguments,
        directory: command.directory,
        variables: command.variables,
        stdin: stdin.transpose()?,
        stdout: append(&command.stdout)?,
        stderr: append(&command.stderr)?,
        limits: command.limits,
        program: command.program.clone().into_os_string(),
    };
    AgentProcess::start(program)
        .map_err(|source| BatchError::Read { file: command.program, source })
}

/// Sends the changed fields of a task.
#[derive(Debug)]
pub(crate) struct Reporter {
    pub(crate) id: String,
    pub(crate) updates: mpsc::Sender<TaskUpdate>,
    /// US dollars that attempts in earlier worktrees cost.
    pub(crate) earlier_cost: f64,
}

impl Reporter {
    pub(crate) async fn report(&self, summary: &EventSummary) {
        let update = TaskUpdate {
            id: self.id.clone(),
            activity: summary.activity.clone(),
            cost: self.earlier_cost + summary.cost,
            tokens: summary.tokens.total,
            rate_limited: summary.rate_limited,
        };
        // The receiver may have ended.
        let _ = self.updates.send(update).await;
    }
}

/// How long an agent may work, without the time that it waits for the budget of the batch.
#[derive(Debug)]
pub(crate) struct WorkTime {
    limit: Option<Duration>,
    budget: Option<SharedBudgetFile>,
    task: String,
    started: Instant,
    waited: Duration,
}

impl WorkTime {
    pub(crate) fn start(task: &PlannedTask, budget: Option<&SharedBudgetFile>) -> Self {
        Self {
            limit: task.timeout,
            budget: budget.cloned(),
            task: task.id.clone(),
            started: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    /// Whether the time limit is exceeded.
    async fn is_over(&mut self) -> bool {
        let Some(limit) = self.limit else { return false };
        if self.started.elapsed().saturating_sub(self.waited) <= limit {
            return false;
        }
        if let Some(budget) = self.budget.clone() {
            let task = self.task.clone();
            let read = move || Ok(budget.tasks().ok().and_then(|mut all| all.remove(&task)));
            let left = blocking(read).await.ok().flatten();
            self.waited = left.map_or(self.waited, |left| left.waited);
        }
        self.started.elapsed().saturating_sub(self.waited) > limit
    }
}

/// Follows an agent, and reports its progress.
pub(crate) async fn follow(
    mut process: AgentProcess,
    mut events: EventReader,
    mut time: WorkTime,
    (drain, hurry): (&CancellationToken, &CancellationToken),
    reporter: &Reporter,
    log: &Path,
) -> Result<(AgentExit, EventReader), BatchError> {
    let mut stopped: Option<(AgentExit, Instant)> = None;
    let code = loop {
        tokio::select! {
            exit = process.wait() => break code(exit),
            () = tokio::time::sleep(POLL) => {}
            () = drain.cancelled(), if stopped.is_none() => {
                process.terminate();
                stopped = Some((AgentExit::Drained, Instant::now() + DRAIN_TIME));
            }
        }
        limit_log(log.to_owned()).await?;
        let (reader, changed) = read(events).await?;
        events = reader;
        if changed {
            reporter.report(&events.summary).await;
        }
        match stopped {
            Some((_, end)) if Instant::now() > end => process.kill(),
            // A second signal also terminates its tool calls.
            Some((AgentExit::TimedOut, _)) => process.terminate(),
            Some(_) if hurry.is_cancelled() => process.terminate(),
            None if time.is_over().await => {
                process.terminate();
                stopped = Some((AgentExit::TimedOut, Instant::now() + END_TIME));
            }
            _ => {}
        }
    };
    let (events, _) = read(events).await?;
    reporter.report(&events.summary).await;
    let stop = match stopped {
        // It may have finished before it noticed.
        Some((stop, _)) if code != 0 => stop,
        _ => AgentExit::Exited(code),
    };
    Ok((stop, events))
}

async fn read(mut events: EventReader) -> Result<(EventReader, bool), BatchError> {
    blocking(move || {
        let changed = events.read_new().map_err(|error| {
            BatchError::Input(format!("Failed to read the events of a task: {error}"))
        })?;
        Ok((events, changed))
    })
    .await
}

pub(crate) fn code(exit: ProcessExit) -> i32 {
    match exit {
        ProcessExit::Exited { code } => code,
        ProcessExit::Signalled { signal } => signal.saturating_add(128),
    }
}

/// Waits for a command to end, whose output goes to `log`.
pub(crate) async fn wait(
    mut process: AgentProcess,
    timeout: Duration,
    drain: &CancellationToken,
    log: &Path,
) -> Result<AgentExit, BatchError> {
    let end = Instant::now() + timeout;
    let stop = loop {
        tokio::select! {
            exit = process.wait() => {
                limit_log(log.to_owned()).await?;
                return Ok(AgentExit::Exited(code(exit)));
            }
            () = drain.cancelled() => break AgentExit::Drained,
            () = tokio::time::sleep(POLL) => {}
        }
        limit_log(log.to_owned()).await?;
        if Instant::now() > end {
            break AgentExit::TimedOut;
        }
    };
    process.terminate();
    if tokio::time::timeout(END_TIME, process.wait()).await.is_err() {
        process.kill();
        process.wait().await;
    }
    limit_log(log.to_owned()).await?;
    Ok(stop)
}
