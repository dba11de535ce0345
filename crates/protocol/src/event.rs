//! What the engine reports. Every face is a fold over these events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;
use crate::agent::AgentProgress;
pub use crate::budget::{BudgetKind, BudgetScope, BudgetSpent};
use crate::context::ContextBreakdown;
use crate::ids::{AskId, CallId, ItemId, SessionId, SteerId};
use crate::image::Image;
use crate::model::{Citation, Retry, Usage};
use crate::op::AskOutcome;
use crate::permissions::Permissions;
use crate::policy::{ApprovalMode, RuleDraft, Verdict};
use crate::price::Cost;
use crate::routing::{Fallback, Route};
use crate::shell::{BackgroundProcess, Screen, ShellEnding};
use crate::tool::{Advance, Display, Preview, ToolErrorKind, ToolKind};

/// One report. `seq` grows by one per event of a session; `turn` counts prompts
/// from 1 (0 before the first).
#[derive(Debug, Clone)]
pub struct Event {
    /// The event's number.
    pub seq: u64,
    /// The prompt it belongs to.
    pub turn: u64,
    /// What happened.
    pub body: EventBody,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum EventBody {
    /// The session can take prompts.
    SessionReady(SessionReady),
    /// A prompt was taken.
    TurnStarted {
        /// What the person typed.
        prompt: String,
    },
    /// Something visible begins. Items may overlap (tools, live output).
    ItemStarted {
        /// Its id in all later events.
        item: ItemId,
        /// What it is.
        start: ItemStart,
    },
    /// It grows. Deltas of one item may be merged for a slow reader.
    ItemDelta {
        /// The item.
        item: ItemId,
        /// More text.
        text: String,
    },
    /// The terminal of a running command looks like this now; at most ten times
    /// a second. Where an item has screens they show more than its deltas do. A
    /// slow reader gets the newest one only.
    ItemScreen {
        /// The item.
        item: ItemId,
        /// What its terminal shows.
        screen: Arc<Screen>,
    },
    /// A call got further by so much, as its server tells it; at most ten times a
    /// second. A slow reader gets the newest one only.
    ItemAdvanced {
        /// The item.
        item: ItemId,
        /// How far it is.
        advance: Advance,
    },
    /// A sub-agent got further. A slow reader gets the newest one only.
    Agent {
        /// The item of the call that started it.
        item: ItemId,
        /// What it is at.
        progress: Arc<AgentProgress>,
    },
    /// A call got further. Before the first of these it waits for other calls.
    CallState(Box<CallState>),
    /// It is final; self-contained.
    ItemDone {
        /// The item.
        item: ItemId,
        /// What it came to.
        done: ItemDone,
    },
    /// Somebody must decide.
    Ask(Box<Ask>),
    /// A question is answered or gone.
    AskClosed {
        /// The question.
        ask: AskId,
        /// The answer; `None` when the turn was interrupted.
        outcome: Option<AskOutcome>,
    },
    /// A model request ended (well or not), utility calls included.
    ModelCall(ModelCall),
    /// Where the answer that was just told has its words from, each source once.
    Sources(Vec<Citation>),
    /// A picture, where it stands among the items: behind the prompt, the call or the
    /// answer that it came with.
    Image(Image),
    /// How full the model's context is.
    ContextUsed(ContextUsed),
    /// What fills the model's context, when it was asked for.
    ContextBreakdown(Box<ContextBreakdown>),
    /// The history goes out in a shorter form from here on, or could not be
    /// made shorter, or is whole again.
    Compaction(Compaction),
    /// The model of the prompt is chosen.
    Routed(Box<Route>),
    /// Another model took the place of one that cannot answer.
    FellBack(Box<Fallback>),
    /// A wait before another attempt.
    Retry(Retry),
    /// Hooks take their time, or are done.
    HooksRun {
        /// What they are called; none: they are done.
        names: Vec<String>,
    },
    /// What became of a message for a running turn.
    SteerEnded(SteerEnded),
    /// An undo is done.
    Undone(Undone),
    /// The session is back at an earlier prompt.
    Rewound(Rewound),
    /// The session is back at an earlier change of a file.
    Restored(Undone),
    /// The prompts that one can go back to, oldest first.
    Prompts {
        /// Each with what came of it.
        prompts: Vec<PromptEntry>,
    },
    /// The processes in the background, oldest first.
    Background {
        /// Those that run, and the last that ended.
        processes: Vec<BackgroundProcess>,
    },
    /// The mode or the model changed.
    StateChanged {
        /// The model set.
        model: String,
        /// The approval mode in force.
        mode: ApprovalMode,
    },
    /// There was no turn to go on with; a notice says so too.
    NotContinued,
    /// Something for a person who looks on, and no part of what came of the run:
    /// it goes to standard error whatever the output's form.
    Aside {
        /// One line.
        text: String,
    },
    /// The turn is over; everything is saved.
    TurnEnded(TurnEnded),
}

/// The head of a session.
#[derive(Debug, Clone)]
pub struct SessionReady {
    /// The session.
    pub session: SessionId,
    /// The model as set (an alias, perhaps).
    pub model: String,
    /// The approval mode.
    pub mode: ApprovalMode,
    /// Whether earlier contents were loaded.
    pub resumed: bool,
    /// Whether the model's words are scripted or replayed.
    pub scripted: bool,
}

/// What begins.
#[derive(Debug, Clone)]
pub enum ItemStart {
    /// What a person said.
    User {
        /// The text as typed.
        text: String,
    },
    /// An answer of the model.
    Text,
    /// A thought summary.
    Thought,
    /// A function call that the model made. All calls of one answer start
    /// before any of them runs.
    Tool(ToolStart),
    /// A command of the person's.
    Shell(ShellStart),
}

/// A command of the person's as it begins.
#[derive(Debug, Clone)]
pub struct ShellStart {
    /// The text for the shell.
    pub command: String,
    /// Whether it goes to the background.
    pub background: bool,
}

/// How far a call is.
#[derive(Debug, Clone)]
pub struct CallState {
    /// Its item.
    pub item: ItemId,
    /// The call.
    pub call: CallId,
    /// How far it is.
    pub phase: CallPhase,
    /// What would be done, in one line; known once the arguments are checked.
    pub title: Option<String>,
    /// What the tool is for; `None` for an unknown one.
    pub kind: Option<ToolKind>,
}

/// How far a call is. A call may go through these more than once (changed
/// arguments, another run with more permissions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallPhase {
    /// Its arguments are checked, and whether it may run.
    Validating,
    /// It waits for an answer ([`Ask::call`]).
    AwaitingApproval,
    /// It runs.
    Executing,
}

