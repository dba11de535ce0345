//! Receives operations at any time, even while a turn waits for something else.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::context::ResultPlace;
use parallax_protocol::event::{EventBody, Level, SteerEnded, SteerFate};
use parallax_protocol::ids::SteerId;
use parallax_protocol::op::{Decide, Op, Prompt, Restore, Rewind, Steer, TurnOverrides};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::shell::Shell;
use parallax_protocol::store::BudgetRecord;
use tokio::sync::mpsc::Receiver;

use crate::agents::SubagentManager;
use crate::budget::Ledger;
use crate::event_bus::EventBus;
use crate::history::now;
use crate::notices::Notices;
use crate::options::{AddDirectory, ModelChanged};
use crate::running_processes::RunningProcesses;
use crate::user_commands::UserCommands;

/// An edit of the context that the user requested.
pub(crate) enum ContextEdit {
    /// Compact the history.
    Compact {
        /// What to focus on.
        focus: Option<String>,
    },
    /// Restore the form before the newest compaction.
    UndoCompaction,
    /// Replace these results with notes.
    DropResults(Vec<ResultPlace>),
    /// Replace the instructions of a skill with notes.
    UnloadSkill(String),
    /// Pin or unpin a result.
    Pin(ResultPlace, bool),
}

/// An operation on the context: between turns, or between two requests of a turn.
pub(crate) enum ContextOp {
    /// Edit it.
    Edit(ContextEdit),
    /// Send a context breakdown.
    Describe,
}

/// An operation that runs between turns.
pub(crate) enum QueuedOp {
    /// Undo the file changes of a prompt.
    Undo {
        /// The prompt's number; `None`: the newest one.
        prompt: Option<u64>,
        /// Whether to overwrite later changes.
        force: bool,
    },
    /// Go back to a prompt.
    Rewind(Rewind),
    /// Go back to a checkpoint and run its call again.
    Restore(Restore),
    /// Edit or describe the context.
    Context(ContextOp),
    /// Send the list of prompts.
    ListPrompts,
}

impl QueuedOp {
    fn is_same_report(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::ListPrompts, Self::ListPrompts)
                | (Self::Context(ContextOp::Describe), Self::Context(ContextOp::Describe))
        )
    }
}

/// What a turn starts with.
pub(crate) enum TurnInput {
    /// A prompt.
    Prompt(Prompt),
    /// An interrupted turn: calls without a result are lost.
    Continue,
    /// A restored checkpoint: calls without a result are run.
    Rerun,
}

impl TurnInput {
    /// Returns the text for the model.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Prompt(prompt) => &prompt.text,
            Self::Continue | Self::Rerun => "",
        }
    }

    /// Takes the overrides of a prompt.
    pub(crate) fn take_overrides(&mut self) -> Option<TurnOverrides> {
        match self {
            Self::Prompt(prompt) => prompt.overrides.take().map(|overrides| *overrides),
            Self::Continue | Self::Rerun => None,
        }
    }

    /// Returns the text that the user typed.
    pub(crate) fn shown(&self) -> &str {
        match self {
            Self::Prompt(Prompt { typed: Some(typed), .. }) => typed,
            _ => self.text(),
        }
    }
}

/// An input that waits for its turn.
pub(crate) struct QueuedInput {
    pub(crate) beginning: TurnInput,
    /// Whether it was interrupted before it started.
    pub(crate) interrupted: bool,
    /// The id of the steering message that it was, if any.
    pub(crate) steer: Option<SteerId>,
}

impl QueuedInput {
    pub(crate) fn new(beginning: TurnInput) -> Self {
        Self { beginning, interrupted: false, steer: None }
    }

    pub(crate) fn steer_input(Steer { id, prompt }: Steer) -> Self {
        Self { steer: Some(id), ..Self::new(TurnInput::Prompt(prompt)) }
    }
}

pub(crate) struct Inbox {
    ops: Receiver<Op>,
    hub: EventBus,
    add_directory: AddDirectory,
    model_changed: ModelChanged,
    pub(crate) prompts: VecDeque<QueuedInput>,
    pub(crate) steers: Vec<Steer>,
    pub(crate) decisions: Vec<Decide>,
    /// Operations that wait for the end of the turn, in the order sent.
    queued: VecDeque<QueuedOp>,
    /// Added workspace directories that the model does not know yet.
    pub(crate) added: Vec<PathBuf>,
    /// The user's shell commands.
    pub(crate) user_commands: UserCommands,
    /// The processes of running calls and commands.
    pub(crate) reach: RunningProcesses,
    pub(crate) mode: ApprovalMode,
    pub(crate) model: String,
    /// The thinking level that the user chose; `None`: as configured.
    pub(crate) thinking_level: Option<String>,
    pub(crate) shutdown: bool,
    /// Whether another session replaces this one.
    pub(crate) cleared: bool,
    /// The running turn's token.
    pub(crate) turn: Option<CancellationToken>,
    /// The token of a compaction between turns.
    pub(crate) compacting: Option<CancellationToken>,
    notices: Notices,
    /// The subagents of the session.
    pub(crate) subagents: Option<Arc<SubagentManager>>,
    /// The budget ledger.
    pub(crate) ledger: Ledger,
    /// Limits that were set and are not in the journal yet.
    pub(crate) set_budgets: Vec<BudgetRecord>,
}

