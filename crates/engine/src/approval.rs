//! Approval requests and the handling of their responses.

use std::collections::HashSet;
use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Ask, CallDecision, CallPhase, EventBody, Level, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::op::{AskOutcome, Decide};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Judge, RuleDraft, RuleKeeper, RuleScope, Taint};
use parallax_protocol::tool::{Outcome, Preview, ToolError, ToolErrorKind, ToolKind};

use crate::checkpointed_call::{changes_files, irreversible_changes};
use crate::scheduler::{add_note, denial_note, is_user_question};
use crate::session::Session;
use crate::tool_batch::{
    CallSummary, PreparedCall, RerunContext, SandboxDenial, ToolBatch, ToolCall,
};

/// How long responses may apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approvals {
    /// For the whole session (`security.disableAlwaysAllow` disables this).
    pub lasting: bool,
    /// On disk (`security.enablePermanentToolApproval`, in a trusted folder).
    pub permanent: bool,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { lasting: true, permanent: false }
    }
}

/// The policy engine of a session, and its approvals so far.
pub(crate) struct ApprovalState {
    pub(crate) judge: Arc<dyn Judge>,
    /// How long approvals may apply.
    pub(crate) approvals: Approvals,
    /// Saves rules on disk.
    pub(crate) rule_keeper: Option<Arc<dyn RuleKeeper>>,
    /// Whether the session started in `yolo`.
    pub(crate) began_in_yolo: bool,
    /// Whether `yolo` is active because a rule approved a plan, not because the user set it.
    pub(crate) yolo_by_rule: bool,
    /// Number of requests to the user, for ids.
    pub(crate) asks: u64,
    /// Changed tools that the user was warned about.
    pub(crate) warned_tools: HashSet<String>,
    pub(crate) taint: Taint,
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
        lacked.leave()
    )
}

impl Session {
    /// Asks the user to approve a prepared call.
    pub(crate) async fn put(
        &mut self,
        board: &mut ToolBatch<'_>,
        call: &ToolCall,
        prepared: PreparedCall,
    ) {
        let mut prepared = prepared;
        let spec = prepared.tool.spec();
        let is_expansion = prepared.again.refused.is_some();
        let question = match spec.kind {
            _ if is_expansion => Question::SandboxExpansion,
            ToolKind::Plan if is_plan(&prepared) => Question::ExitPlanMode,
            _ if is_user_question(&prepared) => Question::AskUser,
            ToolKind::Edit => Question::Edit,
            ToolKind::Execute => Question::Exec,
            _ if call.name.starts_with("mcp_") => Question::Mcp,
            _ => Question::Info,
        };
        prepared.outcomes = self.outcomes(question, &prepared);
        if is_expansion {
            prepared.verdict.why = sandbox_denial_reason(&prepared.effects.permissions);
        }
        let irreversible_changes = match &self.checkpoints.store {
            Some(checkpoints) if !is_expansion && changes_files(&prepared.effects) => {
                let looking =
                    irreversible_changes(std::sync::Arc::clone(checkpoints), &prepared.effects);
                self.inbox.while_receiving(looking).await
            }
            _ => Vec::new(),
        };
        // A call may need approval more than once.
        self.approval.asks += 1;
        let ask = match (prepared.again.runs, &prepared.again.arguments) {
            (0, None) => AskId::new(format!("ask-{}", call.id)),
            _ => AskId::new(format!("ask-{}-{}", call.id, self.approval.asks)),
        };
        let mut asked = Ask {
            id: ask.clone(),
            call: call.id.clone(),
            agent: None,
            name: call.name.clone(),
            kind: prepared.tool.spec().kind,
            title: prepared.title.clone(),
            preview: prepared.invocation.preview(),
            verdict: prepared.verdict.clone(),
            outcomes: prepared.outcomes.clone(),
            question,
            rules: prepared.rules.clone(),
            no_rule: prepared.no_rule.clone(),
            permissions: prepared.effects.permissions.clone(),
            wider: prepared.invocation.wider(&prepared.effects.permissions),
            not_undoable: irreversible_changes,
        };
        self.notify_hooks_of_approval(&asked);
        if !self.environment.keeps_file_texts
            && let Some(Preview::Diff(diff)) = &mut asked.preview
        {
            diff.texts = None;
        }
        self.hub.send(EventBody::Ask(Box::new(asked)));
        self.emit_phase(call, CallPhase::AwaitingApproval, Some(prepared.title.clone()));
        board.exclusive = self.registry.runs_alone(call);
        board.awaiting_approval.insert(ask, prepared);
    }

