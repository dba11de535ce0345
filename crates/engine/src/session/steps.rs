//! The steps of a turn, except model requests.

use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::agent::COORDINATION;
use parallax_protocol::budget::ExhaustedBudget;
use parallax_protocol::content::{Part, Role};
use parallax_protocol::event::{EndReason, Failure, FailureKind, Level};
use parallax_protocol::op::Prompt;
use parallax_protocol::store::HookContinuation;

use super::Session;
use crate::agents::AgentRole;
use crate::approvals::UserRequests;
use crate::approvals::confirm_loop;
use crate::approvals::request_increase;
use crate::budget::TurnTimer;
use crate::closing_notes::{INTERRUPTED, PARTIAL_NOTE, TIMED_OUT, UNANSWERED};
use crate::function_response::FinishedResults;
use crate::hooks::{BeforeAgentResult, Continuations};
use crate::inbox::TurnInput;
use crate::loop_detection::{LoopAction, Repetition};
use crate::tool_call::ToolCall;
use crate::tool_calls::{BatchResult, ToolRunner};

/// Replaces the user's message when the time was up in the middle of a response.
const TIME_EXTENDED: &str =
    "[The time limit of this turn was raised. Continue where you left off.]";
/// Replaces the user's message when a response was stopped.
const REPETITION_ALLOWED: &str =
    "[The response was stopped because it repeated itself. The user wants you to continue.]";
/// How a turn ends when the user denied all its calls.
const DECLINED_REASON: &str = "you denied the requested actions; tell the agent what to do instead";

/// Calls of a resumed turn without a result, and the results that are already known.
pub(super) type OpenCalls = (Vec<ToolCall>, FinishedResults);

/// A prompt that was added to the history, and what it replaced.
pub(super) struct AddedPrompt {
    /// The number of contents before it.
    before: usize,
    preface: Option<String>,
}

impl Session {
    /// Starts the clock of the turn, with the time limit of its prompt.
    pub(super) fn start_clock(&mut self) {
        self.budget.start_turn();
        if let Some(time) = self.current.time_limit() {
            self.budget.ledger().limit_turn(time);
        }
    }

    /// Starts the timer that cancels the turn when its time is up.
    pub(super) fn start_timer(&mut self, cancel: &CancellationToken) -> Option<TurnTimer> {
        self.budget.start_timer(self.current.reset_timer(), cancel)
    }

    /// Whether a turn whose time is up may continue.
    fn can_extend_time(&self) -> bool {
        self.budget.can_ask_user() && self.environment.role.is_none()
    }

    /// Asks the user for more time. Returns the token of the continued turn.
    pub(super) async fn extend_time(
        &mut self,
        spent: ExhaustedBudget,
    ) -> Result<CancellationToken, EndReason> {
        if !self.can_extend_time() {
            return Err(EndReason::Budget(spent));
        }
        // The turn's token is already cancelled.
        let cancel = CancellationToken::new();
        if self.inbox.is_shutting_down() {
            cancel.cancel();
        }
        self.inbox.set_turn(Some(cancel.clone()));
        let Self { budget, inbox, hooks, approvals, .. } = self;
        let mut users = UserRequests { inbox, hooks, approvals };
        match request_increase(budget, spent, &mut users, &cancel).await {
            Ok(true) => {}
            Ok(false) => {
                self.conversation.close_open_calls(TIMED_OUT);
                return Err(EndReason::Budget(spent));
            }
            Err(reason) => {
                self.conversation.close_open_calls(INTERRUPTED);
                return Err(reason);
            }
        }
        if self.conversation.history().last_role() == Some(Role::Model)
            && self.conversation.open_calls().is_empty()
        {
            self.conversation.history_mut().push_note(TIME_EXTENDED);
        }
        self.budget.resume_clock();
        Ok(cancel)
    }

