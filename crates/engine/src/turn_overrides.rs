//! Overrides for a single turn: model, tools, allowed calls, mode, time limit.

use std::sync::Arc;

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::op::TurnOverrides;
use parallax_protocol::policy::{Decision, Query, Verdict};

use crate::current_turn::CurrentTurn;
use crate::inbox::TurnInput;
use crate::session::Session;

impl Session {
    /// Applies the overrides of a prompt.
    pub(crate) fn apply_overrides(&mut self, beginning: &mut TurnInput) {
        self.current.overrides = match beginning {
            TurnInput::Prompt(prompt) => prompt.overrides.take().map(|overrides| *overrides),
            TurnInput::Continue | TurnInput::Rerun => None,
        };
        if self.current.restricts_tools() {
            self.client.declared = None;
        }
        if let Some(mode) = self.current.overrides.as_ref().and_then(|overrides| overrides.mode) {
            self.current.mode_before_override = Some(std::mem::replace(&mut self.inbox.mode, mode));
            self.inbox.emit_state();
        }
    }

    /// Removes the overrides at the end of the turn.
    pub(crate) fn clear_overrides(&mut self) {
        if self.current.restricts_tools() {
            self.client.declared = None;
        }
        let mode = self.current.overrides.take().and_then(|overrides| overrides.mode);
        if let Some(before) = self.current.mode_before_override.take()
            // A mode that was set meanwhile stays.
            && mode == Some(self.inbox.mode)
        {
            self.inbox.mode = before;
            self.inbox.emit_state();
        }
    }

    /// Applies the time limit of the prompt.
    pub(crate) fn apply_time_limit(&self) {
        if let Some(time) = self.current.overrides.as_ref().and_then(|overrides| overrides.timeout)
        {
            self.budget.ledger().limit_turn(time);
        }
    }

    /// Returns why the tool must not be called in this response.
    pub(crate) fn tool_exclusion(&self, name: &str) -> Option<String> {
        if name == COMPLETE_TASK {
            return None;
        }
        if self.is_excluded_by_hook(name) {
            return Some(format!("A hook excluded `{name}` from the tools of this response"));
        }
        (!self.is_tool_enabled(name))
            .then(|| format!("The command of this prompt does not enable `{name}`"))
    }

    /// Whether the prompt enables the tool, by any of its names. A pattern may end in `*`.
    pub(crate) fn is_tool_enabled(&self, name: &str) -> bool {
        let Some(wanted) =
            self.current.overrides.as_ref().and_then(|overrides| overrides.tools.as_ref())
        else {
            return true;
        };
        let matches = |name: &str| {
            wanted.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => pattern == name,
            })
        };
        match self.registry.get(name) {
            Some(tool) => {
                let spec = tool.spec();
                matches(&spec.name) || spec.aliases.iter().any(|alias| matches(alias))
            }
            None => matches(name),
        }
    }

    /// Returns the decision for a call that is not allowed, as if the user had said "always" to
    /// what the prompt allows.
    pub(crate) fn override_verdict(&self, query: &Query<'_>) -> Option<Verdict> {
        let overrides: &TurnOverrides = self.current.overrides.as_ref()?;
        let mut judge = Arc::clone(&self.approval.judge);
        for rule in &overrides.allowed {
            judge = judge.with_rule(rule).ok()?;
        }
        let verdict = (!overrides.allowed.is_empty()).then(|| judge.judge(query))?;
        (verdict.decision == Decision::Allow).then_some(verdict)
    }
}

impl CurrentTurn {
    pub(crate) fn restricts_tools(&self) -> bool {
        self.overrides.as_ref().is_some_and(|overrides| overrides.tools.is_some())
    }

    /// Returns the model that the prompt requests; returned once, because a model set later takes
    /// precedence.
    pub(crate) fn take_model_override(&mut self) -> Option<String> {
        self.overrides.as_mut().and_then(|overrides| overrides.model.take())
    }
}
