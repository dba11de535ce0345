//! `parallax batch apply`: applies the changes of tasks to a working tree.

use std::path::Path;

use parallax_worktrees::{PatchOutcome, apply_patch, create_branch};
use tokio_util::sync::CancellationToken;

use crate::directory::BatchDirectory;
use crate::error::BatchError;
use crate::newest_plan::NewestTask;
use crate::result::{TaskState, sha256};

/// What the names of the branches of tasks begin with.
const BRANCH_PREFIX: &str = "parallax/";

/// How results are applied to the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    /// As changes to the working tree.
    Patch,
    /// As a branch for each task.
    Branch,
}

/// The outcome of applying one result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// Its changes are in the working tree.
    Applied {
        /// Number of files.
        files: usize,
        /// Whether they were merged with other changes.
        merged: bool,
    },
    /// As commits on this branch.
    Branch(String),
    /// Not at all: there are no changes.
    Nothing,
    /// It did not succeed, and was not named.
    Skipped(TaskState),
    /// Its result is that of an earlier plan, in which the task was another one.
    PlanChanged,
    /// It conflicts with the repository; contains git's message.
    Conflict(String),
    /// It could not be applied, for example because its patch is missing.
    Failed(String),
}

/// Applies the results of tasks to the repository around `repository`, in order; without ids, those
/// of the plan's tasks that succeeded. `report` receives each outcome. When `stop` is cancelled, the
/// current task is still applied. Blocking.
///
/// # Errors
/// Returns an error if an id is unknown or the list of tasks is damaged.
pub fn apply_results(
    directory: &BatchDirectory,
    repository: &Path,
    form: ApplyMode,
    ids: &[String],
    stop: &CancellationToken,
    mut report: impl FnMut(&str, &ApplyOutcome),
) -> Result<(), BatchError> {
    if let Some(unknown) = ids.iter().find(|id| !directory.has_task(id)) {
        return Err(BatchError::Input(format!(
            "`{}` has no task `{unknown}`",
            directory.path().display()
        )));
    }
    let mut chosen = directory.newest_tasks()?;
    if !ids.is_empty() {
        let named = |id: &String| {
            let listed = chosen.iter().find(|task| task.id == *id).cloned();
            // A task that left the plan can still be named.
            listed.unwrap_or_else(|| NewestTask::with_unknown_plan(id.clone()))
        };
        chosen = ids.iter().map(named).collect();
    }
    for task in &chosen {
        if stop.is_cancelled() {
            break;
        }
        let (id, files) = (&task.id, directory.task(&task.id));
        let Some(result) = directory.newest_result(task) else {
            let outcome = match files.result() {
                Some(_) => ApplyOutcome::PlanChanged,
                None => ApplyOutcome::Skipped(TaskState::Cancelled),
            };
            report(id, &outcome);
            continue;
        };
        if ids.is_empty() && result.state != TaskState::Succeeded {
            report(id, &ApplyOutcome::Skipped(result.state));
            continue;
        }
        let (Some(branch), Some(commit), Some(base)) =
            (&result.branch, &result.commit, &result.base)
        else {
            report(id, &ApplyOutcome::Nothing);
            continue;
        };
        let patch = files.file("patch.diff");
        if patch.symlink_metadata().is_ok_and(|data| !data.is_file()) {
            let reason = format!("`{}` is not a regular file", patch.display());
            report(id, &ApplyOutcome::Failed(reason));
            continue;
        }
        if !branch.starts_with(BRANCH_PREFIX) {
            let reason = format!("`{branch}` is not a branch of a worktree");
            report(id, &ApplyOutcome::Failed(reason));
            continue;
        }
        if let Some(expected) = &result.patch_sha256
            && let Ok(actual) = sha256(&patch)
            && actual != *expected
        {
            let reason = format!("`{}` is not the patch that the task wrote", patch.display());
            report(id, &ApplyOutcome::Failed(reason));
            continue;
        }
        let end = match form {
            ApplyMode::Branch => {
                match create_branch(repository, branch, commit, base, &patch, &result.title) {
                    Ok(()) => ApplyOutcome::Branch(branch.clone()),
                    Err(failure) => ApplyOutcome::Conflict(failure.message),
                }
            }
            ApplyMode::Patch => match apply_patch(repository, &patch) {
                Err(failure) => ApplyOutcome::Failed(failure.message),
                Ok(PatchOutcome::Conflict(reason)) => ApplyOutcome::Conflict(reason),
                Ok(end) => ApplyOutcome::Applied {
                    files: result.files_changed.len(),
                    merged: end == PatchOutcome::Merged,
                },
            },
        };
        report(id, &end);
    }
    Ok(())
}