    fn outcomes(&self, question: Question, prepared: &PreparedCall) -> Vec<AskOutcome> {
        let lasting = self.approval.approvals.lasting
            && !prepared.verdict.each_time
            && question != Question::AskUser;
        let has_rule = !prepared.rules.is_empty();
        let mut outcomes = vec![AskOutcome::ProceedOnce];
        let mut offer = |outcome, holds: bool| {
            if holds {
                outcomes.push(outcome);
            }
        };
        let is_edit = question == Question::Edit;
        let is_mcp = question == Question::Mcp;
        if question == Question::ExitPlanMode {
            // "Always" also allows the edits that carry out the plan.
            offer(
                AskOutcome::ProceedAlways,
                self.approval.approvals.lasting && self.environment.trusted,
            );
            offer(AskOutcome::ModifyWithEditor, true);
            offer(AskOutcome::Cancel, true);
            return outcomes;
        }
        offer(
            AskOutcome::ProceedAlways,
            lasting && (has_rule || (is_edit && self.environment.trusted)) && !is_mcp,
        );
        offer(AskOutcome::ProceedAlwaysTool, lasting && has_rule && is_mcp);
        offer(AskOutcome::ProceedAlwaysServer, lasting && prepared.rules.len() > 1 && is_mcp);
        let permanent = lasting && has_rule && self.approval.approvals.permanent;
        offer(AskOutcome::ProceedAlwaysAndSave, permanent);
        offer(AskOutcome::ModifyWithEditor, is_edit);
        offer(AskOutcome::Cancel, true);
        outcomes
    }

    /// Handles responses to open approval requests.
    pub(crate) async fn decide(&mut self, board: &mut ToolBatch<'_>, cancel: &CancellationToken) {
        for decide in std::mem::take(&mut self.inbox.decisions) {
            let Some(mut prepared) = board.awaiting_approval.remove(&decide.ask) else {
                let text = format!("No pending request `{}`", decide.ask);
                self.inbox.notice(Level::Error, text);
                continue;
            };
            if let Err(why) = check(&decide, &prepared) {
                let text = format!("Request `{}` is still pending: {why}", decide.ask);
                self.inbox.notice(Level::Error, text);
                board.awaiting_approval.insert(decide.ask, prepared);
                continue;
            }
            let outcome = decide.outcome;
            prepared.decided = Some(outcome);
            self.hub.send(EventBody::AskClosed { ask: decide.ask.clone(), outcome: Some(outcome) });
            match outcome {
                // Dismissing a user question is a valid answer.
                AskOutcome::Cancel if is_user_question(&prepared) => {
                    self.start(board, prepared, CallDecision::Accept, None, cancel);
                }
                AskOutcome::Cancel | AskOutcome::Retry => {
                    let silent = decide.feedback.is_none();
                    board.declined |= silent && outcome == AskOutcome::Cancel;
                    board.ends |= silent && decide.ends;
                    self.declined(board, prepared, decide.feedback);
                }
                AskOutcome::ModifyWithEditor => {
                    let again = RerunContext {
                        arguments: decide.arguments,
                        changed: true,
                        ..prepared.again
                    };
                    board.exclusive = false;
                    self.begin(board, prepared.index, again, cancel).await;
                }
                AskOutcome::ProceedOnce => {
                    if decide.wider {
                        let wanted = &mut prepared.effects.permissions;
                        *wanted = wanted.clone().and(&prepared.invocation.wider(wanted));
                    }
                    let answers = decide.answers;
                    self.start(board, prepared, CallDecision::Accept, answers, cancel);
                }
                AskOutcome::ProceedAlways
                | AskOutcome::ProceedAlwaysAndSave
                | AskOutcome::ProceedAlwaysTool
                | AskOutcome::ProceedAlwaysServer => {
                    if let Some((rule, scope)) = self.remember(&decide, &prepared) {
                        self.save(rule, scope).await;
                    }
                    self.start(board, prepared, CallDecision::AutoAccept, None, cancel);
                }
            }
        }
    }

