//! Decides whether calls may run, based on the policy engine and the session's approvals, and asks
//! the user.

mod budget_approval;
mod loop_approval;
mod taint;
mod user_requests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::event::Level;
use parallax_protocol::policy::{
    ApprovalMode, Decision, Origin, PolicyDecision, PolicyEngine, Query, RuleStore, SuggestedRule,
    Taint,
};
use parallax_protocol::tool::{Effects, Tool, ToolKind, ToolResult, ToolSpec};

pub(crate) use self::budget_approval::{check_budget, request_increase};
pub(crate) use self::loop_approval::confirm_loop;
pub(crate) use self::user_requests::UserRequests;

use crate::checkpoints::changes_files;
use crate::environment::SessionEnvironment;
use crate::event_bus::EventBus;
use crate::notices::Notices;
use crate::options::ApprovalPersistence;
use crate::shared_policy::SharedPolicyEngine;

/// The policy engine of a session, and its approvals so far.
pub(crate) struct ApprovalState {
    bus: EventBus,
    notices: Notices,
    environment: Arc<SessionEnvironment>,
    policy_engine: SharedPolicyEngine,
    /// How long approvals may apply.
    limits: ApprovalPersistence,
    /// Saves rules on disk.
    rule_store: Option<Arc<dyn RuleStore>>,
    /// Whether the session started in `yolo`.
    started_in_yolo: bool,
    /// Whether `yolo` is active because a rule approved a plan, not because the user set it.
    yolo_by_rule: bool,
    /// Number of requests to the user, for ids.
    requests: u64,
    /// Changed tools that the user was warned about.
    warned_tools: HashSet<String>,
    taint: Taint,
    /// Rules of the running prompt.
    prompt_rules: Vec<SuggestedRule>,
    /// Whether calls are run again after a restore.
    is_rerun: bool,
}

/// What determines approvals when the session starts.
pub(crate) struct ApprovalOptions {
    pub(crate) policy_engine: SharedPolicyEngine,
    pub(crate) limits: ApprovalPersistence,
    pub(crate) rule_store: Option<Arc<dyn RuleStore>>,
    pub(crate) mode: ApprovalMode,
}

/// The input of a policy query besides the tool and the effects.
pub(crate) struct PolicyInput {
    pub(crate) args: Object,
    pub(crate) workspace: Vec<PathBuf>,
    /// Files that the agent created in this session.
    pub(crate) created_paths: Vec<PathBuf>,
}

/// The decision about a call.
pub(crate) struct EvaluatedCall {
    pub(crate) policy_decision: PolicyDecision,
    /// Rules that would allow the call.
    pub(crate) rules: Vec<SuggestedRule>,
    /// Why there are none, if approval is required.
    pub(crate) no_rule_reason: Option<String>,
}

impl ApprovalState {
    pub(crate) fn new(
        options: ApprovalOptions,
        environment: Arc<SessionEnvironment>,
        bus: EventBus,
        notices: Notices,
    ) -> Self {
        Self {
            bus,
            notices,
            environment,
            policy_engine: options.policy_engine,
            limits: options.limits,
            rule_store: options.rule_store,
            started_in_yolo: options.mode == ApprovalMode::Yolo,
            yolo_by_rule: false,
            requests: 0,
            warned_tools: HashSet::new(),
            taint: Taint::default(),
            prompt_rules: Vec::new(),
            is_rerun: false,
        }
    }

    /// Returns the policy engine.
    pub(crate) fn policy_engine(&self) -> &dyn PolicyEngine {
        &self.policy_engine
    }

    /// Returns how long approvals may apply.
    pub(crate) fn limits(&self) -> ApprovalPersistence {
        self.limits
    }

    /// Returns what saves rules on disk, if the user may save them.
    pub(crate) fn rule_store(&self) -> Option<Arc<dyn RuleStore>> {
        self.rule_store.clone().filter(|_| self.limits.permanent)
    }

    /// Returns the number of the next request to the user.
    pub(crate) fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Sets the rules of the running prompt.
    pub(crate) fn set_prompt_rules(&mut self, rules: Vec<SuggestedRule>) {
        self.prompt_rules = rules;
    }

    /// Sets whether calls are run again after a restore; then changes require approval.
    pub(crate) fn set_rerun(&mut self, on: bool) {
        self.is_rerun = on;
    }

    /// Records that a plan was approved: without a user, by a rule.
    pub(crate) fn record_approved_plan(&mut self) {
        self.yolo_by_rule = !self.environment.interactive && !self.started_in_yolo;
    }

