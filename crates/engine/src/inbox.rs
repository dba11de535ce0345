//! Takes orders at any moment, also while a turn waits for something else.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::context::ResultPlace;
use parallax_protocol::event::{EventBody, ItemDone, Level, SteerEnded, SteerFate};
use parallax_protocol::ids::{ItemId, SteerId};
use parallax_protocol::op::{Decide, Op, Prompt, Restore, Rewind, Steer};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::shell::Shell;
use tokio::sync::mpsc::Receiver;

use crate::agents::Family;
use crate::budget::Ledger;
use crate::history::now;
use crate::hub::EventHub;
use crate::reach::Reach;
use crate::shells::Shells;
use parallax_protocol::store::BudgetRecord;

/// Widens the workspace: the folder as it is really named, or what was wrong.
pub type AddDirectory = Box<dyn Fn(PathBuf) -> Result<PathBuf, String> + Send + Sync>;

/// Told of a change of the model, for what else asks one.
pub type ModelChanged = Box<dyn Fn(&str) + Send + Sync>;

/// What a person wants of the history.
pub(crate) enum Wanted {
    /// A shorter form of it.
    Shorter {
        /// What matters most.
        focus: Option<String>,
    },
    /// The form that it had before the newest compaction.
    Whole,
    /// Notes in the place of these results.
    Without(Vec<ResultPlace>),
    /// Notes in the place of the instructions of a skill.
    WithoutSkill(String),
    /// A result that stays, or need not.
    Pin(ResultPlace, bool),
}

/// What a turn begins with.
pub(crate) enum Beginning {
    /// A prompt.
    Prompt(Prompt),
    /// A turn that was cut off: calls without a result are lost.
    CutOff,
    /// A change that was gone back to: calls without a result are run.
    Restored,
}

impl Beginning {
    /// What goes to the model.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Prompt(prompt) => &prompt.text,
            Self::CutOff | Self::Restored => "",
        }
    }

    /// What the person typed.
    pub(crate) fn shown(&self) -> &str {
        match self {
            Self::Prompt(Prompt { typed: Some(typed), .. }) => typed,
            _ => self.text(),
        }
    }
}

/// A prompt that waits for its turn.
pub(crate) struct Queued {
    pub(crate) beginning: Beginning,
    /// It was interrupted before it began.
    pub(crate) interrupted: bool,
    /// It came as a message for a running turn.
    pub(crate) steer: Option<SteerId>,
}

impl Queued {
    pub(crate) fn new(beginning: Beginning) -> Self {
        Self { beginning, interrupted: false, steer: None }
    }

    pub(crate) fn steered(Steer { id, prompt }: Steer) -> Self {
        Self { steer: Some(id), ..Self::new(Beginning::Prompt(prompt)) }
    }
}

pub(crate) struct Inbox {
    ops: Receiver<Op>,
    hub: EventHub,
    add_directory: AddDirectory,
    model_changed: ModelChanged,
    pub(crate) prompts: VecDeque<Queued>,
    pub(crate) steers: Vec<Steer>,
    pub(crate) decisions: Vec<Decide>,
    /// Undos asked for: the turn, and whether by force.
    pub(crate) undos: Vec<(Option<u64>, bool)>,
    pub(crate) rewinds: Vec<Rewind>,
    pub(crate) restores: Vec<Restore>,
    /// Compactions that a person wants, and takes back.
    pub(crate) compactions: VecDeque<Wanted>,
    /// Folders that were added to the workspace and that the model does not know.
    pub(crate) added: Vec<PathBuf>,
    /// Whether the list of prompts is wanted.
    pub(crate) list_prompts: bool,
    /// Whether a picture of the context is wanted.
    pub(crate) describe_context: bool,
    /// The commands of the person.
    pub(crate) shells: Shells,
    /// The processes of running calls and commands.
    pub(crate) reach: Reach,
    pub(crate) mode: ApprovalMode,
    pub(crate) model: String,
    pub(crate) shutdown: bool,
    /// Another session takes the place of this one.
    pub(crate) cleared: bool,
    /// The running turn's token.
    pub(crate) turn: Option<CancellationToken>,
    /// The token of a compaction between turns.
    pub(crate) compacting: Option<CancellationToken>,
    notices: u64,
    /// The way to sub-agents.
    pub(crate) family: Option<Arc<Family>>,
    /// The budgets.
    pub(crate) ledger: Ledger,
    /// Limits that were set and are not in the journal yet.
    pub(crate) set_budgets: Vec<BudgetRecord>,
}

