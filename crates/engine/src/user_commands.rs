//! Shell commands that the user runs: concurrently with a turn, without a policy decision, and
//! reported to the model with the next request.

mod background_reports;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EventBody, ItemDone, ItemStart, ShellDone, ShellStart};
use parallax_protocol::ids::ItemId;
use parallax_protocol::shell::{Shell, ShellCommand, ShellEnding, ShellOutcome};
use parallax_protocol::tool::RunContext;
use tokio::task::{Id, JoinSet};

use self::background_reports::{BackgroundReports, BackgroundWatcher};
use crate::call_progress::CallProgress;
use crate::event_bus::EventBus;
use crate::running_processes::RunningProcesses;
use crate::usage_tracking::millis;

/// Maximum number of characters of output that the model reads.
const MAX_OUTPUT: usize = 10_000;
/// Default number of log lines.
const LOG_LINES: usize = 5;

/// A report for the model.
pub(crate) struct CommandReport {
    /// The user's command, if the report is about one.
    pub(crate) command: Option<String>,
    pub(crate) text: String,
}

struct RunningCommand {
    item: ItemId,
    command: String,
    started: Instant,
    cancel: CancellationToken,
}

/// The user's running commands and the reports of finished ones.
pub(crate) struct UserCommands {
    shell: Option<Arc<dyn Shell>>,
    bus: EventBus,
    processes: RunningProcesses,
    tasks: JoinSet<ShellOutcome>,
    running: HashMap<Id, RunningCommand>,
    /// Tasks that emit background processes; aborted when this value is dropped.
    emitters: JoinSet<()>,
    reports: Vec<CommandReport>,
    /// Ended background processes.
    ended_reports: BackgroundReports,
    started: u64,
}

