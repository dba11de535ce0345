//! Questions whether a call may run, and what an answer means.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Ask, CallDecision, CallPhase, EventBody, Level, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::op::{AskOutcome, Decide};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, RuleDraft, RuleScope};
use parallax_protocol::tool::{Outcome, Preview, ToolError, ToolErrorKind, ToolKind};

use crate::board::{Again, Board, Call, Finish, Prepared, Refused};
use crate::guarded::{changes_files, not_undoable};
use crate::scheduler::{add_note, asks_itself, refusal_note};
use crate::session::Session;

/// What answers may hold for longer than one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approvals {
    /// For the session (`security.disableAlwaysAllow` switches it off).
    pub lasting: bool,
    /// On disk (`security.enablePermanentToolApproval`, in a trusted folder).
    pub permanent: bool,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { lasting: true, permanent: false }
    }
}

/// What a command is asked about that ran and lacked something: it may have failed
/// for another reason, and what was hidden is told to the model.
fn asked_again(lacked: &Permissions) -> String {
    let shown = match lacked.file_system.read.is_empty() || lacked.outside {
        true => "",
        false => "; what it reads there is hidden from commands, and the model sees what it prints",
    };
    format!(
        "The sandbox refused this command something on its way. Yes runs it once more, with {} and \
         nothing else{shown}",
        lacked.leave()
    )
}

impl Session {
    /// Puts the question whether a prepared call may run.
    pub(crate) async fn put(&mut self, board: &mut Board<'_>, call: &Call, prepared: Prepared) {
        let mut prepared = prepared;
        let spec = prepared.tool.spec();
        let is_expansion = prepared.again.refused.is_some();
        let question = match spec.kind {
            _ if is_expansion => Question::SandboxExpansion,
            ToolKind::Plan if is_plan(&prepared) => Question::ExitPlanMode,
            _ if asks_itself(&prepared) => Question::AskUser,
            ToolKind::Edit => Question::Edit,
            ToolKind::Execute => Question::Exec,
            _ if call.name.starts_with("mcp_") => Question::Mcp,
            _ => Question::Info,
        };
        prepared.outcomes = self.outcomes(question, &prepared);
        if is_expansion {
            prepared.verdict.why = asked_again(&prepared.effects.permissions);
        }
        let not_undoable = match &self.checkpoints {
            Some(checkpoints) if !is_expansion && changes_files(&prepared.effects) => {
                let looking = not_undoable(std::sync::Arc::clone(checkpoints), &prepared.effects);
                self.inbox.during(looking).await
            }
            _ => Vec::new(),
        };
        // A call may be asked about more than once.
        self.asks += 1;
        let ask = match (prepared.again.runs, &prepared.again.arguments) {
            (0, None) => AskId::new(format!("ask-{}", call.id)),
            _ => AskId::new(format!("ask-{}-{}", call.id, self.asks)),
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
            not_undoable,
        };
        self.hook_notify(&asked);
        if let Some(Preview::Diff(diff)) = &mut asked.preview {
            diff.texts = None;
        }
        self.hub.send(EventBody::Ask(Box::new(asked)));
        self.tell_phase(call, CallPhase::AwaitingApproval, Some(prepared.title.clone()));
        board.exclusive = self.is_exclusive(call);
        board.asking.insert(ask, prepared);
    }

