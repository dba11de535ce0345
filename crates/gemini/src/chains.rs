//! `modelConfigs.modelChains` of the settings: which model stands in for which,
//! and whether somebody is asked before.

use parallax_protocol::routing::Unasked;
use serde::Deserialize;

/// A model of a chain, and what is done when it cannot answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ChainEntry {
    /// A model, or a name that stands for one.
    pub(crate) model: String,
    /// It is asked when no model of the chain is known to answer.
    pub(crate) is_last_resort: bool,
    /// The most attempts of a request.
    pub(crate) max_attempts: Option<u32>,
    actions: Actions,
    state_transitions: Transitions,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Actions {
    terminal: Action,
    transient: Action,
    not_found: Action,
    /// Causes that no other model would mend: read, since files have it.
    #[serde(rename = "unknown")]
    _unknown: Action,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    Prompt,
    Silent,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Transitions {
    transient: Next,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Next {
    #[default]
    Terminal,
    StickyRetry,
}

impl ChainEntry {
    /// When another model may stand in for it without a question.
    pub(crate) fn unasked(&self) -> Unasked {
        Unasked {
            capacity: self.actions.transient == Action::Silent,
            quota: self.actions.terminal == Action::Silent,
            not_found: self.actions.not_found == Action::Silent,
        }
    }

    /// Whether the next prompt tries it once when it had no capacity.
    pub(crate) fn tries_again(&self) -> bool {
        self.state_transitions.transient == Next::StickyRetry
    }
}
