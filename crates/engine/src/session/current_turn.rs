//! The running turn: the overrides of its prompt, and conditions that end it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parallax_protocol::event::ExhaustedBudget;
use parallax_protocol::op::TurnOverrides;
use parallax_protocol::policy::ApprovalMode;

use crate::approvals::ApprovalState;
use crate::inbox::Inbox;
use crate::registry::Registry;

/// The running turn.
#[derive(Default)]
pub(crate) struct CurrentTurn {
    /// The model that its prompt requests, until it is used.
    pub(crate) requested_model: Option<String>,
    /// The mode that its prompt sets, and the one to return to.
    mode: Option<(ApprovalMode, ApprovalMode)>,
    /// The time limit that its prompt sets.
    time_limit: Option<Duration>,
    /// Whether its prompt was removed from the history.
    was_removed: bool,
    /// The time limit that ended it.
    timed_out: Arc<OnceLock<ExhaustedBudget>>,
}

impl CurrentTurn {
    /// Applies the overrides of a prompt: model, tools, allowed calls, mode, time limit.
    pub(crate) fn apply_overrides(
        &mut self,
        overrides: Option<TurnOverrides>,
        registry: &mut Registry,
        approvals: &mut ApprovalState,
        inbox: &mut Inbox,
    ) {
        let overrides = overrides.unwrap_or_default();
        registry.enable_only(overrides.tools);
        approvals.set_prompt_rules(overrides.allowed);
        self.requested_model = overrides.model;
        self.time_limit = overrides.timeout;
        if let Some(mode) = overrides.mode {
            self.mode = Some((mode, inbox.mode()));
            inbox.set_mode(mode);
        }
    }

    /// Removes the overrides at the end of the turn.
    pub(crate) fn clear_overrides(
        &mut self,
        registry: &mut Registry,
        approvals: &mut ApprovalState,
        inbox: &mut Inbox,
    ) {
        registry.enable_only(None);
        approvals.set_prompt_rules(Vec::new());
        self.requested_model = None;
        self.time_limit = None;
        if let Some((mode, before)) = self.mode.take()
            // A mode that was set meanwhile stays.
            && mode == inbox.mode()
        {
            inbox.set_mode(before);
        }
    }

    /// Returns the time limit that the prompt sets.
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.time_limit
    }

    /// Prepares for another timer. Returns the cell that it sets.
    pub(crate) fn reset_timer(&mut self) -> Arc<OnceLock<ExhaustedBudget>> {
        self.timed_out = Arc::default();
        Arc::clone(&self.timed_out)
    }

    /// Returns the time limit that ended the turn.
    pub(crate) fn timed_out(&self) -> Option<ExhaustedBudget> {
        self.timed_out.get().copied()
    }

    /// Records that the prompt was removed from the history.
    pub(crate) fn mark_removed(&mut self) {
        self.was_removed = true;
    }

    /// Whether the prompt was removed from the history.
    pub(crate) fn is_removed(&self) -> bool {
        self.was_removed
    }

    /// Ends the turn. Returns whether its prompt was removed from the history.
    pub(crate) fn end(&mut self) -> bool {
        std::mem::take(&mut self.was_removed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parallax_protocol::policy::Decision;

    use super::*;
    use crate::test_parts::{approvals, inbox};

    #[tokio::test]
    async fn mode_of_a_prompt_ends_with_it_unless_the_user_changed_it() {
        let mut registry = Registry::new(Vec::new(), None);
        let (mut approvals, mut inbox) = (approvals(Decision::Ask, true), inbox("auto"));
        let mut current = CurrentTurn::default();
        let overrides =
            || Some(TurnOverrides { mode: Some(ApprovalMode::Plan), ..TurnOverrides::default() });
        current.apply_overrides(overrides(), &mut registry, &mut approvals, &mut inbox);
        assert_eq!(inbox.mode(), ApprovalMode::Plan);
        current.clear_overrides(&mut registry, &mut approvals, &mut inbox);
        assert_eq!(inbox.mode(), ApprovalMode::Default);
        current.apply_overrides(overrides(), &mut registry, &mut approvals, &mut inbox);
        inbox.set_mode(ApprovalMode::AutoEdit);
        current.clear_overrides(&mut registry, &mut approvals, &mut inbox);
        assert_eq!(inbox.mode(), ApprovalMode::AutoEdit);
    }

    #[test]
    fn each_timer_sets_its_own_flag() {
        let mut current = CurrentTurn::default();
        let (first, second) = (current.reset_timer(), current.reset_timer());
        assert!(!Arc::ptr_eq(&first, &second) && current.timed_out().is_none());
        current.mark_removed();
        assert!(current.is_removed() && current.end() && !current.end());
    }
}
