//! Events that the engine emits. Every front end derives its state from them alone.

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

/// One event of a session. `seq` increases by one per event; `turn` counts prompts from 1 and is 0
/// before the first.
#[derive(Debug, Clone)]
pub struct Event {
    /// The sequence number.
    pub seq: u64,
    /// The turn that the event belongs to.
    pub turn: u64,
    /// The payload.
    pub body: EventBody,
}

/// The payload of an [`Event`].
#[derive(Debug, Clone)]
pub enum EventBody {
    /// The session accepts prompts.
    SessionReady(SessionReady),
    /// A turn started.
    TurnStarted {
        /// The prompt as the user typed it.
        prompt: String,
    },
    /// A visible item started. Items may overlap (tool calls, live output).
    ItemStarted {
        /// The id of the item in all later events.
        item: ItemId,
        /// The kind of the item.
        start: ItemStart,
    },
    /// Text was appended to an item. Deltas of one item may be merged for a slow reader.
    ItemDelta {
        /// The item.
        item: ItemId,
        /// The appended text.
        text: String,
    },
    /// The current terminal screen of a running command, emitted at most ten times per second. If
    /// an item has screens, they contain more than its deltas. A slow reader receives only the
    /// newest screen.
    ItemScreen {
        /// The item.
        item: ItemId,
        /// The contents of the terminal.
        screen: Arc<Screen>,
    },
    /// Progress of a tool call as reported by its server, emitted at most ten times per second. A
    /// slow reader receives only the newest report.
    ItemAdvanced {
        /// The item.
        item: ItemId,
        /// The progress.
        advance: Advance,
    },
    /// Progress of a subagent. A slow reader receives only the newest report.
    Agent {
        /// The item of the tool call that started the subagent.
        item: ItemId,
        /// The progress.
        progress: Arc<AgentProgress>,
    },
    /// The phase of a tool call changed. Before the first such event, the call waits for other
    /// calls.
    CallState(Box<CallState>),
    /// An item is complete. The event is self-contained.
    ItemDone {
        /// The item.
        item: ItemId,
        /// The final state of the item.
        done: ItemDone,
    },
    /// A user decision is required.
    Ask(Box<Ask>),
    /// An approval request was answered or withdrawn.
    AskClosed {
        /// The approval request.
        ask: AskId,
        /// The response; `None` if the turn was interrupted.
        outcome: Option<AskOutcome>,
    },
    /// A model request ended, successfully or not. Includes utility requests.
    ModelCall(ModelCall),
    /// The sources of the preceding answer, without duplicates.
    Sources(Vec<Citation>),
    /// An image, placed after the item it belongs to: a prompt, a tool call, or an answer.
    Image(Image),
    /// The context usage.
    ContextUsed(ContextUsed),
    /// What fills the context window, emitted on request.
    ContextBreakdown(Box<ContextBreakdown>),
    /// The history was compacted, could not be compacted, or was restored.
    Compaction(Compaction),
    /// The model for the turn was chosen.
    Routed(Box<Route>),
    /// A fallback model replaced an unavailable one.
    FellBack(Box<Fallback>),
    /// The engine waits before it retries a request.
    Retry(Retry),
    /// Hooks are running, or have finished.
    HooksRun {
        /// The names of the hooks; empty when they have finished.
        names: Vec<String>,
    },
    /// The result of a steering message.
    SteerEnded(SteerEnded),
    /// An undo finished.
    Undone(Undone),
    /// The session was rewound to an earlier prompt.
    Rewound(Rewound),
    /// The session was restored to the state before an earlier file change.
    Restored(Undone),
    /// The prompts that the session can be rewound to, oldest first.
    Prompts {
        /// The prompts and their changes.
        prompts: Vec<PromptEntry>,
    },
    /// The background processes, oldest first.
    Background {
        /// Running processes, and the last ones that ended.
        processes: Vec<BackgroundProcess>,
    },
    /// The approval mode or the model changed.
    StateChanged {
        /// The configured model.
        model: String,
        /// The approval mode in force.
        mode: ApprovalMode,
    },
    /// There was no turn to continue. A notice with the same information follows or precedes.
    NotContinued,
    /// Information for the user that is not part of the result: it goes to standard error in every
    /// output format.
    Aside {
        /// One line of text.
        text: String,
    },
    /// The turn ended and everything is saved.
    TurnEnded(TurnEnded),
}

/// Properties of a session that is ready.
#[derive(Debug, Clone)]
pub struct SessionReady {
    /// The session id.
    pub session: SessionId,
    /// The configured model; may be an alias.
    pub model: String,
    /// The approval mode in force.
    pub mode: ApprovalMode,
    /// Whether contents of an earlier session were loaded.
    pub resumed: bool,
    /// Whether model responses are scripted or replayed.
    pub scripted: bool,
}

