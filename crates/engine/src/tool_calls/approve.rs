//! Asks the user to approve a call, and handles the response.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{
    ApprovalRequest, CallDecision, CallPhase, EventBody, Level, Question,
};
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::op::{ApprovalResponse, RequestDecision};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision, RuleScope, SuggestedRule};
use parallax_protocol::tool::{Preview, Tool, ToolError, ToolErrorKind, ToolKind};

use super::ToolRunner;
use super::batch::{
    CallStage, CallSummary, PreparedCall, RerunContext, SandboxDenial, ToolBatch, Transition,
};
use crate::checkpoints::{changes_files, irreversible_changes};
use crate::registry::user_facing_name;
use crate::tool_call::ToolCall;
use crate::tool_notes::add_note;

impl ToolRunner<'_> {
    /// Sends the approval request for a prepared call.
    pub(super) async fn request_approval(
        &mut self,
        call: &ToolCall,
        mut prepared: PreparedCall,
    ) -> CallStage {
        let is_expansion = prepared.rerun.denial.is_some();
        let question = question(call, &prepared);
        prepared.outcomes = self.outcomes(question, &prepared);
        if is_expansion {
            prepared.policy_decision.reason = sandbox_denial_reason(&prepared.effects.permissions);
        }
        let not_undoable = match self.checkpoints.store() {
            Some(checkpoints) if !is_expansion && changes_files(&prepared.effects) => {
                let irreversible = irreversible_changes(checkpoints, &prepared.effects);
                self.inbox.while_receiving(irreversible).await
            }
            _ => Vec::new(),
        };
        // A call may need approval more than once.
        let number = self.approvals.next_request();
        let ask = match (prepared.rerun.runs, &prepared.rerun.arguments) {
            (0, None) => ApprovalId::new(format!("ask-{}", call.id)),
            _ => ApprovalId::new(format!("ask-{}-{number}", call.id)),
        };
        let mut request = ApprovalRequest {
            id: ask.clone(),
            call: call.id.clone(),
            agent: None,
            name: call.name.clone(),
            kind: prepared.tool.spec().kind,
            title: prepared.title.clone(),
            preview: prepared.invocation.preview(),
            policy_decision: prepared.policy_decision.clone(),
            outcomes: prepared.outcomes.clone(),
            question,
            rules: prepared.rules.clone(),
            no_rule_reason: prepared.no_rule_reason.clone(),
            permissions: prepared.effects.permissions.clone(),
            broader_permissions: prepared
                .invocation
                .broader_permissions(&prepared.effects.permissions),
            not_undoable,
        };
        self.hooks.notify_of_approval(&request, &self.registry.declared_name(&call.name));
        if !self.environment.includes_file_texts
            && let Some(Preview::Diff(diff)) = &mut request.preview
        {
            diff.texts = None;
        }
        self.bus.send(EventBody::ApprovalRequested(Box::new(request)));
        self.emit_phase(call, CallPhase::AwaitingApproval, Some(prepared.title.clone()));
        CallStage::AwaitingApproval { ask, prepared: Box::new(prepared) }
    }

    /// Returns the responses to offer.
    fn outcomes(&self, question: Question, prepared: &PreparedCall) -> Vec<ApprovalResponse> {
        let limits = self.approvals.limits();
        let can_persist = limits.allow_session
            && !prepared.policy_decision.always_ask
            && question != Question::AskUser;
        let has_rule = !prepared.rules.is_empty();
        let mut outcomes = vec![ApprovalResponse::ProceedOnce];
        let mut offer = |outcome, holds: bool| {
            if holds {
                outcomes.push(outcome);
            }
        };
        let is_edit = question == Question::Edit;
        let is_mcp = question == Question::Mcp;
        let trusted = self.environment.trusted;
        if question == Question::ExitPlanMode {
            // "Always" also allows the edits that carry out the plan.
            offer(ApprovalResponse::ProceedAlways, limits.allow_session && trusted);
            offer(ApprovalResponse::ModifyWithEditor, true);
            offer(ApprovalResponse::Cancel, true);
            return outcomes;
        }
        offer(
            ApprovalResponse::ProceedAlways,
            can_persist && (has_rule || (is_edit && trusted)) && !is_mcp,
        );
        offer(ApprovalResponse::ProceedAlwaysTool, can_persist && has_rule && is_mcp);
        offer(
            ApprovalResponse::ProceedAlwaysServer,
            can_persist && prepared.rules.len() > 1 && is_mcp,
        );
        offer(ApprovalResponse::ProceedAlwaysAndSave, can_persist && has_rule && limits.permanent);
        offer(ApprovalResponse::ModifyWithEditor, is_edit);
        offer(ApprovalResponse::Cancel, true);
        outcomes
    }

    /// Handles responses to open approval requests.
    pub(super) async fn handle_responses(
        &mut self,
        batch: &mut ToolBatch<'_>,
        cancel: &CancellationToken,
    ) {
        for decide in self.inbox.take_decisions() {
            let Some((index, prepared)) = batch.take_awaiting(&decide.ask) else {
                let text = format!("No pending request `{}`", decide.ask);
                self.inbox.notice(Level::Error, text);
                continue;
            };
            if let Err(reason) = check(&decide, &prepared) {
                let text = format!("Request `{}` is still pending: {reason}", decide.ask);
                self.inbox.notice(Level::Error, text);
                let runs_alone =
                    batch.call(index).is_some_and(|call| self.registry.runs_alone(call));
                let stage = CallStage::AwaitingApproval { ask: decide.ask, prepared };
                batch.enter(index, stage, runs_alone);
                continue;
            }
            if matches!(decide.outcome, ApprovalResponse::Cancel | ApprovalResponse::Retry)
                && decide.feedback.is_none()
                && !prepared.is_user_question()
            {
                batch.was_declined |= decide.outcome == ApprovalResponse::Cancel;
                batch.ends_turn |= decide.ends_turn;
            }
            let (ask, answer) = (decide.ask.clone(), decide.outcome);
            let transition = self.respond(decide, *prepared).await;
            let allowed = match answer.is_lasting() {
                true => self.take_allowed(batch),
                false => Vec::new(),
            };
            // Front ends show the next request when this one is closed. Those that the same answer
            // allows are closed before that, so that they are not shown.
            let closed = allowed.iter().map(|(_, ask, _)| ask.clone()).chain([ask]);
            for ask in closed {
                self.bus.send(EventBody::ApprovalClosed { ask, outcome: Some(answer) });
            }
            self.advance(batch, index, transition, cancel).await;
            for (index, _, prepared) in allowed {
                let decision = CallDecision::AutoAccept;
                let transition = Transition::Run { prepared, decision, answers: None };
                self.advance(batch, index, transition, cancel).await;
            }
        }
    }

    /// Takes the waiting calls that a lasting answer to another request allows as well.
    fn take_allowed(
        &mut self,
        batch: &mut ToolBatch<'_>,
    ) -> Vec<(usize, ApprovalId, Box<PreparedCall>)> {
        let mut allowed = Vec::new();
        for (index, ask, mut prepared) in batch.take_all_awaiting() {
            let is_own_decision = prepared.policy_decision.always_ask
                || prepared.is_user_question()
                || prepared.is_plan();
            let PreparedCall { tool, effects, input, .. } = &*prepared;
            let decision =
                self.approvals.evaluate(tool.as_ref(), effects, input, self.inbox.mode());
            if !is_own_decision && decision.policy_decision.kind == Decision::Allow {
                prepared.policy_decision = decision.policy_decision;
                allowed.push((index, ask, prepared));
                continue;
            }
            let runs_alone = batch.call(index).is_some_and(|call| self.registry.runs_alone(call));
            batch.enter(index, CallStage::AwaitingApproval { ask, prepared }, runs_alone);
        }
        allowed
    }

    /// Returns what a response means for its call.
    async fn respond(&mut self, decide: RequestDecision, mut prepared: PreparedCall) -> Transition {
        prepared.response = Some(decide.outcome);
        let run = |prepared, decision, answers| Transition::Run {
            prepared: Box::new(prepared),
            decision,
            answers,
        };
        match decide.outcome {
            // Dismissing a user question is a valid answer.
            ApprovalResponse::Cancel if prepared.is_user_question() => {
                run(prepared, CallDecision::Accept, None)
            }
            ApprovalResponse::Cancel | ApprovalResponse::Retry => {
                decline(prepared, decide.feedback)
            }
            ApprovalResponse::ModifyWithEditor => Transition::Prepare(RerunContext {
                arguments: decide.arguments,
                changed: true,
                ..prepared.rerun
            }),
            ApprovalResponse::ProceedOnce => {
                if decide.broader_permissions {
                    let requested = &mut prepared.effects.permissions;
                    *requested = requested
                        .clone()
                        .union(&prepared.invocation.broader_permissions(requested));
                }
                run(prepared, CallDecision::Accept, decide.answers)
            }
            ApprovalResponse::ProceedAlways
            | ApprovalResponse::ProceedAlwaysAndSave
            | ApprovalResponse::ProceedAlwaysTool
            | ApprovalResponse::ProceedAlwaysServer => {
                if let Some((rule, scope)) = self.apply_rule(&decide, &prepared) {
                    self.save_rule(rule, scope, prepared.tool.as_ref()).await;
                }
                run(prepared, CallDecision::AutoAccept, None)
            }
        }
    }

    /// Applies a response to future calls and returns the rule to save. If the rule cannot be
    /// applied, the user is notified and this call runs anyway.
    fn apply_rule(
        &mut self,
        decide: &RequestDecision,
        prepared: &PreparedCall,
    ) -> Option<(SuggestedRule, RuleScope)> {
        let is_edit = prepared.tool.spec().kind == ToolKind::Edit;
        let asked_for = match decide.outcome {
            ApprovalResponse::ProceedAlwaysAndSave => RuleScope::Always,
            _ => RuleScope::Session,
        };
        let scope = decide.scope.unwrap_or(asked_for);
        if is_edit
            && self.environment.trusted
            && decide.rule.is_none()
            && scope == RuleScope::Session
        {
            let mode = self.inbox.mode().max(ApprovalMode::AutoEdit);
            self.inbox.set_mode(mode);
            return None;
        }
        let offered = match decide.outcome {
            ApprovalResponse::ProceedAlwaysServer => prepared.rules.last(),
            _ => prepared
                .rules
                .iter()
                .find(|rule| rule.is_default)
                .or_else(|| prepared.rules.first()),
        };
        let mut rule = decide.rule.as_ref().or(offered).cloned()?;
        // A rule without modes applies in the modes of the suggested rule.
        if rule.modes.is_empty() {
            rule.modes = offered.map(|offered| offered.modes.clone()).unwrap_or_default();
        }
        if let Err(reason) = self.approvals.add_rule(&rule) {
            self.inbox.notice(Level::Error, format!("Failed to apply the rule: {reason}"));
            return None;
        }
        // A rule edited by the user may not match the call it was written for.
        let PreparedCall { tool, effects, input, .. } = prepared;
        if decide.rule.is_some()
            && !self.approvals.allows(tool.as_ref(), effects, input, self.inbox.mode())
        {
            let text = "The rule does not match this call, which will require approval again";
            self.inbox.notice(Level::Warning, text);
        } else if scope == RuleScope::Session {
            let allowed = allowed_by(&rule, tool.as_ref());
            let text = format!("Approval is no longer required in this session for {allowed}");
            self.inbox.notice(Level::Info, text);
        }
        (scope != RuleScope::Session).then_some((rule, scope))
    }

    async fn save_rule(&mut self, rule: SuggestedRule, scope: RuleScope, tool: &dyn Tool) {
        let Some(keeper) = self.approvals.rule_store() else {
            let text = "The rule applies to this session only. Set \
                `security.enablePermanentToolApproval` to save rules on disk";
            self.inbox.notice(Level::Warning, text);
            return;
        };
        let allowed = allowed_by(&rule, tool);
        let save_task = tokio::task::spawn_blocking(move || keeper.save(&rule, scope));
        match self.inbox.while_receiving(save_task).await {
            Ok(Ok(path)) => {
                let scope_text = match scope {
                    RuleScope::Project => "in this project",
                    RuleScope::Session | RuleScope::Always => "everywhere",
                };
                let text = format!(
                    "Approval is no longer required {scope_text} for {allowed} (`{}`)",
                    path.display()
                );
                self.inbox.notice(Level::Info, text);
            }
            Ok(Err(reason)) => {
                let text = format!("The rule applies to this session only: {reason}");
                self.inbox.notice(Level::Error, text);
            }
            Err(_) => {}
        }
    }
}

