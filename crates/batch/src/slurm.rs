//! The Slurm executor: one array job, each of whose tasks is `parallax batch run-task`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_store::SharedBudgetFile;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::directory::{BatchDirectory, write_atomically};
use crate::error::BatchError;
use crate::plan::Plan;
use crate::queue::{BatchOutcome, QueueEvent, QueueOptions};
use crate::result::TaskState;
use crate::run_task::TaskRunner;

/// How often Parallax checks for results.
const POLL: Duration = Duration::from_secs(1);
/// Time limit of a Slurm program.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// Maximum number of bytes that a program may print.
const MAX_OUTPUT_BYTES: u64 = 16 * 1024 * 1024;
/// Number of polls after which an unknown job counts as ended: a new one may not be listed yet, and
/// results on a shared file system arrive late.
const MISSING_POLLS: u32 = 3;

/// How the job is submitted.
#[derive(Debug, Clone, Default)]
pub struct SlurmOptions {
    /// Options for `sbatch`, such as `--partition=gpu`.
    pub options: Vec<String>,
    /// Arguments of every task besides the plan, its number, and the directory for results.
    pub arguments: Vec<OsString>,
    /// Number of concurrent tasks; `None`: as many as Slurm starts.
    pub jobs: Option<usize>,
    /// Memory limit of a task in bytes.
    pub memory: Option<u64>,
}

/// Submits the tasks of a plan that have no result yet, and follows them to the end. If an earlier
/// job still runs, it is followed instead. With `cancel`, the job is cancelled; with `leave`, it
/// keeps running.
///
/// # Errors
/// Returns an error if Slurm rejects the job.
pub async fn run_slurm(
    runner: &TaskRunner,
    plan: &Plan,
    options: &QueueOptions,
    slurm: &SlurmOptions,
    (cancel, leave): (&CancellationToken, &CancellationToken),
    mut report: impl FnMut(QueueEvent),
) -> Result<BatchOutcome, BatchError> {
    let mut waiting: BTreeMap<usize, &str> = BTreeMap::new();
    let mut end =
        BatchOutcome { budget_spent: false, was_drained: false, all_succeeded: true, cost: 0.0 };
    for (index, task) in plan.tasks.iter().enumerate() {
        match runner.earlier_result(task, options.retry_failed) {
            Some(result) => {
                runner.clean_up(task).await?;
                end.all_succeeded &= result.state == TaskState::Succeeded;
                end.cost += result.cost;
                report(QueueEvent::Skipped(Box::new(result)));
            }
            None => {
                waiting.insert(index, &task.id);
            }
        }
    }
    if waiting.is_empty() {
        return Ok(end);
    }
    let directory = runner.directory.clone();
    let indexes: Vec<usize> = waiting.keys().copied().collect();
    let script = script(runner, plan, options, slurm, &indexes)?;
    let budget = runner.lock.budget.clone();
    let (job, submitted) = blocking(move || submit(&directory, &budget, &script)).await?;
    let mut missing_polls = 0;
    let mut is_cancelled = false;
    while missing_polls < MISSING_POLLS {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = leave.cancelled() => {
                end.was_drained = true;
                end.all_succeeded = false;
                return Ok(end);
            }
            () = cancel.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                let job = job.clone();
                blocking(move || slurm_program("scancel", &[&job]).map(drop)).await?;
            }
        }
        let id = job.clone();
        let is_listed = blocking(move || Ok(is_listed(&id))).await?;
        let mut ended = Vec::new();
        for (index, id) in &waiting {
            let Some(task) = plan.tasks.get(*index) else { continue };
            let files = runner.directory.task(id);
            let Some(result) = files.result_of(task) else { continue };
            // The output of an earlier job is not the result of this one.
            if result.state != TaskState::Cancelled && result.ended >= submitted {
                ended.push(*index);
                end.all_succeeded &= result.state == TaskState::Succeeded;
                end.cost += result.cost;
                report(QueueEvent::Ended(Box::new(result)));
            }
        }
        waiting.retain(|index, _| !ended.contains(index));
        missing_polls = match (waiting.is_empty(), is_listed) {
            (true, _) => MISSING_POLLS,
            (false, true) => 0,
            (false, false) => missing_polls + 1,
        };
    }
    end.all_succeeded &= waiting.is_empty();
    end.was_drained = is_cancelled && !waiting.is_empty();
    let over = options.max_cost.is_some_and(|limit| end.cost >= limit - 1e-9);
    end.budget_spent = over && !waiting.is_empty();
    Ok(end)
}

