//! What a session knows about its role as a subagent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parallax_protocol::CancellationToken;
use parallax_protocol::agent::AgentResult;

/// The role of a subagent's session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AgentRole {
    /// The agent's name.
    pub(crate) name: Arc<str>,
    /// Receives the result; then the subagent is done.
    pub(crate) result: AgentResult,
    /// Cancels the subagent and everything it started.
    pub(crate) cancel: CancellationToken,
    is_final_turn: Arc<AtomicBool>,
}

impl AgentRole {
    pub(crate) fn new(name: &str, result: AgentResult, cancel: CancellationToken) -> Self {
        Self { name: name.into(), result, cancel, is_final_turn: Arc::default() }
    }

    /// Allows one more request, whose only accepted call is `complete_task`.
    pub(crate) fn allow_final_turn(&self) {
        self.is_final_turn.store(true, Ordering::Relaxed);
    }

    /// Whether only the result is accepted.
    pub(crate) fn is_final_turn(&self) -> bool {
        self.is_final_turn.load(Ordering::Relaxed)
    }
}
