//! Takes orders at any moment, also while a turn waits for something else.

use std::collections::VecDeque;
use std::path::PathBuf;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::ids::ItemId;
use parallax_protocol::op::{Decide, Op, Prompt};
use parallax_protocol::policy::ApprovalMode;
use tokio::sync::mpsc::Receiver;

use crate::hub::EventHub;

/// Widens the workspace; says what was wrong when it cannot.
pub type AddDirectory = Box<dyn Fn(PathBuf) -> Result<(), String> + Send + Sync>;

/// Told of a change of the model, for what else asks one.
pub type ModelChanged = Box<dyn Fn(&str) + Send + Sync>;

pub(crate) struct Inbox {
    ops: Receiver<Op>,
    hub: EventHub,
    add_directory: AddDirectory,
    model_changed: ModelChanged,
    /// Prompts that wait, and whether each was interrupted before it began.
    pub(crate) prompts: VecDeque<(Prompt, bool)>,
    pub(crate) steers: Vec<String>,
    pub(crate) decisions: Vec<Decide>,
    /// Undos asked for: the turn, and whether by force.
    pub(crate) undos: Vec<(Option<u64>, bool)>,
    pub(crate) mode: ApprovalMode,
    pub(crate) model: String,
    pub(crate) shutdown: bool,
    /// The running turn's token.
    pub(crate) turn: Option<CancellationToken>,
    notices: u64,
}

impl Inbox {
    pub(crate) fn new(
        ops: Receiver<Op>,
        hub: EventHub,
        add_directory: AddDirectory,
        model_changed: ModelChanged,
        mode: ApprovalMode,
        model: String,
    ) -> Self {
        Self {
            ops,
            hub,
            add_directory,
            model_changed,
            prompts: VecDeque::new(),
            steers: Vec::new(),
            decisions: Vec::new(),
            undos: Vec::new(),
            mode,
            model,
            shutdown: false,
            turn: None,
            notices: 0,
        }
    }

    /// Takes the next order. When all faces are gone the session ends after
    /// the running turn: this future never resolves again. Safe to cancel.
    pub(crate) async fn take_one(&mut self) {
        if self.shutdown {
            return std::future::pending().await;
        }
        match self.ops.recv().await {
            Some(op) => self.handle(op),
            None => self.shutdown = true,
        }
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
        match op {
            Op::Prompt(prompt) => self.prompts.push_back((prompt, false)),
            Op::Steer(text) if self.turn.is_some() => self.steers.push(text),
            Op::Steer(text) => {
                self.prompts.push_back((Prompt { text, attachments: Vec::new() }, false));
            }
            Op::Interrupt => match &self.turn {
                Some(turn) if !turn.is_cancelled() => turn.cancel(),
                // The turn meant has not begun yet.
                _ => self.prompts.iter_mut().for_each(|(_, interrupted)| *interrupted = true),
            },
            Op::Decide(decide) => self.decisions.push(*decide),
            Op::Undo { turn, force } => self.undos.push((turn, force)),
            Op::AddDirectory(path) => {
                if let Err(why) = (self.add_directory)(path) {
                    self.notice(Level::Error, why);
                }
            }
            Op::SetModel(model) => {
                (self.model_changed)(&model);
                self.model = model;
                self.tell_state();
            }
            Op::SetMode(mode) => {
                self.mode = mode;
                self.tell_state();
            }
            Op::Shutdown => {
                self.shutdown = true;
                self.prompts.clear();
                if let Some(turn) = &self.turn {
                    turn.cancel();
                }
            }
        }
    }

    pub(crate) fn tell_state(&self) {
        self.hub.send(EventBody::StateChanged { model: self.model.clone(), mode: self.mode });
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