/// Returns the script of the array job.
fn script(
    runner: &TaskRunner,
    plan: &Plan,
    options: &QueueOptions,
    slurm: &SlurmOptions,
    indexes: &[usize],
) -> Result<String, BatchError> {
    let absolute = |path: &Path| {
        path.canonicalize().map_err(|source| BatchError::Read { file: path.to_owned(), source })
    };
    let plan_file = absolute(&plan.file)?;
    let out = runner.directory.path();
    let limit = slurm.jobs.map(|jobs| format!("%{jobs}")).unwrap_or_default();
    let logs = runner.directory.file("slurm");
    let mut lines = vec![
        "--job-name=parallax-batch".to_owned(),
        format!("--array={}{limit}", ranges(indexes)),
        // The shell becomes the task, which gets the signal a minute before the end.
        "--signal=B:TERM@60".to_owned(),
        "--requeue".to_owned(),
        "--open-mode=append".to_owned(),
        // The shell opens the log, because options of sbatch give spaces, quotes, and `%` of a path
        // meanings of their own.
        "--chdir=/".to_owned(),
        "--output=/dev/null".to_owned(),
    ];
    lines.extend(slurm.memory.map(|bytes| format!("--mem={}K", (bytes / 1024).max(1))));
    lines.extend(slurm.options.iter().cloned());
    if let Some(invalid) = lines.iter().find(|line| line.contains('\n') || !line.starts_with('-')) {
        return Err(BatchError::Input(format!("`{invalid}` is not an option of sbatch")));
    }
    let mut text = "#!/bin/sh\n".to_owned();
    for line in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "#SBATCH {}", quote_value(&line));
    }
    let _ = write!(
        text,
        "exec >>{}/\"$SLURM_ARRAY_TASK_ID\".log 2>&1\n\
         exec {} batch run-task {} --index \"$SLURM_ARRAY_TASK_ID\" --out {}",
        quote_word(&logs.to_string_lossy()),
        quote_word(runner.program.as_os_str().to_string_lossy().as_ref()),
        quote_word(&plan_file.to_string_lossy()),
        quote_word(&out.to_string_lossy()),
    );
    for argument in &slurm.arguments {
        let _ = write!(text, " {}", quote_word(&argument.to_string_lossy()));
    }
    if let Some(limit) = options.max_cost {
        let _ = write!(text, " --max-cost {limit}");
    }
    if !options.retry_failed {
        text.push_str(" --keep-failed");
    }
    text.push('\n');
    Ok(text)
}

/// Returns an option of sbatch. Its value is quoted if it has spaces and no quotes of the user.
fn quote_value(option: &str) -> String {
    match option.split_once('=') {
        Some((name, value))
            if !name.contains(' ') && value.contains(' ') && !value.contains(['"', '\'', '\\']) =>
        {
            format!("{name}=\"{value}\"")
        }
        _ => option.to_owned(),
    }
}

/// Quotes a word of a shell line.
fn quote_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Formats numbers for Slurm: `0-3,7`.
fn ranges(indexes: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for index in indexes.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<String>>().join(",")
}

/// Submits the script unless the job of an earlier run still exists. Returns its id and when it was
/// submitted.
fn submit(
    directory: &BatchDirectory,
    budget: &SharedBudgetFile,
    script: &str,
) -> Result<(String, String), BatchError> {
    let folder = directory.file("slurm");
    fs::create_dir_all(&folder)
        .map_err(|source| BatchError::Write { file: folder.clone(), source })?;
    let record = folder.join("job");
    let earlier = fs::read_to_string(&record).unwrap_or_default();
    if let Some((job, submitted)) = earlier.trim().split_once(' ')
        && is_listed(job)
    {
        return Ok((job.to_owned(), submitted.to_owned()));
    }
    // No task runs.
    directory.reset_budget(budget)?;
    let file: PathBuf = folder.join("job.sh");
    write_atomically(&file, script.as_bytes())?;
    let submitted = crate::run_task::now();
    let output = slurm_program("sbatch", &["--parsable", &file.to_string_lossy()])?;
    // With several clusters, the name of the cluster follows.
    let job = output.trim().split(';').next().unwrap_or_default().to_owned();
    if job.is_empty() || !job.chars().all(|char| char.is_ascii_digit()) {
        return Err(BatchError::Input(format!("sbatch did not print a job id, but `{output}`")));
    }
    write_atomically(&record, format!("{job} {submitted}\n").as_bytes())?;
    Ok((job, submitted))
}

/// Whether a job waits or runs.
fn is_listed(job: &str) -> bool {
    // squeue fails for a job that it has forgotten.
    slurm_program("squeue", &["--noheader", "--format=%i", "--jobs", job])
        .is_ok_and(|text| !text.trim().is_empty())
}

/// Runs a Slurm program and returns what it prints.
fn slurm_program(program: &str, arguments: &[&str]) -> Result<String, BatchError> {
    let environment: Vec<_> = std::env::vars_os().collect();
    let output = parallax_exec::program::detached_capture(
        program,
        arguments,
        Path::new("/"),
        &environment,
        MAX_OUTPUT_BYTES,
        COMMAND_TIME,
    );
    let output =
        output.map_err(|error| BatchError::Input(format!("Failed to run `{program}`: {error}")))?;
    if output.succeeded {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = parallax_protocol::excerpt::one_line(stderr.trim());
    Err(BatchError::Input(format!("`{program}` failed: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_values_with_spaces_are_quoted_once() {
        for (option, line) in [
            ("--comment=two words", "--comment=\"two words\""),
            ("--comment='two words'", "--comment='two words'"),
            ("--comment=\"two words\"", "--comment=\"two words\""),
            ("--partition=gpu", "--partition=gpu"),
            ("--partition gpu --time=1", "--partition gpu --time=1"),
        ] {
            assert_eq!(quote_value(option), line);
        }
    }

    #[test]
    fn numbers_become_ranges_and_words_are_quoted() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(quote_word("it's $HOME"), "'it'\\''s $HOME'");
    }
}