    /// Applies a response to future calls and returns the rule to save. If the rule cannot be
    /// applied, the user is notified and this call runs anyway.
    fn remember(
        &mut self,
        decide: &Decide,
        prepared: &PreparedCall,
    ) -> Option<(RuleDraft, RuleScope)> {
        let is_edit = prepared.tool.spec().kind == ToolKind::Edit;
        let asked_for = match decide.outcome {
            AskOutcome::ProceedAlwaysAndSave => RuleScope::Always,
            _ => RuleScope::Session,
        };
        let scope = decide.scope.unwrap_or(asked_for);
        if is_edit
            && self.environment.trusted
            && decide.rule.is_none()
            && scope == RuleScope::Session
        {
            self.inbox.mode = self.inbox.mode.max(ApprovalMode::AutoEdit);
            self.inbox.emit_state();
            return None;
        }
        let offered = match decide.outcome {
            AskOutcome::ProceedAlwaysServer => prepared.rules.last(),
            _ => {
                prepared.rules.iter().find(|rule| rule.suggested).or_else(|| prepared.rules.first())
            }
        };
        let mut rule = decide.rule.as_ref().or(offered).cloned()?;
        // A rule without modes applies in the modes of the suggested rule.
        if rule.modes.is_empty() {
            rule.modes = offered.map(|offered| offered.modes.clone()).unwrap_or_default();
        }
        match self.approval.judge.with_rule(&rule) {
            Ok(judge) => self.approval.judge = judge,
            Err(why) => {
                self.inbox.notice(Level::Error, format!("Failed to apply the rule: {why}"));
                return None;
            }
        }
        // A rule edited by the user may not match the call it was written for.
        if decide.rule.is_some() && !self.is_allowed_now(prepared) {
            let text = "The rule does not match this call, which will require approval again";
            self.inbox.notice(Level::Warning, text);
        }
        (scope != RuleScope::Session).then_some((rule, scope))
    }

    async fn save(&mut self, rule: RuleDraft, scope: RuleScope) {
        let Some(keeper) =
            self.approval.rule_keeper.clone().filter(|_| self.approval.approvals.permanent)
        else {
            let text = "The rule applies to this session only. Set \
                `security.enablePermanentToolApproval` to save rules on disk";
            self.inbox.notice(Level::Warning, text);
            return;
        };
        let saving = tokio::task::spawn_blocking(move || keeper.keep(&rule, scope));
        match self.inbox.while_receiving(saving).await {
            Ok(Ok(path)) => {
                self.inbox.notice(Level::Info, format!("Rule saved to `{}`", path.display()));
            }
            Ok(Err(why)) => {
                let text = format!("The rule applies to this session only: {why}");
                self.inbox.notice(Level::Error, text);
            }
            Err(_) => {}
        }
    }

    /// Rejects a call that the user denied.
    fn declined(
        &mut self,
        board: &mut ToolBatch<'_>,
        mut prepared: PreparedCall,
        feedback: Option<String>,
    ) {
        let index = prepared.index;
        let feedback = feedback.filter(|text| !text.trim().is_empty());
        board.exclusive = false;
        if let Some(refused) = prepared.again.refused.take() {
            let SandboxDenial { mut outcome, finish } = *refused;
            let mut why = "The user denied this access.".to_owned();
            if let Some(feedback) = feedback {
                why.push_str(&format!(" The user says: {feedback}"));
            }
            add_note(&mut outcome, &denial_note(&prepared, &why));
            self.finish(board, index, outcome, finish);
            return;
        }
        let finish = CallSummary::rejected(&prepared, false);
        if let Some(outcome) = prepared.invocation.declined(feedback.as_deref()) {
            self.finish(board, index, outcome, finish);
            return;
        }
        let mut message = "[Operation Cancelled] User denied execution.".to_owned();
        if let Some(feedback) = feedback {
            message.push_str(&format!(" The user says: {feedback}"));
        }
        let error = ToolError::new(ToolErrorKind::PolicyViolation, message);
        self.finish(
            board,
            index,
            Outcome::failure(error),
            CallSummary { cancelled: true, ..finish },
        );
    }
}

/// Whether the call asks the user to approve a plan.
fn is_plan(prepared: &PreparedCall) -> bool {
    matches!(prepared.invocation.preview(), Some(Preview::Plan { .. }))
}

/// Validates a response against the request.
fn check(decide: &Decide, prepared: &PreparedCall) -> Result<(), &'static str> {
    if !prepared.outcomes.contains(&decide.outcome) {
        return Err("this response is not available");
    }
    if decide.outcome == AskOutcome::ModifyWithEditor && decide.arguments.is_none() {
        return Err("the changed arguments are missing");
    }
    let saved = decide.scope.is_some_and(|scope| scope != RuleScope::Session);
    if saved && !prepared.outcomes.contains(&AskOutcome::ProceedAlwaysAndSave) {
        return Err("rules are not saved on disk (`security.enablePermanentToolApproval`)");
    }
    Ok(())
}
