//! Operations that front ends send to the engine.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::approval_mode::ApprovalMode;
use crate::budget::{BudgetKind, BudgetScope};
use crate::content::Part;
use crate::context::ResultLocation;
use crate::ids::{ApprovalId, ItemId, SteerId};
use crate::policy::{RuleScope, SuggestedRule};
use crate::process::TerminalSize;
use crate::shell::ShellCommand;

pub use crate::approval_response::ApprovalResponse;

/// An operation from a front end. Operations are processed in order, even while a turn runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Starts a turn with this prompt, or queues the prompt until the running turn ends.
    Prompt(Prompt),
    /// Sends a message to the running turn: the model receives it with the next tool results.
    /// Without a running turn, or if the turn ends before the message is delivered, it becomes a
    /// prompt. The result is reported by an event ([`crate::event::SteeringResult`]). Sending
    /// another message with the same id replaces one that is waiting, which is how users edit it.
    Steer(SteeringMessage),
    /// Withdraws a message that was not delivered yet. An event reports the result, including when
    /// it is too late.
    Withdraw(SteerId),
    /// Cancels the running turn and running shell commands of the user. Results so far are kept,
    /// and background processes continue.
    Interrupt,
    /// Answers an [`crate::event::ApprovalRequest`].
    Decide(Box<RequestDecision>),
    /// Restores files to their state before a turn. An event reports the result.
    Undo {
        /// The number of the prompt, from 1 among the current prompts; `None`: the last turn that
        /// changed files.
        prompt: Option<u64>,
        /// Whether to revert files that were changed by others since.
        force: bool,
    },
    /// Rewinds to before a prompt. Only between turns; an event reports the result.
    Rewind(Rewind),
    /// Restores the state before a file change, then evaluates and runs the call that made it
    /// again. Only between turns; an event reports the result, and a turn starts.
    Restore(Restore),
    /// Resumes an interrupted turn: existing tool results are used, and calls without a result are
    /// reported as lost. A turn starts unless there is nothing to resume, which a notice reports.
    Continue,
    /// Requests the prompts that the session can be rewound to. An event contains them.
    ListPrompts,
    /// Compacts the history: immediately between turns, or before the next request of a running
    /// turn. An event reports the result.
    Compact {
        /// What the summary should focus on.
        focus: Option<String>,
    },
    /// Undoes the newest compaction. An event reports the result.
    UndoCompaction,
    /// Replaces tool results with notes in all later requests. Like a compaction, it happens
    /// immediately between turns or before the next request, and it can be undone. An event reports
    /// the result.
    DropResults(Vec<ResultLocation>),
    /// Replaces the instructions of an activated skill with a note, so that they no longer apply.
    /// Works like [`Op::DropResults`].
    UnloadSkill(String),
    /// Pins or unpins a tool result: compaction neither masks nor drops pinned results.
    Pin {
        /// The position of the result.
        place: ResultLocation,
        /// Whether the result is pinned.
        on: bool,
    },
    /// Requests the context breakdown. An event contains it
    /// ([`crate::event::EventBody::ContextBreakdown`]), in a running turn before its next request.
    DescribeContext,
    /// Runs a shell command of the user, concurrently with a running turn. The model receives its
    /// output with the next message; no turn starts.
    RunShell(ShellCommand),
    /// Sends input to the process of a running call or command.
    ToolInput {
        /// The item of the call or command.
        item: ItemId,
        /// The input.
        input: ToolInput,
    },
    /// Requests the background processes. An event contains them; it is also emitted when a process
    /// starts or ends.
    ListBackground {
        /// The number of log lines to include per process.
        lines: usize,
    },
    /// Kills a background process and all its descendants.
    EndBackground {
        /// The process.
        pid: i32,
    },
    /// Adds a directory to the workspace.
    AddDirectory(#[serde(with = "crate::path_text::one")] PathBuf),
    /// Changes the model, starting with the next request.
    SetModel(String),
    /// Changes how much the model thinks, starting with the next request. `None`: as configured.
    SetThinkingLevel(Option<String>),
    /// Changes the approval mode, starting with the next call.
    SetMode(ApprovalMode),
    /// Changes a budget immediately; what is already spent still counts.
    SetBudget {
        /// What is limited.
        kind: BudgetKind,
        /// What the budget applies to.
        scope: BudgetScope,
        /// The limit in US dollars, tokens, or seconds. `None`: no limit.
        limit: Option<f64>,
    },
    /// Informs observers that a front end runs a slash command, named without the slash.
    RecordCommand(String),
    /// Ends the session after the running turn is cancelled and saved.
    Shutdown,
    /// Ends the session like [`Op::Shutdown`], but lets running tool calls end first. The model is
    /// not asked again.
    ShutdownAfterCalls,
    /// Ends the session like [`Op::Shutdown`], but hooks are informed that a new session replaces
    /// it.
    Clear,
}

