//! What a face asks of the engine.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::budget::{BudgetKind, BudgetScope};
use crate::content::Part;
use crate::context::ResultPlace;
use crate::ids::{AskId, ItemId, SteerId};
use crate::policy::{ApprovalMode, RuleDraft, RuleScope};
use crate::shell::{ShellCommand, TerminalSize};

/// An order from a face. Orders are taken in the order they come, also while a
/// turn runs.
#[derive(Debug, Clone)]
pub enum Op {
    /// A prompt: starts a turn, or waits until the running one ends.
    Prompt(Prompt),
    /// A message for the running turn: it reaches the model with the next
    /// results. Without a running turn, and when the turn ends before it was
    /// delivered, it is a prompt. What became of it is an event
    /// ([`crate::event::SteerEnded`]). While it waits, another with its id takes
    /// its place: so a person edits it.
    Steer(Steer),
    /// Takes back a message that was not delivered yet. The answer is an event,
    /// also when it is too late.
    Withdraw(SteerId),
    /// Ends the running turn and the commands of the person that run; what is
    /// there is kept, and what runs in the background goes on.
    Interrupt,
    /// Answers an [`crate::event::Ask`].
    Decide(Box<Decide>),
    /// Gives files the bytes back that they had before a turn; the answer is an
    /// event.
    Undo {
        /// The turn of this prompt, counted from 1 of those that stand; without one,
        /// the last that changed anything.
        prompt: Option<u64>,
        /// Also files that somebody changed since.
        force: bool,
    },
    /// Goes back to before a prompt. Between turns only; the answer is an event.
    Rewind(Rewind),
    /// Goes back to before a change of a file, and has the call that made it
    /// judged and run again. Between turns only; the answer is an event, and a
    /// turn begins.
    Restore(Restore),
    /// Goes on with a turn that was cut off: results that are there are used, calls
    /// without one are said to be lost. A turn begins, unless there is nothing to
    /// go on with; then a notice says so.
    Continue,
    /// Asks for the prompts that one can go back to; the answer is an event.
    ListPrompts,
    /// Makes the history shorter: between turns at once, in a running turn before
    /// its next request. The answer is an event.
    Compact {
        /// What matters most to the person.
        focus: Option<String>,
    },
    /// Takes the newest compaction back. The answer is an event.
    UndoCompaction,
    /// Puts notes in the place of results of tools, in all later requests. Like a
    /// compaction: between turns at once, else before the next request, and it
    /// can be taken back. The answer is an event.
    DropResults(Vec<ResultPlace>),
    /// Puts notes in the place of what the skill of this name told the model: its
    /// instructions count no more. As [`Op::LeaveOut`].
    UnloadSkill(String),
    /// Holds on to a result of a tool, or lets go of it: no compaction shortens
    /// or drops what is pinned.
    Pin {
        /// Which.
        place: ResultPlace,
        /// Whether it is to stay.
        on: bool,
    },
    /// Asks what fills the window; the answer is an event
    /// ([`crate::event::EventBody::ContextBreakdown`]), in a running turn before
    /// its next request.
    DescribeContext,
    /// Runs a command of the person's, beside a running turn if there is one.
    /// Its output reaches the model with what comes next; no turn begins.
    RunShell(ShellCommand),
    /// Something for the process of a running call or command.
    ToolInput {
        /// The item of the call or command.
        item: ItemId,
        /// What.
        input: ToolInput,
    },
    /// Asks for the processes in the background; the answer is an event, which
    /// also comes when one was added or has ended.
    ListBackground {
        /// How many lines of each log are wanted.
        lines: usize,
    },
    /// Ends a process in the background with all that it started.
    EndBackground {
        /// The process.
        pid: i32,
    },
    /// Widens the workspace.
    AddDirectory(PathBuf),
    /// Another model from the next request on.
    SetModel(String),
    /// Another approval mode from the next call on.
    SetMode(ApprovalMode),
    /// Another budget, at once; what is spent counts on.
    SetBudget {
        /// Of what.
        kind: BudgetKind,
        /// For what.
        scope: BudgetScope,
        /// How much: US dollars, tokens, or seconds. `None`: no limit.
        limit: Option<f64>,
    },
    /// Ends the session when the running turn is cancelled and saved.
    Shutdown,
    /// Ends it in the same way, since a new one takes its place: its hooks are told
    /// so.
    Clear,
}