    /// Accepts the input of the turn. Returns the calls that it continues with, and the prompt that
    /// it added to the history.
    pub(super) async fn accept(
        &mut self,
        input: TurnInput,
        cancel: &CancellationToken,
    ) -> Result<(Option<OpenCalls>, Option<AddedPrompt>), EndReason> {
        let (prompt, continuation) = match input {
            TurnInput::Prompt(prompt) => (prompt, None),
            TurnInput::Continuation(continuation) => {
                let prompt = Prompt { text: continuation.text.clone(), ..Prompt::default() };
                (prompt, Some(continuation))
            }
            TurnInput::Continue => return Ok((self.resume(false, cancel).await, None)),
            TurnInput::Rerun => return Ok((self.resume(true, cancel).await, None)),
        };
        match self.hooks.before_agent(prompt, &mut self.inbox, cancel).await? {
            BeforeAgentResult::Run(prompt) => {
                Ok((None, Some(self.add_prompt(prompt, continuation, cancel).await)))
            }
            BeforeAgentResult::Stop(prompt, reason) => {
                self.user_messages().record_prompt(prompt, continuation);
                Err(reason)
            }
        }
    }

    /// Adds a prompt to the history, with the context that the model needs.
    async fn add_prompt(
        &mut self,
        prompt: Prompt,
        continuation: Option<HookContinuation>,
        cancel: &CancellationToken,
    ) -> AddedPrompt {
        self.conversation.take_partial();
        self.client.start_prompt();
        self.loops.reset();
        self.conversation.close_open_calls(UNANSWERED);
        let before = self.conversation.history().len();
        let is_main = self.environment.role.is_none();
        self.registry.set_coordinator(is_main && prompt.text.starts_with(COORDINATION));
        self.wait_for_tools(cancel).await;
        self.describe_added_directories().await;
        let preface = self.conversation.take_preface();
        let editor = self.context.editor_message();
        self.user_messages().push_prompt(prompt, continuation, preface.as_deref(), editor);
        AddedPrompt { before, preface }
    }

    /// Continues an interrupted turn. Calls without a result are run if `runs`, otherwise they are
    /// reported as lost. After a failure the turn can be resumed again.
    async fn resume(&mut self, runs: bool, cancel: &CancellationToken) -> Option<OpenCalls> {
        self.wait_for_tools(cancel).await;
        self.loops.reset();
        let ends_with_model = self.conversation.history().last_role() == Some(Role::Model);
        let open = match ends_with_model {
            true => self.conversation.open_calls(),
            false => Vec::new(),
        };
        let is_partial = self.conversation.take_partial();
        if runs && !open.is_empty() {
            let finished = self.conversation.take_finished_results();
            self.approvals.set_rerun(true);
            return Some((self.conversation.last_calls(), finished));
        }
        if !open.is_empty() {
            self.conversation.answer_lost_calls(&open);
        } else if !self.client.has_unfinished() && is_partial && ends_with_model {
            self.conversation.history_mut().push_note(PARTIAL_NOTE);
        }
        None
    }

    /// Waits, before the first prompt, for tools that must be present, and adds their description
    /// to the prompt.
    async fn wait_for_tools(&mut self, cancel: &CancellationToken) {
        let Some(settled) = self.registry.take_readiness() else { return };
        tokio::select! {
            biased;
            () = self.inbox.while_receiving(settled) => {}
            () = cancel.cancelled() => return,
        }
        if let Some(context) = self.registry.context() {
            self.conversation.extend_preface(&context);
        }
    }

    /// Adds a description of new workspace directories to the next prompt.
    async fn describe_added_directories(&mut self) {
        let added = self.inbox.take_added_directories();
        if added.is_empty() {
            return;
        }
        let describe = Arc::clone(&self.environment.describe_directories);
        let describing = tokio::task::spawn_blocking(move || describe(&added));
        // A panic there is a bug; tools can access the directory anyway.
        let text = self.inbox.while_receiving(describing).await.unwrap_or_default();
        if !text.is_empty() {
            self.conversation.add_to_preface(&text);
        }
    }