/// A function call as it begins.
#[derive(Debug, Clone)]
pub struct ToolStart {
    /// The call.
    pub call: CallId,
    /// Its place among the calls of the answer, from 0.
    pub index: usize,
    /// The name the model used.
    pub name: String,
    /// The arguments as the model wrote them.
    pub args: Object,
}

/// What an item came to.
#[derive(Debug, Clone)]
pub enum ItemDone {
    /// What a person said.
    User,
    /// An answer.
    Text {
        /// All of it. Shared, since an answer may be large.
        text: Arc<String>,
        /// The attempt broke: faces take the text back (it comes again).
        dropped: bool,
    },
    /// A thought summary.
    Thought {
        /// All of it. The first bold span is the subject.
        text: String,
    },
    /// A call.
    Tool(Box<ToolDone>),
    /// A command of the person's.
    Shell(Box<ShellDone>),
    /// Something a person should know.
    Notice {
        /// How bad.
        level: Level,
        /// One line.
        text: String,
    },
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what it should.
    Success,
    /// It failed, or was denied.
    Error,
    /// It was interrupted or refused.
    Cancelled,
}

/// Who let a call run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallDecision {
    /// A rule or a person agreed.
    Accept,
    /// A person or a rule refused.
    Reject,
    /// A person agreed, for this call and its like.
    AutoAccept,
}

/// A finished call.
#[derive(Debug, Clone)]
pub struct ToolDone {
    /// The call.
    pub call: CallId,
    /// Its place among the calls of the answer.
    pub index: usize,
    /// The name the model used.
    pub name: String,
    /// What the tool is for; `None` for an unknown tool.
    pub kind: Option<ToolKind>,
    /// What was done, in one line.
    pub title: String,
    /// How it ended.
    pub status: ToolStatus,
    /// Who let it run; `None` if it never came to that.
    pub decision: Option<CallDecision>,
    /// What was decided and by which rule, if it came to that.
    pub verdict: Option<Verdict>,
    /// What a person sees.
    pub display: Option<Display>,
    /// The failure.
    pub error: Option<(ToolErrorKind, String)>,
    /// What the model reads: `response.output` or `response.error`.
    pub for_model: String,
    /// Structured data for machine faces.
    pub data: Option<Value>,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
}

/// A command of the person's that ended, or went to the background.
#[derive(Debug, Clone)]
pub struct ShellDone {
    /// The text for the shell.
    pub command: String,
    /// How it ended.
    pub ending: ShellEnding,
    /// The end of its output with its colours, bounded.
    pub output: String,
    /// Where the shell stood in the end, when that is not where it began:
    /// people should know that the next command begins in the project again.
    pub directory: Option<std::path::PathBuf>,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
}