/// A prompt from a front end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Prompt {
    /// The text for the model: what the user typed, or the expansion of a command.
    pub text: String,
    /// The command as typed, if `text` is its expansion. Front ends show it instead.
    pub typed_command: Option<String>,
    /// The prompt as the input showed it, with labels instead of long pastes.
    pub labeled_text: Option<String>,
    /// Parts after the text (expanded files, images), already read.
    pub attachments: Vec<Part>,
    /// Notices for the user about attachments: missing files, how much was read.
    pub notices: Vec<String>,
    /// Overrides for the turn; not used for steering messages.
    pub overrides: Option<Box<TurnOverrides>>,
}

/// Overrides for a single turn, as specified by the file of a custom command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnOverrides {
    /// The model: a name or an alias.
    pub model: Option<String>,
    /// The only tools of the turn; a name may end with `*`. `None`: all tools.
    pub tools: Option<Vec<String>>,
    /// Rules that allow calls as if the user had approved them for the session.
    pub allowed: Vec<SuggestedRule>,
    /// The approval mode, until it is changed again.
    pub mode: Option<ApprovalMode>,
    /// The time limit for the turn.
    pub timeout: Option<Duration>,
}

/// A message for a running turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SteeringMessage {
    /// The name.
    pub id: SteerId,
    /// The message.
    pub prompt: Prompt,
}

/// The target and scope of a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewind {
    /// The turn of the prompt ([`crate::event::PromptEntry::turn`]): its effects and those of all
    /// later prompts are reverted.
    pub turn: u64,
    /// Whether to rewind the conversation.
    pub chat: bool,
    /// Whether to revert files.
    pub files: bool,
    /// Whether to revert files that were changed by others since.
    pub force: bool,
}

/// The state before a file change that is to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    /// When the change began, in nanoseconds since 1970. This change and all later ones are
    /// reverted.
    pub change_time: i64,
    /// The number of contents to keep; the last one contains the call.
    pub keep_contents: usize,
    /// The index of the call in its content, from 0.
    pub call: usize,
    /// Whether to revert files that were changed by others since.
    pub force: bool,
}

/// Input for a running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolInput {
    /// Bytes typed into its terminal. Ignored without a terminal.
    Bytes(Vec<u8>),
    /// A new size of its terminal.
    Resize(TerminalSize),
    /// Moves the process to the background and ends the call.
    ToBackground,
    /// Kills the process and all its descendants; the turn continues. Also ends calls without a
    /// process.
    Kill,
}

/// A response to an approval request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestDecision {
    /// The approval request.
    pub ask: ApprovalId,
    /// The response.
    pub outcome: ApprovalResponse,
    /// Feedback for the model, when rejecting.
    pub feedback: Option<String>,
    /// The rule to save if it is not the first suggested one: another suggestion, or one edited by
    /// the user.
    pub rule: Option<SuggestedRule>,
    /// How long that rule applies; `None`: as the response implies.
    pub scope: Option<RuleScope>,
    /// The arguments as edited by the user ([`ApprovalResponse::ModifyWithEditor`]).
    pub arguments: Option<Object>,
    /// Answers to questions from the model, by the index of the question: `"0"`, `"1"`, …
    pub answers: Option<Object>,
    /// The amount by which to increase an exhausted budget, in its unit; `None`: by its original
    /// amount.
    pub increase: Option<f64>,
    /// Whether to grant the [broader
    /// permissions](crate::event::ApprovalRequest::broader_permissions) of the request to this
    /// call.
    pub broader_permissions: bool,
    /// For a rejection without feedback: whether the turn ends, instead of asking the model for an
    /// alternative, if no call of the answer ran. Interactive front ends set it.
    pub ends_turn: bool,
}

impl RequestDecision {
    /// Creates a response without further details.
    pub fn new(ask: ApprovalId, outcome: ApprovalResponse) -> Self {
        Self {
            ask,
            outcome,
            feedback: None,
            rule: None,
            scope: None,
            arguments: None,
            answers: None,
            increase: None,
            broader_permissions: false,
            ends_turn: false,
        }
    }
}