    /// Applies a rule to future calls.
    ///
    /// # Errors
    /// Returns why the rule cannot be applied.
    pub(crate) fn add_rule(&self, rule: &SuggestedRule) -> Result<(), String> {
        self.policy_engine.add_rule(rule)
    }

    /// Decides about a call.
    pub(crate) fn evaluate(
        &mut self,
        tool: &dyn Tool,
        effects: &Effects,
        input: &PolicyInput,
        mode: ApprovalMode,
    ) -> EvaluatedCall {
        let interactive = self.environment.interactive;
        let query = self.query(tool, effects, input, mode);
        let mut policy_decision = self.policy_engine.evaluate(&query);
        if policy_decision.kind != Decision::Allow
            && !policy_decision.always_ask
            && let Some(overridden) = self.decision_of_prompt_rules(&query)
        {
            policy_decision = overridden;
        }
        let mut doubt = tool.approval_reason().filter(|_| policy_decision.kind == Decision::Allow);
        // Only the user can enable `yolo` for everything.
        let allows_everything = mode == ApprovalMode::Yolo && !self.yolo_by_rule;
        if !allows_everything && let Some(doubt) = doubt.take() {
            policy_decision.kind = if interactive { Decision::Ask } else { Decision::Deny };
            policy_decision.reason = doubt;
            policy_decision.always_ask = true;
        }
        // After a restore, changes need approval, even in modes that allow them.
        if self.is_rerun
            && interactive
            && policy_decision.kind == Decision::Allow
            && changes_files(effects)
        {
            policy_decision.kind = Decision::Ask;
            "you restored a checkpoint before this change".clone_into(&mut policy_decision.reason);
            policy_decision.always_ask = true;
        }
        // Permission to run without the sandbox applies to one call.
        let can_persist = policy_decision.kind == Decision::Ask
            && !policy_decision.always_ask
            && !effects.permissions.outside;
        let rules = match can_persist && self.limits.allow_session {
            true => self.policy_engine.suggested_rules(&query, &effects.permissions),
            false => Vec::new(),
        };
        let no_rule_reason =
            (policy_decision.kind == Decision::Ask && rules.is_empty()).then(|| {
                if !self.limits.allow_session {
                    "`security.disableAlwaysAllow` is set".to_owned()
                } else if policy_decision.always_ask {
                    "this always requires approval".to_owned()
                } else if effects.permissions.outside {
                    "permission to run without the sandbox applies to one call".to_owned()
                } else {
                    self.policy_engine.no_rule_reason(&query, &effects.permissions)
                }
            });
        if let Some(doubt) = doubt {
            self.warn_changed_tool(tool.spec(), &doubt);
        }
        EvaluatedCall { policy_decision, rules, no_rule_reason }
    }

