//! The end of a task: changes, checks, and the result.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use parallax_protocol::excerpt::one_line;
use parallax_protocol::ids::SessionId;
use sha2::{Digest as _, Sha256};

use super::{TaskAttempt, TaskOutcome, now};
use crate::blocking::blocking;
use crate::directory::write_atomically;
use crate::error::BatchError;
use crate::events::EventSummary;
use crate::plan::hex;
use crate::result::{Attempt, TaskResult, TaskState, title};
use crate::workspace::TaskWorkspace;

impl TaskAttempt<'_> {
    /// Collects what the agent left, and writes the result. Until that is written, another process
    /// does all of this again.
    pub(super) async fn finish(
        &self,
        attempt: Attempt,
        workspace: TaskWorkspace,
        summary: EventSummary,
        mut outcome: TaskOutcome,
    ) -> Result<TaskResult, BatchError> {
        let session = SessionId::new(attempt.session_id.clone());
        let journal = workspace.journal(&session)?;
        let base = workspace.base().to_owned();
        let branch = workspace.branch().to_owned();
        let mut result = self.result(&attempt, &summary);
        result.base = Some(base);
        if outcome.state == TaskState::Cancelled {
            // The worktree stays for the run that resumes it.
            return self.record(result, outcome).await;
        }
        let patch = self.files.file("patch.diff");
        let known = attempt.nested_repositories.clone();
        let (workspace, changes) =
            workspace.collect(title(self.task), patch.clone(), known).await?;
        let mut checks = Vec::new();
        if outcome.state == TaskState::Succeeded {
            checks = self.check(&workspace, &mut outcome).await?;
        }
        if outcome.state == TaskState::Cancelled {
            return self.record(result, outcome).await;
        }
        result.checks = checks;
        if !changes.nested_repositories.is_empty() {
            let worktree = workspace.path().to_owned();
            outcome.add_failure(missing_files(&changes.nested_repositories, &worktree));
            result.worktree = Some(worktree);
        } else if !changes.ignored_files.is_empty() {
            result.deleted_ignored_files = changes.ignored_files.count;
            self.log(&format!("Deleted with the worktree: {}\n", changes.ignored_files))?;
        }
        result.branch = changes.commit.as_ref().map(|_| branch);
        result.commit.clone_from(&changes.commit);
        result.files_changed =
            changes.files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let (copy, answer) = (self.files.file("session.jsonl"), self.files.file("answer.md"));
        result.patch_sha256 = blocking(move || {
            // A session without a prompt has none.
            let _ = std::fs::copy(&journal, &copy);
            write_atomically(&answer, summary.answer.as_bytes())?;
            sha256(&patch).map(Some)
        })
        .await?;
        let result = self.record(result, outcome).await?;
        match result.worktree {
            Some(_) => drop(workspace),
            None => workspace.remove(changes.commit.as_deref()).await?,
        }
        self.runner.record_branch(&attempt.checkout, &result);
        self.files.remove("events.jsonl")?;
        self.files.remove("attempt.json")?;
        Ok(result)
    }

    /// A task that could not be run.
    pub(super) async fn fail(
        &self,
        started: &str,
        reason: String,
    ) -> Result<TaskResult, BatchError> {
        let attempt = self.files.attempt().unwrap_or_else(|| Attempt {
            input_hash: self.task.input_hash(),
            session_id: String::new(),
            checkout: self.files.path().to_owned(),
            worktree: String::new(),
            started: started.to_owned(),
            attempts: 1,
            stage: crate::result::AttemptStage::Setup,
            nested_repositories: BTreeMap::new(),
        });
        let result = self.result(&attempt, &EventSummary::default());
        self.record(result, TaskOutcome::new(TaskState::Failed, None, reason)).await
    }

    async fn record(
        &self,
        mut result: TaskResult,
        outcome: TaskOutcome,
    ) -> Result<TaskResult, BatchError> {
        result.state = outcome.state;
        result.exit_code = outcome.exit_code;
        result.reason = outcome.reason;
        result.ended = now();
        let (files, written) = (self.files.clone(), result.clone());
        blocking(move || files.write_result(&written)).await?;
        Ok(result)
    }

    fn result(&self, attempt: &Attempt, summary: &EventSummary) -> TaskResult {
        let unfinished = TaskResult::unfinished_result(self.task);
        TaskResult {
            tokens: summary.tokens,
            cost: (summary.cost * 1e9).round() / 1e9,
            model: summary.model.clone().or(unfinished.model),
            session_id: attempt.session_id.clone(),
            started: attempt.started.clone(),
            attempts: attempt.attempts,
            ..unfinished
        }
    }
}

impl TaskOutcome {
    /// Makes it a failure, also for this reason.
    fn add_failure(&mut self, reason: String) {
        if self.state == TaskState::Succeeded {
            self.state = TaskState::Failed;
        }
        if !self.reason.is_empty() {
            self.reason.push_str(". ");
        }
        self.reason.push_str(&reason);
    }
}

/// The reason for keeping a worktree.
fn missing_files(repositories: &[PathBuf], worktree: &Path) -> String {
    let names: Vec<String> = repositories
        .iter()
        .map(|path| format!("`{}`", one_line(&path.to_string_lossy())))
        .collect();
    format!(
        "The patch lacks the files of the submodules or repositories {} in the worktree, which was \
         kept: {}",
        names.join(", "),
        worktree.display()
    )
}

fn sha256(file: &Path) -> Result<String, BatchError> {
    let failed = |source| BatchError::Read { file: file.to_owned(), source };
    let mut opened = std::fs::File::open(file).map_err(failed)?;
    let mut hash = Sha256::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        match opened.read(&mut buffer).map_err(failed)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}
