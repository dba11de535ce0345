//! One model request of a turn: choose the model, make the request fit, and send it until it is
//! answered.

use std::time::{Duration, Instant};

use parallax_protocol::CancellationToken;
use parallax_protocol::budget::ExhaustedBudget;
use parallax_protocol::event::{EndReason, Failure, Level};
use parallax_protocol::model::Request;
use parallax_protocol::routing::FallbackCause;
use parallax_protocol::store::UnfinishedAnswer;

use super::Session;
use crate::approvals::UserRequests;
use crate::approvals::check_budget;
use crate::budget::Reservation;
use crate::model_request::{ATTEMPTS, InvalidResponse};
use crate::model_request::{
    Attempt, AttemptKind, ModelReply, RejectedContent, RequestBuilder, ResponseReceiver,
    RetryAction, StreamEnd, StreamSource, blocked_failure, classify, context_full,
    exclude_named_tool, is_rejected_token, is_rejection, single_chunk,
};
use crate::routing::{FallbackResult, fallback_cause};

/// How often a service may reject a continuation token before the turn ends.
const MAX_REJECTED_CONTINUATIONS: u32 = 3;

/// What was tried to get an answer.
struct RequestState {
    model: String,
    /// The answer of an earlier process or attempt that the request continues. It is taken once its
    /// text is in the history.
    unfinished_answer: Option<UnfinishedAnswer>,
    /// How often the service rejected a continuation token.
    rejected_continuations: u32,
    /// How many bytes of its text the front ends show.
    shown_bytes: usize,
    /// Whether the request carries tool results.
    after_tool: bool,
    /// The number of the attempt; it begins again after a change to the request.
    number: u32,
    has_nudged: bool,
    has_compacted: bool,
    /// How often the service rejected a thought signature.
    foreign_signature: u8,
    rejected: RejectedContent,
}

/// A failed attempt.
struct FailedAttempt {
    action: RetryAction,
    /// Maximum number of attempts for this failure.
    max_attempts: u32,
    /// Why another model may answer.
    fallback_cause: Option<FallbackCause>,
    /// Whether the service may accept the request without some of its contents.
    rejects: bool,
    /// Whether the service rejected the continuation token.
    is_token_rejected: bool,
}

