//! One policy engine for a session and its subagents: a rule that the user adds in one of them
//! applies to all.

use std::sync::{Arc, PoisonError, RwLock};

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, PolicyDecision, PolicyEngine, Query, SuggestedRule};

/// A policy engine and the rules that the user added in the session. Clones share both.
#[derive(Clone)]
pub struct SharedPolicyEngine {
    rules: Arc<RwLock<SessionRules>>,
}

struct SessionRules {
    /// Applies all rules.
    policy_engine: Arc<dyn PolicyEngine>,
    added: Vec<SuggestedRule>,
}

impl SharedPolicyEngine {
    /// Shares a policy engine.
    pub fn new(policy_engine: Arc<dyn PolicyEngine>) -> Self {
        let rules = SessionRules { policy_engine, added: Vec::new() };
        Self { rules: Arc::new(RwLock::new(rules)) }
    }

    /// Applies a rule to all future calls of the session.
    ///
    /// # Errors
    /// Returns why the rule cannot be applied.
    pub fn add_rule(&self, rule: &SuggestedRule) -> Result<(), String> {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        rules.policy_engine = rules.policy_engine.with_rule(rule)?;
        rules.added.push(rule.clone());
        Ok(())
    }

    /// Returns the rules that were added, in this order.
    pub fn added_rules(&self) -> Vec<SuggestedRule> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).added.clone()
    }

    fn current(&self) -> Arc<dyn PolicyEngine> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner).policy_engine)
    }
}

impl PolicyEngine for SharedPolicyEngine {
    fn evaluate(&self, query: &Query<'_>) -> PolicyDecision {
        self.current().evaluate(query)
    }

    fn is_tool_denied(
        &self,
        tool: &str,
        aliases: &[String],
        mode: ApprovalMode,
        interactive: bool,
    ) -> bool {
        self.current().is_tool_denied(tool, aliases, mode, interactive)
    }

    fn suggested_rules(&self, query: &Query<'_>, permissions: &Permissions) -> Vec<SuggestedRule> {
        self.current().suggested_rules(query, permissions)
    }

    fn no_rule_reason(&self, query: &Query<'_>, permissions: &Permissions) -> String {
        self.current().no_rule_reason(query, permissions)
    }

    // Shares nothing: a rule of one prompt must not outlive it.
    fn with_rule(&self, rule: &SuggestedRule) -> Result<Arc<dyn PolicyEngine>, String> {
        self.current().with_rule(rule)
    }
}
