//! Prepares a call: hooks may change or reject it, its tool validates it, and the policy decides.

use std::sync::Arc;

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::context::FoundContextFile;
use parallax_protocol::event::CallDecision;
use parallax_protocol::policy::{Decision, PolicyDecision};
use parallax_protocol::tool::{
    PrepareContext, Tool, ToolError, ToolErrorKind, ToolKind, ToolResult,
};
use parallax_protocol::{CancellationToken, Object};
use serde_json::Value;

use super::ToolRunner;
use super::batch::{CallSummary, PreparedCall, RerunContext, SandboxDenial, Transition};
use super::execute::crash_error;
use crate::agents::AgentRole;
use crate::approvals::{EvaluatedCall, PolicyInput};
use crate::registry::WAIT_FOR_PREVIOUS;
use crate::tool_call::ToolCall;
use crate::tool_notes::add_note;

/// Why a call cannot be prepared, and the kind of its tool if that is known.
type Rejection = (ToolError, Option<ToolKind>);

impl ToolRunner<'_> {
    /// Prepares a call and gets the decision.
    pub(super) async fn prepare(
        &mut self,
        call: &ToolCall,
        rerun: RerunContext,
        cancel: &CancellationToken,
    ) -> Transition {
        let mut rerun = rerun;
        let mut asks = None;
        // Not when it is run again or was changed by the user.
        if rerun.runs == 0 && rerun.arguments.is_none() {
            let hooked = self.hooks.before_tool(self.registry, call, self.inbox, cancel).await;
            let hooked = match hooked {
                Ok(hooked) => hooked,
                Err(error) => {
                    let summary = CallSummary::without_decision(None, call.name.clone());
                    return Transition::fail(error, summary);
                }
            };
            // The hooks were cancelled before they could deny it: nothing may run.
            if cancel.is_cancelled() {
                return Transition::Cancelled;
            }
            rerun.hooked =
                hooked.arguments.as_ref().and_then(|changed| hook_change_note(call, changed));
            rerun.arguments = hooked.arguments;
            asks = hooked.approval_reason;
        }
        let note = rerun.hooked.clone();
        let mut prepared = match self.validate(call, &rerun).await {
            Ok(call) => self.evaluate(call, rerun),
            Err((error, kind)) => {
                let (mut outcome, summary) = match rerun.denial {
                    Some(denial) => (denial.outcome, denial.summary),
                    None => {
                        let summary = CallSummary::without_decision(kind, call.name.clone());
                        (ToolResult::failure(error), summary)
                    }
                };
                if let Some(note) = note {
                    add_note(&mut outcome, &note);
                }
                return Transition::finish(outcome, summary);
            }
        };
        if cancel.is_cancelled() && prepared.rerun.denial.is_none() {
            return Transition::Cancelled;
        }
        if let Some(reason) = asks {
            self.approvals.require_for_hook(&mut prepared.policy_decision, &reason);
        }
        let asks_user = self.environment.interactive && prepared.is_user_question();
        match prepared.policy_decision.kind {
            Decision::Ask => Transition::Ask(Box::new(prepared)),
            Decision::Allow if asks_user => Transition::Ask(Box::new(prepared)),
            Decision::Allow => Transition::Run {
                prepared: Box::new(prepared),
                decision: CallDecision::Accept,
                answers: None,
            },
            Decision::Deny => deny(prepared),
        }
    }

    /// Validates the arguments on a blocking thread.
    async fn validate(
        &mut self,
        call: &ToolCall,
        rerun: &RerunContext,
    ) -> Result<ValidCall, Rejection> {
        let tool = self.find_tool(call).await?;
        let kind = tool.spec().kind;
        let requested = rerun.arguments.clone().map_or_else(|| call.args.clone(), Ok);
        let mut args = requested.map_err(|problem| {
            let message = format!(
                "the arguments {problem}; send the call again with one complete JSON object"
            );
            (ToolError::new(ToolErrorKind::InvalidToolParams, message), Some(kind))
        })?;
        args.shift_remove(WAIT_FOR_PREVIOUS);
        let scope = PrepareContext {
            call: call.id.clone(),
            name: call.name.clone(),
            mode: self.inbox.mode(),
            interactive: self.environment.interactive,
        };
        let prepare_task = {
            let (tool, args) = (Arc::clone(&tool), args.clone());
            let search = self.context.context_search(&tool.spec().name);
            let checkpoints = self.checkpoints.store().filter(|_| kind == ToolKind::Execute);
            tokio::task::spawn_blocking(move || {
                let invocation = tool.prepare(args, &scope)?;
                let created =
                    checkpoints.map(|checkpoints| checkpoints.created_paths()).unwrap_or_default();
                let found = search.map(|search| search(invocation.effects())).unwrap_or_default();
                Ok((invocation, created, found))
            })
        };
        let (invocation, created_paths, context_files) =
            match self.inbox.while_receiving(prepare_task).await {
                Ok(Ok(prepared)) => prepared,
                Ok(Err(error)) => return Err((error, Some(kind))),
                Err(panicked) => return Err((crash_error(&call.name, &panicked), Some(kind))),
            };
        let input = PolicyInput { args, workspace: (self.environment.workspace)(), created_paths };
        Ok(ValidCall { tool, invocation, input, context_files })
    }

    /// Returns the tool of a call that may be made now.
    async fn find_tool(&mut self, call: &ToolCall) -> Result<Arc<dyn Tool>, Rejection> {
        if self.registry.get(&call.name).is_none()
            && let Some(wait) = self.registry.wait_for_tool(&call.name)
        {
            self.inbox.while_receiving(wait).await;
            self.registry.refresh();
        }
        if call.name != COMPLETE_TASK
            && self.environment.role.as_ref().is_some_and(AgentRole::is_final_turn)
        {
            let message = format!("Only `{COMPLETE_TASK}` can be called now");
            return Err((ToolError::new(ToolErrorKind::ExecutionFailed, message), None));
        }
        let Some(tool) = self.registry.get(&call.name).cloned() else {
            let message = self.registry.unknown_tool_message(
                &call.name,
                self.approvals.policy_engine(),
                self.inbox.mode(),
                self.environment.interactive,
            );
            return Err((ToolError::new(ToolErrorKind::ToolNotRegistered, message), None));
        };
        let kind = tool.spec().kind;
        // A call that a hook requests as a replacement was not the model's choice.
        if call.replaced_name.is_none()
            && let Some(message) = self.registry.exclusion(&call.name)
        {
            return Err((ToolError::new(ToolErrorKind::PolicyViolation, message), Some(kind)));
        }
        match self.registry.coordinator_denial(tool.spec()) {
            Some(error) => Err((error, Some(kind))),
            None => Ok(tool),
        }
    }

    /// Gets the policy decision about a valid call.
    fn evaluate(&mut self, call: ValidCall, rerun: RerunContext) -> PreparedCall {
        let ValidCall { tool, invocation, input, context_files } = call;
        let mut effects = invocation.effects().clone();
        effects.permissions = effects.permissions.union(&rerun.permissions);
        let EvaluatedCall { policy_decision, rules, no_rule_reason } =
            self.approvals.evaluate(tool.as_ref(), &effects, &input, self.inbox.mode());
        let title = invocation.title();
        PreparedCall {
            tool,
            invocation,
            effects,
            title,
            policy_decision,
            rules,
            no_rule_reason,
            input,
            context_files,
            outcomes: Vec::new(),
            response: None,
            rerun,
        }
    }
}

