//! `parallax batch`: many tasks, each with its own agent and worktree.

use std::io::{IsTerminal as _, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_batch::{
    ApplyMode, ApplyOutcome, BatchDirectory, BatchError, BatchOutcome, ModelComparison, Plan,
    PlanTemplate, QueueEvent, QueueOptions, SlurmOptions, Summary, apply_results, items,
    plan_lines, run_kubernetes, run_queue, run_slurm,
};
use parallax_headless::{ExitCode, Signals, json_document, one_line};
use parallax_protocol::CancellationToken;
use parallax_protocol::event::Failure;
use serde_json::{Map, Value};

use crate::batch_arguments::{BatchAction, BatchArguments, Executor, PlanArguments, RunArguments};
use crate::batch_failure::{failure, input_failure, print_line, run_blocking};
use crate::batch_runner::{results_of, runner};
use crate::batch_view::BatchView;
use crate::{batch_kubernetes, batch_task};

/// Interval between updates of the terminal view.
const REDRAW: Duration = Duration::from_millis(200);

/// Runs the command.
///
/// # Errors
/// Returns an error if the plan or the directory cannot be used.
pub(crate) async fn run(arguments: BatchArguments) -> Result<ExitCode, Failure> {
    match (arguments.action, arguments.plan) {
        (None, Some(plan)) => run_plan(plan, arguments.run).await,
        (None, None) => Err(input_failure("`parallax batch` requires a plan".to_owned())),
        (Some(BatchAction::RunTask(typed)), _) => batch_task::run(typed).await,
        (Some(BatchAction::Collect { dir }), _) => batch_kubernetes::collect(dir).await,
        (Some(BatchAction::Apply { dir, ids, branch, patch: _ }), _) => {
            apply(dir, ids, if branch { ApplyMode::Branch } else { ApplyMode::Patch }).await
        }
        (Some(action), _) => run_blocking(move || results(action)).await,
    }
}

async fn run_plan(plan: PathBuf, run: RunArguments) -> Result<ExitCode, Failure> {
    let out = run.task.out.clone().unwrap_or_else(|| results_of(&plan));
    let is_kubernetes = run.on == Executor::Kubernetes;
    let (plan, directory, lock) = run_blocking(move || {
        let plan = Plan::load(&plan)?;
        let directory = BatchDirectory::create(&out)?;
        let lock = directory.lock()?;
        // It records the tasks itself, with the URLs of their repositories.
        if !is_kubernetes {
            directory.set_plan(&plan.tasks)?;
        }
        Ok((plan, directory, lock))
    })
    .await?;
    let runner = Arc::new(runner(directory, lock, &run.task)?);
    let options = QueueOptions {
        jobs: run.jobs.map_or_else(default_jobs, NonZeroUsize::get),
        max_cost: run.max_cost,
        retry_failed: run.retry_failed,
    };
    let (drain, leave) = (CancellationToken::new(), CancellationToken::new());
    let view = BatchView::new(plan.tasks.len(), run.output_format);
    let view = std::cell::RefCell::new(view);
    let on_event = |event: QueueEvent| view.borrow_mut().handle_event(&event);
    let slurm = SlurmOptions {
        options: run.sbatch.clone(),
        arguments: runner.arguments.clone(),
        jobs: run.jobs.map(NonZeroUsize::get),
        memory: run.task.memory.map(std::num::NonZeroU64::get),
    };
    let is_slurm = run.on == Executor::Slurm;
    let kubernetes = match (run.on, run.kubernetes.first_used_option()) {
        (Executor::Kubernetes, _) => Some(batch_kubernetes::options(&plan, &run)?),
        (_, Some(option)) => {
            return Err(input_failure(format!("`{option}` requires `--on kubernetes`")));
        }
        _ => None,
    };
    if !is_slurm && !run.sbatch.is_empty() {
        return Err(input_failure("`--sbatch` requires `--on slurm`".to_owned()));
    }
    let running = async {
        let tokens = (&drain, &leave);
        match (&kubernetes, is_slurm) {
            (Some(kubernetes), _) => {
                run_kubernetes(&runner.directory, &plan, &options, kubernetes, tokens, on_event)
                    .await
            }
            (None, true) => run_slurm(&runner, &plan, &options, &slurm, tokens, on_event).await,
            (None, false) => {
                run_queue(Arc::clone(&runner), &plan, &options, drain.clone(), on_event).await
            }
        }
    };
    tokio::pin!(running);
    let (mut signals, mut signal) = (Signals::listen(), None);
    let mut redraw = tokio::time::interval(REDRAW);
    let end = loop {
        tokio::select! {
            end = &mut running => break end,
            _ = redraw.tick() => view.borrow_mut().draw(),
            number = signals.next() => {
                let repeated = signal.replace(number).is_some();
                if is_slurm {
                    match confirm_cancel(&view, number).await {
                        true => drain.cancel(),
                        false => leave.cancel(),
                    }
                } else if repeated {
                    runner.stop_tools.cancel();
                    leave.cancel();
                } else {
                    view.borrow_mut().print_notice(
                        "Stopping: running tasks finish their tool calls. Press Ctrl+C again to \
                         stop them immediately.",
                    );
                    drain.cancel();
                }
            }
        }
    };
    view.borrow_mut().clear();
    let end = end.map_err(|error| failure(&error))?;
    if let Some(emit) = &run.kubernetes.emit {
        let (emit, out) = (emit.display(), runner.directory.path().display());
        print_line(&format!(
            "Wrote the manifests to {emit}. Apply them with `kubectl apply --server-side -f \
             {emit}`, and fetch the results with `parallax batch collect {out}`"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let directory = runner.directory.clone();
    let (summary, directory) = run_blocking(move || {
        let summary = Summary::read(&directory)?;
        summary.write(&directory)?;
        Ok((summary, directory))
    })
    .await?;
    let code = code(&end, signal);
    view.borrow_mut().print_end(&summary, &directory, &end, code);
    Ok(code)
}

/// Whether the user wants to cancel the job; otherwise, it keeps running.
async fn confirm_cancel(view: &std::cell::RefCell<BatchView>, number: u8) -> bool {
    let leaves = "The job keeps running; run the same command again to follow it";
    if number != 2 || !std::io::stdin().is_terminal() {
        view.borrow_mut().print_notice(leaves);
        return false;
    }
    view.borrow_mut().print_notice("Cancel the Slurm job? [y/N]");
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let is_yes = matches!(answer.await, Ok(Ok(line)) if line.trim().eq_ignore_ascii_case("y"));
    if !is_yes {
        view.borrow_mut().print_notice(leaves);
    }
    is_yes
}

fn code(end: &BatchOutcome, signal: Option<u8>) -> ExitCode {
    match signal {
        Some(number) if end.was_drained => ExitCode::signal(number),
        _ if end.budget_spent => ExitCode::BUDGET,
        _ if end.all_succeeded => ExitCode::SUCCESS,
        _ => ExitCode::GENERAL,
    }
}

/// Returns the default number of concurrent tasks: agents mostly wait for their models, but their
/// commands do not.
fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, NonZeroUsize::get).div_ceil(2)
}

/// Runs the actions that need no agent.
fn results(action: BatchAction) -> Result<ExitCode, BatchError> {
    match action {
        BatchAction::Plan(typed) => plan_of(typed),
        BatchAction::Compare { dir, json } => {
            let comparison = ModelComparison::read(&BatchDirectory::open(&dir)?)?;
            print(&if json { json_document(&comparison) } else { comparison.text() });
            Ok(ExitCode::SUCCESS)
        }
        BatchAction::RunCommand { line } => {
            let code = parallax_exec::agent_process::run_line(&line)
                .map_err(|source| BatchError::Read { file: "/bin/sh".into(), source })?;
            Ok(ExitCode(code))
        }
        // These need the runtime.
        BatchAction::RunTask(_) | BatchAction::Collect { .. } | BatchAction::Apply { .. } => {
            Ok(ExitCode::GENERAL)
        }
    }
}

fn plan_of(arguments: PlanArguments) -> Result<ExitCode, BatchError> {
    let directory = PathBuf::from(".");
    let mut fields = Map::new();
    let texts = [
        ("model", arguments.model),
        ("approval_mode", arguments.approval_mode.map(|mode| mode.as_str().to_owned())),
        ("timeout", arguments.timeout),
    ];
    for (key, value) in texts {
        fields.extend(value.map(|value| (key.to_owned(), Value::from(value))));
    }
    fields.extend(arguments.max_cost.map(|cost| ("max_cost".to_owned(), cost.into())));
    for (key, values) in [("setup", arguments.setup), ("check", arguments.check)] {
        if !values.is_empty() {
            fields.insert(key.to_owned(), values.into());
        }
    }
    let list = items(&arguments.for_each, &directory)?;
    for name in &list.skipped {
        let name = one_line(name);
        // A closed pipe is not an error here.
        let _ = writeln!(std::io::stderr(), "warning: Skipped `{name}`, which is not UTF-8");
    }
    let lines = plan_lines(&list.items, &PlanTemplate { prompt: arguments.prompt, fields })?;
    match arguments.out {
        None => print(&lines),
        Some(file) => {
            // Check the plan first: its time limit, for example, may be invalid.
            let plan = Plan::parse(&file, &lines)?;
            write_plan(&file, &lines, arguments.force)?;
            print_line(&format!("Wrote {} tasks to {}", plan.tasks.len(), file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a plan. Without `undo_forced`, a file with other contents is not replaced: it may be
/// another plan, or the list that this one is made of.
fn write_plan(file: &Path, lines: &str, force: bool) -> Result<(), BatchError> {
    let failed = |source| BatchError::Write { file: file.to_owned(), source };
    if force {
        return std::fs::write(file, lines).map_err(failed);
    }
    match std::fs::File::create_new(file) {
        Ok(mut created) => created.write_all(lines.as_bytes()).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            match std::fs::read(file).is_ok_and(|existing| existing == lines.as_bytes()) {
                true => Ok(()),
                false => Err(BatchError::Exists(file.to_owned())),
            }
        }
        Err(error) => Err(failed(error)),
    }
}

/// Applies results. A signal stops it between two tasks, so that each is applied completely or not
/// at all.
async fn apply(dir: PathBuf, ids: Vec<String>, mode: ApplyMode) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let applying = {
        let stop = stop.clone();
        run_blocking(move || {
            let directory = BatchDirectory::open(&dir)?;
            let mut conflicts = 0;
            apply_results(&directory, Path::new("."), mode, &ids, &stop, |id, outcome| {
                let (line, is_failed) = apply_line(id, outcome);
                // Without names, a task that has not run since the plan changed is only skipped.
                let is_stale = !ids.is_empty() && *outcome == ApplyOutcome::PlanChanged;
                conflicts += usize::from(is_failed || is_stale);
                print(&format!("{line}\n"));
            })?;
            Ok(conflicts)
        })
    };
    tokio::pin!(applying);
    let (mut signals, mut signal) = (Signals::listen(), None);
    let conflicts = loop {
        tokio::select! {
            conflicts = &mut applying => break conflicts?,
            number = signals.next() => {
                signal = Some(number);
                stop.cancel();
            }
        }
    };
    Ok(match signal {
        Some(number) => ExitCode::signal(number),
        None if conflicts > 0 => ExitCode::GENERAL,
        None => ExitCode::SUCCESS,
    })
}

/// Returns the line about a task, and whether it could not be applied.
fn apply_line(id: &str, outcome: &ApplyOutcome) -> (String, bool) {
    match outcome {
        ApplyOutcome::Applied { files, merged } => {
            let how = if *merged { "merged" } else { "applied" };
            (format!("{id}: {how}, files: {files}"), false)
        }
        ApplyOutcome::Branch(branch) => (format!("{id}: branch {branch}"), false),
        ApplyOutcome::Nothing => (format!("{id}: no changes"), false),
        ApplyOutcome::Skipped(state) => (format!("{id}: skipped, {}", state.as_str()), false),
        ApplyOutcome::PlanChanged => {
            (format!("{id}: skipped, the plan has changed since; run the batch again"), false)
        }
        ApplyOutcome::Failed(reason) => {
            (format!("{id}: failed, nothing changed: {}", one_line(reason)), true)
        }
        ApplyOutcome::Conflict(reason) => {
            (format!("{id}: conflict, nothing changed: {}", one_line(reason)), true)
        }
    }
}

/// Prints text. A closed pipe is not an error here.
fn print(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