/// How bad a notice is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Something did not go as asked, and the run goes on.
    Warning,
    /// Something failed.
    Error,
}

/// A question whether a call may run.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The question.
    pub id: AskId,
    /// The call it is about; of a sub-agent's question the call that started it.
    pub call: CallId,
    /// The sub-agent whose call it is.
    pub agent: Option<String>,
    /// The tool's name.
    pub name: String,
    /// What the tool is for.
    pub kind: ToolKind,
    /// What would be done, in one line.
    pub title: String,
    /// What to show.
    pub preview: Option<Preview>,
    /// Why it is asked, and by which rule.
    pub verdict: Verdict,
    /// What may be answered.
    pub outcomes: Vec<AskOutcome>,
    /// What kind of question it is.
    pub question: Question,
    /// Rules that would spare the question from now on, from the narrowest to
    /// the widest; the suggested one, else the first, is meant unless the answer
    /// names another. Empty when no answer may hold for longer.
    pub rules: Vec<RuleDraft>,
    /// Why there are none, for people; `None` where none are expected.
    pub no_rule: Option<String>,
    /// What would be given beyond the sandbox.
    pub permissions: Permissions,
    /// What could be given in its place, for a command that does more around the
    /// named files than write them: the folders that hold them. Empty when there
    /// is no such choice.
    pub wider: Permissions,
    /// What the call may change that could not be undone, for people.
    pub not_undoable: Vec<String>,
}

impl Ask {
    /// A question about the session itself: no call waits for its answer and no
    /// rule can give it.
    pub fn of_session(
        id: AskId,
        name: &str,
        title: String,
        verdict: Verdict,
        question: Question,
        outcomes: Vec<AskOutcome>,
    ) -> Self {
        Self {
            id,
            call: CallId::new(String::new()),
            agent: None,
            name: name.to_owned(),
            kind: ToolKind::Other,
            title,
            preview: None,
            verdict,
            outcomes,
            question,
            rules: Vec::new(),
            no_rule: None,
            permissions: Permissions::default(),
            wider: Permissions::default(),
            not_undoable: Vec::new(),
        }
    }
}

/// Kinds of questions; the words are those that other programs know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// A change to a file.
    Edit,
    /// A command.
    Exec,
    /// A tool of an MCP server.
    Mcp,
    /// A command that the sandbox refused something.
    SandboxExpansion,
    /// A plan, and in which mode the work on it is to be done.
    ExitPlanMode,
    /// A model that cannot answer, and another that could. It is about no call.
    Fallback,
    /// The model repeats itself, and whether it may all the same, unwatched for the
    /// rest of the session. It is about no call.
    Loop,
    /// A budget that is spent ([`Preview::Budget`]), and whether the turn may
    /// spend more. It is about no call.
    Budget,
    /// Questions of the model's ([`Preview::Questions`]). To go on means to give
    /// the answers, to cancel that there are none.
    AskUser,
    /// Anything else.
    Info,
}

/// What an undo did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Undone {
    /// The turn whose changes are taken back ([`crate::store::PromptMark::turn`]).
    #[serde(skip)]
    pub turn: u64,
    /// The number of its prompt, from 1; `None`: that was taken back, or is not known.
    #[serde(rename = "turn", default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Files that are as before.
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<std::path::PathBuf>")]
    pub restored: Vec<std::path::PathBuf>,
    /// Files left alone, each with the reason.
    #[serde(serialize_with = "crate::path_text::remarks::serialize")]
    #[schemars(with = "Vec<(std::path::PathBuf, String)>")]
    pub kept: Vec<(std::path::PathBuf, String)>,
    /// Whether some of these would not be left alone by force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force_helps: bool,
    /// Why nothing was done, when that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What became of a [`crate::op::Steer`].
#[derive(Debug, Clone)]
pub struct SteerEnded {
    /// Its name.
    pub id: SteerId,
    /// Its text; empty when nothing of that name was waiting.
    pub text: String,
    /// What became of it.
    pub fate: SteerFate,
}

/// What became of a message for a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SteerFate {
    /// The model gets it with its next request. Its item comes right after.
    Delivered,
    /// No turn could take it: it is a prompt, whose turn begins right after.
    Prompted,
    /// It was taken back.
    Withdrawn,
    /// Nothing of that name waits: it came too late to be taken back.
    Gone,
}

/// The session is back at an earlier prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewound {
    /// The number of the prompt that it stands before, from 1.
    pub number: u64,
    /// What the person had typed, for the composer.
    pub prompt: String,
    /// Whether the conversation went back.
    pub chat: bool,
    /// What became of the files, when they were to go back.
    pub files: Option<Undone>,
}

