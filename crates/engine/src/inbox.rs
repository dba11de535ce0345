//! Receives operations at any time, even while a turn waits for something else.

mod input_queue;
mod op_queue;
mod selection;

use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EventBody, Level, SteeringOutcome, SteeringResult};
use parallax_protocol::ids::SteerId;
use parallax_protocol::observer::Observation;
use parallax_protocol::op::{Op, RequestDecision, SteeringMessage};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::shell::Shell;
use parallax_protocol::store::BudgetRecord;
use tokio::sync::mpsc::Receiver;

use self::input_queue::InputQueue;
use self::op_queue::OpQueue;
use self::selection::Selection;
use crate::agents::SubagentManager;
use crate::budget::Ledger;
use crate::event_bus::EventBus;
use crate::history::now;
use crate::notices::Notices;
use crate::options::{AddDirectory, ModelChanged};
use crate::running_processes::RunningProcesses;
use crate::user_commands::{CommandReport, UserCommands};

pub(crate) use self::input_queue::{QueuedInput, TurnInput};
pub(crate) use self::op_queue::{ContextEdit, ContextOp, QueuedOp};

/// The inputs of an inbox.
pub(crate) struct InboxOptions {
    pub(crate) ops: Receiver<Op>,
    pub(crate) mode: ApprovalMode,
    pub(crate) model: String,
    pub(crate) model_changed: ModelChanged,
    pub(crate) add_directory: AddDirectory,
    pub(crate) shell: Option<Arc<dyn Shell>>,
    pub(crate) subagents: Option<Arc<SubagentManager>>,
    pub(crate) ledger: Ledger,
}

/// Receives operations. What concerns running work is done at once; the rest waits here until it is
/// taken.
pub(crate) struct Inbox {
    ops: Receiver<Op>,
    bus: EventBus,
    notices: Notices,
    inputs: InputQueue,
    queued: OpQueue,
    /// Responses to approval requests.
    decisions: Vec<RequestDecision>,
    selection: Selection,
    running: InterruptState,
    /// The user's shell commands.
    user_commands: UserCommands,
    /// The processes of running calls and commands.
    processes: RunningProcesses,
    add_directory: AddDirectory,
    /// Added workspace directories that the model does not know yet.
    added: Vec<PathBuf>,
    subagents: Option<Arc<SubagentManager>>,
    ledger: Ledger,
    /// Limits that were set and are not in the journal yet.
    set_limits: Vec<BudgetRecord>,
}

/// What an interrupt cancels, and whether the session ends.
#[derive(Default)]
struct InterruptState {
    /// The running turn's token.
    turn: Option<CancellationToken>,
    /// The token of a context edit between turns.
    edit: Option<CancellationToken>,
    shutdown: bool,
    /// Whether the session ends before the next request to the model.
    ends_after_calls: bool,
    /// Whether another session replaces this one.
    cleared: bool,
}

impl Inbox {
    pub(crate) fn new(options: InboxOptions, bus: EventBus) -> Self {
        let processes = RunningProcesses::default();
        let user_commands = UserCommands::new(options.shell, bus.clone(), processes.clone());
        Self {
            ops: options.ops,
            notices: Notices::new(bus.clone()),
            inputs: InputQueue::default(),
            queued: OpQueue::default(),
            decisions: Vec::new(),
            selection: Selection::new(
                bus.clone(),
                options.subagents.clone(),
                options.model_changed,
                (options.mode, options.model),
            ),
            running: InterruptState::default(),
            user_commands,
            processes,
            add_directory: options.add_directory,
            added: Vec::new(),
            subagents: options.subagents,
            ledger: options.ledger,
            set_limits: Vec::new(),
            bus,
        }
    }

    /// Receives the next operation, or the end of a user command. When all front ends are gone, the
    /// session ends after the running turn, and this future never resolves again. Cancel-safe.
    pub(crate) async fn receive(&mut self) {
        let idle = self.user_commands.is_empty();
        tokio::select! {
            biased;
            op = self.ops.recv(), if !self.running.shutdown => match op {
                Some(op) => self.handle(op),
                None => {
                    self.running.shutdown = true;
                    self.user_commands.cancel();
                }
            },
            () = self.user_commands.wait_for_end(), if !idle => {}
            else => std::future::pending().await,
        }
    }

