//! `parallax batch`: many tasks, each in an agent and a worktree of its own.

use std::ffi::OsString;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use parallax_batch::{
    BatchDirectory, BatchEnd, BatchError, Plan, QueueEvent, QueueOptions, TaskRunner, run_queue,
};
use parallax_exec::agent_process::MemoryLimits;
use parallax_headless::{ExitCode, Signals, one_line};
use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Failure, FailureKind};

/// `parallax batch`.
#[derive(Debug, Args)]
pub(crate) struct BatchArguments {
    /// The plan: tasks as TOML or JSON Lines
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,

    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// How a batch is run.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArguments {
    /// Tasks at a time [default: half of the processors]
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Directory for results [default: PLAN without its extension, with `-results`]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Start no task when all have cost this many US dollars together
    #[arg(long, value_name = "USD", value_parser = crate::arguments::dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Run tasks again that failed
    #[arg(long)]
    pub(crate) retry_failed: bool,

    /// Trust the repositories of the plan for this run
    #[arg(long)]
    pub(crate) skip_trust: bool,
}

/// Runs the command.
///
/// # Errors
/// A plan or directory that cannot be used.
pub(crate) async fn run(typed: BatchArguments) -> Result<ExitCode, Failure> {
    let BatchArguments { plan, run } = typed;
    let out = run.out.clone().unwrap_or_else(|| results_of(&plan));
    let opened = tokio::task::spawn_blocking(move || {
        let plan = Plan::load(&plan)?;
        let directory = BatchDirectory::create(&out)?;
        let lock = directory.lock()?;
        Ok((plan, directory, lock))
    });
    let (plan, directory, lock) =
        opened.await.map_err(|error| input(error.to_string()))?.map_err(|error| failure(&error))?;
    let program = std::env::current_exe()
        .map_err(|error| input(format!("Failed to find the program itself: {error}")))?;
    let mut arguments: Vec<OsString> = Vec::new();
    if run.skip_trust {
        arguments.push("--skip-trust".into());
    }
    let runner = TaskRunner {
        directory,
        lock: Arc::new(lock),
        program,
        arguments,
        limits: MemoryLimits::default(),
        serial: Arc::default(),
    };
    let options = QueueOptions {
        jobs: run.jobs.map_or_else(default_jobs, NonZeroUsize::get),
        max_cost: run.max_cost,
        retry_failed: run.retry_failed,
    };
    let drain = CancellationToken::new();
    let mut signals = Signals::listen();
    let mut signal = None;
    let running =
        run_queue(Arc::new(runner), &plan, &options, drain.clone(), |event| report(&event));
    tokio::pin!(running);
    let end = loop {
        tokio::select! {
            end = &mut running => break end.map_err(|error| failure(&error))?,
            number = signals.next() => {
                signal = Some(number);
                drain.cancel();
            }
        }
    };
    Ok(code(&end, signal))
}

fn code(end: &BatchEnd, signal: Option<u8>) -> ExitCode {
    match signal {
        Some(number) if end.drained => ExitCode::signal(number),
        _ if end.budget_spent => ExitCode::BUDGET,
        _ if end.all_succeeded => ExitCode::SUCCESS,
        _ => ExitCode::GENERAL,
    }
}

/// An agent mostly waits for its model; its commands do not.
fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, NonZeroUsize::get).div_ceil(2)
}

fn results_of(plan: &Path) -> PathBuf {
    let mut name = plan.file_stem().unwrap_or_default().to_owned();
    name.push("-results");
    PathBuf::from(name)
}

fn report(event: &QueueEvent) {
    let line = match event {
        QueueEvent::Skipped(result) => format!("{}: {} before", result.id, result.state.as_str()),
        QueueEvent::Started(id) => format!("{id}: started"),
        QueueEvent::Update(_) => return,
        QueueEvent::Ended(result) => {
            let reason = one_line(&result.reason);
            let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
            format!("{}: {}{reason}", result.id, result.state.as_str())
        }
    };
    // A closed pipe is not an error here.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn failure(error: &BatchError) -> Failure {
    match error {
        BatchError::Git(failure) => failure.clone(),
        error => input(error.to_string()),
    }
}

fn input(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
