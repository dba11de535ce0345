//! Fetches results from the logs of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde_json::Value;

use crate::blocking::blocking;
use crate::directory::BatchDirectory;
use crate::error::BatchError;
use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::record::{AttemptUsage, SubmittedJob, folder};
use crate::plan::PlannedTask;
use crate::result::{TaskResult, TaskState};
use crate::result_log::ResultLogReader;

/// Number of indexes whose logs are read with one command.
const CHUNK: usize = 16;
/// Maximum number of bytes of a log line.
const MAX_LINE_LENGTH: u64 = 64 * 1024;
/// The label that contains the name of the job.
pub(crate) const JOB_LABEL: &str = "batch.kubernetes.io/job-name";
/// The label with the index.
const INDEX_LABEL: &str = "batch.kubernetes.io/job-completion-index";

/// Fetches the results of these indexes and writes them. Returns the indexes that were found. An
/// index that has settled gets a result in any case.
pub(crate) async fn collect(
    kubectl: &Kubectl,
    directory: &BatchDirectory,
    job: &SubmittedJob,
    indexes: &BTreeSet<usize>,
    settled: &BTreeSet<usize>,
) -> Result<Vec<(usize, TaskResult)>, BatchError> {
    let all: Vec<usize> = indexes.iter().copied().collect();
    let mut results = Vec::new();
    for chunk in all.chunks(CHUNK) {
        let selector = selector(&job.record.name, chunk);
        let file = folder(directory).join(format!("{}.log", job.record.name));
        let requests = format!("--max-log-requests={CHUNK}");
        let words = ["logs", "--selector", &selector, "--all-containers", "--prefix", "--tail=-1"];
        let words = [words.as_slice(), &["--ignore-errors", &requests]].concat();
        kubectl.run_to_file(&words, &file).await?;
        let mut found = read(directory, job, &file).await?;
        for index in chunk.iter().copied() {
            let Some(task) = job.tasks.get(index) else { continue };
            let result = match found.remove(&index) {
                Some(result) => result,
                None if settled.contains(&index) => {
                    let (state, reason) =
                        missing_result_reason(kubectl, &job.record.name, index).await?;
                    without_result(directory, task, state, reason).await?
                }
                None => continue,
            };
            results.push((index, result));
        }
        // The file may be large.
        let _ = std::fs::remove_file(&file);
        let _ = std::fs::remove_file(file.with_extension("errors"));
    }
    Ok(results)
}

/// Returns a label selector for the pods of these indexes.
fn selector(job: &str, indexes: &[usize]) -> String {
    let indexes: Vec<String> = indexes.iter().map(ToString::to_string).collect();
    format!("{JOB_LABEL}={job},{INDEX_LABEL} in ({})", indexes.join(","))
}

/// Reads the results in a file with the logs of several pods, and writes them.
async fn read(
    directory: &BatchDirectory,
    job: &SubmittedJob,
    file: &Path,
) -> Result<BTreeMap<usize, TaskResult>, BatchError> {
    let pods = pods(&job.record.name, file)?;
    let mut found: BTreeMap<usize, Vec<TaskResult>> = BTreeMap::new();
    // One pod at a time: several logs together may be large.
    for (pod, index) in pods {
        let Some(task) = job.tasks.get(index).cloned() else { continue };
        let (file, directory) = (file.to_owned(), directory.clone());
        let prefix = format!("[pod/{pod}/");
        let known = found.entry(index).or_default();
        let newest = known.iter().map(|result| result.ended.clone()).max();
        let result = blocking(move || {
            let mut reader = ResultLogReader::default();
            lines(&file, |line| {
                let rest = line.strip_prefix(&prefix);
                // The name of the container is before it.
                if let Some((_, line)) = rest.and_then(|rest| rest.split_once("] ")) {
                    reader.add_line(&task.id, line);
                }
            })?;
            let Some(result) = reader.result() else { return Ok(None) };
            if result.id != task.id || result.input_hash != task.input_hash() {
                return Ok(None);
            }
            if newest.is_none_or(|newest| newest < result.ended) {
                reader.write_files(&directory.task(&task.id))?;
            }
            Ok(Some(result))
        });
        known.extend(result.await?);
    }
    let mut results = BTreeMap::new();
    for (index, attempts) in found {
        let earlier =
            job.tasks.get(index).and_then(|task| job.record.previous_attempts.get(&task.id));
        let Some(result) = merge_attempts(attempts, earlier.copied().unwrap_or_default()) else {
            continue;
        };
        let (files, written) = (directory.task(&result.id), result.clone());
        blocking(move || files.write_result(&written)).await?;
        results.insert(index, result);
    }
    Ok(results)
}