    /// Waits for a future while receiving operations.
    pub(crate) async fn while_receiving<F: Future>(&mut self, future: F) -> F::Output {
        tokio::pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.receive() => {}
                output = &mut future => return output,
            }
        }
    }

    fn handle(&mut self, op: Op) {
        if let (Some(subagents), Op::Steer(_) | Op::Withdraw(_)) = (&self.subagents, &op) {
            subagents.broadcast(&op);
        }
        match op {
            Op::Prompt(prompt) => self.inputs.push(QueuedInput::new(TurnInput::Prompt(prompt))),
            Op::Continue => self.inputs.push(QueuedInput::new(TurnInput::Continue)),
            Op::Steer(steer) => {
                self.inputs.queue_steering_message(steer, self.running.turn.is_some())
            }
            Op::Withdraw(id) => self.withdraw(id),
            Op::Interrupt => self.interrupt(),
            Op::Decide(decide) => {
                let decide = match &self.subagents {
                    Some(subagents) => subagents.answer(decide),
                    None => Some(decide),
                };
                self.decisions.extend(decide.map(|decide| *decide));
            }
            Op::Undo { prompt, force } => self.queued.push(QueuedOp::Undo { prompt, force }),
            Op::Rewind(_) | Op::Restore(_) if self.running.turn.is_some() => {
                self.notice(Level::Warning, "Rewind and restore are only available between turns");
            }
            Op::Rewind(rewind) => self.queued.push(QueuedOp::Rewind(rewind)),
            Op::Restore(restore) => self.queued.push(QueuedOp::Restore(restore)),
            Op::Compact { focus } => self.edit_context(ContextEdit::Compact { focus }),
            Op::UndoCompaction => self.edit_context(ContextEdit::UndoCompaction),
            Op::DropResults(results) => self.edit_context(ContextEdit::DropResults(results)),
            Op::UnloadSkill(name) => self.edit_context(ContextEdit::UnloadSkill(name)),
            Op::Pin { place: location, on } => self.edit_context(ContextEdit::Pin(location, on)),
            Op::DescribeContext => self.queued.push(QueuedOp::Context(ContextOp::Describe)),
            Op::ListPrompts => self.queued.push(QueuedOp::ListPrompts),
            Op::RunShell(command) => {
                if let Err(reason) = self.user_commands.start(command) {
                    self.notice(Level::Error, reason);
                }
            }
            Op::ToolInput { item, input } => self.processes.send_input(&item, input),
            Op::ListBackground { lines } => self.user_commands.emit_background(lines),
            Op::EndBackground { pid } => self.user_commands.terminate_background(pid),
            Op::AddDirectory(path) => match (self.add_directory)(path) {
                Ok(folder) => self.added.push(folder),
                Err(reason) => self.notice(Level::Error, reason),
            },
            Op::SetModel(model) => self.set_model(&model),
            Op::SetThinkingLevel(level) => self.selection.thinking_level = level,
            Op::SetMode(mode) => self.set_mode(mode),
            Op::SetBudget { kind, scope, limit } => {
                self.ledger.set(kind, scope, limit);
                self.add_set_limit(BudgetRecord { time: now(), kind, scope, limit });
            }
            Op::RecordCommand(name) => self.bus.observe(&Observation::CommandRun { name: &name }),
            Op::Shutdown => self.shut_down(false),
            Op::ShutdownAfterCalls if self.running.turn.is_some() => {
                self.running.ends_after_calls = true;
            }
            Op::ShutdownAfterCalls => self.shut_down(false),
            Op::Clear => self.shut_down(true),
        }
    }

    fn edit_context(&mut self, edit: ContextEdit) {
        self.queued.push(QueuedOp::Context(ContextOp::Edit(edit)));
    }

    fn interrupt(&mut self) {
        self.user_commands.cancel();
        if let Some(edit) = &self.running.edit {
            edit.cancel();
        }
        match &self.running.turn {
            Some(turn) if !turn.is_cancelled() => turn.cancel(),
            // The turn has not started yet.
            _ => self.inputs.interrupt(),
        }
    }

    fn shut_down(&mut self, cleared: bool) {
        self.running.cleared = cleared;
        self.running.shutdown = true;
        for SteeringMessage { id, prompt } in self.inputs.clear() {
            self.report_steering_outcome(id, prompt.text, SteeringOutcome::Withdrawn);
        }
        self.user_commands.cancel();
        for running in [&self.running.turn, &self.running.edit].into_iter().flatten() {
            running.cancel();
        }
    }

    fn withdraw(&mut self, id: SteerId) {
        let text = self.inputs.withdraw(&id);
        let fate =
            if text.is_some() { SteeringOutcome::Withdrawn } else { SteeringOutcome::NotFound };
        self.report_steering_outcome(id, text.unwrap_or_default(), fate);
    }

    /// Reports the outcome of a steering message.
    pub(crate) fn report_steering_outcome(
        &self,
        id: SteerId,
        text: String,
        outcome: SteeringOutcome,
    ) {
        self.bus.send(EventBody::SteerEnded(SteeringResult { id, text, outcome }));
    }

    /// Takes the next input of a turn.
    pub(crate) fn next_input(&mut self) -> Option<QueuedInput> {
        self.inputs.next()
    }

    /// Queues an input before the others.
    pub(crate) fn push_input(&mut self, input: TurnInput) {
        self.inputs.push_front(QueuedInput::new(input));
    }

    /// Whether steering messages wait for the running turn.
    pub(crate) fn has_steering(&self) -> bool {
        self.inputs.has_steering()
    }

    /// Takes the steering messages.
    pub(crate) fn take_steering(&mut self) -> Vec<SteeringMessage> {
        self.inputs.take_steering()
    }

    /// Turns steering messages that came too late into prompts.
    pub(crate) fn queue_steers(&mut self, late: Vec<SteeringMessage>) {
        self.inputs.queue_steers(late);
    }

    /// Whether operations wait that run between turns.
    pub(crate) fn has_queued_ops(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Takes the next operation that runs between turns.
    pub(crate) fn next_op(&mut self) -> Option<QueuedOp> {
        self.queued.next()
    }

    /// Takes the next operation that can also run between two requests of a turn.
    pub(crate) fn next_context_op(&mut self) -> Option<ContextOp> {
        self.queued.next_context_op()
    }

    /// Whether responses to approval requests have arrived.
    pub(crate) fn has_decisions(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// Takes the responses to approval requests.
    pub(crate) fn take_decisions(&mut self) -> Vec<RequestDecision> {
        std::mem::take(&mut self.decisions)
    }

    /// Takes the workspace directories that the model does not know yet.
    pub(crate) fn take_added_directories(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.added)
    }

    /// Adds a limit for the journal.
    pub(crate) fn add_set_limit(&mut self, limit: BudgetRecord) {
        self.set_limits.push(limit);
    }

    /// Takes the limits that are not in the journal yet.
    pub(crate) fn take_set_limits(&mut self) -> Vec<BudgetRecord> {
        std::mem::take(&mut self.set_limits)
    }

    /// Takes the model, and the mode if it changed, unless they are in the journal.
    /// `is_prompt`: with the first prompt of a process, the model counts as changed.
    pub(crate) fn take_changed_selection(
        &mut self,
        is_prompt: bool,
    ) -> Option<(Option<ApprovalMode>, String)> {
        self.selection.take_change(is_prompt)
    }

    /// Takes the reports on ended user commands and background processes.
    pub(crate) fn take_reports(&mut self) -> Vec<CommandReport> {
        self.user_commands.take_reports()
    }

    /// Returns the processes of running calls and commands.
    pub(crate) fn processes(&self) -> &RunningProcesses {
        &self.processes
    }

    /// Makes interrupts cancel a turn; `None`: it is over.
    pub(crate) fn set_turn(&mut self, turn: Option<CancellationToken>) {
        self.running.turn = turn;
    }

    /// Makes interrupts cancel a context edit between turns; `None`: it is over.
    pub(crate) fn set_edit(&mut self, edit: Option<CancellationToken>) {
        self.running.edit = edit;
    }

    /// Ends the session if it should end after the tool calls. Returns whether it ends.
    pub(crate) fn ends_before_request(&mut self) -> bool {
        if self.running.ends_after_calls {
            self.shut_down(false);
        }
        self.running.ends_after_calls
    }

    /// Whether the session ends after the running turn.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.running.shutdown
    }

    /// Whether the session ends: nothing more is received, and no user command runs.
    pub(crate) fn is_over(&self) -> bool {
        self.running.shutdown && self.user_commands.is_empty()
    }

    /// Whether another session replaces this one.
    pub(crate) fn is_cleared(&self) -> bool {
        self.running.cleared
    }

    /// Receives interrupts again, for the last work of a session.
    pub(crate) fn reopen_for(&mut self, work: CancellationToken) {
        self.running.turn = Some(work);
        self.running.shutdown = false;
    }

    /// Returns the approval mode.
    pub(crate) fn mode(&self) -> ApprovalMode {
        self.selection.mode()
    }

    /// Sets the approval mode.
    pub(crate) fn set_mode(&mut self, mode: ApprovalMode) {
        self.selection.set_mode(mode);
    }

    /// Returns the configured model: a name or an alias.
    pub(crate) fn model(&self) -> &str {
        self.selection.model()
    }

    /// Sets another model.
    pub(crate) fn set_model(&mut self, model: &str) {
        self.selection.set_model(model);
    }

    /// Reports that another model responds, though none was set.
    pub(crate) fn notify_model_changed(&self, model: &str) {
        self.selection.notify_model_changed(model);
    }

    /// Returns the thinking level that the user chose.
    pub(crate) fn thinking_level(&self) -> Option<&str> {
        self.selection.thinking_level.as_deref()
    }

    /// Returns the sender of notices.
    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Shows a notice to the user.
    pub(crate) fn notice(&self, level: Level, text: impl Into<String>) {
        self.notices.show(level, text);
    }
}
