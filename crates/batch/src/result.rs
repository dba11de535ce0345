//! The result of a task: the same object from every executor.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use parallax_protocol::excerpt::one_line;
use parallax_store::LostRequests;
use parallax_worktrees::{NestedRepositories, without_credentials};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::BatchError;
use crate::plan::{PlannedTask, Repository, hex};

/// Maximum number of characters of a title.
const TITLE_LENGTH: usize = 72;

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// The agent finished, and all checks passed.
    Succeeded,
    /// The agent, a setup command, or a check failed.
    Failed,
    /// It was stopped; a later run resumes it.
    Cancelled,
    /// It took longer than its `timeout`.
    Timeout,
    /// It exceeded its cost limit.
    OverBudget,
}

impl TaskState {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::Succeeded, Self::Failed, Self::Timeout, Self::OverBudget, Self::Cancelled];

    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::OverBudget => "over_budget",
        }
    }
}

/// `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The task.
    pub id: String,
    /// How it ended.
    pub state: TaskState,
    /// The exit code of the agent; of a signal, 128 plus its number. `None`: it was not started.
    pub exit_code: Option<i32>,
    /// Why it did not succeed; empty if it did.
    pub reason: String,
    /// The branch with the changes; `None`: nothing changed.
    pub branch: Option<String>,
    /// The newest commit of that branch.
    pub commit: Option<String>,
    /// The commit that the work started from.
    pub base: Option<String>,
    /// The SHA-256 hash of `patch.diff`.
    pub patch_sha256: Option<String>,
    /// Files that changed, relative to the repository.
    pub files_changed: Vec<String>,
    /// The worktree, if it was kept because repositories in it have files that the patch lacks.
    #[serde(default)]
    pub worktree: Option<PathBuf>,
    /// Number of ignored files that were deleted with the worktree.
    #[serde(default)]
    pub deleted_ignored_files: u64,
    /// Tokens of all attempts.
    pub tokens: TokenCounts,
    /// US dollars of all attempts.
    pub cost: f64,
    /// The model that answered last.
    pub model: Option<String>,
    /// The session.
    pub session_id: String,
    /// When it started, as in RFC 3339.
    pub started: String,
    /// When it ended.
    pub ended: String,
    /// Number of times it was started.
    pub attempts: u32,
    /// The checks that ran.
    pub checks: Vec<CheckResult>,
    /// The labels of the task.
    pub labels: BTreeMap<String, String>,
    /// The prompt's first line, for tables.
    pub title: String,
    /// The repository, for tables.
    pub repo: String,
    /// Identifies what the task was asked to do; see `PlannedTask::input_hash`.
    pub input_hash: String,
    /// The same for tasks that differ only in the model.
    pub question_hash: String,
}

impl TaskResult {
    /// Creates the initial result of a task: failed, without a reason.
    pub(crate) fn unfinished_result(task: &PlannedTask) -> Self {
        Self {
            id: task.id.clone(),
            state: TaskState::Failed,
            exit_code: None,
            reason: String::new(),
            branch: None,
            commit: None,
            base: None,
            patch_sha256: None,
            files_changed: Vec::new(),
            worktree: None,
            deleted_ignored_files: 0,
            tokens: TokenCounts::default(),
            cost: 0.0,
            model: task.model.clone(),
            session_id: String::new(),
            started: String::new(),
            ended: String::new(),
            attempts: 0,
            checks: Vec::new(),
            labels: task.labels.clone(),
            title: title(task),
            repo: match &task.repository {
                Repository::Directory(path) => path.display().to_string(),
                Repository::Url(url) => without_credentials(url),
            },
            input_hash: task.input_hash(),
            question_hash: task.question_hash(),
        }
    }
}

/// Returns the first line of a prompt, for commits and tables.
pub(crate) fn title(task: &PlannedTask) -> String {
    let line = task.prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or(&task.id);
    let line = one_line(line.trim());
    match line.char_indices().nth(TITLE_LENGTH) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}

/// Tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// Of prompts, cached ones included.
    pub input: u64,
    /// Tokens of prompts that were cached.
    pub cached: u64,
    /// Of answers and thoughts.
    pub output: u64,
    /// All tokens.
    pub total: u64,
}

impl std::ops::AddAssign for TokenCounts {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.cached = self.cached.saturating_add(more.cached);
        self.output = self.output.saturating_add(more.output);
        self.total = self.total.saturating_add(more.total);
    }
}

/// A command that checked the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command.
    pub command: String,
    /// Whether it succeeded.
    pub passed: bool,
    /// Its exit code; `None`: it was killed, or could not be started.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub seconds: f64,
}

/// `attempt.json`: the state of a task that has not ended, for the process that resumes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// Hash of the task.
    pub(crate) input_hash: String,
    /// The session.
    pub(crate) session_id: String,
    /// The repository's checkout.
    pub(crate) checkout: PathBuf,
    /// The name of the worktree.
    pub(crate) worktree: String,
    /// When it started first.
    pub(crate) started: String,
    /// Times that it was started.
    pub(crate) attempts: u32,
    /// How far it has come.
    pub(crate) stage: AttemptStage,
    /// The submodules and other repositories that the setup commands created.
    #[serde(default)]
    pub(crate) nested_repositories: NestedRepositories,
    /// What attempts in earlier worktrees used.
    #[serde(default)]
    pub(crate) earlier: AttemptUsage,
    /// What requests of killed processes may have cost. The events do not contain them.
    #[serde(default, skip_serializing_if = "LostRequests::is_empty")]
    pub(crate) lost: LostRequests,
}

impl Attempt {
    /// Returns what the task has used up to this attempt, given what its events report.
    pub(crate) fn usage(&self, reported: AttemptUsage) -> AttemptUsage {
        let mut usage = self.earlier;
        usage += reported;
        usage.cost += self.lost_cost();
        usage
    }

    /// Returns the cost in US dollars of requests that the events do not contain.
    pub(crate) fn lost_cost(&self) -> f64 {
        self.lost.values().sum()
    }
}

/// What attempts used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttemptUsage {
    pub(crate) tokens: TokenCounts,
    /// In US dollars.
    pub(crate) cost: f64,
}

impl std::ops::AddAssign for AttemptUsage {
    fn add_assign(&mut self, more: Self) {
        self.tokens += more.tokens;
        self.cost += more.cost;
    }
}

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptStage {
    /// The worktree is being created, and the setup commands run.
    Setup,
    /// The agent works.
    Agent,
}

/// Returns the SHA-256 of a file, in hexadecimal. Blocking.
pub(crate) fn sha256(file: &Path) -> Result<String, BatchError> {
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
