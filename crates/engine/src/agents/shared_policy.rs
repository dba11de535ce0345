//! One policy engine for a session and its subagents: a rule that the user adds in one of them
//! applies to all.

use std::sync::{Arc, PoisonError, RwLock};

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, PolicyDecision, PolicyEngine, Query, SuggestedRule};

#[derive(Clone)]
pub(crate) struct SharedPolicyEngine {
    policy_engine: Arc<RwLock<Arc<dyn PolicyEngine>>>,
}

impl SharedPolicyEngine {
    pub(crate) fn new(policy_engine: Arc<dyn PolicyEngine>) -> Self {
        Self { policy_engine: Arc::new(RwLock::new(policy_engine)) }
    }

    fn now(&self) -> Arc<dyn PolicyEngine> {
        Arc::clone(&self.policy_engine.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PolicyEngine for SharedPolicyEngine {
    fn evaluate(&self, query: &Query<'_>) -> PolicyDecision {
        self.now().evaluate(query)
    }

    fn is_tool_denied(
        &self,
        tool: &str,
        aliases: &[String],
        mode: ApprovalMode,
        interactive: bool,
    ) -> bool {
        self.now().is_tool_denied(tool, aliases, mode, interactive)
    }

    fn suggested_rules(&self, query: &Query<'_>, permissions: &Permissions) -> Vec<SuggestedRule> {
        self.now().suggested_rules(query, permissions)
    }

    fn no_rule_reason(&self, query: &Query<'_>, permissions: &Permissions) -> String {
        self.now().no_rule_reason(query, permissions)
    }

    fn with_rule(&self, rule: &SuggestedRule) -> Result<Arc<dyn PolicyEngine>, String> {
        let policy_engine = self.now().with_rule(rule)?;
        *self.policy_engine.write().unwrap_or_else(PoisonError::into_inner) = policy_engine;
        Ok(Arc::new(self.clone()))
    }
}
