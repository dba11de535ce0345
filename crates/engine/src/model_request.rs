//! One model request: build it, stream it, validate the response, and retry.

use std::time::Instant;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::EndReason;
use parallax_protocol::store::UnfinishedAnswer;

use self::rejected_content::{RejectedContent, is_rejection};
use self::retry_action::{RetryAction, blocked, classify, context_full};
use self::stream::{Attempt, StreamEnd, StreamSource, only};
use crate::fallback::{self, FallbackResult};
use crate::loop_detection::LoopDetector;
use crate::response_validation::{ATTEMPTS, InvalidResponse};
use crate::session::Session;
use crate::tool_batch::ToolCall;

mod commit_response;
mod rejected_content;
mod request;
mod retry_action;
mod stream;
mod unfinished_answer;
/// The model's response.
pub(crate) enum ModelReply {
    /// Tool calls to run.
    ToolCalls(Vec<ToolCall>),
    /// The final response.
    Final,
    /// The model repeated the same text; the stream was stopped.
    RepetitionDetected,
}

impl Session {
    /// Requests the next step from the model and commits the response.
    pub(crate) async fn request_model(
        &mut self,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, EndReason> {
        self.refresh_tools();
        self.choose_model(cancel).await?;
        self.avoid_unavailable_model(cancel).await?;
        let model = self.main_model();
        self.check_budget(&model, cancel).await?;
        let mut resumed = self.take_unfinished(&model);
        let reply = self.request_until_answered(model, &mut resumed, guard, cancel).await;
        if let (Err(_), Some(unfinished)) = (&reply, resumed) {
            self.put_back(unfinished);
        }
        reply
    }

    /// Sends requests until one is answered. `resumed` is the answer that they continue; it
    /// is taken once its text is in the history.
    async fn request_until_answered(
        &mut self,
        mut model: String,
        resumed: &mut Option<UnfinishedAnswer>,
        guard: &mut LoopDetector,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, EndReason> {
        let after_tool = self.conversation.history.ends_with_results();
        self.compact_if_needed(cancel).await?;
        let mut has_nudged = false;
        let mut foreign_signature = 0u8;
        let mut has_compacted = false;
        let mut rejected = RejectedContent::default();
        let mut number = 0;
        loop {
            number += 1;
            let request = self.request(&model, has_nudged, after_tool, number > 1)?;
            let (mut request, hooked) = self.run_before_model_hooks(request, cancel).await?;
            let begun = Instant::now();
            let seen = self.request_view(&request);
            let sent = self.conversation.history.len();
            let mut attempt = Attempt::new(begun, request.bytes());
            if let Some(unfinished) = &resumed {
                request.continuation = Some(unfinished.token.clone());
                self.begin_with(&mut attempt, unfinished);
            }
            let played = StreamSource { given: hooked.map(only), seen: seen.as_ref() };
            let mut ended = self.stream(request, played, &mut attempt, guard, cancel).await;
            self.report_request(&model, &attempt, &ended);
            self.save_requests();
            if let (StreamEnd::Complete | StreamEnd::RepetitionDetected, Some(seen)) =
                (&ended, &seen)
                && let Err(reason) = self.run_response_hooks(&mut attempt, seen, cancel).await
            {
                ended = StreamEnd::Stopped(reason);
            }
            if let Some(usage) = attempt.answer.usage
                && !has_nudged
            {
                self.conversation.history.counted(sent, usage.prompt);
            }
            let trouble = match &ended {
                StreamEnd::Failed(error) => fallback::cause(error),
                _ => None,
            };
            let rejects = matches!(&ended, StreamEnd::Failed(error) if is_rejection(error));
            let mut most = ATTEMPTS;
            let again = match ended {
                StreamEnd::Cancelled => {
                    // No hook has seen this text, so it is discarded.
                    match self.hooks.delays_text() {
                        true => self.discard_shown(&mut attempt),
                        false => {
                            *resumed = None;
                            self.commit_partial(attempt, &model);
                        }
                    }
                    return Err(EndReason::Cancelled);
                }
                StreamEnd::RepetitionDetected => {
                    *resumed = None;
                    self.commit_partial(attempt, &model);
                    return Ok(ModelReply::RepetitionDetected);
                }
                StreamEnd::Stopped(reason) => {
                    self.discard_shown(&mut attempt);
                    self.forget_pieces(&mut attempt, &model, resumed.as_ref());
                    return Err(reason);
                }
                StreamEnd::Complete => match attempt.answer.blocked.clone() {
                    Some(reason) => RetryAction::Fail(blocked(&reason, &attempt.answer)),
                    None if attempt.answer.is_out_of_context() => context_full(),
                    None => match InvalidResponse::of(&attempt.answer, after_tool) {
                        None => {
                            self.router.models.mark_available(&model);
                            self.commit_removals(rejected);
                            *resumed = None;
                            return Ok(self.keep(attempt, &model));
                        }
                        Some(invalid) => {
                            let failure = invalid.failure(&attempt.answer);
                            most = invalid.max_attempts();
                            if number >= most {
                                RetryAction::Fail(failure)
                            } else if invalid.wants_nudge() {
                                RetryAction::Nudge(failure)
                            } else {
                                RetryAction::Retry(failure, None)
                            }
                        }
                    },
                },
                StreamEnd::Failed(error) => classify(&error, number, &mut foreign_signature),
            };
            self.discard_shown(&mut attempt);
            self.forget_pieces(&mut attempt, &model, resumed.as_ref());
            if rejects && let Some(unfinished) = resumed.take() {
                // The token has expired, or the request differs from the original one.
                self.conversation.give_up_continuation(&unfinished);
                number = 0;
                continue;
            }
            match again {
                RetryAction::Fail(failure) if rejects => {
                    if !self.exclude_named_tool(&failure)
                        && !self.remove_suspect_content(&mut rejected, &failure)
                    {
                        return Err(EndReason::Failed(
                            self.conversation.rejection_failure(rejected, failure),
                        ));
                    }
                    number = 0;
                }
                RetryAction::Fail(mut failure) => {
                    let Some(cause) = trouble else { return Err(EndReason::Failed(failure)) };
                    if let FallbackResult::NoModel =
                        self.fall_back(cause, &mut failure, cancel).await?
                    {
                        return Err(EndReason::Failed(failure));
                    }
                    model = self.main_model();
                    if let Some(unfinished) = resumed.take_if(|it| it.model != model) {
                        self.conversation.give_up_continuation(&unfinished);
                    }
                    self.check_budget(&model, cancel).await?;
                    number = 0;
                }
                RetryAction::ReplaceSignatures => self.replace_signatures(),
                RetryAction::Compact(failure) => {
                    let is_shorter = !std::mem::replace(&mut has_compacted, true)
                        && self.compact_after_overflow(cancel).await;
                    let goes_on = is_shorter
                        || (rejects && self.remove_suspect_content(&mut rejected, &failure));
                    if !goes_on {
                        return Err(EndReason::Failed(failure));
                    }
                }
                RetryAction::Retry(failure, asked) => {
                    self.wait(&failure, (number, most), asked, &model, cancel).await?;
                }
                RetryAction::Nudge(failure) => {
                    has_nudged = true;
                    self.wait(&failure, (number, most), None, &model, cancel).await?;
                }
            }
        }
    }
}
