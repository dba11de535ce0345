//! The state of the running turn: the overrides of its prompt, and conditions that end it.

use std::sync::{Arc, OnceLock};

use parallax_protocol::event::BudgetSpent;
use parallax_protocol::op::TurnOverrides;
use parallax_protocol::policy::ApprovalMode;

/// The running turn.
pub(crate) struct CurrentTurn {
    /// The overrides of its prompt.
    pub(crate) overrides: Option<TurnOverrides>,
    /// The mode to return to after a prompt that overrides it.
    pub(crate) mode_before_override: Option<ApprovalMode>,
    /// Whether its prompt was removed from the history.
    pub(crate) taken_back: bool,
    /// The time limit that ended it.
    pub(crate) timed_out: Arc<OnceLock<BudgetSpent>>,
    /// Whether calls are run again after a restore.
    pub(crate) is_rerun: bool,
    /// Whether its prompt runs in coordinator mode.
    pub(crate) is_coordinator: bool,
    /// Whether loop detection is enabled.
    pub(crate) loop_detection: bool,
}

impl CurrentTurn {
    /// Creates the state without a running turn.
    pub(crate) fn new(loop_detection: bool) -> Self {
        Self {
            overrides: None,
            mode_before_override: None,
            taken_back: false,
            timed_out: Arc::default(),
            is_rerun: false,
            is_coordinator: false,
            loop_detection,
        }
    }
}
