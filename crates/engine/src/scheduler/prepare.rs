//! Validates a call and gets the policy decision.

use std::sync::Arc;

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::event::Level;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision, Origin, Query, Verdict};
use parallax_protocol::tool::{
    Effects, Outcome, Scope, Tool, ToolError, ToolErrorKind, ToolKind, ToolSpec,
};

use super::{add_note, crashed};
use crate::agents::AgentRole;
use crate::checkpointed_call::changes_files;
use crate::registry::WAIT_FOR_PREVIOUS;
use crate::session::Session;
use crate::tool_batch::{
    CallSummary, PolicyInput, PreparedCall, RerunContext, SandboxDenial, ToolBatch, ToolCall,
};
impl Session {
    /// Validates the arguments on a blocking thread and queries the policy.
    pub(super) async fn prepare(
        &mut self,
        call: &ToolCall,
        index: usize,
        again: RerunContext,
    ) -> Result<PreparedCall, (ToolError, Box<CallSummary>, Option<Box<SandboxDenial>>)> {
        let without_decision = |kind: Option<ToolKind>| {
            Box::new(CallSummary::without_decision(kind, call.name.clone()))
        };
        if self.registry.get(&call.name).is_none()
            && let Some(looking) = self.registry.look_for(&call.name)
        {
            self.inbox.while_receiving(looking).await;
            if self.registry.refresh() {
                self.client.declared = None;
            }
        }
        if call.name != COMPLETE_TASK
            && self.agents.role.as_ref().is_some_and(AgentRole::is_final_turn)
        {
            let message = format!("Only `{COMPLETE_TASK}` can be called now");
            let error = ToolError::new(ToolErrorKind::ExecutionFailed, message);
            return Err((error, without_decision(None), again.refused));
        }
        let Some(tool) = self.registry.get(&call.name).cloned() else {
            let (judge, mode) = (self.approval.judge.as_ref(), self.inbox.mode);
            let message = self.registry.unknown_tool_message(
                &call.name,
                judge,
                mode,
                self.environment.interactive,
            );
            let error = ToolError::new(ToolErrorKind::ToolNotRegistered, message);
            return Err((error, without_decision(None), again.refused));
        };
        let kind = tool.spec().kind;
        // A call that a hook requests as a replacement was not the model's choice.
        if call.replaces.is_none()
            && let Some(message) = self.tool_exclusion(&call.name)
        {
            let error = ToolError::new(ToolErrorKind::PolicyViolation, message);
            return Err((error, without_decision(Some(kind)), again.refused));
        }
        if let Some(error) = self.current.coordinator_denial(tool.spec()) {
            return Err((error, without_decision(Some(kind)), again.refused));
        }
        let asked = again.arguments.clone().map_or_else(|| call.args.clone(), Ok);
        let mut args = match asked {
            Ok(args) => args,
            Err(problem) => {
                let message = format!(
                    "the arguments {problem}; send the call again with one complete JSON object"
                );
                let error = ToolError::new(ToolErrorKind::InvalidToolParams, message);
                return Err((error, without_decision(Some(kind)), again.refused));
            }
        };
        args.shift_remove(WAIT_FOR_PREVIOUS);
        let scope = Scope {
            call: call.id.clone(),
            name: call.name.clone(),
            mode: self.inbox.mode,
            interactive: self.environment.interactive,
        };
        let preparing = {
            let (tool, args) = (Arc::clone(&tool), args.clone());
            let checkpoints = self.checkpoints.store.clone().filter(|_| kind == ToolKind::Execute);
            tokio::task::spawn_blocking(move || {
                let invocation = tool.prepare(args, &scope)?;
                let made = checkpoints.map(|checkpoints| checkpoints.made()).unwrap_or_default();
                Ok((invocation, made))
            })
        };
        let (invocation, made) = match self.inbox.while_receiving(preparing).await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(error)) => return Err((error, without_decision(Some(kind)), again.refused)),
            Err(panicked) => {
                let error = crashed(&call.name, &panicked);
                return Err((error, without_decision(Some(kind)), again.refused));
            }
        };
        let mut effects = invocation.effects().clone();
        effects.permissions = effects.permissions.and(&again.permissions);
        let asked = PolicyInput { args, workspace: (self.environment.workspace)(), made };
        let query = self.query(tool.as_ref(), &effects, &asked);
        let mut verdict = self.approval.judge.judge(&query);
        if verdict.decision != Decision::Allow
            && !verdict.each_time
            && let Some(overridden) = self.override_verdict(&query)
        {
            verdict = overridden;
        }
        let mut doubt = tool.doubt().filter(|_| verdict.decision == Decision::Allow);
        if !self.allows_everything()
            && let Some(doubt) = doubt.take()
        {
            verdict.decision =
                if self.environment.interactive { Decision::Ask } else { Decision::Deny };
            verdict.why = doubt;
            verdict.each_time = true;
        }
        // After a restore, changes need approval, even in modes that allow them.
        if self.current.is_rerun
            && self.environment.interactive
            && verdict.decision == Decision::Allow
            && changes_files(&effects)
        {
            verdict.decision = Decision::Ask;
            "you restored a checkpoint before this change".clone_into(&mut verdict.why);
            verdict.each_time = true;
        }
        // Permission to run without the sandbox applies to one call.
        let lasting =
            verdict.decision == Decision::Ask && !verdict.each_time && !effects.permissions.outside;
        let rules = match lasting && self.approval.approvals.lasting {
            true => self.approval.judge.drafts(&query, &effects.permissions),
            false => Vec::new(),
        };
        let no_rule = (verdict.decision == Decision::Ask && rules.is_empty()).then(|| {
            if !self.approval.approvals.lasting {
                "`security.disableAlwaysAllow` is set".to_owned()
            } else if verdict.each_time {
                "this always requires approval".to_owned()
            } else if effects.permissions.outside {
                "permission to run without the sandbox applies to one call".to_owned()
            } else {
                self.approval.judge.why_no_drafts(&query, &effects.permissions)
            }
        });
        if let Some(doubt) = doubt {
            self.warn_changed_tool(tool.spec(), &doubt);
        }
        let title = invocation.title();
        Ok(PreparedCall {
            index,
            tool,
            invocation,
            effects,
            title,
            verdict,
            rules,
            no_rule,
            asked,
            outcomes: Vec::new(),
            decided: None,
            again,
        })
    }

    fn query<'a>(
        &'a self,
        tool: &'a dyn Tool,
        effects: &'a Effects,
        asked: &'a PolicyInput,
    ) -> Query<'a> {
        let served = tool.served();
        let spec = tool.spec();
        Query {
            tool: &spec.name,
            aliases: &spec.aliases,
            kind: spec.kind,
            args: &asked.args,
            effects,
            mode: self.inbox.mode,
            interactive: self.environment.interactive,
            workspace: &asked.workspace,
            trusted: self.environment.trusted,
            made: &asked.made,
            taint: &self.approval.taint,
            origin: Origin {
                agent: self.agents.role.as_ref().map(|role| role.name.as_ref()),
                server: served.map(|served| served.server.as_str()),
                annotations: served.map(|served| &served.annotations),
            },
        }
    }

    /// Whether the current rules allow the call.
    pub(crate) fn is_allowed_now(&self, prepared: &PreparedCall) -> bool {
        let query = self.query(prepared.tool.as_ref(), &prepared.effects, &prepared.asked);
        self.approval.judge.judge(&query).decision == Decision::Allow
    }

    /// Whether the user enabled `yolo`.
    fn allows_everything(&self) -> bool {
        self.inbox.mode == ApprovalMode::Yolo && !self.approval.yolo_by_rule
    }

    /// Warns, once per tool, that a changed tool is called without approval.
    fn warn_changed_tool(&mut self, tool: &ToolSpec, doubt: &str) {
        if self.approval.warned_tools.insert(tool.name.clone()) {
            let text = format!("{doubt}; it runs anyway in `yolo` mode");
            self.inbox.notice(Level::Warning, text);
        }
    }

    /// Denies a call because of a rule.
    pub(super) fn refuse(&mut self, board: &mut ToolBatch<'_>, mut prepared: PreparedCall) {
        let index = prepared.index;
        if let Some(refused) = prepared.again.refused.take() {
            let SandboxDenial { mut outcome, finish } = *refused;
            add_note(&mut outcome, &denial_note(&prepared, &prepared.verdict.why));
            self.finish(board, index, outcome, finish);
            return;
        }
        let error = ToolError::new(
            ToolErrorKind::PolicyViolation,
            format!("Tool execution denied by policy. {}", said(&prepared.verdict)),
        );
        self.finish(board, index, Outcome::failure(error), CallSummary::rejected(&prepared, false));
    }
}

/// Returns the reason and the rule.
fn said(verdict: &Verdict) -> String {
    let Verdict { why, rule, .. } = verdict;
    if why.contains(rule.as_str()) { why.clone() } else { format!("{why} [rule: {rule}]") }
}

/// Returns the note for the model when permissions beyond the sandbox were denied.
pub(crate) fn denial_note(prepared: &PreparedCall, why: &str) -> String {
    let wanted: &Permissions = &prepared.again.permissions;
    format!("[The sandbox denied this command: {}. {why}]", wanted.words().join(", "))
}
