//! One task, from its worktree to its result. Every executor runs this.

mod commands;
mod finish;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parallax_exec::agent_process::MemoryLimits;
use parallax_protocol::ids::SessionId;
use parallax_store::{LostRequests, SharedBudgetFile};
use parallax_worktrees::{NestedRepositories, SessionProgress, Worktree, is_in_working_tree};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::agent::{self, AgentExit, Reporter, WorkTime};
use crate::blocking::blocking;
use crate::directory::{BatchDirectory, BatchLock, TaskDirectory};
use crate::error::BatchError;
use crate::events::{EventReader, EventSummary, SessionResultLine};
use crate::membership;
use crate::plan::PlannedTask;
use crate::result::{Attempt, AttemptStage, TaskResult, TaskState};
use crate::serial::ProcessLock;
use crate::task_update::TaskUpdate;
use crate::workspace::{self, TaskWorkspace};

/// The files that an attempt writes.
const FILES: [&str; 7] = [
    "result.json",
    "patch.diff",
    "answer.md",
    "session.jsonl",
    "log.txt",
    "events.jsonl",
    "attempt.json",
];
/// The exit code of an agent that used up its budget.
const BUDGET_CODE: i32 = 57;

/// Runs tasks of a batch.
#[derive(Debug)]
pub struct TaskRunner {
    /// Where results go.
    pub directory: BatchDirectory,
    /// The directory for clones; `None`: in the directory of the batch.
    pub repositories: Option<PathBuf>,
    /// Ends the agents with this process.
    pub lock: Arc<BatchLock>,
    /// The agent's program.
    pub program: PathBuf,
    /// Arguments of every agent.
    pub arguments: Vec<OsString>,
    /// Limits of every agent and command.
    pub limits: MemoryLimits,
    /// Serializes changes to a repository.
    pub serial: Arc<ProcessLock>,
    /// Ends running tool calls of a batch that is stopped.
    pub stop_tools: CancellationToken,
    /// The branches of the tasks that this process finished.
    pub branches: FinishedBranches,
}

/// The branches of finished tasks. Commands of tasks that still run can move those that did not
/// exist when they began.
#[derive(Debug, Default)]
pub struct FinishedBranches(Mutex<Vec<FinishedBranch>>);

#[derive(Debug)]
struct FinishedBranch {
    checkout: PathBuf,
    branch: String,
    commit: String,
}

/// The context of one attempt.
struct TaskAttempt<'a> {
    runner: &'a TaskRunner,
    task: &'a PlannedTask,
    files: TaskDirectory,
    drain: &'a CancellationToken,
    updates: &'a mpsc::Sender<TaskUpdate>,
    /// The name of the worktree, once it is known.
    worktree: Mutex<Option<String>>,
}

/// How the agent ended, or a command before or after it.
struct TaskOutcome {
    state: TaskState,
    exit_code: Option<i32>,
    reason: String,
}

impl TaskOutcome {
    fn new(state: TaskState, exit_code: Option<i32>, reason: impl Into<String>) -> Self {
        Self { state, exit_code, reason: reason.into() }
    }
}

impl TaskRunner {
    /// Returns the existing result of a task that need not run again.
    pub fn earlier_result(&self, task: &PlannedTask, retry_failed: bool) -> Option<TaskResult> {
        self.directory.earlier_result(task, retry_failed)
    }

    /// Returns the cost in US dollars of the earlier attempts of a task that has to run. Blocking.
    pub(crate) fn earlier_cost(&self, task: &PlannedTask) -> Option<f64> {
        self.directory.task(&task.id).usage_of(task).map(|usage| usage.cost)
    }

    fn repositories(&self) -> PathBuf {
        let repositories_file = || self.directory.file("repositories");
        self.repositories.clone().unwrap_or_else(repositories_file)
    }

    /// Limits the total cost of the batch's tasks in US dollars; `spent` is the cost of ended tasks
    /// and earlier attempts. Must be called before a task runs with an allowance.
    ///
    /// # Errors
    /// Returns an error if the budget that the tasks share cannot be written.
    pub async fn limit_cost(&self, limit: f64, spent: f64) -> Result<(), BatchError> {
        let budget = self.lock.budget.clone();
        blocking(move || budget.set_limit(Some(limit), spent).map_err(budget_error)).await
    }