/// Names what a rule for a call of the tool allows: the commands, the files, or the tools.
fn allowed_by(rule: &SuggestedRule, tool: &dyn Tool) -> String {
    let name = match &rule.mcp_name {
        Some(server) if rule.tool_name == "*" => format!("all tools of `{server}`"),
        Some(server) => format!("`{}` of `{server}`", rule.unprefixed_tool_name()),
        None if rule.tool_name == tool.spec().name => user_facing_name(tool),
        None => format!("`{}`", rule.tool_name),
    };
    if let (Some(glob), None) = (&rule.path_glob, &rule.args_pattern) {
        return match tool.spec().kind {
            ToolKind::Edit => format!("edits of `{glob}`"),
            _ => format!("{name} with `{glob}`"),
        };
    }
    if rule.command_prefix.is_empty() {
        let is_narrow = rule.args_pattern.is_some() || rule.path_glob.is_some();
        return if is_narrow { format!("calls like this of {name}") } else { name };
    }
    let commands = rule.command_prefix.iter().map(|prefix| match prefix.strip_suffix(" $") {
        Some(exact) => format!("`{exact}`"),
        None => format!("`{prefix} …`"),
    });
    commands.collect::<Vec<_>>().join(", ")
}

/// Returns what kind of request a call needs.
fn question(call: &ToolCall, prepared: &PreparedCall) -> Question {
    match prepared.tool.spec().kind {
        _ if prepared.rerun.denial.is_some() => Question::SandboxExpansion,
        ToolKind::Plan if prepared.is_plan() => Question::ExitPlanMode,
        _ if prepared.is_user_question() => Question::AskUser,
        ToolKind::Edit => Question::Edit,
        ToolKind::Execute => Question::Exec,
        _ if call.name.starts_with("mcp_") => Question::Mcp,
        _ => Question::Info,
    }
}

