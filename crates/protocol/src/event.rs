//! What the engine reports. Every face is a fold over these events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;
use crate::ids::{AskId, CallId, ItemId, SessionId};
use crate::model::{Retry, Usage};
use crate::op::AskOutcome;
use crate::permissions::Permissions;
use crate::policy::{ApprovalMode, RuleDraft, Verdict};
use crate::tool::{Display, Preview, ToolErrorKind, ToolKind};

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
    /// A wait before another attempt.
    Retry(Retry),
    /// An undo is done.
    Undone(Undone),
    /// The mode or the model changed.
    StateChanged {
        /// The model set.
        model: String,
        /// The approval mode in force.
        mode: ApprovalMode,
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
    /// The call it is about.
    pub call: CallId,
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
    /// the widest; the first is meant unless the answer names another. Empty
    /// when no answer may hold for longer.
    pub rules: Vec<RuleDraft>,
    /// What would be given beyond the sandbox.
    pub permissions: Permissions,
    /// What the call may change that could not be undone, for people.
    pub not_undoable: Vec<String>,
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
    /// Anything else.
    Info,
}

/// What an undo did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Undone {
    /// The turn whose changes are taken back.
    pub turn: u64,
    /// Files that are as before.
    pub restored: Vec<std::path::PathBuf>,
    /// Files left alone, each with the reason.
    pub kept: Vec<(std::path::PathBuf, String)>,
    /// Why nothing was done, when that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
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
    /// From the first byte sent to the last received, in milliseconds.
    pub latency_ms: u64,
    /// The failure's class, if it failed.
    pub error: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Clone)]
pub struct TurnEnded {
    /// Why.
    pub reason: EndReason,
    /// How long the turn took, in milliseconds.
    pub duration_ms: u64,
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
    /// The loop guard stopped it.
    Loop {
        /// What repeated.
        detail: String,
    },
    /// A tool asked for the end.
    Stopped {
        /// Its reason.
        reason: String,
    },
    /// Something failed for good.
    Failed(Failure),
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
    /// Does not fit the context window.
    Overflow,
    /// A defect of ours.
    Internal,
}
