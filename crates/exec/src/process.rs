//! A running command, followed until it ends, is stopped, or detached.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::command::{
    Command, CommandOutcome, Control, ControlMessage, DetachedCommand, FinishedCommand, Limits,
    StopReason,
};
use crate::output::OutputSink;
use crate::process_tree::{self, ProcessTree};
use crate::registry::{Guard, Processes};
use crate::screen::LiveOutput;
use crate::start::{OutputSource, StartedShell, start};
use crate::waiter::Waiter;
use crate::{ProcessExit, StartError, terminal};

/// Buffer size for reads in bytes.
const READ: usize = 64 * 1024;
/// After the shell ends, its output is read for at most this long, because a background child may
/// hold the pipe open forever.
const DRAIN: Duration = Duration::from_millis(100);
/// How long to wait for a killed process that the kernel does not release.
const KILL_WAIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A running command. Dropping it terminates the command and everything it started.
pub struct RunningCommand {
    processes: Processes,
    tree: ProcessTree,
    guard: Guard,
    text: String,
    waiter: Waiter,
    source: OutputSource,
    at_end: bool,
    output: OutputSink,
    terminal: Option<terminal::TerminalHandle>,
    control: Control,
    messages: mpsc::Receiver<ControlMessage>,
    limits: Limits,
    started: Instant,
    exit: Option<ProcessExit>,
    stop: Option<StopReason>,
}

impl std::fmt::Debug for RunningCommand {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Running").field("pid", &self.tree.root).finish_non_exhaustive()
    }
}

enum NextStep {
    CommandOutcome,
    Detach,
}

async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl Processes {
    /// Starts a command.
    ///
    /// # Errors
    /// Returns an error if the shell or the directory does not exist, or the command cannot be
    /// started.
    pub async fn start(&self, command: Command) -> Result<RunningCommand, StartError> {
        if self.closing_token().is_cancelled() {
            return Err(StartError::Closed);
        }
        RunningCommand::start(self, command).await
    }
}

impl RunningCommand {
    pub(crate) async fn start(
        processes: &Processes,
        mut command: Command,
    ) -> Result<Self, StartError> {
        let mark = processes.new_mark();
        let StartedShell { root, waiter, source, terminal } =
            start(&mut command, &mark, processes.shared_namespaces()).await?;
        let tree = ProcessTree { root, mark, reaper: processes.namespaces_pid() };
        let (control, messages) = Control::new();
        let guard = processes.enter(tree.clone(), control.clone());
        let Command { text, copy, redact, limits, color: colour, .. } = command;
        let copy = copy.map(|path| (path, limits.copy_bytes));
        let (terminal, size) = terminal.unzip();
        Ok(Self {
            processes: processes.without_owner(),
            tree,
            guard,
            text,
            waiter,
            source,
            at_end: false,
            output: OutputSink::new(limits.capture, copy, size, colour).with_redactor(redact),
            terminal,
            control,
            messages,
            limits,
            started: Instant::now(),
            exit: None,
            stop: None,
        })
    }

    /// Returns the process ID of the shell, which leads the process group of the command.
    pub fn pid(&self) -> i32 {
        self.tree.root
    }