/// A call whose tool has accepted its arguments.
struct ValidCall {
    tool: Arc<dyn Tool>,
    invocation: Box<dyn parallax_protocol::tool::Invocation>,
    input: PolicyInput,
    context_files: Vec<FoundContextFile>,
}

/// Denies a call because of a rule.
fn deny(mut prepared: PreparedCall) -> Transition {
    if let Some(denial) = prepared.rerun.denial.take() {
        let SandboxDenial { mut outcome, summary } = *denial;
        add_note(&mut outcome, &prepared.denial_note(&prepared.policy_decision.reason));
        return Transition::finish(outcome, summary);
    }
    let error = ToolError::new(
        ToolErrorKind::PolicyViolation,
        format!("Tool execution denied by policy. {}", reason_and_rule(&prepared.policy_decision)),
    );
    Transition::fail(error, CallSummary::rejected(&prepared, false))
}

/// Returns the reason and the rule.
fn reason_and_rule(policy_decision: &PolicyDecision) -> String {
    let PolicyDecision { reason, rule, .. } = policy_decision;
    if reason.contains(rule.as_str()) { reason.clone() } else { format!("{reason} [rule: {rule}]") }
}

/// Returns a note for the model about the arguments that a hook changed; `None` if it changed none.
fn hook_change_note(call: &ToolCall, changed: &Object) -> Option<String> {
    let arguments = call.args.clone().unwrap_or_default();
    let differs = |(name, value): &(&String, &Value)| arguments.get(*name) != Some(*value);
    let names: Vec<String> =
        changed.iter().filter(differs).take(8).map(|(name, _)| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| {
        format!("[System] A hook changed {} of this call before it ran.", names.join(", "))
    })
}
