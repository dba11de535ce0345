//! What a session must know when it is a sub-agent's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parallax_protocol::CancellationToken;
use parallax_protocol::agent::AgentResult;

/// The part that a session plays as a sub-agent. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AgentRole {
    /// The agent.
    pub(crate) name: Arc<str>,
    /// Where its result is put: then its work is done.
    pub(crate) result: AgentResult,
    /// Ends it with all that it started.
    pub(crate) cancel: CancellationToken,
    last_chance: Arc<AtomicBool>,
}

impl AgentRole {
    pub(crate) fn new(name: &str, result: AgentResult, cancel: CancellationToken) -> Self {
        Self { name: name.into(), result, cancel, last_chance: Arc::default() }
    }

    /// From now on only one request is made, and only the result is taken.
    pub(crate) fn give_last_chance(&self) {
        self.last_chance.store(true, Ordering::Relaxed);
    }

    /// Whether only the result is taken.
    pub(crate) fn has_last_chance(&self) -> bool {
        self.last_chance.load(Ordering::Relaxed)
    }
}
