//! The turn loop: request the model, run its calls, repeat.

use parallax_protocol::CancellationToken;
use parallax_protocol::content::Part;
use parallax_protocol::event::{EndReason, Failure, FailureKind, Level};
use parallax_protocol::op::Prompt;

use crate::agents::AgentRole;
use crate::loop_approval::GO_ON;
use crate::loop_detection::{LoopAction, LoopDetector};
use crate::model_request::ModelReply;
use crate::session::Session;
use crate::tool_batch::{FinishedResults, ToolCall};

/// Replaces a response that was interrupted, so that roles alternate.
pub(crate) const INTERRUPTED: &str = "[The user interrupted this turn.]";

/// Replaces a response that the time limit interrupted.
pub(crate) const TIMED_OUT: &str = "[The time limit of this turn was reached.]";
/// How a turn ends when the user denied all its calls.
const DECLINED_REASON: &str = "you denied the requested actions; tell the agent what to do instead";

/// Replaces a response that never came.
pub(crate) const UNANSWERED: &str = "[This turn ended without an answer.]";

/// The result of a step.
pub(crate) enum TurnStep {
    /// The model gets the results of its calls.
    NextRequest,
    /// The model gave its final response.
    Finished,
}

impl Session {
    /// Runs one prompt to its end. The history is valid afterwards in every case.
    pub(crate) async fn run_prompt(
        &mut self,
        prompt: Prompt,
        cancel: &CancellationToken,
    ) -> EndReason {
        self.conversation.is_last_answer_partial = false;
        self.client.unfinished = None;
        self.conversation.close_open_calls(UNANSWERED);
        let before = self.conversation.history.len();
        self.update_coordinator_mode(&prompt.text);
        self.wait_for_tools(cancel).await;
        self.describe_added_directories().await;
        let preface = self.conversation.preface.take();
        let editor = self.context.editor_context.as_ref().and_then(|context| context.message());
        self.push_prompt(prompt, preface.as_deref(), editor);
        self.client.requests_at_prompt = self.client.requests;
        let reason =
            self.run_steps(Ok(TurnStep::NextRequest), &mut LoopDetector::default(), cancel).await;
        // Without a response the prompt is removed, so that it can be sent again. Tool results
        // stay, because the tools have run.
        let has_no_response = matches!(
            reason,
            EndReason::Failed(_) | EndReason::MaxTurns { .. } | EndReason::Budget(_)
        );
        if has_no_response && self.conversation.history.len() == before + 1 {
            self.save_spending();
            self.conversation.history.truncate(before);
            self.conversation.prompts.truncate(before);
            self.conversation.preface = preface;
            self.context.forget_editor_context();
            self.current.taken_back = true;
        }
        reason
    }

    /// Runs steps until the model is finished or something ends the turn.
    pub(crate) async fn run_steps(
        &mut self,
        mut step: Result<TurnStep, EndReason>,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> EndReason {
        loop {
            match step {
                Ok(TurnStep::NextRequest) => step = self.step(guard, cancel).await,
                Ok(TurnStep::Finished) => return EndReason::Done,
                Err(reason) => {
                    if matches!(reason, EndReason::Cancelled) {
                        self.close_interrupted_turn();
                    }
                    return reason;
                }
            }
        }
    }

    /// One model request and its tool calls.
    async fn step(
        &mut self,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<TurnStep, EndReason> {
        self.check_limits(cancel)?;
        self.client.requests += 1;
        let reply = self.request_model(guard, cancel).await?;
        self.report_storage_error();
        self.emit_context_usage();
        match reply {
            ModelReply::ToolCalls(calls) => {
                self.run_calls(calls, FinishedResults::new(), guard, cancel).await
            }
            ModelReply::RepetitionDetected => {
                self.stop_repetition(guard, cancel).await?;
                Ok(TurnStep::NextRequest)
            }
            // Steering messages received meanwhile become prompts.
            ModelReply::Final => Ok(TurnStep::Finished),
        }
    }

    /// Ends the turn if it was cancelled or may send no further request.
    fn check_limits(&self, cancel: &CancellationToken) -> Result<(), EndReason> {
        if cancel.is_cancelled() {
            return Err(EndReason::Cancelled);
        }
        let is_last_chance = self.agents.role.as_ref().is_some_and(AgentRole::is_final_turn);
        let limit = match is_last_chance {
            // One request, regardless of earlier ones.
            true => Some(self.client.requests_at_prompt + 1),
            false => self.client.max_turns,
        };
        match limit {
            Some(limit) if self.client.requests >= limit => Err(EndReason::MaxTurns { limit }),
            _ => Ok(()),
        }
    }

    /// Handles a response that repeated itself: the model gets a note once, then the user decides.
    async fn stop_repetition(
        &mut self,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let note = match guard.record_text_repetition() {
            LoopAction::Nudge(detail) => {
                self.inbox.notice(Level::Warning, format!("Possible loop: {detail}"));
                nudge(&detail)
            }
            LoopAction::Stop(detail) => {
                self.confirm_loop(detail, cancel).await?;
                GO_ON.to_owned()
            }
        };
        self.conversation.history.push_note(&note);
        Ok(())
    }

    /// Runs the unfinished calls and commits the batch.
    pub(crate) async fn run_calls(
        &mut self,
        calls: Vec<ToolCall>,
        finished: FinishedResults,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<TurnStep, EndReason> {
        let round = self.run_batch(&calls, finished, cancel).await;
        let finding =
            if self.current.loop_detection && !cancel.is_cancelled() {
                let calls = calls.iter().zip(&round.texts);
                guard.round(calls.map(|(call, text)| {
                    (call.name.as_str(), call.args.as_ref().ok(), text.as_str())
                }))
            } else {
                None
            };
        let mut tail = self.take_reports();
        let mut said = Vec::new();
        let (fatal, stopped) = (round.fatal.clone(), round.stopped.clone());
        // Unless the user sent a steering message meanwhile.
        let declined = round.declined && self.inbox.steers.is_empty();
        let ends = fatal.is_some()
            || stopped.is_some()
            || declined
            || matches!(finding, Some(LoopAction::Stop(_)));
        // If no request follows, a steering message becomes a prompt.
        if !ends && !cancel.is_cancelled() {
            said = self.take_steering(&mut tail);
        }
        if let Some(LoopAction::Nudge(detail)) = &finding {
            self.inbox.notice(Level::Warning, format!("Possible loop: {detail}"));
            tail.push(Part::text(nudge(detail)));
        }
        self.conversation.commit_batch(round, &tail, said);
        if let Some(error) = fatal {
            return Err(EndReason::Failed(Failure {
                kind: FailureKind::Tool,
                message: error.message,
                status: None,
            }));
        }
        if let Some(reason) = stopped {
            return Err(EndReason::Stopped { reason, blocked: false });
        }
        if self.agents.role.as_ref().is_some_and(|role| role.result.is_given()) {
            return Ok(TurnStep::Finished);
        }
        if let Some(LoopAction::Stop(detail)) = finding {
            self.confirm_loop(detail, cancel).await?;
        }
        match declined {
            true => Err(EndReason::Stopped { reason: DECLINED_REASON.to_owned(), blocked: false }),
            false => Ok(TurnStep::NextRequest),
        }
    }
}

/// Returns the note for the model about a possible loop.
fn nudge(detail: &str) -> String {
    format!(
        "System: Possible loop: {detail}. Summarize what you have achieved and what the next \
            step would change. If nothing, try another approach, or finish with what you know \
            and what is missing."
    )
}