/// A prompt that one can go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptEntry {
    /// Its turn, which an order to go back names ([`crate::store::PromptMark::turn`]).
    pub turn: u64,
    /// Its number for people: its place among those that stand, from 1.
    pub number: u64,
    /// When it was sent, RFC 3339; empty where that is not known.
    pub time: String,
    /// What the person typed.
    pub text: String,
    /// Lines that edits of its turn added.
    pub lines_added: u64,
    /// Lines that edits of its turn removed.
    pub lines_removed: u64,
    /// Files that its turn changed (commands included) and that can go back.
    pub files: Vec<std::path::PathBuf>,
}

/// How full the model's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextUsed {
    /// Tokens that the next request would have: the service's last count and an
    /// estimate of what came since.
    pub tokens: u64,
    /// What the model takes.
    pub window: u64,
}

/// What a compaction came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Compaction {
    /// Who wanted it.
    pub cause: CompactionCause,
    /// How it was made; `None` when the history stays as it is.
    pub how: Option<CompactionHow>,
    /// Tokens of the next request before it, as estimated.
    pub before: u64,
    /// Tokens of the next request after it.
    pub after: u64,
    /// Why it is not (much) shorter, or what else a person should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// What the remark of a compaction begins with that found nothing to shorten. Programs wait
/// for these words on the screen.
pub const NOTHING_TO_COMPRESS: &str = "Nothing to compress.";

/// Who wanted a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// A person.
    Manual,
    /// A threshold was reached.
    Threshold,
    /// The next request would not fit, or the service said so.
    Overflow,
    /// A person took one back.
    Undo,
}

/// How a history was made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionHow {
    /// Old results were shortened; no word of anybody is gone.
    Results,
    /// The model wrote an account of the older part.
    Snapshot,
    /// The program wrote it, since the model could not.
    Mechanical,
}

/// A model request that ended.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// The model that answered (or was asked).
    pub model: String,
    /// What the request was for (`main`, `web_search`, …).
    pub role: String,
    /// Token counts.
    pub usage: Usage,
    /// What it cost; `None` where no price of the model is known.
    pub cost: Option<Cost>,
    /// From the first byte sent to the last received, in milliseconds.
    pub latency_ms: u64,
    /// What was sent: contents, system prompt and tools, in bytes of JSON.
    pub request_bytes: u64,
    /// The failure's class, if it failed.
    pub error: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Clone)]
pub struct TurnEnded {
    /// Why.
    pub reason: EndReason,
    /// How long the turn took, in milliseconds, without the time in which it waited
    /// for the user.
    pub duration_ms: u64,
    /// Whether its prompt is no longer in the conversation, since nobody answered:
    /// it can be sent again as it was.
    pub taken_back: bool,
}

/// Why a turn ended.
#[derive(Debug, Clone)]
pub enum EndReason {
    /// The model gave its last answer.
    Done,
    /// Interrupted.
    Cancelled,
    /// The limit of model requests is reached.
    MaxTurns {
        /// The limit.
        limit: u32,
    },
    /// A budget is spent. What was done is kept.
    Budget(BudgetSpent),
    /// The loop guard stopped it.
    Loop {
        /// What repeated.
        detail: String,
    },
    /// A tool or a hook asked for the end.
    Stopped {
        /// Its reason.
        reason: String,
        /// Whether a hook refused the prompt, the request or the answer.
        blocked: bool,
    },
    /// Something failed for good.
    Failed(Failure),
}

impl EndReason {
    /// Its name in the journal and in telemetry.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::MaxTurns { .. } => "max_turns",
            Self::Budget(_) => "budget",
            Self::Loop { .. } => "loop",
            Self::Stopped { .. } => "stopped",
            Self::Failed(_) => "error",
        }
    }
}

/// A failure that ends a turn or a run.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The class, which decides the exit code.
    pub kind: FailureKind,
    /// What happened, to which thing, and what to do.
    pub message: String,
    /// The service's HTTP status, if there was one.
    pub status: Option<u16>,
}

/// Classes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No or wrong credentials.
    Auth,
    /// Bad input from the person.
    Input,
    /// Settings that cannot be used.
    Config,
    /// The folder is not trusted.
    Untrusted,
    /// The sandbox that was asked for cannot be had.
    Sandbox,
    /// The service refused or failed.
    Api,
    /// The model's stream was no valid answer (empty, blocked, cut).
    InvalidStream,
    /// The service blocked the prompt or the answer.
    Blocked,
    /// A quota is spent.
    Quota,
    /// A tool failed fatally (disk full).
    Tool,
    /// Hooks sent the agent back to work as often as they may.
    Continuations,
    /// Does not fit the context window.
    Overflow,
    /// A defect of ours.
    Internal,
}
