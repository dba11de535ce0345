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
    /// Whether it is used when no model of the chain is known to be available.
    pub(crate) is_last_resort: bool,
    /// Maximum number of attempts of a request.
    pub(crate) max_attempts: Option<u32>,
    actions: FallbackActions,
    state_transitions: StateTransitions,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FallbackActions {
    terminal: FallbackAction,
    transient: FallbackAction,
    not_found: FallbackAction,
    /// Failures that no other model would fix; parsed because files contain it.
    #[serde(rename = "unknown")]
    _unknown: FallbackAction,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FallbackAction {
    #[default]
    Prompt,
    Silent,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct StateTransitions {
    transient: TransientState,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TransientState {
    #[default]
    Terminal,
    StickyRetry,
}

impl ChainEntry {
    /// Returns the causes for which a fallback needs no approval.
    pub(crate) fn auto_fallback(&self) -> AutoFallback {
        AutoFallback {
            capacity: self.actions.transient == FallbackAction::Silent,
            quota: self.actions.terminal == FallbackAction::Silent,
            not_found: self.actions.not_found == FallbackAction::Silent,
        }
    }

    /// Whether the next prompt tries the model once after it had no capacity.
    pub(crate) fn retries_next_prompt(&self) -> bool {
        self.state_transitions.transient == TransientState::StickyRetry
    }
}
