//! One policy engine for a session and its subagents: a rule that the user adds in one of them
//! applies to all.

use std::sync::{Arc, PoisonError, RwLock};

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Judge, Query, RuleDraft, Verdict};

#[derive(Clone)]
pub(crate) struct SharedPolicyEngine {
    judge: Arc<RwLock<Arc<dyn Judge>>>,
}

impl SharedPolicyEngine {
    pub(crate) fn new(judge: Arc<dyn Judge>) -> Self {
        Self { judge: Arc::new(RwLock::new(judge)) }
    }

    fn now(&self) -> Arc<dyn Judge> {
        Arc::clone(&self.judge.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Judge for SharedPolicyEngine {
    fn judge(&self, query: &Query<'_>) -> Verdict {
        self.now().judge(query)
    }

    fn hides(&self, tool: &str, aliases: &[String], mode: ApprovalMode, interactive: bool) -> bool {
        self.now().hides(tool, aliases, mode, interactive)
    }

    fn drafts(&self, query: &Query<'_>, permissions: &Permissions) -> Vec<RuleDraft> {
        self.now().drafts(query, permissions)
    }

    fn why_no_drafts(&self, query: &Query<'_>, permissions: &Permissions) -> String {
        self.now().why_no_drafts(query, permissions)
    }

    fn with_rule(&self, rule: &RuleDraft) -> Result<Arc<dyn Judge>, String> {
        let judge = self.now().with_rule(rule)?;
        *self.judge.write().unwrap_or_else(PoisonError::into_inner) = judge;
        Ok(Arc::new(self.clone()))
    }
}