impl UserCommands {
    /// Creates the manager. Must be called on a runtime, because it watches background processes.
    pub(crate) fn new(
        shell: Option<Arc<dyn Shell>>,
        bus: EventBus,
        processes: RunningProcesses,
    ) -> Self {
        let mut emitters = JoinSet::new();
        let ended_reports = BackgroundReports::default();
        if let Some(shell) = shell.clone() {
            let (mut changes, bus) = (shell.changes(), bus.clone());
            let mut watch =
                BackgroundWatcher::new(Arc::clone(&shell), bus.clone(), ended_reports.clone());
            emitters.spawn(async move {
                while changes.next().await.is_some() {
                    emit_processes(Arc::clone(&shell), LOG_LINES, &bus).await;
                    watch.check_processes().await;
                }
            });
        }
        let (tasks, running) = (JoinSet::new(), HashMap::new());
        Self {
            shell,
            bus,
            processes,
            tasks,
            running,
            emitters,
            reports: Vec::new(),
            ended_reports,
            started: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Starts a command.
    ///
    /// # Errors
    /// Returns a message for the user if the command cannot be started.
    pub(crate) fn start(&mut self, command: ShellCommand) -> Result<(), &'static str> {
        let shell =
            self.shell.as_ref().ok_or("Shell commands are not available in this session")?;
        if command.command.trim().is_empty() {
            return Err("The command is empty");
        }
        self.started += 1;
        let item = ItemId::new(format!("shell-{}", self.started));
        let (text, background) = (command.command.clone(), command.background);
        self.bus.send(EventBody::ItemStarted {
            item: item.clone(),
            start: ItemStart::Shell(ShellStart { command: text.clone(), background }),
        });
        let cancel = CancellationToken::new();
        self.processes.enter(item.clone(), cancel.clone());
        let (bus, processes) = (self.bus.clone(), self.processes.clone());
        let progress = Arc::new(CallProgress { bus, item: item.clone(), processes });
        let run = shell.run(command, RunContext::new(cancel.clone(), progress));
        let handle = self.tasks.spawn(run);
        let running = RunningCommand { item, command: text, started: Instant::now(), cancel };
        self.running.insert(handle.id(), running);
        Ok(())
    }

    /// Terminates all running commands.
    pub(crate) fn cancel(&self) {
        self.running.values().for_each(|running| running.cancel.cancel());
    }

    /// Waits for the next command to end and reports it. Resolves at once when none is running.
    /// Cancel-safe.
    pub(crate) async fn wait_for_end(&mut self) {
        let (id, outcome) = match self.tasks.join_next_with_id().await {
            None => return,
            Some(Ok((id, outcome))) => (id, outcome),
            Some(Err(error)) => (error.id(), crash_outcome()),
        };
        let Some(RunningCommand { item, command, started, .. }) = self.running.remove(&id) else {
            return;
        };
        self.processes.remove(&item);
        let text = report(&command, &outcome);
        let ShellOutcome { ending, display, directory, .. } = outcome;
        self.bus.send(EventBody::ItemDone {
            item,
            done: ItemDone::Shell(Box::new(ShellDone {
                command: command.clone(),
                ending,
                output: display,
                directory,
                duration_ms: millis(started),
            })),
        });
        self.reports.push(CommandReport { command: Some(command), text });
    }

    /// Returns the reports for the model.
    pub(crate) fn take_reports(&mut self) -> Vec<CommandReport> {
        let mut reports = std::mem::take(&mut self.reports);
        let ended = self.ended_reports.take().into_iter();
        reports.extend(ended.map(|text| CommandReport { command: None, text }));
        reports
    }

    /// Emits the background processes.
    pub(crate) fn emit_background(&mut self, lines: usize) {
        let (shell, bus) = (self.shell.clone(), self.bus.clone());
        while self.emitters.try_join_next().is_some() {}
        self.emitters.spawn(async move {
            match shell {
                Some(shell) => emit_processes(shell, lines, &bus).await,
                None => bus.send(EventBody::Background { processes: Vec::new() }),
            }
        });
    }

    /// Terminates a background process and emits the rest.
    pub(crate) fn terminate_background(&mut self, pid: i32) {
        let Some(shell) = self.shell.clone() else { return };
        let bus = self.bus.clone();
        while self.emitters.try_join_next().is_some() {}
        self.emitters.spawn(async move {
            let shell_handle = Arc::clone(&shell);
            let _ =
                tokio::task::spawn_blocking(move || shell_handle.terminate_background(pid)).await;
            emit_processes(shell, LOG_LINES, &bus).await;
        });
    }
}

async fn emit_processes(shell: Arc<dyn Shell>, lines: usize, bus: &EventBus) {
    let task = tokio::task::spawn_blocking(move || shell.background(lines));
    if let Ok(processes) = task.await {
        bus.send(EventBody::Background { processes });
    }
}

fn crash_outcome() -> ShellOutcome {
    let message = "running it crashed (this is a bug)".to_owned();
    ShellOutcome {
        ending: ShellEnding::Failed { message },
        output: String::new(),
        display: String::new(),
        directory: None,
    }
}

/// Returns the report of a user command for the model.
fn report(command: &str, outcome: &ShellOutcome) -> String {
    let mut result = match &outcome.ending {
        ShellEnding::Exited { code: 0 } => String::new(),
        ShellEnding::Exited { code } => format!("Command exited with code {code}.\n"),
        ShellEnding::Signalled { signal } => format!("Command terminated by signal {signal}.\n"),
        ShellEnding::Cancelled => "Command was cancelled.\n".to_owned(),
        ShellEnding::Background { pid } => {
            format!("Command moved to background (PID: {pid}).\n")
        }
        ShellEnding::Failed { message } => format!("Command did not start: {message}\n"),
    };
    let output = outcome.output.trim_end();
    match output.is_empty() {
        true => result.push_str("(Command produced no output)"),
        false => result.push_str(output),
    }
    if let Some((cut, _)) = result.char_indices().nth(MAX_OUTPUT) {
        result.truncate(cut);
        result.push_str("\n... (truncated)");
    }
    if let Some(directory) = &outcome.directory {
        let directory = directory.display();
        result.push_str(&format!(
            "\n(It ended in `{directory}`; the next command starts in the project directory \
                again.)"
        ));
    }
    // Quoted text must not end the quotation.
    let quoted = |text: &str| text.replace('`', "\\`");
    format!(
        "I ran the following shell command:\n```sh\n{}\n```\n\nThis produced the following \
         result:\n```\n{}\n```",
        quoted(command),
        quoted(&result)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ending: ShellEnding, output: &str) -> ShellOutcome {
        let output = output.to_owned();
        ShellOutcome { ending, display: output.clone(), output, directory: None }
    }

    #[test]
    fn user_command_report_names_the_command_and_its_result() {
        let text = report("echo `x`", &outcome(ShellEnding::Exited { code: 0 }, "a ``` b\n"));
        assert_eq!(
            text,
            "I ran the following shell command:\n```sh\necho \\`x\\`\n```\n\nThis produced the \
             following result:\n```\na \\`\\`\\` b\n```"
        );
        let silent = report("false", &outcome(ShellEnding::Exited { code: 1 }, ""));
        assert!(silent.contains("Command exited with code 1.\n(Command produced no output)"));
    }

    #[test]
    fn long_result_is_truncated_and_directory_change_reported() {
        let mut long = outcome(ShellEnding::Exited { code: 0 }, &"ü".repeat(20_000));
        long.directory = Some("/else".into());
        let text = report("x", &long);
        assert_eq!(text.matches('ü').count(), 10_000);
        assert!(
            text.contains("\n... (truncated)\n(It ended in \\`/else\\`;"),
            "{}",
            &text[20_000..]
        );
    }
}