impl Session {
    /// Requests the next step from the model and commits the response.
    pub(super) async fn request_model(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, EndReason> {
        if self.inbox.ends_before_request() {
            return Err(EndReason::Cancelled);
        }
        self.client.count_request();
        self.registry.refresh();
        let Self { router, current, conversation, inbox, .. } = self;
        router.choose_model(&mut current.requested_model, conversation, inbox, cancel).await?;
        self.avoid_unavailable_model(cancel).await?;
        let model = self.main_model();
        self.check_budget(&model, cancel).await?;
        let unfinished_answer = self.client.take_unfinished_answer(&model, &mut self.conversation);
        // Interactive front ends show the history.
        let shown = unfinished_answer.as_ref().filter(|_| self.environment.interactive);
        let mut state = RequestState {
            model: model.clone(),
            shown_bytes: shown.map_or(0, UnfinishedAnswer::text_length),
            unfinished_answer,
            rejected_continuations: 0,
            after_tool: self.conversation.history().ends_with_results(),
            number: 0,
            has_nudged: false,
            has_compacted: false,
            foreign_signature: 0,
            rejected: RejectedContent::default(),
        };
        let reply = self.request_with_retries(&mut state, cancel).await;
        if let (Err(_), Some(unfinished)) = (&reply, state.unfinished_answer) {
            self.receiver().show_unfinished(&unfinished, state.shown_bytes);
            self.client.restore_unfinished(unfinished, &mut self.conversation);
        }
        let reply = reply?;
        self.conversation.report_storage_error(self.inbox.notices());
        self.emit_context_usage();
        Ok(reply)
    }

    /// Sends requests until one is answered.
    async fn request_with_retries(
        &mut self,
        state: &mut RequestState,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, EndReason> {
        self.compact_if_needed(cancel).await?;
        loop {
            state.number += 1;
            let failed = match self.attempt(state, cancel).await? {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            if failed.is_token_rejected
                && let Some(unfinished) = state.unfinished_answer.take()
            {
                // The token has expired, or the request differs from the original one.
                self.give_up_continuation(&unfinished, state);
                self.count_rejected_continuation(state, failed.action)?;
                state.number = 0;
                continue;
            }
            self.prepare_retry(state, failed, cancel).await?;
        }
    }

    /// Sends one request. The inner result is the failure, if another attempt may help.
    async fn attempt(
        &mut self,
        state: &mut RequestState,
        cancel: &CancellationToken,
    ) -> Result<Result<ModelReply, FailedAttempt>, EndReason> {
        let request = self.build_request(state)?;
        let (mut request, hooked) = self
            .hooks
            .before_model(
                request,
                self.client.catalog(),
                &mut self.registry,
                &mut self.inbox,
                cancel,
            )
            .await?;
        let started_at = Instant::now();
        let request_view = self.hooks.request_view(&request, self.client.catalog());
        let sent = self.conversation.history().len();
        let mut attempt = Attempt::new(started_at, request.bytes());
        if hooked.is_none() {
            let is_continuation = state.unfinished_answer.is_some();
            attempt.reservation = self.reserve_cost(&mut request, is_continuation, cancel).await?;
        }
        let mut receiver = self.receiver();
        if let Some(unfinished) = &state.unfinished_answer {
            request.continuation = Some(unfinished.token.clone());
            receiver.begin_resumed(&mut attempt, unfinished, state.shown_bytes);
        }
        let played = StreamSource {
            hook_response: hooked.map(single_chunk),
            hook_request: request_view.as_ref(),
        };
        let mut ended = receiver.stream(request, played, &mut attempt, cancel).await;
        let cost = receiver.report_request(&state.model, &attempt, &ended);
        let reservation = attempt.reservation.take();
        let output_limit = reservation.as_ref().and_then(Reservation::output_limit);
        if let Some(reservation) = reservation {
            let is_unfinished = attempt.answer.finish.is_none() && ended.is_by_client();
            match cost {
                Some(cost) if is_unfinished => reservation.release_unfinished(cost).await,
                _ => reservation.release().await,
            }
        }
        self.budget.save_requests(self.conversation.history_mut());
        if let (StreamEnd::Complete | StreamEnd::RepetitionDetected, Some(request_view)) =
            (&ended, &request_view)
            && let Err(reason) =
                self.receiver().run_response_hooks(&mut attempt, request_view, cancel).await
        {
            ended = StreamEnd::Stopped(reason);
        }
        if let Some(usage) = attempt.answer.usage
            && !state.has_nudged
        {
            self.conversation.history_mut().set_token_count(sent, usage.prompt);
            self.conversation.history_mut().set_cached(&state.model, usage.cached);
        }
        let fallback_cause = match &ended {
            StreamEnd::Failed(error) => fallback_cause(error),
            _ => None,
        };
        let rejects = matches!(&ended, StreamEnd::Failed(error) if is_rejection(error));
        let is_token_rejected =
            matches!(&ended, StreamEnd::Failed(error) if is_rejected_token(error));
        if attempt.accepted_tokens > 0 {
            state.rejected_continuations = 0;
        }
        let mut max_attempts = ATTEMPTS;
        let action = match ended {
            StreamEnd::Cancelled => {
                // No hook has seen this text, so it is discarded.
                if self.hooks.holds_back_text() {
                    self.receiver().discard_output(&mut attempt);
                } else if let Some(resumable) = self.resumable_after_end(&mut attempt, &state.model)
                {
                    state.unfinished_answer = Some(resumable);
                    state.shown_bytes = usize::MAX;
                    self.receiver().finish_resumable(attempt);
                } else {
                    state.unfinished_answer = None;
                    self.receiver().commit_partial(attempt, &state.model);
                }
                return Err(EndReason::Cancelled);
            }
            StreamEnd::OutOfBudget => {
                return self.pause_for_budget(state, attempt, cancel).await.map(Err);
            }
            StreamEnd::RepetitionDetected => {
                state.unfinished_answer = None;
                self.receiver().commit_partial(attempt, &state.model);
                return Ok(Ok(ModelReply::RepetitionDetected));
            }
            StreamEnd::Stopped(reason) => {
                self.retract(state, attempt);
                return Err(reason);
            }
            StreamEnd::Complete
                if let Some((_, budget)) = output_limit
                    && attempt.answer.is_output_limit_reached() =>
            {
                return self.end_at_output_limit(state, attempt, budget, cancel).await.map(Err);
            }
            StreamEnd::Complete => match unusable_action(state, &attempt) {
                None => {
                    self.router.mark_available(&state.model);
                    let rejected = std::mem::take(&mut state.rejected);
                    rejected.commit(self.conversation.history_mut(), self.inbox.notices());
                    state.unfinished_answer = None;
                    return Ok(Ok(self.receiver().commit(attempt, &state.model)));
                }
                Some((action, attempts)) => {
                    max_attempts = attempts;
                    action
                }
            },
            StreamEnd::Failed(error) => {
                let action = classify(&error, state.number, &mut state.foreign_signature);
                if let Some(resumable) = self.receiver().take_resumable(&mut attempt, &state.model)
                {
                    // The next attempt continues what is in the journal.
                    self.receiver().discard_output(&mut attempt);
                    state.unfinished_answer = Some(resumable);
                    return Ok(Err(FailedAttempt {
                        action,
                        max_attempts,
                        fallback_cause,
                        rejects,
                        is_token_rejected,
                    }));
                }
                action
            }
        };
        self.retract(state, attempt);
        Ok(Err(FailedAttempt { action, max_attempts, fallback_cause, rejects, is_token_rejected }))
    }

    /// Handles an answer whose next request would exceed a budget. If the user raises the limit, or
    /// another process resumes the session, it is continued.
    ///
    /// # Errors
    /// Returns the end reason if the limit stays.
    async fn pause_for_budget(
        &mut self,
        state: &mut RequestState,
        mut attempt: Attempt,
        cancel: &CancellationToken,
    ) -> Result<FailedAttempt, EndReason> {
        state.unfinished_answer = self.receiver().take_resumable(&mut attempt, &state.model);
        let model = state.model.clone();
        let checked = self.check_budget(&model, cancel).await;
        if checked.is_err() && state.unfinished_answer.is_some() {
            state.shown_bytes = usize::MAX;
            self.receiver().finish_resumable(attempt);
        } else {
            self.receiver().discard_output(&mut attempt);
        }
        checked.map(|()| FailedAttempt {
            action: RetryAction::SendAgain,
            max_attempts: ATTEMPTS,
            fallback_cause: None,
            rejects: false,
            is_token_rejected: false,
        })
    }

    /// Handles an answer that was cut off because a budget did not cover a longer one. If the user
    /// raises the limit, the request is sent again.
    ///
    /// # Errors
    /// Returns the end reason if the limit stays.
    async fn end_at_output_limit(
        &mut self,
        state: &mut RequestState,
        attempt: Attempt,
        budget: ExhaustedBudget,
        cancel: &CancellationToken,
    ) -> Result<FailedAttempt, EndReason> {
        let raised = self.raise_budget(budget, cancel).await;
        if raised.is_err() && self.environment.interactive {
            // The user has seen it.
            self.receiver().commit_partial(attempt, &state.model);
        } else {
            // The session can be resumed with the request.
            self.retract(state, attempt);
        }
        raised.map(|()| FailedAttempt {
            action: RetryAction::SendAgain,
            max_attempts: ATTEMPTS,
            fallback_cause: None,
            rejects: false,
            is_token_rejected: false,
        })
    }

    /// Returns what another process can continue of an answer that was interrupted. If the user
    /// interrupted it in an interactive session, they may have read more than is in the journal.
    fn resumable_after_end(
        &mut self,
        attempt: &mut Attempt,
        model: &str,
    ) -> Option<UnfinishedAnswer> {
        if self.environment.interactive && !self.inbox.is_shutting_down() {
            return None;
        }
        self.receiver().take_resumable(attempt, model)
    }

    /// Gives up on an answer that the service does not continue.
    fn give_up_continuation(&mut self, unfinished: &UnfinishedAnswer, state: &mut RequestState) {
        let shown = std::mem::take(&mut state.shown_bytes);
        self.receiver().show_unfinished(unfinished, shown);
        self.conversation.give_up_continuation(unfinished);
    }

    /// Warns once that the service rejected the continuation token; the next request asks for the
    /// rest.
    ///
    /// # Errors
    /// Returns the end reason if the service rejected too many tokens: a service that never accepts its
    /// tokens would be paid for new answers without an end.
    fn count_rejected_continuation(
        &mut self,
        state: &mut RequestState,
        action: RetryAction,
    ) -> Result<(), EndReason> {
        state.rejected_continuations += 1;
        let Some(failure) = action.into_failure() else { return Ok(()) };
        if state.rejected_continuations > MAX_REJECTED_CONTINUATIONS {
            let message = format!(
                "The service rejected the continuation token of `{}` {} times; the text received so \
                 far is kept ({})",
                state.model, state.rejected_continuations, failure.message
            );
            return Err(EndReason::Failed(Failure { message, ..failure }));
        }
        if state.rejected_continuations == 1 {
            let text = format!(
                "The service rejected the continuation token of `{}` ({}), so a new request asks \
                 for the rest",
                state.model, failure.message
            );
            self.inbox.notice(Level::Warning, text);
        }
        Ok(())
    }

    /// Retracts what a failed attempt showed and journaled.
    fn retract(&mut self, state: &RequestState, mut attempt: Attempt) {
        let mut receiver = self.receiver();
        receiver.discard_output(&mut attempt);
        receiver.invalidate_pieces(&mut attempt, &state.model, state.unfinished_answer.as_ref());
    }

    /// Changes the request after a failed attempt, or waits, so that another one may succeed.
    ///
    /// # Errors
    /// Returns the end reason if no further attempt is made.
    async fn prepare_retry(
        &mut self,
        state: &mut RequestState,
        failed: FailedAttempt,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let FailedAttempt { action, max_attempts, fallback_cause, rejects, .. } = failed;
        match action {
            RetryAction::Fail(failure) if rejects => {
                if !exclude_named_tool(&failure, &mut self.registry, self.inbox.notices())
                    && !self.remove_suspect_content(state, &failure)
                {
                    let rejected = std::mem::take(&mut state.rejected);
                    let failure = rejected.failure(failure, self.conversation.history());
                    return Err(EndReason::Failed(failure));
                }
                state.number = 0;
            }
            RetryAction::Fail(failure) => {
                let Some(cause) = fallback_cause else { return Err(EndReason::Failed(failure)) };
                self.fall_back(state, cause, failure, cancel).await?;
            }
            RetryAction::SendAgain => state.number = 0,
            RetryAction::ReplaceSignatures => {
                let text = "The service rejected thought signatures of this session (from another \
                    model, key, or endpoint), so they were replaced";
                self.inbox.notice(Level::Warning, text);
                self.conversation.replace_signatures();
            }
            RetryAction::Compact(failure) => {
                let is_shorter = !std::mem::replace(&mut state.has_compacted, true)
                    && self.compactor().compact_after_overflow(cancel).await;
                let goes_on =
                    is_shorter || (rejects && self.remove_suspect_content(state, &failure));
                if !goes_on {
                    return Err(EndReason::Failed(failure));
                }
            }
            RetryAction::Retry(failure, asked) => {
                self.wait(state, &failure, max_attempts, asked, cancel).await?;
            }
            RetryAction::Nudge(failure) => {
                state.has_nudged = true;
                self.wait(state, &failure, max_attempts, None, cancel).await?;
            }
        }
        Ok(())
    }

    /// Edits the context as the user requested meanwhile, and compacts it if it exceeds a threshold.
    async fn compact_if_needed(&mut self, cancel: &CancellationToken) -> Result<(), EndReason> {
        while let Some(op) = self.inbox.next_context_op() {
            self.compactor().apply(op, cancel).await;
        }
        self.compactor().compact_if_needed(cancel).await
    }

    async fn avoid_unavailable_model(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let Self { router, conversation, inbox, hooks, approvals, .. } = self;
        let mut users = UserRequests { inbox, hooks, approvals };
        router.avoid_unavailable_model(conversation, &mut users, cancel).await
    }

    async fn check_budget(
        &mut self,
        model: &str,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        self.conversation.record_limits(&mut self.inbox);
        let price = self.client.catalog().price(model);
        let Self { budget, inbox, hooks, approvals, .. } = self;
        let mut users = UserRequests { inbox, hooks, approvals };
        check_budget(budget, (model, price), &mut users, cancel).await
    }

    /// Switches to another model, or ends the turn with the failure.
    async fn fall_back(
        &mut self,
        state: &mut RequestState,
        cause: FallbackCause,
        mut failure: Failure,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let Self { router, conversation, inbox, hooks, approvals, .. } = self;
        let mut users = UserRequests { inbox, hooks, approvals };
        let result =
            router.fall_back(cause, &mut failure, conversation, &mut users, cancel).await?;
        if let FallbackResult::NoModel = result {
            return Err(EndReason::Failed(failure));
        }
        state.model = self.main_model();
        if let Some(unfinished) = state.unfinished_answer.take_if(|it| it.model != state.model) {
            self.give_up_continuation(&unfinished, state);
        }
        state.number = 0;
        let model = state.model.clone();
        self.check_budget(&model, cancel).await
    }

    fn remove_suspect_content(&mut self, state: &mut RequestState, failure: &Failure) -> bool {
        state.rejected.remove_next(failure, self.conversation.history_mut(), &mut self.registry)
    }

    async fn wait(
        &mut self,
        state: &RequestState,
        failure: &Failure,
        max_attempts: u32,
        server_delay: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let (number, output) = ((state.number, max_attempts), (&self.bus, &mut self.inbox));
        self.client.wait(failure, number, server_delay, &state.model, output, cancel).await
    }

    fn build_request(&mut self, state: &RequestState) -> Result<Request, EndReason> {
        let tools = self.declare_tools();
        let limits = self.client.catalog().limits(&state.model);
        let mode = self.inbox.mode();
        let builder = RequestBuilder {
            frame: self.context.frame((state.model.clone(), limits), mode, &tools),
            system: self.context.system_prompt(mode, &tools.names),
            tools,
            client: &self.client,
            router: &self.router,
            environment: &self.environment,
            inbox: &self.inbox,
            history: self.conversation.history(),
        };
        builder.build(&AttemptKind {
            is_nudge: state.has_nudged,
            after_tool: state.after_tool,
            is_retry: state.number > 1,
        })
    }

    fn receiver(&mut self) -> ResponseReceiver<'_> {
        ResponseReceiver {
            client: &self.client,
            conversation: &mut self.conversation,
            hooks: &self.hooks,
            inbox: &mut self.inbox,
            loops: &mut self.loops,
            environment: &self.environment,
            bus: &self.bus,
            ledger: self.budget.ledger(),
        }
    }
}

/// Returns what to do about a complete response that cannot be used, and how often.
fn unusable_action(state: &RequestState, attempt: &Attempt) -> Option<(RetryAction, u32)> {
    if let Some(reason) = &attempt.answer.blocked {
        return Some((RetryAction::Fail(blocked_failure(reason, &attempt.answer)), ATTEMPTS));
    }
    if attempt.answer.is_context_full() {
        return Some((context_full(), ATTEMPTS));
    }
    let invalid = InvalidResponse::validate(&attempt.answer, state.after_tool)?;
    let (failure, max_attempts) = (invalid.failure(&attempt.answer), invalid.max_attempts());
    let action = if state.number >= max_attempts {
        RetryAction::Fail(failure)
    } else if invalid == InvalidResponse::MissingSignature {
        RetryAction::ReplaceSignatures
    } else if invalid.needs_nudge() {
        RetryAction::Nudge(failure)
    } else {
        RetryAction::Retry(failure, None)
    };
    Some((action, max_attempts))
}
