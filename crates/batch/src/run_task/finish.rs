//! Ends a task: collects changes, runs checks, and writes the result.

use std::path::{Path, PathBuf};

use parallax_protocol::excerpt::one_line;
use parallax_protocol::ids::SessionId;

use super::{TaskAttempt, TaskOutcome, now};
use crate::blocking::blocking;
use crate::directory::write_atomically;
use crate::error::BatchError;
use crate::events::EventSummary;
use crate::result::{Attempt, AttemptStage, TaskResult, TaskState, sha256, title};
use crate::workspace::TaskWorkspace;

impl TaskAttempt<'_> {
    /// Collects the agent's work, and writes the result. Until the result is written, another
    /// process would repeat all of this.
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
        let (workspace, subagents) =
            workspace.remove_merged_children(changes.commit.as_deref()).await?;
        if !subagents.is_empty() {
            outcome.add_failure(unmerged_subagents(&subagents));
        }
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

    /// Returns the result of a task that could not be run.
    pub(super) async fn fail(
        &self,
        started: &str,
        reason: String,
    ) -> Result<TaskResult, BatchError> {
        let Some(attempt) = self.files.attempt() else {
            let mut result = TaskResult::unfinished_result(self.task);
            (result.started, result.attempts) = (started.to_owned(), 1);
            return self.record(result, TaskOutcome::new(TaskState::Failed, None, reason)).await;
        };
        let summary = self.read_events();
        let mut result = self.result(&attempt, &summary);
        let mut outcome = TaskOutcome::new(TaskState::Failed, None, reason);
        if let Some(workspace) = self.workspace_with_work(&attempt).await {
            let worktree = workspace.path().to_owned();
            outcome.add_failure(format!(
                "The work of the agent is only in the worktree, which was kept: {}",
                worktree.display()
            ));
            result.base = Some(workspace.base().to_owned());
            result.worktree = Some(worktree);
            // Write as much as possible: the disk may be full.
            let journal = workspace.journal(&SessionId::new(attempt.session_id.clone()));
            let (copy, answer) = (self.files.file("session.jsonl"), self.files.file("answer.md"));
            let _ = blocking(move || {
                let _ = journal.map(|journal| std::fs::copy(journal, copy));
                write_atomically(&answer, summary.answer.as_bytes())
            })
            .await;
        }
        self.record(result, outcome).await
    }

    /// Returns the result of a task that could not be run because the batch is stopped. What it
    /// left stays for the run that resumes it.
    pub(super) async fn cancel(&self, started: &str) -> Result<TaskResult, BatchError> {
        let mut result = match self.files.attempt() {
            Some(attempt) => self.result(&attempt, &self.read_events()),
            None => TaskResult::unfinished_result(self.task),
        };
        if result.started.is_empty() {
            (result.started, result.attempts) = (started.to_owned(), 1);
        }
        let reason = "The batch was stopped";
        self.record(result, TaskOutcome::new(TaskState::Cancelled, None, reason)).await
    }

    /// Returns the worktree of an attempt whose agent left work in it.
    async fn workspace_with_work(&self, attempt: &Attempt) -> Option<TaskWorkspace> {
        if attempt.stage == AttemptStage::Setup {
            return None;
        }
        let serial = &self.runner.serial;
        let opened = TaskWorkspace::reopen(&attempt.checkout, &attempt.worktree, serial).await;
        let (workspace, has_work) = opened.ok()??.has_work().await.ok()?;
        has_work.then_some(workspace)
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
        let usage = attempt.usage(summary.usage());
        TaskResult {
            tokens: usage.tokens,
            cost: (usage.cost * 1e9).round() / 1e9,
            model: summary.model.clone().or(unfinished.model),
            session_id: attempt.session_id.clone(),
            started: attempt.started.clone(),
            attempts: attempt.attempts,
            ..unfinished
        }
    }
}

impl TaskOutcome {
    /// Turns the result into a failure, or adds this reason to it.
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

/// Returns the failure of a task whose agent did not merge the work of its subagents.
fn unmerged_subagents(worktrees: &[PathBuf]) -> String {
    let names: Vec<String> =
        worktrees.iter().map(|path| format!("`{}`", one_line(&path.to_string_lossy()))).collect();
    format!(
        "The patch lacks the work of subagents in their worktrees, which were kept: {}",
        names.join(", ")
    )
}

/// Returns the reason for keeping a worktree.
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