/// The kind of an item that starts.
#[derive(Debug, Clone)]
pub enum ItemStart {
    /// A message of the user.
    User {
        /// The text as typed.
        text: String,
    },
    /// An answer of the model.
    Text,
    /// A thought summary.
    Thought,
    /// A function call of the model. All calls of one answer start before any of them runs.
    Tool(ToolStart),
    /// A shell command that the user entered.
    Shell(ShellStart),
}

/// A shell command of the user that starts.
#[derive(Debug, Clone)]
pub struct ShellStart {
    /// The command line.
    pub command: String,
    /// Whether it runs in the background.
    pub background: bool,
}

/// The phase of a tool call, with its title and kind.
#[derive(Debug, Clone)]
pub struct CallState {
    /// The item of the call.
    pub item: ItemId,
    /// The tool call.
    pub call: CallId,
    /// The phase.
    pub phase: CallPhase,
    /// What the call will do, in one line; known once the arguments are checked.
    pub title: Option<String>,
    /// The tool kind; `None` for an unknown tool.
    pub kind: Option<ToolKind>,
}

/// The phase of a tool call. A call may enter a phase more than once (after its arguments changed,
/// or when it is rerun with more permissions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallPhase {
    /// The arguments and the policy are being checked.
    Validating,
    /// The call waits for an approval response ([`Ask::call`]).
    AwaitingApproval,
    /// The call is running.
    Executing,
}

/// A function call that starts.
#[derive(Debug, Clone)]
pub struct ToolStart {
    /// The tool call.
    pub call: CallId,
    /// The index among the calls of the answer, from 0.
    pub index: usize,
    /// The tool name that the model used.
    pub name: String,
    /// The arguments as the model wrote them.
    pub args: Object,
}

/// The final state of an item.
#[derive(Debug, Clone)]
pub enum ItemDone {
    /// A message of the user.
    User,
    /// An answer of the model.
    Text {
        /// The complete text. Shared, because an answer may be large.
        text: Arc<String>,
        /// Whether the attempt failed. Front ends remove the text; a retry sends it again.
        dropped: bool,
    },
    /// A thought summary.
    Thought {
        /// The complete text. The first bold span is the subject.
        text: String,
    },
    /// A tool call.
    Tool(Box<ToolDone>),
    /// A shell command of the user.
    Shell(Box<ShellDone>),
    /// A message for the user.
    Notice {
        /// The severity.
        level: Level,
        /// One line of text.
        text: String,
    },
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The call succeeded.
    Success,
    /// The call failed or was denied.
    Error,
    /// The call was interrupted or rejected by the user.
    Cancelled,
}

/// How a tool call was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallDecision {
    /// A rule or the user approved the call.
    Accept,
    /// The user or a rule rejected the call.
    Reject,
    /// The user approved this call and similar ones.
    AutoAccept,
}

/// A finished tool call.
#[derive(Debug, Clone)]
pub struct ToolDone {
    /// The tool call.
    pub call: CallId,
    /// The index among the calls of the answer.
    pub index: usize,
    /// The tool name that the model used.
    pub name: String,
    /// The tool kind; `None` for an unknown tool.
    pub kind: Option<ToolKind>,
    /// What the call did, in one line.
    pub title: String,
    /// The status.
    pub status: ToolStatus,
    /// How the call was decided; `None` if no decision was made.
    pub decision: Option<CallDecision>,
    /// The policy decision and the rule behind it, if the policy was evaluated.
    pub verdict: Option<Verdict>,
    /// What the user sees.
    pub display: Option<Display>,
    /// The error kind and message.
    pub error: Option<(ToolErrorKind, String)>,
    /// The text for the model: `response.output` or `response.error`.
    pub for_model: String,
    /// Structured data for machine-readable output.
    pub data: Option<Value>,
    /// How long the call ran, in milliseconds.
    pub duration_ms: u64,
}

/// A shell command of the user that ended or moved to the background.
#[derive(Debug, Clone)]
pub struct ShellDone {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub ending: ShellEnding,
    /// The end of the output with its colors, limited in size.
    pub output: String,
    /// The final working directory of the shell if it differs from the first, so that users learn
    /// that the next command starts in the project directory again.
    pub directory: Option<std::path::PathBuf>,
    /// How long the command ran, in milliseconds.
    pub duration_ms: u64,
}

