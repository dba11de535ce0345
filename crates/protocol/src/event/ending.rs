//! How requests and turns end.

use serde::{Deserialize, Serialize};

use crate::budget::ExhaustedBudget;
use crate::price::Cost;
use crate::usage::Usage;

/// The start of the notice that the journal of a session can no longer be written.
pub const NOT_SAVED: &str = "Saving this session stopped";

/// A model request that ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TurnEnded {
    /// Why the turn ended.
    pub reason: EndReason,
    /// How long the turn took, in milliseconds, excluding time spent waiting for the user.
    pub duration_ms: u64,
    /// Whether the prompt was removed from the conversation because no answer arrived; it can be
    /// sent again unchanged.
    pub is_removed: bool,
}

/// Why a turn ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    Budget(ExhaustedBudget),
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
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
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
