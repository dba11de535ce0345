//! Events that the engine emits. Every front end derives its state from them alone.

mod approval;
mod change;
mod compaction;
mod ending;
mod item;
#[cfg(test)]
mod round_trip_tests;

use serde::{Deserialize, Serialize};

use crate::agent_progress::AgentProgress;
use crate::approval_mode::ApprovalMode;
use crate::approval_response::ApprovalResponse;
use crate::context::ContextBreakdown;
use crate::ids::{ApprovalId, ItemId, SessionId};
use crate::image::Image;
use crate::model::{Citation, Retry};
use crate::process::{BackgroundProcess, Screen};
use crate::routing::{Fallback, Route};
use crate::tool::ProgressUpdate;
use std::sync::Arc;

pub use self::approval::{ApprovalRequest, Question};
pub use self::change::{PromptEntry, RewindResult, SteeringOutcome, SteeringResult, UndoResult};
pub use self::compaction::{
    Compaction, CompactionCause, CompactionMethod, ContextUsed, NOTHING_TO_COMPRESS, TRUNCATED,
};
pub use self::ending::{EndReason, Failure, FailureKind, ModelCall, NOT_SAVED, TurnEnded};
pub use self::item::{
    CallPhase, CallState, ItemDone, ItemStart, ShellDone, ShellStart, ToolDone, ToolStart,
};
pub use crate::budget::{BudgetKind, BudgetScope, ExhaustedBudget};
pub use crate::call_status::{CallDecision, ToolStatus};
pub use crate::notice_level::Level;

/// One event of a session. `seq` increases by one per event; `turn` counts prompts from 1 and is 0
/// before the first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// The sequence number.
    pub seq: u64,
    /// The turn that the event belongs to.
    pub turn: u64,
    /// The payload.
    pub body: EventBody,
}

/// The payload of an [`Event`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
        advance: ProgressUpdate,
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
    ApprovalRequested(Box<ApprovalRequest>),
    /// An approval request was answered or withdrawn.
    ApprovalClosed {
        /// The approval request.
        ask: ApprovalId,
        /// The response; `None` if the turn was interrupted.
        outcome: Option<ApprovalResponse>,
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
    SteerEnded(SteeringResult),
    /// An undo finished.
    Undone(UndoResult),
    /// The session was rewound to an earlier prompt.
    Rewound(RewindResult),
    /// The session was restored to the state before an earlier file change.
    Restored(UndoResult),
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
        /// The approval mode in effect.
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionReady {
    /// The session id.
    pub session: SessionId,
    /// The configured model; may be an alias.
    pub model: String,
    /// The approval mode in effect.
    pub mode: ApprovalMode,
    /// Whether contents of an earlier session were loaded.
    pub resumed: bool,
    /// Whether model responses are scripted or replayed.
    pub scripted: bool,
}