    /// Ends the turn if it was cancelled or may send no further request.
    pub(super) fn check_limits(&mut self, cancel: &CancellationToken) -> Result<(), EndReason> {
        if cancel.is_cancelled() {
            return Err(EndReason::Cancelled);
        }
        let is_final_turn = self.environment.role.as_ref().is_some_and(AgentRole::is_final_turn);
        match self.client.exceeded_limit(is_final_turn) {
            Some(limit) => Err(EndReason::MaxTurns { limit }),
            None => Ok(()),
        }
    }

    /// Handles a response that repeated itself: the model gets a note once, then the user decides.
    pub(super) async fn stop_repetition(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let note = match self.loops.record_text_repetition() {
            LoopAction::Nudge(repetition) => self.warn_about_loop(&repetition),
            LoopAction::Stop(repetition) => {
                self.confirm_loop(&repetition, cancel).await?;
                REPETITION_ALLOWED.to_owned()
            }
        };
        self.conversation.history_mut().push_note(&note);
        Ok(())
    }

    /// Informs the user of a possible loop and returns the note for the model about it.
    fn warn_about_loop(&mut self, repetition: &Repetition) -> String {
        let detail = repetition.describe(|tool| self.registry.user_facing_name(tool));
        let text = format!(
            "Possible loop: {detail}. The model gets a hint to try something else. If that does \
             not help, cancel the request and say what to do instead"
        );
        self.inbox.notice(Level::Warning, text);
        let detail = repetition.describe(|tool| format!("`{tool}`"));
        format!(
            "System: Possible loop: {detail}. Summarize what you have achieved and what the next \
             step would change. If nothing, try another approach, or finish with what you know \
             and what is missing."
        )
    }

    async fn confirm_loop(
        &mut self,
        repetition: &Repetition,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let detail = repetition.describe(|tool| self.registry.user_facing_name(tool));
        if !self.environment.interactive
            || !self.budget.can_ask_user()
            || self.environment.role.is_some()
        {
            return Err(EndReason::Loop { detail });
        }
        let Self { loops, inbox, hooks, approvals, .. } = self;
        let mut users = UserRequests { inbox, hooks, approvals };
        confirm_loop(detail, loops, &mut users, cancel).await
    }

    /// Runs the calls of a response that have no result yet.
    pub(super) async fn run_calls(
        &mut self,
        calls: &[ToolCall],
        finished: FinishedResults,
        cancel: &CancellationToken,
    ) -> BatchResult {
        let model = self.main_model();
        let limits = self.client.catalog().limits(&model);
        let mut runner = ToolRunner {
            registry: &mut self.registry,
            approvals: &mut self.approvals,
            conversation: &mut self.conversation,
            hooks: &mut self.hooks,
            inbox: &mut self.inbox,
            context: &self.context,
            checkpoints: &self.checkpoints,
            environment: &self.environment,
            subagents: self.subagents.as_deref(),
            bus: &self.bus,
            model: (model, limits),
        };
        let results = runner.run_batch(calls, finished, cancel).await;
        self.approvals.set_rerun(false);
        results
    }

    /// Returns whether the calls repeat earlier ones.
    pub(super) fn detect_loop(
        &mut self,
        calls: &[ToolCall],
        results: &BatchResult,
        cancel: &CancellationToken,
    ) -> Option<LoopAction> {
        if cancel.is_cancelled() {
            return None;
        }
        let calls = calls.iter().zip(&results.texts);
        self.loops.record_batch(
            calls.map(|(call, text)| (call.name.as_str(), call.args.as_ref().ok(), text.as_str())),
        )
    }