/// Returns the reason shown when a command that the sandbox denied something is offered to run
/// again.
fn sandbox_denial_reason(lacked: &Permissions) -> String {
    let shown = match lacked.file_system.read.is_empty() || lacked.outside {
        true => "",
        false => {
            "; these files are normally hidden from commands, and the model sees the \
            command's output"
        }
    };
    format!(
        "The sandbox denied this command some access. Approve to run it again with {} and \
            nothing else{shown}",
        lacked.describe()
    )
}

/// Rejects a call that the user denied.
fn decline(mut prepared: PreparedCall, feedback: Option<String>) -> Transition {
    let feedback = feedback.filter(|text| !text.trim().is_empty());
    if let Some(denial) = prepared.rerun.denial.take() {
        let SandboxDenial { mut outcome, summary } = *denial;
        let mut reason = "The user denied this access.".to_owned();
        if let Some(feedback) = feedback {
            reason.push_str(&format!(" The user says: {feedback}"));
        }
        add_note(&mut outcome, &prepared.denial_note(&reason));
        return Transition::finish(outcome, summary);
    }
    let summary = CallSummary::rejected(&prepared, false);
    if let Some(outcome) = prepared.invocation.decline(feedback.as_deref()) {
        return Transition::finish(outcome, summary);
    }
    let mut message = "[Operation Cancelled] User denied execution.".to_owned();
    if let Some(feedback) = feedback {
        message.push_str(&format!(" The user says: {feedback}"));
    }
    let error = ToolError::new(ToolErrorKind::PolicyViolation, message);
    Transition::fail(error, CallSummary { cancelled: true, ..summary })
}

/// Validates a response against the request.
fn check(decide: &RequestDecision, prepared: &PreparedCall) -> Result<(), &'static str> {
    if !prepared.outcomes.contains(&decide.outcome) {
        return Err("this response is not available");
    }
    if decide.outcome == ApprovalResponse::ModifyWithEditor && decide.arguments.is_none() {
        return Err("the changed arguments are missing");
    }
    let saved = decide.scope.is_some_and(|scope| scope != RuleScope::Session);
    if saved && !prepared.outcomes.contains(&ApprovalResponse::ProceedAlwaysAndSave) {
        return Err("rules are not saved on disk (`security.enablePermanentToolApproval`)");
    }
    Ok(())
}