impl Inbox {
    pub(crate) fn new(
        ops: Receiver<Op>,
        hub: EventHub,
        add_directory: AddDirectory,
        model_changed: ModelChanged,
        (mode, model): (ApprovalMode, String),
        shell: Option<Arc<dyn Shell>>,
    ) -> Self {
        let reach = Reach::default();
        Self {
            ops,
            shells: Shells::new(shell, hub.clone(), reach.clone()),
            reach,
            hub,
            add_directory,
            model_changed,
            prompts: VecDeque::new(),
            steers: Vec::new(),
            decisions: Vec::new(),
            undos: Vec::new(),
            rewinds: Vec::new(),
            restores: Vec::new(),
            compactions: VecDeque::new(),
            added: Vec::new(),
            list_prompts: false,
            describe_context: false,
            mode,
            model,
            shutdown: false,
            cleared: false,
            turn: None,
            compacting: None,
            notices: 0,
            family: None,
            ledger: Ledger::default(),
            set_budgets: Vec::new(),
        }
    }

    /// Takes the next order, or the end of a command of the person's. When all
    /// faces are gone the session ends after the running turn: this future
    /// never resolves again. Safe to cancel.
    pub(crate) async fn take_one(&mut self) {
        let idle = self.shells.is_empty();
        tokio::select! {
            biased;
            op = self.ops.recv(), if !self.shutdown => match op {
                Some(op) => self.handle(op),
                None => {
                    self.shutdown = true;
                    self.shells.cancel();
                }
            },
            () = self.shells.ended(), if !idle => {}
            else => std::future::pending().await,
        }
    }

    /// Whether something waits that is carried out between turns.
    pub(crate) fn has_orders(&self) -> bool {
        self.list_prompts
            || self.describe_context
            || !self.undos.is_empty()
            || !self.rewinds.is_empty()
            || !self.restores.is_empty()
            || !self.compactions.is_empty()
    }