    /// Returns a control handle for the command while it is followed.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Follows the command to its end, or moves it to the background after `detach_after` or
    /// [`Control::detach`]. Live output is passed to `live`: the first immediately, then merged
    /// over 100 ms.
    pub async fn follow(
        mut self,
        cancel: &CancellationToken,
        detach_after: Option<Duration>,
        live: &mut (dyn FnMut(LiveOutput<'_>) + Send),
    ) -> CommandOutcome {
        let detach_at = detach_after.map(|after| self.started + after);
        match self.step(cancel, detach_at, live, true).await {
            NextStep::CommandOutcome => CommandOutcome::Finished(Box::new(self.finish().await)),
            NextStep::Detach => CommandOutcome::Detached(Box::new(self.detach().await)),
        }
    }

    async fn step(
        &mut self,
        cancel: &CancellationToken,
        detach_at: Option<Instant>,
        live: &mut (dyn FnMut(LiveOutput<'_>) + Send),
        foreground: bool,
    ) -> NextStep {
        let closing = self.processes.closing_token();
        let mut buffer = vec![0; READ];
        let mut kill_task: Option<JoinHandle<()>> = None;
        let mut killed = false;
        let mut abandon_at = None;
        let mut drain_until = None;
        let mut heard = Instant::now();
        loop {
            let drained =
                self.at_end || drain_until.is_some_and(|until: Instant| until <= Instant::now());
            if self.exit.is_some() && kill_task.is_none() && drained {
                break;
            }
            let stoppable = self.stop.is_none() && self.exit.is_none();
            let limit = |limit: Option<Duration>, from: Instant| {
                limit.filter(|_| foreground && stoppable).map(|limit| from + limit)
            };
            let silent_at = limit(self.limits.inactivity, heard);
            let too_long_at = limit(self.limits.runtime, self.started);
            let mut stop = None;
            tokio::select! {
                biased;
                () = cancel.cancelled(), if stoppable => stop = Some(StopReason::Cancelled),
                () = closing.cancelled(), if stoppable => stop = Some(StopReason::Cancelled),
                exit = self.waiter.wait(), if self.exit.is_none() => {
                    self.exit = Some(exit);
                    drain_until = Some(Instant::now() + DRAIN);
                }
                Some(()) = async { match &mut kill_task {
                    Some(task) => { drop(task.await); Some(()) }
                    None => std::future::pending().await,
                } } => {
                    kill_task = None;
                    killed = true;
                    abandon_at = Some(Instant::now() + KILL_WAIT_TIMEOUT);
                }
                () = wait_until(abandon_at), if killed && self.exit.is_none() => {
                    self.exit = Some(ProcessExit::Signalled { signal: 9 });
                    drain_until = Some(Instant::now());
                }
                Some(message) = self.messages.recv() => match message {
                    ControlMessage::Resize(size) => {
                        if let Some(terminal) = &mut self.terminal {
                            let size = self.output.resize(size);
                            terminal.resize(size);
                        }
                    }
                    ControlMessage::Input(bytes) => {
                        if let Some(terminal) = &mut self.terminal {
                            terminal.write(bytes);
                        }
                    }
                    ControlMessage::Detach if foreground && stoppable => return NextStep::Detach,
                    ControlMessage::Detach => {}
                    ControlMessage::StopReason if stoppable => stop = Some(StopReason::Cancelled),
                    ControlMessage::StopReason => {}
                },
                () = wait_until(silent_at) => {
                    stop = self.limits.inactivity.map(StopReason::Inactive);
                }
                () = wait_until(too_long_at) => {
                    stop = self.limits.runtime.map(StopReason::Runtime);
                }
                () = wait_until(detach_at), if foreground && stoppable => return NextStep::Detach,
                () = wait_until(drain_until), if !self.at_end && self.exit.is_some() => {
                    // The shell ended, but a kill may still be in progress.
                    if kill_task.is_some() {
                        drain_until = Some(Instant::now() + DRAIN);
                    }
                }
                () = wait_until(self.output.due_at()) => {
                    self.output.flush_log().await;
                    if let Some(text) = self.output.take_due_live_output() {
                        self.emit_live(&text, live);
                    }
                }
                length = self.source.read(&mut buffer), if !self.at_end => {
                    self.at_end = length == 0;
                    heard = Instant::now();
                    if let Some(bytes) = buffer.get(..length) {
                        self.output.accept(bytes).await;
                    }
                }
            }
            if let Some(stop) = stop {
                self.stop = Some(stop);
                let tree = self.tree.clone();
                kill_task =
                    Some(tokio::task::spawn_blocking(move || process_tree::terminate(&[tree])));
            }
        }
        if let Some(text) = self.output.take_remaining_live_output() {
            self.emit_live(&text, live);
        }
        NextStep::CommandOutcome
    }

    fn emit_live(&self, text: &str, live: &mut (dyn FnMut(LiveOutput<'_>) + Send)) {
        live(LiveOutput::Text(text));
        if let Some(screen) = self.output.screen() {
            live(LiveOutput::Screen(screen));
        }
    }

    async fn finish(mut self) -> FinishedCommand {
        let output = self.output.finish().await;
        let surviving = self.processes.surviving_processes(&self.tree).await;
        if surviving.is_empty() {
            self.guard.mark_ended();
        } else {
            let known = self.output.log().map(Into::into);
            let is_logged = known.is_some();
            let log = self.processes.adopt(&self.tree, &surviving, &self.text, known);
            self.guard.mark_remaining();
            if !self.at_end && !is_logged {
                self.output.start_log_at_end(log).await;
            }
        }
        if !self.at_end {
            // A process that still holds the pipe must not be killed by a broken pipe.
            let closing = self.processes.closing_token();
            let (mut source, mut sink) = (self.source, self.output);
            self.processes.spawn(async move {
                let _terminal = self.terminal;
                drain(&mut source, &mut sink, &closing).await;
            });
        }
        FinishedCommand {
            exit: self.exit.unwrap_or(ProcessExit::Exited { code: -1 }),
            stop: self.stop,
            output,
            pid: self.tree.root,
            remaining_processes: surviving,
        }
    }

    async fn detach(mut self) -> DetachedCommand {
        let log = self.processes.add_background(self.tree.root, &self.text);
        self.output.start_log(log.clone()).await;
        let output = self.output.snapshot().await;
        self.output.stop_copy();
        let pid = self.tree.root;
        self.processes.clone().spawn(async move {
            let never = CancellationToken::new();
            self.step(&never, None, &mut |_| {}, false).await;
            let processes = self.processes.clone();
            let finished = self.finish().await;
            processes.background_ended(finished.pid, finished.exit);
        });
        DetachedCommand { pid, output, log }
    }
}

async fn drain(source: &mut OutputSource, sink: &mut OutputSink, closing: &CancellationToken) {
    let mut buffer = vec![0; READ];
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => break,
            () = wait_until(sink.due_at()) => sink.flush_log().await,
            length = source.read(&mut buffer) => {
                if length == 0 {
                    break;
                }
                if let Some(bytes) = buffer.get(..length) {
                    sink.accept(bytes).await;
                }
            }
        }
    }
    sink.finish().await;
}