impl Inbox {
    pub(crate) fn new(
        ops: Receiver<Op>,
        hub: EventBus,
        add_directory: AddDirectory,
        model_changed: ModelChanged,
        (mode, model): (ApprovalMode, String),
        shell: Option<Arc<dyn Shell>>,
    ) -> Self {
        let reach = RunningProcesses::default();
        Self {
            ops,
            user_commands: UserCommands::new(shell, hub.clone(), reach.clone()),
            reach,
            notices: Notices::new(hub.clone()),
            hub,
            add_directory,
            model_changed,
            prompts: VecDeque::new(),
            steers: Vec::new(),
            decisions: Vec::new(),
            queued: VecDeque::new(),
            added: Vec::new(),
            mode,
            thinking_level: None,
            model,
            shutdown: false,
            cleared: false,
            turn: None,
            compacting: None,
            subagents: None,
            ledger: Ledger::default(),
            set_budgets: Vec::new(),
        }
    }

    /// Receives the next operation, or the end of a user command. When all front ends are gone, the
    /// session ends after the running turn, and this future never resolves again. Cancel-safe.
    pub(crate) async fn receive(&mut self) {
        let idle = self.user_commands.is_empty();
        tokio::select! {
            biased;
            op = self.ops.recv(), if !self.shutdown => match op {
                Some(op) => self.handle(op),
                None => {
                    self.shutdown = true;
                    self.user_commands.cancel();
                }
            },
            () = self.user_commands.ended(), if !idle => {}
            else => std::future::pending().await,
        }
    }

    /// Whether the session ends: nothing more is received, and no user command runs.
    pub(crate) fn is_over(&self) -> bool {
        self.shutdown && self.user_commands.is_empty()
    }

    /// Whether operations wait that run between turns.
    pub(crate) fn has_pending_ops(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Queues an operation that runs between turns. Repeated requests for the same report are
    /// answered once.
    fn queue(&mut self, op: QueuedOp) {
        if !self.queued.back().is_some_and(|last| last.is_same_report(&op)) {
            self.queued.push_back(op);
        }
    }

    /// Takes the next operation.
    pub(crate) fn next_op(&mut self) -> Option<QueuedOp> {
        self.queued.pop_front()
    }

    /// Takes the next operation that can also run between two requests of a turn.
    pub(crate) fn next_context_op(&mut self) -> Option<ContextOp> {
        let is_context = |op: &QueuedOp| matches!(op, QueuedOp::Context(_));
        let at = self.queued.iter().position(is_context)?;
        match self.queued.remove(at)? {
            QueuedOp::Context(op) => Some(op),
            _ => None,
        }
    }

    /// Takes the responses to approval requests.
    pub(crate) fn take_decisions(&mut self) -> Vec<Decide> {
        std::mem::take(&mut self.decisions)
    }

    /// Takes the steering messages.
    pub(crate) fn take_steers(&mut self) -> Vec<Steer> {
        std::mem::take(&mut self.steers)
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
            Op::Prompt(prompt) => {
                self.prompts.push_back(QueuedInput::new(TurnInput::Prompt(prompt)));
            }
            Op::Continue => self.prompts.push_back(QueuedInput::new(TurnInput::Continue)),
            Op::Steer(steer) => self.steer(steer),
            Op::Withdraw(id) => self.withdraw(id),
            Op::Interrupt => {
                self.user_commands.cancel();
                if let Some(compacting) = &self.compacting {
                    compacting.cancel();
                }
                match &self.turn {
                    Some(turn) if !turn.is_cancelled() => turn.cancel(),
                    // The turn has not started yet.
                    _ => self.prompts.iter_mut().for_each(|queued| queued.interrupted = true),
                }
            }
            Op::Decide(decide) => {
                let decide = match &self.subagents {
                    Some(subagents) => subagents.answer(decide),
                    None => Some(decide),
                };
                self.decisions.extend(decide.map(|decide| *decide));
            }
            Op::Undo { prompt, force } => self.queue(QueuedOp::Undo { prompt, force }),
            Op::Rewind(_) | Op::Restore(_) if self.turn.is_some() => {
                self.notice(Level::Warning, "Rewind and restore are only available between turns");
            }
            Op::Rewind(rewind) => self.queue(QueuedOp::Rewind(rewind)),
            Op::Restore(restore) => self.queue(QueuedOp::Restore(restore)),
            Op::Compact { focus } => self.edit_context(ContextEdit::Compact { focus }),
            Op::UndoCompaction => self.edit_context(ContextEdit::UndoCompaction),
            Op::DropResults(results) => self.edit_context(ContextEdit::DropResults(results)),
            Op::UnloadSkill(name) => self.edit_context(ContextEdit::UnloadSkill(name)),
            Op::Pin { place, on } => self.edit_context(ContextEdit::Pin(place, on)),
            Op::DescribeContext => self.queue(QueuedOp::Context(ContextOp::Describe)),
            Op::ListPrompts => self.queue(QueuedOp::ListPrompts),
            Op::RunShell(command) => {
                if let Err(why) = self.user_commands.start(command) {
                    self.notice(Level::Error, why);
                }
            }
            Op::ToolInput { item, input } => self.reach.input(&item, input),
            Op::ListBackground { lines } => self.user_commands.emit_background(lines),
            Op::EndBackground { pid } => self.user_commands.end_background(pid),
            Op::AddDirectory(path) => match (self.add_directory)(path) {
                Ok(folder) => self.added.push(folder),
                Err(why) => self.notice(Level::Error, why),
            },
            Op::SetModel(model) => self.set_model(&model),
            Op::SetThinkingLevel(level) => self.thinking_level = level,
            Op::SetMode(mode) => self.set_mode(mode),
            Op::SetBudget { kind, scope, limit } => {
                self.ledger.set(kind, scope, limit);
                self.set_budgets.push(BudgetRecord { time: now(), kind, scope, limit });
            }
            Op::Shutdown | Op::Clear => {
                self.cleared = matches!(op, Op::Clear);
                self.shutdown = true;
                self.prompts.clear();
                // Steering messages for the running turn must not start another one.
                for Steer { id, prompt } in std::mem::take(&mut self.steers) {
                    self.steer_ended(id, prompt.text, SteerFate::Withdrawn);
                }
                self.user_commands.cancel();
                for running in [&self.turn, &self.compacting].into_iter().flatten() {
                    running.cancel();
                }
            }
        }
    }