/// Returns the newest result, with what all attempts used.
fn merge_attempts(mut attempts: Vec<TaskResult>, earlier: AttemptUsage) -> Option<TaskResult> {
    attempts.sort_by(|one, other| one.ended.cmp(&other.ended));
    let mut newest = attempts.pop()?;
    newest.cost += earlier.cost;
    newest.tokens += earlier.tokens;
    newest.attempts = newest.attempts.saturating_add(earlier.attempts);
    for attempt in attempts {
        // On a claim, an attempt knows the ones before.
        if attempt.session_id != newest.session_id {
            newest.cost += attempt.cost;
            newest.tokens += attempt.tokens;
            newest.attempts = newest.attempts.saturating_add(attempt.attempts);
        }
        if attempt.started < newest.started {
            newest.started = attempt.started;
        }
    }
    newest.cost = (newest.cost * 1e9).round() / 1e9;
    Some(newest)
}

/// Returns the pods in a log, with their indexes.
fn pods(job: &str, file: &Path) -> Result<BTreeMap<String, usize>, BatchError> {
    let mut pods = BTreeMap::new();
    lines(file, |line| {
        let name = line.strip_prefix("[pod/").and_then(|rest| rest.split('/').next());
        if let Some((name, index)) = name.and_then(|name| Some((name, index_of(job, name)?))) {
            pods.entry(name.to_owned()).or_insert(index);
        }
    })?;
    Ok(pods)
}

/// Returns the index of a pod: its name is `JOB-INDEX-RANDOM`.
pub(crate) fn index_of(job: &str, pod: &str) -> Option<usize> {
    let rest = pod.strip_prefix(job)?.strip_prefix('-')?;
    let (index, random) = rest.split_once('-')?;
    let is_number = index.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !random.contains('-')).then(|| index.parse().ok()).flatten()
}

/// Passes on every line that is not too long. Blocking.
fn lines(file: &Path, mut take: impl FnMut(&str)) -> Result<(), BatchError> {
    let failed = |source| BatchError::Read { file: file.to_owned(), source };
    let mut reader = BufReader::new(File::open(file).map_err(failed)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_LENGTH).read_until(b'\n', &mut line);
        if read.map_err(failed)? == 0 {
            return Ok(());
        }
        if let Ok(text) = std::str::from_utf8(&line) {
            take(text.trim_end_matches('\n'));
        }
    }
}

/// Returns the result of a task whose pods printed none.
async fn without_result(
    directory: &BatchDirectory,
    task: &PlannedTask,
    state: TaskState,
    reason: String,
) -> Result<TaskResult, BatchError> {
    let mut result = TaskResult::unfinished_result(task);
    result.state = state;
    result.reason = reason;
    result.started = crate::run_task::now();
    result.ended.clone_from(&result.started);
    result.attempts = 1;
    let (files, written) = (directory.task(&task.id), result.clone());
    blocking(move || {
        std::fs::create_dir_all(files.path())
            .map_err(|source| BatchError::Write { file: files.path().to_owned(), source })?;
        files.write_result(&written)
    })
    .await?;
    Ok(result)
}

/// Returns why there is no result, according to the state of the pods of an index. If they are
/// gone, a later run repeats the task; on a claim, it finds the result.
async fn missing_result_reason(
    kubectl: &Kubectl,
    job: &str,
    index: usize,
) -> Result<(TaskState, String), BatchError> {
    let selector = selector(job, &[index]);
    let text = kubectl.run(&["get", "pods", "--selector", &selector, "--output=json"]).await?;
    let pods: Value = serde_json::from_str(&text).unwrap_or_default();
    let newest = pods.pointer("/items").and_then(Value::as_array).and_then(|pods| pods.last());
    let Some(pod) = newest else {
        let reason = "Its pod no longer exists, so the log with the result is lost";
        return Ok((TaskState::Cancelled, reason.to_owned()));
    };
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut parts = Vec::new();
    for list in ["initContainerStatuses", "containerStatuses"] {
        let all = pod.pointer(&format!("/status/{list}")).and_then(Value::as_array);
        for container in all.into_iter().flatten() {
            let Some(end) = container.pointer("/state/terminated") else { continue };
            let code = end.get("exitCode").and_then(Value::as_i64).unwrap_or(0);
            if code != 0 {
                let (name, why) = (text(container, "name"), text(end, "reason"));
                parts.push(format!("container `{name}` exited with code {code} ({why})"));
            }
        }
    }
    if let Some(status) = pod.get("status") {
        parts.extend([text(status, "reason"), text(status, "message")]);
    }
    parts.retain(|part| !part.is_empty());
    let parts = if parts.is_empty() { "it printed no result".to_owned() } else { parts.join("; ") };
    let reason = parallax_protocol::excerpt::one_line(&format!("Its pod failed: {parts}"));
    Ok((TaskState::Failed, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_other_jobs_have_no_index() {
        assert_eq!(index_of("plan-1a", "plan-1a-12-x7f2q"), Some(12));
        for other in ["plan-1b-12-x7f2q", "plan-1a", "plan-1a-x-y", "plan-1a-1-2-x", "plan-1a--x"] {
            assert_eq!(index_of("plan-1a", other), None, "{other}");
        }
    }
}
