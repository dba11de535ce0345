//! Decides what to do after a failed attempt: wait, change something, or stop.

use std::time::Duration;

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::model::{ModelError, is_context_overflow, is_rate_limit};

use super::response_builder::ResponseBuilder;
use super::response_validation::ATTEMPTS;

/// What the user can do when the conversation is too long.
pub(crate) const TOO_LONG: &str = "run `/compress` to compact it or `/context` to see what uses \
    the context, refer to fewer or smaller files, choose a model with a larger context window, \
    or start a new session";

/// What to do after a failed attempt.
pub(crate) enum RetryAction {
    /// Wait at least as long as the service asks and send the same request.
    Retry(Failure, Option<Duration>),
    /// Wait and send it with a note that asks for a response.
    Nudge(Failure),
    /// The service rejects the thought signatures: replace them and retry.
    ReplaceSignatures,
    /// The request is too long: compact once.
    Compact(Failure),
    /// Send it again at once: what prevented it no longer does.
    SendAgain,
    /// Stop.
    Fail(Failure),
}

impl RetryAction {
    /// Returns the failure of the attempt, if the action is about one.
    pub(crate) fn into_failure(self) -> Option<Failure> {
        match self {
            Self::Retry(failure, _)
            | Self::Nudge(failure)
            | Self::Compact(failure)
            | Self::Fail(failure) => Some(failure),
            Self::ReplaceSignatures | Self::SendAgain => None,
        }
    }
}

/// Returns the action for a failed stream.
pub(crate) fn classify(error: &ModelError, number: u32, foreign_signature: &mut u8) -> RetryAction {
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
pub(crate) fn context_full() -> RetryAction {
    RetryAction::Compact(Failure {
        kind: FailureKind::Overflow,
        message: format!("the context window of the model is full; {TOO_LONG}"),
        status: None,
    })
}

/// Whether the service rejected a request for its length.
fn is_overflow(error: &ModelError) -> bool {
    let ModelError::BadRequest { message, status, code } = error else { return false };
    (*status == 413 && !is_rate_limit(message)) || is_context_overflow(code.as_deref(), message)
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

pub(crate) fn blocked_failure(reason: &str, answer: &ResponseBuilder) -> Failure {
    let mut message = format!("the service blocked the prompt (`{reason}`)");
    if let Some(output) = answer.finish_message.as_deref().filter(|output| !output.is_empty()) {
        message.push_str(&format!(": {output}"));
    }
    Failure { kind: FailureKind::Blocked, message, status: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_request_is_compacted_unless_rate_limited() {
        let is_compacted = |message: &str| {
            let (status, code, message) = (413, None, message.to_owned());
            let error = ModelError::BadRequest { status, code, message };
            matches!(classify(&error, 1, &mut 0), RetryAction::Compact(_))
        };
        assert!(is_compacted("Request exceeds the maximum allowed number of bytes"));
        assert!(!is_compacted("Request too large: tokens per minute (TPM): Limit 6000"));
    }
}
