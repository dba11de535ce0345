//! `modelConfigs.modelChains` of the settings: fallback chains, and whether the user is asked
//! first.

use parallax_protocol::routing::AutoFallback;
use serde::Deserialize;

/// A model of a chain, and what happens when it is unavailable.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ChainEntry {
    /// A model or an alias.
    pub(crate) model: String,
    /// It is used when no model of the chain is known to be available.
    pub(crate) is_last_resort: bool,
    /// Maximum number of attempts of a request.
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
    /// Failures that no other model would fix; parsed because files contain it.
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
    /// For which causes a fallback needs no approval.
    pub(crate) fn auto_fallback(&self) -> AutoFallback {
        AutoFallback {
            capacity: self.actions.transient == Action::Silent,
            quota: self.actions.terminal == Action::Silent,
            not_found: self.actions.not_found == Action::Silent,
        }
    }

    /// Whether the next prompt tries the model once after it had no capacity.
    pub(crate) fn retries_next_prompt(&self) -> bool {
        self.state_transitions.transient == Next::StickyRetry
    }
}