    fn query<'a>(
        &'a self,
        tool: &'a dyn Tool,
        effects: &'a Effects,
        input: &'a PolicyInput,
        mode: ApprovalMode,
    ) -> Query<'a> {
        let origin = tool.mcp_origin();
        let spec = tool.spec();
        Query {
            tool: &spec.name,
            aliases: &spec.aliases,
            kind: spec.kind,
            args: &input.args,
            effects,
            mode,
            interactive: self.environment.interactive,
            workspace: &input.workspace,
            trusted: self.environment.trusted,
            created_paths: &input.created_paths,
            taint: &self.taint,
            origin: Origin {
                agent: self.environment.role.as_ref().map(|role| role.name.as_ref()),
                server: origin.map(|origin| origin.server.as_str()),
                annotations: origin.map(|origin| &origin.annotations),
            },
        }
    }

    /// Whether the current rules allow the call.
    pub(crate) fn allows(
        &self,
        tool: &dyn Tool,
        effects: &Effects,
        input: &PolicyInput,
        mode: ApprovalMode,
    ) -> bool {
        self.policy_engine.evaluate(&self.query(tool, effects, input, mode)).kind == Decision::Allow
    }

    /// Returns the decision for a call that is not allowed, as if the user had said "always" to
    /// what the prompt allows.
    fn decision_of_prompt_rules(&self, query: &Query<'_>) -> Option<PolicyDecision> {
        let mut policy_engine: Arc<dyn PolicyEngine> = Arc::new(self.policy_engine.clone());
        for rule in &self.prompt_rules {
            policy_engine = policy_engine.with_rule(rule).ok()?;
        }
        let policy_decision =
            (!self.prompt_rules.is_empty()).then(|| policy_engine.evaluate(query))?;
        (policy_decision.kind == Decision::Allow).then_some(policy_decision)
    }

    /// Warns, once per tool, that a changed tool is called without approval.
    fn warn_changed_tool(&mut self, tool: &ToolSpec, doubt: &str) {
        if self.warned_tools.insert(tool.name.clone()) {
            let text = format!("{doubt}; it runs anyway in `yolo` mode");
            self.notices.show(Level::Warning, text);
        }
    }

    /// Requires approval because a hook asked for it.
    pub(crate) fn require_for_hook(&self, policy_decision: &mut PolicyDecision, reason: &str) {
        if policy_decision.kind == Decision::Deny {
            return;
        }
        let interactive = self.environment.interactive;
        policy_decision.kind = if interactive { Decision::Ask } else { Decision::Deny };
        policy_decision.always_ask = true;
        "hook".clone_into(&mut policy_decision.rule);
        reason.clone_into(&mut policy_decision.reason);
        if !interactive {
            policy_decision.reason.push_str(" (a hook requires approval, but no user is present)");
        }
    }

    /// Records what makes later commands suspicious: untrusted text and changed build files.
    pub(crate) fn learn(
        &mut self,
        (name, kind): (&str, ToolKind),
        effects: &Effects,
        outcome: &ToolResult,
        is_build_file: fn(&Path) -> bool,
    ) {
        if taint::is_untrusted(name, Some(kind)) {
            taint::add_untrusted_words(&mut self.taint, &outcome.for_model.output);
            // Only the quoted part of a failure is untrusted.
            let quoted = outcome.error.as_ref().and_then(|error| {
                error.message.split_once("<untrusted_context>").map(|(_, quoted)| quoted)
            });
            taint::add_untrusted_words(&mut self.taint, quoted.unwrap_or_default());
        }
        if outcome.error.is_none() {
            for path in effects.writes.iter().filter(|path| is_build_file(path)) {
                taint::add_build_file(&mut self.taint, path.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::tool::Concurrency;

    use super::*;
    use crate::test_parts::{TestTool, approvals};

    fn evaluate(approvals: &mut ApprovalState, effects: &Effects) -> EvaluatedCall {
        let tool = TestTool::new("replace", ToolKind::Edit, Concurrency::Exclusive);
        let input =
            PolicyInput { args: Object::new(), workspace: Vec::new(), created_paths: Vec::new() };
        approvals.evaluate(&tool, effects, &input, ApprovalMode::Default)
    }

    fn write() -> Effects {
        Effects { writes: vec!["a".into()], ..Effects::default() }
    }

    #[test]
    fn change_requires_approval_when_calls_are_run_again() {
        let mut approvals = approvals(Decision::Allow, true);
        assert_eq!(evaluate(&mut approvals, &write()).policy_decision.kind, Decision::Allow);
        approvals.set_rerun(true);
        let evaluated = evaluate(&mut approvals, &write());
        assert_eq!(evaluated.policy_decision.kind, Decision::Ask);
        assert!(evaluated.policy_decision.always_ask && evaluated.rules.is_empty());
        assert_eq!(evaluated.no_rule_reason.as_deref(), Some("this always requires approval"));
        let reads = Effects::default();
        assert_eq!(evaluate(&mut approvals, &reads).policy_decision.kind, Decision::Allow);
    }

    #[test]
    fn rules_are_suggested_unless_permission_applies_to_one_call() {
        let mut approvals = approvals(Decision::Ask, true);
        assert_eq!(evaluate(&mut approvals, &write()).rules.len(), 1);
        let mut outside = write();
        outside.permissions.outside = true;
        let evaluated = evaluate(&mut approvals, &outside);
        assert!(evaluated.rules.is_empty() && evaluated.no_rule_reason.is_some());
    }

    #[test]
    fn approval_for_a_hook_is_a_denial_without_a_user() {
        for (interactive, expected) in [(true, Decision::Ask), (false, Decision::Deny)] {
            let approvals = approvals(Decision::Allow, interactive);
            let mut policy_decision = PolicyDecision::new(Decision::Allow, "test", "");
            approvals.require_for_hook(&mut policy_decision, "look first");
            assert_eq!((policy_decision.kind, policy_decision.rule.as_str()), (expected, "hook"));
        }
    }

    #[test]
    fn request_ids_are_numbered() {
        let mut approvals = approvals(Decision::Ask, true);
        assert_eq!((approvals.next_request(), approvals.next_request()), (1, 2));
    }
}
