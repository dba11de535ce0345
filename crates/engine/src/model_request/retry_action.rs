//! Decides what to do after a failed attempt: wait, change something, or stop.

use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::content::{SYNTHETIC_SIGNATURE, Sealed};
use parallax_protocol::event::{EndReason, EventBody, Failure, FailureKind, Level};
use parallax_protocol::model::{ModelError, Retry, says_too_long};

use crate::inbox::Inbox;
use crate::response_builder::ResponseBuilder;
use crate::response_validation::ATTEMPTS;
use crate::session::Session;

/// What the user can do when the conversation is too long.
pub(super) const TOO_LONG: &str = "run `/compress` to compact it or `/context` to see what uses \
    the context, refer to fewer or smaller files, choose a model with a larger context window, \
    or start a new session";

/// What to do after a failed attempt.
pub(super) enum RetryAction {
    /// Wait at least as long as the service asks and send the same request.
    Retry(Failure, Option<Duration>),
    /// Wait and send it with a note that asks for a response.
    Nudge(Failure),
    /// The service rejects the thought signatures: replace them and retry.
    ReplaceSignatures,
    /// The request is too long: compact once.
    Compact(Failure),
    /// Stop.
    Fail(Failure),
}

/// Returns the action for a failed stream.
pub(super) fn classify(error: &ModelError, number: u32, foreign_signature: &mut u8) -> RetryAction {
    if let ModelError::BadRequest { message, status, .. } = error {
        let lower = message.to_lowercase().replace('_', " ");
        if lower.contains("thought signature") && *foreign_signature < 2 {
            *foreign_signature += 1;
            let failure =
                Failure { kind: FailureKind::Api, message: message.clone(), status: Some(*status) };
            // Retry unchanged first, since the service is known to reject valid signatures at
            // times; then replace the signatures.
            return if *foreign_signature == 1 {
                RetryAction::Retry(failure, None)
            } else {
                RetryAction::ReplaceSignatures
            };
        }
    }
    let failure = failure_from(error);
    if is_overflow(error) {
        let message = format!("{}; {TOO_LONG}", failure.message.trim_end_matches('.'));
        return RetryAction::Compact(Failure { kind: FailureKind::Overflow, message, ..failure });
    }
    match error {
        ModelError::Broken { retryable: true, delay, .. } if number < ATTEMPTS => {
            RetryAction::Retry(failure, *delay)
        }
        _ => RetryAction::Fail(failure),
    }
}

/// Returns the action for a response that ended because the context window is full.
pub(super) fn context_full() -> RetryAction {
    RetryAction::Compact(Failure {
        kind: FailureKind::Overflow,
        message: format!("the context window of the model is full; {TOO_LONG}"),
        status: None,
    })
}

/// Whether the service rejected a request for its length.
fn is_overflow(error: &ModelError) -> bool {
    let ModelError::BadRequest { message, status, code } = error else { return false };
    let lower = message.to_lowercase();
    let counted =
        lower.contains("token") && (lower.contains("exceed") || lower.contains("maximum"));
    *status == 413 || counted || says_too_long(code.as_deref(), message)
}

fn failure_from(error: &ModelError) -> Failure {
    let kind = match error {
        ModelError::Auth { .. } => FailureKind::Auth,
        ModelError::Quota { .. } => FailureKind::Quota,
        ModelError::Broken { status: None, .. } => FailureKind::InvalidStream,
        _ => FailureKind::Api,
    };
    Failure { kind, message: error.to_string(), status: error.status() }
}

pub(super) fn blocked(reason: &str, answer: &ResponseBuilder) -> Failure {
    let mut message = format!("the service blocked the prompt (`{reason}`)");
    if let Some(said) = answer.finish_message.as_deref().filter(|said| !said.is_empty()) {
        message.push_str(&format!(": {said}"));
    }
    Failure { kind: FailureKind::Blocked, message, status: None }
}

impl Session {
    /// Waits 1, 2, 4 … times the base before another attempt.
    pub(super) async fn wait(
        &mut self,
        failure: &Failure,
        (number, most): (u32, u32),
        asked: Option<Duration>,
        model: &str,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let backoff =
            self.client.retry_base * 2u32.saturating_pow(number.saturating_sub(1)).min(64);
        let delay = backoff.max(asked.unwrap_or_default());
        self.hub.send(EventBody::Retry(Retry {
            attempt: number,
            max_attempts: most,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            class: "stream".into(),
            status: failure.status,
            message: failure.message.clone(),
            model: model.to_owned(),
        }));
        self.inbox.pause(delay, cancel).await
    }

    /// Replaces every signature in the history with the synthetic one.
    pub(super) fn replace_signatures(&mut self) {
        let text = "The service rejected thought signatures of this session (from another model, \
            key, or endpoint), so they were replaced";
        self.inbox.notice(Level::Warning, text);
        let contents =
            self.conversation.history.contents().iter().map(with_synthetic_signatures).collect();
        self.conversation.history.replace(contents);
    }
}

impl Inbox {
    pub(crate) async fn pause(
        &mut self,
        delay: Duration,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let woken = async {
            tokio::select! {
                () = cancel.cancelled() => Err(EndReason::Cancelled),
                () = tokio::time::sleep(delay) => Ok(()),
            }
        };
        self.while_receiving(woken).await
    }
}

fn with_synthetic_signatures(content: &Sealed) -> Sealed {
    if !content.json().contains("thoughtSignature") {
        return content.clone();
    }
    let Ok(mut opened) = content.open() else { return content.clone() };
    for part in &mut opened.parts {
        if part.signature().is_some() {
            *part = part.with_signature(SYNTHETIC_SIGNATURE);
        }
    }
    opened.seal()
}