/// A prompt as the face hands it over.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// What goes to the model: what the person typed, or what a command stands for.
    pub text: String,
    /// The command as typed, where the text is what it stands for: people are shown
    /// this.
    pub typed: Option<String>,
    /// Parts after the text (expanded files, images), already read.
    pub attachments: Vec<Part>,
    /// What the user should know of how it was read: files that are not there, how
    /// much was read.
    pub notices: Vec<String>,
    /// What it wants for its turn; a message for a running turn has none.
    pub overrides: Option<Box<TurnOverrides>>,
}

/// What a prompt wants for its own turn, as the file of a command says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnOverrides {
    /// Another model: a name or an alias.
    pub model: Option<String>,
    /// The only tools of the turn; an ending may be `*`. `None`: all.
    pub tools: Option<Vec<String>>,
    /// Calls that are let through as if somebody had said so for the session.
    pub allowed: Vec<RuleDraft>,
    /// Another approval mode, until somebody sets one.
    pub mode: Option<ApprovalMode>,
    /// How long the turn may take.
    pub timeout: Option<Duration>,
}

/// A message for a running turn.
#[derive(Debug, Clone)]
pub struct Steer {
    /// Its name.
    pub id: SteerId,
    /// The message.
    pub prompt: Prompt,
}

/// How far to go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// The prompt ([`crate::event::PromptEntry::turn`]): what it and all after
    /// it did is taken back.
    pub turn: u64,
    /// The conversation.
    pub chat: bool,
    /// The files.
    pub files: bool,
    /// Also files that somebody changed since.
    pub force: bool,
}

/// A change of a file to go back to before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restore {
    /// When the change began, in nanoseconds since 1970: it and all later ones are
    /// taken back.
    pub moment: i64,
    /// How many contents stay; the last of them holds the call.
    pub keep: usize,
    /// The place of the call among those of its content, from 0.
    pub call: usize,
    /// Also files that somebody changed since.
    pub force: bool,
}

/// Something for a running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolInput {
    /// Typed into its terminal. Without one nothing happens.
    Bytes(Vec<u8>),
    /// Its terminal has another size.
    Resize(TerminalSize),
    /// It runs on in the background, and the call ends.
    ToBackground,
    /// It is ended, with all that it started; the turn goes on. Ends calls
    /// without a process too.
    Kill,
}

/// An answer to a question, with all that belongs to it.
#[derive(Debug, Clone)]
pub struct Decide {
    /// The question.
    pub ask: AskId,
    /// The answer.
    pub outcome: AskOutcome,
    /// Words for the model, on a refusal.
    pub feedback: Option<String>,
    /// The rule to keep, when not the first of those offered: one of the others,
    /// or as the person changed it.
    pub rule: Option<RuleDraft>,
    /// How long that rule holds; without it, as the outcome says.
    pub scope: Option<RuleScope>,
    /// The arguments as the person changed them
    /// ([`AskOutcome::ModifyWithEditor`]).
    pub arguments: Option<Object>,
    /// Answers to questions of the model's, by the place of each question:
    /// `"0"`, `"1"`, …
    pub answers: Option<Object>,
    /// By how much a spent budget is raised, in its unit; `None`: by as much as
    /// it was.
    pub more: Option<f64>,
    /// The call gets what the question names as [`wider`](crate::event::Ask::wider), this once.
    pub wider: bool,
    /// Of a refusal without words: the model is not asked what else it could do
    /// when nothing of its answer ran. So it is where a person looks on.
    pub ends: bool,
}

impl Decide {
    /// An answer without more.
    pub fn new(ask: AskId, outcome: AskOutcome) -> Self {
        Self {
            ask,
            outcome,
            feedback: None,
            rule: None,
            scope: None,
            arguments: None,
            answers: None,
            more: None,
            wider: false,
            ends: false,
        }
    }
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskOutcome {
    /// Run it.
    ProceedOnce,
    /// Run it, and do not ask for its like again in this session.
    ProceedAlways,
    /// Run it, and keep the rule on disk.
    ProceedAlwaysAndSave,
    /// Run it, and this tool of an MCP server from now on.
    ProceedAlwaysTool,
    /// Run it, and all tools of the MCP server from now on.
    ProceedAlwaysServer,
    /// Take changed arguments, and ask again.
    ModifyWithEditor,
    /// Try the same again.
    Retry,
    /// Do not run it.
    Cancel,
}