    /// Forgets what earlier runs spent, except for their results. Call it when no task runs.
    ///
    /// # Errors
    /// Returns an error if the budget that the tasks share cannot be removed.
    pub(crate) async fn reset_budget(&self) -> Result<(), BatchError> {
        let (directory, budget) = (self.directory.clone(), self.lock.budget.clone());
        blocking(move || directory.reset_budget(&budget)).await
    }

    /// Clones the repository of a task, if it is a URL, so that the task needs no access to it.
    ///
    /// # Errors
    /// Returns the error of git.
    pub async fn clone_repository(&self, task: &PlannedTask) -> Result<(), BatchError> {
        workspace::checkout(&self.repositories(), task, &self.serial).await.map(drop)
    }

    /// Records that a task failed before it ran.
    ///
    /// # Errors
    /// Returns an error if the result cannot be written.
    pub async fn fail(&self, task: &PlannedTask, reason: String) -> Result<TaskResult, BatchError> {
        let files = self.directory.task(&task.id);
        let (locked, task) = (files.clone(), task.clone());
        blocking(move || {
            let _lock = locked.lock()?;
            let mut result = TaskResult::unfinished_result(&task);
            result.reason = reason;
            (result.started, result.ended, result.attempts) = (now(), now(), 1);
            files.write_result(&result)?;
            Ok(result)
        })
        .await
    }

    /// Runs a task, or resumes it where an earlier process stopped. Problems of the task are in the
    /// result. `allowance`: US dollars that it may cost, whatever the plan says.
    ///
    /// # Errors
    /// Returns an error if the result cannot be written.
    pub async fn run(
        &self,
        task: &PlannedTask,
        allowance: Option<f64>,
        drain: &CancellationToken,
        updates: &mpsc::Sender<TaskUpdate>,
    ) -> Result<TaskResult, BatchError> {
        let files = self.directory.task(&task.id);
        let worktree = Mutex::new(None);
        let running = TaskAttempt { runner: self, task, files, drain, updates, worktree };
        let files = running.files.clone();
        // Two processes with the same plan must not run the task twice.
        let _lock = blocking(move || files.lock()).await?;
        let started = now();
        if let Some(name) = task.env.iter().find(|name| std::env::var_os(name).is_none()) {
            let reason = format!("The task needs the variable `{name}`, which is not set here");
            return running.fail(&started, reason).await;
        }
        let attempt = running.run(allowance).await;
        running.terminate_detached_processes().await?;
        match attempt {
            Ok(result) => Ok(result),
            // A program may have been stopped with the batch.
            Err(_) if drain.is_cancelled() => running.cancel(&started).await,
            Err(error) => running.fail(&started, error.to_string()).await,
        }
    }

    /// Undoes changes by commands of other tasks to the branches of finished tasks. Call it when no
    /// task runs.
    ///
    /// # Errors
    /// Returns the error of git.
    pub(crate) async fn restore_branches(&self) -> Result<(), BatchError> {
        let finished =
            std::mem::take(&mut *self.branches.0.lock().unwrap_or_else(PoisonError::into_inner));
        let _one = self.serial.lock().await?;
        blocking(move || {
            for FinishedBranch { checkout, branch, commit } in finished {
                Worktree::restore_branch(&checkout, &branch, &commit)?;
            }
            Ok(())
        })
        .await
    }

    fn record_branch(&self, checkout: &Path, result: &TaskResult) {
        if let (Some(branch), Some(commit)) = (result.branch.clone(), result.commit.clone()) {
            let finished = FinishedBranch { checkout: checkout.to_owned(), branch, commit };
            self.branches.0.lock().unwrap_or_else(PoisonError::into_inner).push(finished);
        }
    }

    /// Removes what a process left behind that stopped between writing the result and ending its
    /// task.
    ///
    /// # Errors
    /// Returns the error of git.
    pub async fn clean_up(&self, task: &PlannedTask) -> Result<(), BatchError> {
        let files = self.directory.task(&task.id);
        let Some(attempt) = files.attempt() else { return Ok(()) };
        let result = files.result();
        let is_kept = result.as_ref().is_some_and(|result| result.worktree.is_some());
        let commit = result.and_then(|result| result.commit);
        let (checkout, name) = (attempt.checkout, attempt.worktree);
        terminate_processes(name.clone()).await?;
        let directory = checkout.clone();
        // Without a repository, there is nothing to remove; its task fails when it runs again.
        if !is_kept && blocking(move || Ok(is_in_working_tree(&directory))).await? {
            self.remove_leftover(checkout, name, commit).await?;
        }
        files.remove("events.jsonl")?;
        files.remove("attempt.json")
    }