    fn edit_context(&mut self, edit: ContextEdit) {
        self.queue(QueuedOp::Context(ContextOp::Edit(edit)));
    }

    /// Queues a steering message, or replaces a queued one with the same id.
    fn steer(&mut self, steer: Steer) {
        if let Some(waiting) = self.steers.iter_mut().find(|waiting| waiting.id == steer.id) {
            waiting.prompt = steer.prompt;
            return;
        }
        let named = |queued: &&mut QueuedInput| queued.steer.as_ref() == Some(&steer.id);
        if let Some(queued) = self.prompts.iter_mut().find(named) {
            queued.beginning = TurnInput::Prompt(steer.prompt);
        } else if self.turn.is_some() {
            self.steers.push(steer);
        } else {
            self.prompts.push_back(QueuedInput::steer_input(steer));
        }
    }

    fn withdraw(&mut self, id: SteerId) {
        let text = if let Some(at) = self.steers.iter().position(|steer| steer.id == id) {
            Some(self.steers.remove(at).prompt.text)
        } else {
            let at = self.prompts.iter().position(|queued| queued.steer.as_ref() == Some(&id));
            let queued = at.and_then(|at| self.prompts.remove(at));
            queued.map(|queued| queued.beginning.text().to_owned())
        };
        let fate = if text.is_some() { SteerFate::Withdrawn } else { SteerFate::Gone };
        self.steer_ended(id, text.unwrap_or_default(), fate);
    }

    pub(crate) fn steer_ended(&self, id: SteerId, text: String, fate: SteerFate) {
        self.hub.send(EventBody::SteerEnded(SteerEnded { id, text, fate }));
    }

    pub(crate) fn emit_state(&self) {
        if let Some(subagents) = &self.subagents {
            subagents.follow(self.mode, &self.model);
        }
        self.hub.send(EventBody::StateChanged { model: self.model.clone(), mode: self.mode });
    }

    /// Sets the approval mode.
    pub(crate) fn set_mode(&mut self, mode: ApprovalMode) {
        self.mode = mode;
        self.emit_state();
    }

    /// Sets another model.
    pub(crate) fn set_model(&mut self, model: &str) {
        (self.model_changed)(model);
        model.clone_into(&mut self.model);
        self.emit_state();
    }

    /// Reports that another model responds, though none was set.
    pub(crate) fn notify_model_changed(&self, model: &str) {
        if let Some(subagents) = &self.subagents {
            subagents.follow(self.mode, model);
        }
        (self.model_changed)(model);
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