/// The severity of a notice.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Information.
    Info,
    /// Something did not work as requested, but the run continues.
    Warning,
    /// Something failed.
    Error,
}

/// A request for a user decision, usually whether a tool call may run.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The request id.
    pub id: AskId,
    /// The tool call; for a request of a subagent, the call that started the subagent.
    pub call: CallId,
    /// The subagent that made the call.
    pub agent: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The tool kind.
    pub kind: ToolKind,
    /// What the call will do, in one line.
    pub title: String,
    /// The preview to show.
    pub preview: Option<Preview>,
    /// Why approval is required, and by which rule.
    pub verdict: Verdict,
    /// The possible responses.
    pub outcomes: Vec<AskOutcome>,
    /// The kind of the request.
    pub question: Question,
    /// Suggested rules that would make this request unnecessary in the future, from the narrowest
    /// to the broadest. A response that names none selects the suggested one, otherwise the first.
    /// Empty if no response may apply beyond this call.
    pub rules: Vec<RuleDraft>,
    /// Why there are no rules, for the user; `None` where none are expected.
    pub no_rule: Option<String>,
    /// The permissions beyond the sandbox that approval grants.
    pub permissions: Permissions,
    /// Broader permissions that can be granted instead, for a command that does more around the
    /// named files than write them: the directories that contain them. Empty if there is nothing
    /// broader to offer.
    pub wider: Permissions,
    /// Changes of the call that could not be undone, for the user.
    pub not_undoable: Vec<String>,
}

impl Ask {
    /// Creates a request about the session itself: no tool call waits for it, and no rule can
    /// answer it.
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

/// The kind of an approval request. The serialized names match those of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// A file change.
    Edit,
    /// A shell command.
    Exec,
    /// A tool of an MCP server.
    Mcp,
    /// A command to which the sandbox denied access.
    SandboxExpansion,
    /// A plan, and the approval mode for carrying it out.
    ExitPlanMode,
    /// An unavailable model, and a fallback model. Not about a tool call.
    Fallback,
    /// A detected loop, and whether to continue with loop detection off for the rest of the
    /// session. Not about a tool call.
    Loop,
    /// A spent budget ([`Preview::Budget`]), and whether to increase it. Not about a tool call.
    Budget,
    /// Questions of the model ([`Preview::Questions`]). Proceeding supplies the answers; cancelling
    /// means that there are none.
    AskUser,
    /// Anything else.
    Info,
}

/// The result of an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Undone {
    /// The turn whose changes were reverted ([`crate::store::PromptMark::turn`]).
    #[serde(skip)]
    pub turn: u64,
    /// The number of its prompt, from 1; `None` if the prompt was removed or is unknown.
    #[serde(rename = "turn", default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Files that were reverted.
    #[serde(with = "crate::path_text::list")]
    #[schemars(with = "Vec<std::path::PathBuf>")]
    pub restored: Vec<std::path::PathBuf>,
    /// Files that were left unchanged, each with the reason.
    #[serde(serialize_with = "crate::path_text::remarks::serialize")]
    #[schemars(with = "Vec<(std::path::PathBuf, String)>")]
    pub kept: Vec<(std::path::PathBuf, String)>,
    /// Whether forcing the undo would revert some of these files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force_helps: bool,
    /// Why nothing was done, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The result of a [`crate::op::Steer`].
#[derive(Debug, Clone)]
pub struct SteerEnded {
    /// The id of the message.
    pub id: SteerId,
    /// The text of the message; empty if no message with this id was waiting.
    pub text: String,
    /// What happened to the message.
    pub fate: SteerFate,
}

/// What happened to a steering message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SteerFate {
    /// The model receives it with its next request. Its item follows immediately.
    Delivered,
    /// No turn could take it, so it became a prompt, whose turn starts immediately after.
    Prompted,
    /// It was withdrawn.
    Withdrawn,
    /// No message with this id was waiting: the request to withdraw it came too late.
    Gone,
}

/// The result of a rewind to an earlier prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewound {
    /// The number of the prompt that the session is now before, from 1.
    pub number: u64,
    /// The text of that prompt, for the prompt editor.
    pub prompt: String,
    /// Whether the conversation was rewound.
    pub chat: bool,
    /// The result for the files, if they were to be reverted.
    pub files: Option<Undone>,
}

/// A prompt that the session can be rewound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptEntry {
    /// The turn, which identifies the prompt in a rewind request
    /// ([`crate::store::PromptMark::turn`]).
    pub turn: u64,
    /// The number for display: the position among the current prompts, from 1.
    pub number: u64,
    /// When it was sent, RFC 3339; empty if unknown.
    pub time: String,
    /// The text as typed.
    pub text: String,
    /// Lines added by edits of its turn.
    pub lines_added: u64,
    /// Lines removed by edits of its turn.
    pub lines_removed: u64,
    /// Files that its turn changed, including by commands, and that can be reverted.
    pub files: Vec<std::path::PathBuf>,
}

