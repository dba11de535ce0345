//! What a prompt wants for its own turn: another model, fewer tools, calls that
//! need no leave, another mode, a time. It ends with the turn.

use std::sync::Arc;

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::op::PromptWishes;
use parallax_protocol::policy::{Decision, Query, Verdict};

use crate::inbox::Beginning;
use crate::session::Session;

impl Session {
    /// A turn begins: its prompt's wishes hold.
    pub(crate) fn begin_wishes(&mut self, beginning: &mut Beginning) {
        self.wishes = match beginning {
            Beginning::Prompt(prompt) => prompt.wishes.take().map(|wishes| *wishes),
            Beginning::CutOff | Beginning::Restored => None,
        };
        if self.limits_tools() {
            self.declared = None;
        }
        if let Some(mode) = self.wishes.as_ref().and_then(|wishes| wishes.mode) {
            self.mode_before = Some(std::mem::replace(&mut self.inbox.mode, mode));
            self.inbox.tell_state();
        }
    }

    /// It is over.
    pub(crate) fn end_wishes(&mut self) {
        if self.limits_tools() {
            self.declared = None;
        }
        let wished = self.wishes.take().and_then(|wishes| wishes.mode);
        if let Some(before) = self.mode_before.take()
            // What somebody set meanwhile counts.
            && wished == Some(self.inbox.mode)
        {
            self.inbox.mode = before;
            self.inbox.tell_state();
        }
    }

    /// How long the prompt may take, by its own wish.
    pub(crate) fn hold_to_wished_time(&self) {
        if let Some(time) = self.wishes.as_ref().and_then(|wishes| wishes.timeout) {
            self.budget.ledger().hold_to(time);
        }
    }

    fn limits_tools(&self) -> bool {
        self.wishes.as_ref().is_some_and(|wishes| wishes.tools.is_some())
    }

    /// The model that the prompt wants; asked for once, since what a person sets
    /// afterwards counts.
    pub(crate) fn wished_model(&mut self) -> Option<String> {
        self.wishes.as_mut().and_then(|wishes| wishes.model.take())
    }

    /// Why the tool must not be called in this answer.
    pub(crate) fn left_out(&self, name: &str) -> Option<String> {
        if name == COMPLETE_TASK {
            return None;
        }
        if self.is_unchosen(name) {
            return Some(format!("a hook leaves `{name}` out of this answer's tools"));
        }
        (!self.is_wished(name))
            .then(|| format!("the command of this prompt leaves `{name}` out of its tools"))
    }

    /// Whether the prompt wants the tool, by any of its names. An ending may be `*`.
    pub(crate) fn is_wished(&self, name: &str) -> bool {
        let Some(wanted) = self.wishes.as_ref().and_then(|wishes| wishes.tools.as_ref()) else {
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

    /// The verdict on a call that is not let through, as it would be had somebody
    /// said "always" to what the prompt lets through.
    pub(crate) fn wished_verdict(&self, query: &Query<'_>) -> Option<Verdict> {
        let wishes: &PromptWishes = self.wishes.as_ref()?;
        let mut judge = Arc::clone(&self.judge);
        for rule in &wishes.allowed {
            judge = judge.with_rule(rule).ok()?;
        }
        let verdict = (!wishes.allowed.is_empty()).then(|| judge.judge(query))?;
        (verdict.decision == Decision::Allow).then_some(verdict)
    }
}
