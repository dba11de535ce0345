//! One judge for a session and its sub-agents: a rule that a person agrees to
//! in one of them holds in all.

use std::sync::{Arc, PoisonError, RwLock};

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Judge, Query, RuleDraft, Verdict};

#[derive(Clone)]
pub(crate) struct SharedJudge {
    judge: Arc<RwLock<Arc<dyn Judge>>>,
}

impl SharedJudge {
    pub(crate) fn new(judge: Arc<dyn Judge>) -> Self {
        Self { judge: Arc::new(RwLock::new(judge)) }
    }

    fn now(&self) -> Arc<dyn Judge> {
        Arc::clone(&self.judge.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Judge for SharedJudge {
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