/// The context usage of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextUsed {
    /// Tokens of the next request: the last count of the service plus an estimate of what was added
    /// since.
    pub tokens: u64,
    /// The context window, in tokens.
    pub window: u64,
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Compaction {
    /// What triggered it.
    pub cause: CompactionCause,
    /// How the history was shortened; `None` if it is unchanged.
    pub how: Option<CompactionHow>,
    /// Estimated tokens of the next request before the compaction.
    pub before: u64,
    /// Estimated tokens of the next request after the compaction.
    pub after: u64,
    /// Why the history is not (much) shorter, or other information for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// The first words of the remark when a compaction found nothing to shorten. Programs wait for
/// these words on the screen.
pub const NOTHING_TO_COMPRESS: &str = "Nothing to compress.";

/// The notice about an answer that the model's output limit cut off.
pub const TRUNCATED: &str = "The response was truncated at the model's output limit (`MAX_TOKENS`)";

/// What triggered a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The user.
    Manual,
    /// A threshold was reached.
    Threshold,
    /// The next request would exceed the context window, or the service rejected it as too long.
    Overflow,
    /// The user undid a compaction.
    Undo,
}

/// How a history was shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionHow {
    /// Old tool results were shortened; no messages were removed.
    Results,
    /// The model summarized the older part.
    Snapshot,
    /// Parallax summarized the older part without the model, because the model request failed.
    Mechanical,
}

/// A model request that ended.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// The model that answered or was requested.
    pub model: String,
    /// The purpose of the request (`main`, `web_search`, …).
    pub role: String,
    /// Token counts.
    pub usage: Usage,
    /// The cost; `None` if the price of the model is unknown.
    pub cost: Option<Cost>,
    /// Time from the first byte sent to the last byte received, in milliseconds.
    pub latency_ms: u64,
    /// The size of contents, system prompt, and tools, in bytes of JSON.
    pub request_bytes: u64,
    /// The failure class, if the request failed.
    pub error: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Clone)]
pub struct TurnEnded {
    /// Why the turn ended.
    pub reason: EndReason,
    /// How long the turn took, in milliseconds, excluding time spent waiting for the user.
    pub duration_ms: u64,
    /// Whether the prompt was removed from the conversation because no answer arrived; it can be
    /// sent again unchanged.
    pub taken_back: bool,
}

/// Why a turn ended.
#[derive(Debug, Clone)]
pub enum EndReason {
    /// The model finished its final answer.
    Done,
    /// The turn was interrupted.
    Cancelled,
    /// The limit on model requests was reached.
    MaxTurns {
        /// The limit.
        limit: u32,
    },
    /// A budget was spent. Completed work is kept.
    Budget(BudgetSpent),
    /// Loop detection stopped the turn.
    Loop {
        /// What repeated.
        detail: String,
    },
    /// A tool or a hook ended the turn.
    Stopped {
        /// Its reason.
        reason: String,
        /// Whether a hook blocked the prompt, the request, or the answer.
        blocked: bool,
    },
    /// A failure that cannot be retried.
    Failed(Failure),
}

impl EndReason {
    /// Returns the name used in the journal and in telemetry.
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
    /// The failure class, which determines the exit code.
    pub kind: FailureKind,
    /// What happened, to which thing, and what to do.
    pub message: String,
    /// The service's HTTP status, if there was one.
    pub status: Option<u16>,
}

impl Failure {
    /// Creates a failure that has no HTTP status.
    pub fn new(kind: FailureKind, message: String) -> Self {
        Self { kind, message, status: None }
    }
}

/// Failure classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Missing or wrong credentials.
    Auth,
    /// Invalid input from the user.
    Input,
    /// Invalid settings.
    Config,
    /// The directory is not trusted.
    Untrusted,
    /// The requested sandbox is unavailable.
    Sandbox,
    /// The service refused or failed.
    Api,
    /// The response stream was not a valid answer (empty, blocked, or cut off).
    InvalidStream,
    /// The service blocked the prompt or the answer.
    Blocked,
    /// A quota is exhausted.
    Quota,
    /// A tool failed fatally (disk full).
    Tool,
    /// Hooks reached the limit of times that they may make the agent continue.
    Continuations,
    /// The request exceeds the context window.
    Overflow,
    /// A bug in Parallax.
    Internal,
}
