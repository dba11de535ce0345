//! Commands of a task before and after the agent.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use parallax_protocol::policy::ApprovalMode;

use super::{TaskAttempt, TaskOutcome};
use crate::agent::{self, AgentExit};
use crate::error::BatchError;
use crate::membership;
use crate::result::{CheckResult, TaskState};
use crate::workspace::TaskWorkspace;

/// How long a command may take, unless the task has a timeout.
const COMMAND_TIME: Duration = Duration::from_secs(30 * 60);

impl TaskAttempt<'_> {
    /// Runs the setup commands. Returns how the task ends if one fails. `name`: that of the
    /// worktree, which marks all processes of the commands.
    pub(super) async fn set_up(
        &self,
        workspace: &TaskWorkspace,
        name: &str,
    ) -> Result<Option<TaskOutcome>, BatchError> {
        for line in &self.task.setup {
            self.log(&format!("$ {line}\n"))?;
            let arguments = ["batch", "run-command", line].map(Into::into).to_vec();
            let stop = self.command(arguments, workspace, Some(name)).await?;
            let outcome = match stop {
                AgentExit::Exited(0) => continue,
                AgentExit::Exited(code) => {
                    let reason = format!("The setup command `{line}` exited with code {code}");
                    TaskOutcome::new(TaskState::Failed, None, reason)
                }
                AgentExit::TimedOut => {
                    let reason = format!("The setup command `{line}` took too long");
                    TaskOutcome::new(TaskState::Timeout, None, reason)
                }
                AgentExit::Drained => {
                    TaskOutcome::new(TaskState::Cancelled, None, "The batch was stopped")
                }
            };
            return Ok(Some(outcome));
        }
        Ok(None)
    }

    /// Runs the checks, in the sandbox: they run what the agent wrote.
    pub(super) async fn check(
        &self,
        workspace: &TaskWorkspace,
        outcome: &mut TaskOutcome,
    ) -> Result<Vec<CheckResult>, BatchError> {
        let mut results = Vec::new();
        for line in &self.task.check {
            self.log(&format!("$ {line}\n"))?;
            let mode = match self.task.approval_mode {
                Some(ApprovalMode::Yolo) => ApprovalMode::Yolo,
                // A check needs to write its build output.
                _ => ApprovalMode::AutoEdit,
            };
            let words = ["sandbox", "run", "--mode", mode.as_str(), "--", "/bin/sh", "-c", line];
            let arguments = words.map(Into::into).to_vec();
            let started = Instant::now();
            let stop = self.command(arguments, workspace, None).await?;
            let exit_code = match stop {
                AgentExit::Exited(code) => Some(code),
                AgentExit::TimedOut => None,
                AgentExit::Drained => {
                    *outcome =
                        TaskOutcome::new(TaskState::Cancelled, None, "The batch was stopped");
                    return Ok(results);
                }
            };
            let passed = exit_code == Some(0);
            let seconds = (started.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
            results.push(CheckResult { command: line.clone(), passed, exit_code, seconds });
            if !passed && outcome.state == TaskState::Succeeded {
                let how = exit_code
                    .map_or("took too long".to_owned(), |code| format!("exited with code {code}"));
                outcome.state = TaskState::Failed;
                outcome.reason = format!("The check `{line}` {how}");
            }
        }
        Ok(results)
    }

    async fn command(
        &self,
        arguments: Vec<std::ffi::OsString>,
        workspace: &TaskWorkspace,
        mark: Option<&str>,
    ) -> Result<AgentExit, BatchError> {
        let mut variables = membership::variables(&self.runner.lock);
        variables.push((membership::COMMAND.into(), "1".into()));
        variables.extend(mark.map(|mark| (membership::TASK.into(), mark.into())));
        let process = agent::start(agent::AgentCommand {
            program: self.runner.program.clone(),
            arguments,
            directory: workspace.directory().to_owned(),
            variables,
            stdin: None,
            stdout: self.files.file("log.txt"),
            stderr: self.files.file("log.txt"),
            limits: self.runner.limits.clone(),
        })?;
        let time = self.task.timeout.unwrap_or(COMMAND_TIME);
        agent::wait(process, time, self.drain, &self.files.file("log.txt")).await
    }

    pub(super) fn log(&self, text: &str) -> Result<(), BatchError> {
        let file = self.files.file("log.txt");
        let opened = OpenOptions::new().create(true).append(true).open(&file);
        opened
            .and_then(|mut log| log.write_all(text.as_bytes()))
            .map_err(|source| BatchError::Write { file, source })
    }
}