    async fn remove_leftover(
        &self,
        checkout: PathBuf,
        name: String,
        commit: Option<String>,
    ) -> Result<(), BatchError> {
        match TaskWorkspace::reopen(&checkout, &name, &self.serial).await? {
            Some(workspace) => workspace.remove(commit.as_deref()).await,
            None => {
                let _one = self.serial.lock().await?;
                blocking(move || Ok(Worktree::finish_removal(&checkout, &name, commit.as_deref())?))
                    .await
            }
        }
    }
}

impl TaskAttempt<'_> {
    async fn run(&self, allowance: Option<f64>) -> Result<TaskResult, BatchError> {
        let (mut attempt, mut workspace) = self.prepare().await?;
        *self.worktree.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(attempt.worktree.clone());
        let mut events = EventReader::new(&self.files.file("events.jsonl"));
        let failed_setup = match attempt.stage {
            AttemptStage::Agent => None,
            AttemptStage::Setup => {
                let outcome = self.set_up(&workspace, &attempt.worktree).await?;
                if !self.task.setup.is_empty() {
                    (workspace, attempt.nested_repositories) =
                        workspace.nested_repositories().await?;
                }
                outcome
            }
        };
        let outcome = match failed_setup {
            Some(outcome) => outcome,
            None => {
                attempt.stage = AttemptStage::Agent;
                let (outcome, read) =
                    self.run_agent(&mut attempt, &workspace, events, allowance).await?;
                events = read;
                outcome
            }
        };
        self.finish(attempt, workspace, events.summary, outcome).await
    }

    /// Ends detached processes of setup commands.
    async fn terminate_detached_processes(&self) -> Result<(), BatchError> {
        let worktree = self.worktree.lock().unwrap_or_else(PoisonError::into_inner).take();
        match worktree {
            Some(worktree) if !self.task.setup.is_empty() => terminate_processes(worktree).await,
            _ => Ok(()),
        }
    }

    /// Returns the worktree of an earlier attempt, or a new one.
    async fn prepare(&self) -> Result<(Attempt, TaskWorkspace), BatchError> {
        let (serial, hash) = (&self.runner.serial, self.task.input_hash());
        let (checkout, reference) =
            workspace::checkout(&self.runner.repositories(), self.task, serial).await?;
        let previous = self.files.attempt();
        let result = self.files.result_of(self.task);
        if let Some(mut attempt) = previous.clone().filter(|previous| {
            previous.input_hash == hash
                && previous.stage == AttemptStage::Agent
                && previous.checkout == checkout
                && result.as_ref().is_none_or(|result| result.state == TaskState::Cancelled)
        }) && let Some(workspace) =
            TaskWorkspace::reopen(&checkout, &attempt.worktree, serial).await?
        {
            attempt.attempts = attempt.attempts.saturating_add(1);
            self.files.write_attempt(&attempt)?;
            return Ok((attempt, workspace));
        }
        if let Some(previous) = &previous {
            terminate_processes(previous.worktree.clone()).await?;
        }
        let finished = self.finished_worktree(previous.as_ref());
        if let Some(other) = previous.as_ref().filter(|previous| previous.checkout != checkout) {
            let (checkout, name) = (other.checkout.clone(), other.worktree.clone());
            let is_finished = finished.as_ref() == Some(&name);
            let _one = serial.lock().await?;
            // That repository may be gone.
            let _ =
                blocking(move || Ok(Worktree::release_name(&checkout, &name, is_finished)?)).await;
        }
        let first = workspace::name(&self.runner.directory, self.task);
        let worktree = workspace::available_name(&checkout, first, finished, serial).await?;
        let same = previous.filter(|previous| previous.input_hash == hash);
        let attempts = result.as_ref().map(|result| result.attempts);
        let attempts = attempts.or_else(|| same.as_ref().map(|same| same.attempts));
        let earlier = self.files.usage_of(self.task).unwrap_or_default();
        let attempt = Attempt {
            input_hash: hash,
            session_id: new_session(),
            checkout: checkout.clone(),
            worktree,
            started: now(),
            attempts: attempts.unwrap_or(0).saturating_add(1),
            stage: AttemptStage::Setup,
            nested_repositories: NestedRepositories::new(),
            earlier,
            lost: LostRequests::new(),
        };
        for name in FILES {
            self.files.remove(name)?;
        }
        let prompt = self.files.file("prompt.md");
        crate::directory::write_atomically(&prompt, self.task.prompt.as_bytes())?;
        self.files.write_attempt(&attempt)?;
        let workspace =
            TaskWorkspace::create(&checkout, &attempt.worktree, reference.as_deref(), serial)
                .await?;
        Ok((attempt, workspace))
    }

    /// Returns the name of the last worktree of the task, in any version, unless it may hold work
    /// that is nowhere else.
    fn finished_worktree(&self, previous: Option<&Attempt>) -> Option<String> {
        match (self.files.result(), previous) {
            (Some(result), _)
                if result.worktree.is_some() || result.state == TaskState::Cancelled =>
            {
                None
            }
            (Some(result), Some(previous)) => {
                let is_saved = previous.stage == AttemptStage::Setup || result.commit.is_some();
                is_saved.then(|| previous.worktree.clone())
            }
            (Some(result), None) => result.branch?.strip_prefix("parallax/").map(str::to_owned),
            (None, previous) => previous
                .filter(|previous| previous.stage == AttemptStage::Setup)
                .map(|previous| previous.worktree.clone()),
        }
    }

    /// Returns the events that the agent has reported; empty if they cannot be read.
    fn read_events(&self) -> EventSummary {
        let mut events = EventReader::new(&self.files.file("events.jsonl"));
        let _ = events.read_new();
        events.summary
    }

    async fn run_agent(
        &self,
        attempt: &mut Attempt,
        workspace: &TaskWorkspace,
        mut events: EventReader,
        allowance: Option<f64>,
    ) -> Result<(TaskOutcome, EventReader), BatchError> {
        events
            .read_new()
            .map_err(|source| BatchError::Read { file: self.files.file("events.jsonl"), source })?;
        // An earlier process may have stopped after the agent. The budget may be larger now.
        if let Some(end) =
            events.summary.end.as_ref().filter(|end| !end.is_cancelled() && !end.is_budget())
        {
            let code = if end.is_success { 0 } else { 1 };
            let outcome = self.evaluate(AgentExit::Exited(code), &events.summary);
            return Ok((outcome, events));
        }
        let progress = workspace.session_progress(&SessionId::new(attempt.session_id.clone()))?;
        let session = match progress {
            SessionProgress::Finished => {
                return Ok((TaskOutcome::new(TaskState::Succeeded, Some(0), ""), events));
            }
            SessionProgress::Interrupted => "--resume",
            SessionProgress::NotStarted => {
                attempt.session_id = new_session();
                "--session-id"
            }
        };
        self.files.write_attempt(attempt)?;
        // Even without a budget for the batch, the task's own limit must hold if its processes are
        // killed.
        let is_limited = allowance.is_some() || self.task.max_cost.is_some();
        let budget = is_limited.then(|| self.runner.lock.budget.clone());
        if let Some(budget) = budget.clone().filter(|_| allowance.is_none()) {
            blocking(move || budget.set_limit(None, 0.0).map_err(budget_error)).await?;
        }
        self.end_budget(attempt, budget.as_ref()).await?;
        let spent = events.summary.cost + attempt.lost_cost();
        let own = self.task.max_cost.map(|cost| cost - spent);
        let max_cost = [own, allowance].into_iter().flatten().reduce(f64::min);
        if max_cost.is_some_and(|cost| cost <= 0.0) {
            let reason = format!("The task has used up its budget (${spent:.2})");
            return Ok((TaskOutcome::new(TaskState::OverBudget, None, reason), events));
        }
        let mut variables = membership::variables(&self.runner.lock);
        if let Some(budget) = &budget {
            let shared = budget.variables(&self.task.id);
            variables.extend(shared.map(|(name, value)| (name.into(), value)));
        }
        let process = agent::start(agent::AgentCommand {
            program: self.runner.program.clone(),
            arguments: self.arguments(session, &attempt.session_id, max_cost),
            directory: workspace.directory().to_owned(),
            variables,
            stdin: (progress == SessionProgress::NotStarted).then(|| self.files.file("prompt.md")),
            stdout: self.files.file("events.jsonl"),
            stderr: self.files.file("log.txt"),
            limits: self.runner.limits.clone(),
        })?;
        let reporter = Reporter {
            id: self.task.id.clone(),
            updates: self.updates.clone(),
            earlier_cost: attempt.earlier.cost + attempt.lost_cost(),
        };
        let signals = (self.drain, &self.runner.stop_tools);
        let log = self.files.file("log.txt");
        let time = WorkTime::start(self.task, budget.as_ref());
        let (stop, events) = agent::follow(process, events, time, signals, &reporter, &log).await?;
        let is_refused = self.end_budget(attempt, budget.as_ref()).await?;
        let mut outcome = self.evaluate(stop, &events.summary);
        let is_batch_limit = allowance.is_some_and(|limit| own.is_none_or(|own| limit < own));
        if outcome.state == TaskState::OverBudget && (is_refused || is_batch_limit) {
            let reason = "The budget of the batch is used up; a run with a higher `--max-cost` \
                continues the task";
            outcome = TaskOutcome::new(TaskState::Cancelled, outcome.exit_code, reason);
        }
        Ok((outcome, events))
    }

    /// Settles the budget of the task's processes, which have ended. What killed ones had reserved
    /// counts for the attempt. Returns whether the budget did not cover one of their requests.
    async fn end_budget(
        &self,
        attempt: &mut Attempt,
        budget: Option<&SharedBudgetFile>,
    ) -> Result<bool, BatchError> {
        let Some(budget) = budget.cloned() else { return Ok(false) };
        let id = self.task.id.clone();
        let read = move || {
            let left = budget.tasks().map_err(budget_error)?.remove(&id).unwrap_or_default();
            Ok((left, budget, id))
        };
        let (left, budget, id) = blocking(read).await?;
        if !left.lost.is_empty() {
            attempt.lost.extend(left.lost);
            // Before they are removed from the budget: a request that is in both counts once.
            self.files.write_attempt(attempt)?;
        }
        blocking(move || budget.end_task(&id).map_err(budget_error)).await?;
        Ok(left.is_refused)
    }

    fn arguments(&self, session: &str, id: &str, max_cost: Option<f64>) -> Vec<OsString> {
        let mut words = vec![session.to_owned(), id.to_owned()];
        words.extend(["-o", "stream-json", "--stream-version", "2"].map(str::to_owned));
        if let Some(model) = &self.task.model {
            words.push(format!("--model={model}"));
        }
        if let Some(mode) = self.task.approval_mode {
            words.push(format!("--approval-mode={}", mode.as_str()));
        }
        if let Some(cost) = max_cost {
            words.push(format!("--max-cost={cost:.9}"));
        }
        words.into_iter().map(OsString::from).chain(self.runner.arguments.iter().cloned()).collect()
    }

    /// Returns the outcome of a task whose agent ended like this.
    fn evaluate(&self, stop: AgentExit, summary: &EventSummary) -> TaskOutcome {
        let code = match stop {
            AgentExit::Drained => {
                return TaskOutcome::new(TaskState::Cancelled, None, "The batch was stopped");
            }
            AgentExit::TimedOut => {
                let time = self.task.timeout.unwrap_or_default().as_secs_f64();
                let reason = format!("The agent took longer than {time} s");
                return TaskOutcome::new(TaskState::Timeout, None, reason);
            }
            AgentExit::Exited(code) => code,
        };
        let message = summary.end.as_ref().map(|end| end.message.clone()).unwrap_or_default();
        let reason = |otherwise: String| if message.is_empty() { otherwise } else { message };
        match code {
            0 if summary.end.as_ref().is_some_and(|end| end.is_success) => {
                TaskOutcome::new(TaskState::Succeeded, Some(0), "")
            }
            BUDGET_CODE => {
                let reason = reason("The budget is used up".to_owned());
                TaskOutcome::new(TaskState::OverBudget, Some(code), reason)
            }
            129.. => {
                let reason = reason(format!("The agent was killed by signal {}", code - 128));
                TaskOutcome::new(TaskState::Failed, Some(code), reason)
            }
            _ => {
                let reason = reason(format!("The agent exited with code {code}; see log.txt"));
                TaskOutcome::new(TaskState::Failed, Some(code), reason)
            }
        }
    }
}

pub(crate) fn budget_error(error: std::io::Error) -> BatchError {
    BatchError::Input(format!("Failed to access the budget of the batch: {error}"))
}

impl SessionResultLine {
    fn is_cancelled(&self) -> bool {
        self.error_type == "FatalCancellationError"
    }

    fn is_budget(&self) -> bool {
        self.error_type == "BUDGET_SPENT"
    }
}

/// Terminates all processes of setup commands in a worktree with this name.
async fn terminate_processes(worktree: String) -> Result<(), BatchError> {
    blocking(move || {
        parallax_exec::agent_process::kill_marked(membership::TASK, &worktree);
        Ok(())
    })
    .await
}

fn new_session() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Returns the current time in RFC 3339 format.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
