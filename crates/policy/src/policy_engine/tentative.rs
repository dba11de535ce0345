//! An intermediate decision.

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::Decision;

/// An intermediate decision that further checks can tighten.
pub(crate) struct TentativeDecision {
    pub(crate) decision: Decision,
    pub(crate) rule: String,
    pub(crate) reason: String,
    /// What would allow the call, if not the usual flag.
    pub(crate) needed_to_allow: Option<String>,
    /// Permissions that rules grant beyond the sandbox; `None` if no rule was consulted for them.
    pub(crate) grants: Option<Permissions>,
    pub(crate) always_ask: bool,
    /// Whether a rule of the user or a built-in rule allowed redirections.
    pub(super) may_redirect: bool,
    /// Whether the rule restricted the paths it applies to.
    pub(super) names_paths: bool,
}

impl TentativeDecision {
    pub(super) fn new(
        decision: Decision,
        rule: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            decision,
            rule: rule.into(),
            reason: reason.into(),
            needed_to_allow: None,
            grants: None,
            always_ask: false,
            may_redirect: false,
            names_paths: false,
        }
    }

    /// Turns allow into ask. If the decision already asks, a more serious reason comes first.
    pub(super) fn raise_to_ask(&mut self, rule: &str, reason: &str, always_ask: bool, needs: &str) {
        match self.decision {
            Decision::Allow => {
                self.decision = Decision::Ask;
                self.rule = format!("{rule} (built in)");
                reason.clone_into(&mut self.reason);
            }
            Decision::Ask if always_ask && !self.always_ask => {
                self.reason = format!("{reason}. {}", self.reason);
            }
            Decision::Ask | Decision::Deny => {}
        }
        if self.decision == Decision::Ask {
            self.always_ask |= always_ask;
            self.needed_to_allow.get_or_insert_with(|| needs.to_owned());
        }
    }
}