    /// Waits for a future while orders are taken.
    pub(crate) async fn during<F: Future>(&mut self, future: F) -> F::Output {
        tokio::pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.take_one() => {}
                output = &mut future => return output,
            }
        }
    }

    fn handle(&mut self, op: Op) {
        if let (Some(family), Op::Steer(_) | Op::Withdraw(_)) = (&self.family, &op) {
            family.tell_children(&op);
        }
        match op {
            Op::Prompt(prompt) => {
                self.prompts.push_back(Queued::new(Beginning::Prompt(prompt)));
            }
            Op::Continue => self.prompts.push_back(Queued::new(Beginning::CutOff)),
            Op::Steer(steer) => self.steer(steer),
            Op::Withdraw(id) => self.withdraw(id),
            Op::Interrupt => {
                self.shells.cancel();
                if let Some(compacting) = &self.compacting {
                    compacting.cancel();
                }
                match &self.turn {
                    Some(turn) if !turn.is_cancelled() => turn.cancel(),
                    // The turn meant has not begun yet.
                    _ => self.prompts.iter_mut().for_each(|queued| queued.interrupted = true),
                }
            }
            Op::Decide(decide) => {
                let decide = match &self.family {
                    Some(family) => family.answer(decide),
                    None => Some(decide),
                };
                self.decisions.extend(decide.map(|decide| *decide));
            }
            Op::Undo { prompt, force } => self.undos.push((prompt, force)),
            Op::Rewind(_) | Op::Restore(_) if self.turn.is_some() => {
                self.notice(Level::Warning, "going back works between turns only");
            }
            Op::Rewind(rewind) => self.rewinds.push(rewind),
            Op::Restore(restore) => self.restores.push(restore),
            Op::Compact { focus } => self.compactions.push_back(Wanted::Shorter { focus }),
            Op::UndoCompaction => self.compactions.push_back(Wanted::Whole),
            Op::LeaveOut(places) => self.compactions.push_back(Wanted::Without(places)),
            Op::UnloadSkill(name) => self.compactions.push_back(Wanted::WithoutSkill(name)),
            Op::Pin { place, on } => self.compactions.push_back(Wanted::Pin(place, on)),
            Op::DescribeContext => self.describe_context = true,
            Op::ListPrompts => self.list_prompts = true,
            Op::RunShell(command) => {
                if let Err(why) = self.shells.start(command) {
                    self.notice(Level::Error, why);
                }
            }
            Op::ToolInput { item, input } => self.reach.input(&item, input),
            Op::ListBackground { lines } => self.shells.tell_background(lines),
            Op::EndBackground { pid } => self.shells.end_background(pid),
            Op::AddDirectory(path) => match (self.add_directory)(path) {
                Ok(folder) => self.added.push(folder),
                Err(why) => self.notice(Level::Error, why),
            },
            Op::SetModel(model) => self.set_model(&model),
            Op::SetMode(mode) => {
                self.mode = mode;
                self.tell_state();
            }
            Op::SetBudget { kind, scope, limit } => {
                self.ledger.set(kind, scope, limit);
                self.set_budgets.push(BudgetRecord { time: now(), kind, scope, limit });
            }
            Op::Shutdown | Op::Clear => {
                self.cleared = matches!(op, Op::Clear);
                self.shutdown = true;
                self.prompts.clear();
                // What waits for the running turn is not to begin another one.
                for Steer { id, prompt } in std::mem::take(&mut self.steers) {
                    self.steer_ended(id, prompt.text, SteerFate::Withdrawn);
                }
                self.shells.cancel();
                for running in [&self.turn, &self.compacting].into_iter().flatten() {
                    running.cancel();
                }
            }
        }
    }

    /// A message for the running turn, or in the place of one that waits.
    fn steer(&mut self, steer: Steer) {
        if let Some(waiting) = self.steers.iter_mut().find(|waiting| waiting.id == steer.id) {
            waiting.prompt = steer.prompt;
            return;
        }
        let named = |queued: &&mut Queued| queued.steer.as_ref() == Some(&steer.id);
        if let Some(queued) = self.prompts.iter_mut().find(named) {
            queued.beginning = Beginning::Prompt(steer.prompt);
        } else if self.turn.is_some() {
            self.steers.push(steer);
        } else {
            self.prompts.push_back(Queued::steered(steer));
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

    pub(crate) fn tell_state(&self) {
        if let Some(family) = &self.family {
            family.follow(self.mode, &self.model);
        }
        self.hub.send(EventBody::StateChanged { model: self.model.clone(), mode: self.mode });
    }

    /// Another model is set.
    pub(crate) fn set_model(&mut self, model: &str) {
        (self.model_changed)(model);
        model.clone_into(&mut self.model);
        self.tell_state();
    }

    /// Another model answers, though none was set.
    pub(crate) fn follow_model(&self, model: &str) {
        if let Some(family) = &self.family {
            family.follow(self.mode, model);
        }
        (self.model_changed)(model);
    }

    /// Ids for notices that come later, from beside the session.
    pub(crate) fn notice_ids(&mut self) -> impl Iterator<Item = ItemId> + Send + 'static {
        self.notices += 1;
        let number = self.notices;
        (1..).map(move |part: u32| ItemId::new(format!("notice-{number}-{part}")))
    }

    /// Tells people something.
    pub(crate) fn notice(&mut self, level: Level, text: impl Into<String>) {
        self.notices += 1;
        self.hub.send(EventBody::ItemDone {
            item: ItemId::new(format!("notice-{}", self.notices)),
            done: ItemDone::Notice { level, text: text.into() },
        });
    }
}