    /// Appends the results to the history, with what the user and the session add to them. Returns
    /// whether the user denied all calls.
    ///
    /// # Errors
    /// Returns the end reason if a call ended the turn.
    pub(super) fn append_results(
        &mut self,
        results: BatchResult,
        found_loop: Option<&LoopAction>,
        cancel: &CancellationToken,
    ) -> Result<bool, EndReason> {
        let BatchResult { results, injected, fatal, stopped, was_declined, .. } = results;
        let mut tail: Vec<Part> = Vec::new();
        for mut report in self.inbox.take_reports() {
            self.environment.redact(&mut report.text);
            tail.push(Part::text(report.text));
        }
        // Unless the user sent a steering message meanwhile.
        let declined = was_declined && !self.inbox.has_steering();
        let ends = fatal.is_some()
            || stopped.is_some()
            || declined
            || matches!(found_loop, Some(LoopAction::Stop(_)));
        // If no request follows, a steering message becomes a prompt.
        let output = match ends || cancel.is_cancelled() {
            true => Vec::new(),
            false => self.user_messages().take_steering(&mut tail),
        };
        if let Some(LoopAction::Nudge(repetition)) = found_loop {
            tail.push(Part::text(self.warn_about_loop(repetition)));
        }
        self.conversation.commit_batch(&results, injected, &tail, output);
        match (fatal, stopped) {
            (Some(error), _) => Err(EndReason::Failed(Failure {
                kind: FailureKind::Tool,
                message: error.message,
                status: None,
            })),
            (None, Some(reason)) => Err(EndReason::Stopped { reason, blocked: false }),
            (None, None) => Ok(declined),
        }
    }

    /// Whether the session is a subagent that has given its result.
    pub(super) fn has_agent_result(&self) -> bool {
        self.environment.role.as_ref().is_some_and(|role| role.result.is_submitted())
    }

    /// Ends the turn if the calls were a loop that the user does not allow, or were all denied.
    pub(super) async fn confirm_continuation(
        &mut self,
        found_loop: Option<LoopAction>,
        declined: bool,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        if let Some(LoopAction::Stop(repetition)) = found_loop {
            self.confirm_loop(&repetition, cancel).await?;
        }
        match declined {
            true => Err(EndReason::Stopped { reason: DECLINED_REASON.to_owned(), blocked: false }),
            false => Ok(()),
        }
    }

    /// Repairs the history after an input, whether or not it was answered.
    pub(super) fn repair_history(
        &mut self,
        ended: &Result<(), EndReason>,
        added: Option<AddedPrompt>,
    ) {
        match ended {
            Err(EndReason::Cancelled) => self.close_interrupted_turn(),
            Err(EndReason::Failed(_) | EndReason::MaxTurns { .. } | EndReason::Budget(_)) => {
                if let Some(added) = added {
                    self.remove_prompt(added);
                }
            }
            _ => {}
        }
    }

    /// Closes the history of an interrupted turn, unless the turn may be continued.
    fn close_interrupted_turn(&mut self) {
        match self.current.timed_out() {
            // If the program ends, the next process can resume the turn.
            None if self.inbox.is_shutting_down() => {}
            Some(_) if self.can_extend_time() => {}
            Some(_) => self.conversation.close_open_calls(TIMED_OUT),
            None => self.conversation.close_open_calls(INTERRUPTED),
        }
    }

    /// Removes a prompt without a response, so that it can be sent again. Tool results stay,
    /// because the tools have run.
    fn remove_prompt(&mut self, AddedPrompt { before, preface }: AddedPrompt) {
        if self.conversation.history().len() != before + 1 {
            return;
        }
        self.budget.save_spending(self.conversation.history_mut());
        self.conversation.remove_prompt(before, preface);
        self.context.forget_editor_context();
        self.current.mark_removed();
    }

    /// Runs the hooks after the final response. Returns the text with which they continue the turn.
    pub(super) async fn run_end_hooks(
        &mut self,
        prompt: &str,
        continuations: &mut Continuations,
        cancel: &CancellationToken,
    ) -> Result<Option<HookContinuation>, EndReason> {
        let response = self.conversation.current_response();
        let after =
            self.hooks.after_agent(prompt, response, continuations, &mut self.inbox, cancel).await;
        if after.clears_context {
            self.clear_conversation(0);
        }
        after.next
    }
}