    fn outcomes(&self, question: Question, prepared: &Prepared) -> Vec<AskOutcome> {
        let lasting =
            self.approvals.lasting && !prepared.verdict.each_time && question != Question::AskUser;
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
            // "Always" lets the edits of the plan through.
            offer(AskOutcome::ProceedAlways, self.approvals.lasting && self.trusted);
            offer(AskOutcome::ModifyWithEditor, true);
            offer(AskOutcome::Cancel, true);
            return outcomes;
        }
        offer(
            AskOutcome::ProceedAlways,
            lasting && (has_rule || (is_edit && self.trusted)) && !is_mcp,
        );
        offer(AskOutcome::ProceedAlwaysTool, lasting && has_rule && is_mcp);
        offer(AskOutcome::ProceedAlwaysServer, lasting && prepared.rules.len() > 1 && is_mcp);
        let permanent = lasting && has_rule && self.approvals.permanent;
        offer(AskOutcome::ProceedAlwaysAndSave, permanent);
        offer(AskOutcome::ModifyWithEditor, is_edit);
        offer(AskOutcome::Cancel, true);
        outcomes
    }

    /// Takes the answers to open questions.
    pub(crate) async fn decide(&mut self, board: &mut Board<'_>, cancel: &CancellationToken) {
        for decide in std::mem::take(&mut self.inbox.decisions) {
            let Some(mut prepared) = board.asking.remove(&decide.ask) else {
                let text = format!("there is no open question `{}`", decide.ask);
                self.inbox.notice(Level::Error, text);
                continue;
            };
            if let Err(why) = check(&decide, &prepared) {
                let text = format!("the question `{}` stays open: {why}", decide.ask);
                self.inbox.notice(Level::Error, text);
                board.asking.insert(decide.ask, prepared);
                continue;
            }
            let outcome = decide.outcome;
            prepared.decided = Some(outcome);
            self.hub.send(EventBody::AskClosed { ask: decide.ask.clone(), outcome: Some(outcome) });
            match outcome {
                // No answer is one too.
                AskOutcome::Cancel if asks_itself(&prepared) => {
                    self.start(board, prepared, CallDecision::Accept, None, cancel);
                }
                AskOutcome::Cancel | AskOutcome::Retry => {
                    let silent = decide.feedback.is_none();
                    board.declined |= silent && outcome == AskOutcome::Cancel;
                    board.ends |= silent && decide.ends;
                    self.declined(board, prepared, decide.feedback);
                }
                AskOutcome::ModifyWithEditor => {
                    let again =
                        Again { arguments: decide.arguments, changed: true, ..prepared.again };
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

    /// Makes the answer hold for the calls to come, and gives what is to be saved.
    /// What cannot be kept is told; this call runs all the same.
    fn remember(&mut self, decide: &Decide, prepared: &Prepared) -> Option<(RuleDraft, RuleScope)> {
        let is_edit = prepared.tool.spec().kind == ToolKind::Edit;
        let asked_for = match decide.outcome {
            AskOutcome::ProceedAlwaysAndSave => RuleScope::Always,
            _ => RuleScope::Session,
        };
        let scope = decide.scope.unwrap_or(asked_for);
        if is_edit && self.trusted && decide.rule.is_none() && scope == RuleScope::Session {
            self.inbox.mode = self.inbox.mode.max(ApprovalMode::AutoEdit);
            self.inbox.tell_state();
            return None;
        }
        let offered = match decide.outcome {
            AskOutcome::ProceedAlwaysServer => prepared.rules.last(),
            _ => {
                prepared.rules.iter().find(|rule| rule.suggested).or_else(|| prepared.rules.first())
            }
        };
        let mut rule = decide.rule.as_ref().or(offered).cloned()?;
        // A rule that names no modes holds in those of the one offered.
        if rule.modes.is_empty() {
            rule.modes = offered.map(|offered| offered.modes.clone()).unwrap_or_default();
        }
        match self.judge.with_rule(&rule) {
            Ok(judge) => self.judge = judge,
            Err(why) => {
                self.inbox.notice(Level::Error, format!("the rule is not kept: {why}"));
                return None;
            }
        }
        // A rule that a person wrote may miss what it was written for.
        if decide.rule.is_some() && !self.is_spared(prepared) {
            let text = "the rule does not cover this call, which will be asked about again";
            self.inbox.notice(Level::Warning, text);
        }
        (scope != RuleScope::Session).then_some((rule, scope))
    }

    async fn save(&mut self, rule: RuleDraft, scope: RuleScope) {
        let Some(keeper) = self.rule_keeper.clone().filter(|_| self.approvals.permanent) else {
            let text = "the rule holds for this session only: set \
                        `security.enablePermanentToolApproval` to keep rules on disk";
            self.inbox.notice(Level::Warning, text);
            return;
        };
        let saving = tokio::task::spawn_blocking(move || keeper.keep(&rule, scope));
        match self.inbox.during(saving).await {
            Ok(Ok(path)) => {
                self.inbox.notice(Level::Info, format!("rule saved to `{}`", path.display()));
            }
            Ok(Err(why)) => {
                let text = format!("the rule holds for this session only: {why}");
                self.inbox.notice(Level::Error, text);
            }
            Err(_) => {}
        }
    }

    /// A person said no.
    fn declined(
        &mut self,
        board: &mut Board<'_>,
        mut prepared: Prepared,
        feedback: Option<String>,
    ) {
        let index = prepared.index;
        let feedback = feedback.filter(|text| !text.trim().is_empty());
        board.exclusive = false;
        if let Some(refused) = prepared.again.refused.take() {
            let Refused { mut outcome, finish } = *refused;
            let mut why = "The user did not agree to give it that.".to_owned();
            if let Some(feedback) = feedback {
                why.push_str(&format!(" The user says: {feedback}"));
            }
            add_note(&mut outcome, &refusal_note(&prepared, &why));
            self.finish(board, index, outcome, finish);
            return;
        }
        let finish = Finish::rejected(&prepared, false);
        if let Some(outcome) = prepared.invocation.declined(feedback.as_deref()) {
            self.finish(board, index, outcome, finish);
            return;
        }
        let mut message = "[Operation Cancelled] User denied execution.".to_owned();
        if let Some(feedback) = feedback {
            message.push_str(&format!(" The user says: {feedback}"));
        }
        let error = ToolError::new(ToolErrorKind::PolicyViolation, message);
        self.finish(board, index, Outcome::failure(error), Finish { cancelled: true, ..finish });
    }
}

/// Whether the call puts a plan before a person.
fn is_plan(prepared: &Prepared) -> bool {
    matches!(prepared.invocation.preview(), Some(Preview::Plan { .. }))
}

/// Whether the answer is one that the question takes.
fn check(decide: &Decide, prepared: &Prepared) -> Result<(), &'static str> {
    if !prepared.outcomes.contains(&decide.outcome) {
        return Err("this answer is not offered");
    }
    if decide.outcome == AskOutcome::ModifyWithEditor && decide.arguments.is_none() {
        return Err("the changed arguments are missing");
    }
    let saved = decide.scope.is_some_and(|scope| scope != RuleScope::Session);
    if saved && !prepared.outcomes.contains(&AskOutcome::ProceedAlwaysAndSave) {
        return Err("rules are not kept on disk (`security.enablePermanentToolApproval`)");
    }
    Ok(())
}
