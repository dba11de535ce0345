//! Failed attempts of a request: what the failure means, and whether to retry.

use std::time::Duration;

use parallax_http::{Failure, FailureKind};
use parallax_protocol::excerpt::one_line;
use parallax_protocol::model::{ModelError, Retry, is_context_overflow};

use crate::client::Transport;
use crate::error_class::{ErrorClass, ErrorResponse, MAX_WAIT};
use crate::response_reader::ReadFailure;
use crate::wire::Wire;

/// The class of failures without a connection.
pub(crate) const UNREACHABLE: &str = "connect";
/// The class of failures without any data for too long.
pub(crate) const TIMEOUT: &str = Retry::TIMEOUT;
/// The message for an event that does not parse.
const NOT_JSON: &str = "a chunk of the response is not valid JSON";

/// A failed attempt, with the plan for another one if it may be retried.
pub(crate) struct FailedAttempt {
    pub error: ModelError,
    pub retry: Option<RetryPlan>,
    /// The error response, if there was one and no retry helps: the wire may know more.
    pub rejected: Option<Box<ErrorResponse>>,
}

/// Another attempt after a failed one.
pub(crate) struct RetryPlan {
    pub delay: Option<Duration>,
    pub is_guess: bool,
    /// Whether it is the only other attempt, without much of a wait: the server may be starting,
    /// or it may be another service, which must be reported soon.
    pub is_brief: bool,
    pub class: &'static str,
    pub status: Option<u16>,
    pub message: String,
}

impl FailedAttempt {
    /// Creates a failure for which another attempt is useless.
    pub fn permanent(error: ModelError) -> Self {
        Self { error, retry: None, rejected: None }
    }
}

/// Decides what a failure of a request means.
pub(crate) struct FailureClassifier<'a> {
    pub wire: &'a dyn Wire,
    pub transport: &'a Transport,
    /// The model of the request.
    pub model: &'a str,
    /// Whether the request continues an answer of the model, which therefore exists.
    pub is_continuation: bool,
}

impl FailureClassifier<'_> {
    /// Returns what a service error means for this attempt.
    pub fn evaluate(&self, mut response: ErrorResponse) -> FailedAttempt {
        response.payload.message =
            self.transport.redact(std::mem::take(&mut response.payload.message));
        let class = match self.wire.classify(&response) {
            ErrorClass::NotFound if self.is_continuation => ErrorClass::Bad,
            class => class,
        };
        let retry = match &class {
            ErrorClass::Retry { delay, is_guess, class } => Some(RetryPlan {
                delay: *delay,
                is_guess: *is_guess,
                is_brief: false,
                class,
                status: Some(response.status),
                message: response.description(),
            }),
            _ => None,
        };
        let rejected = retry.is_none().then(|| Box::new(response.clone()));
        let hint = self.wire.credentials_hint();
        let error = response.into_error(Some(self.model), class, &hint);
        FailedAttempt { error, retry, rejected }
    }

    /// Returns a failure before the first chunk.
    pub fn before_first_chunk(&self, failure: ReadFailure) -> FailedAttempt {
        if let ReadFailure::Refused(mut payload) = failure {
            // LM Studio answers an unknown path in this way.
            let is_path = payload.message.starts_with("Unexpected endpoint");
            if is_path {
                let base = self.wire.base();
                payload.message.push_str(&format!("; the base URL `{base}` should end in `/v1`"));
            }
            let status = payload.code.unwrap_or(if is_path { 404 } else { 500 });
            return self.evaluate(ErrorResponse { status, payload: *payload, retry_after: None });
        }
        let (mut class, mut retryable) = self.classify_failure(&failure);
        let mut is_brief = false;
        if let ReadFailure::Network(network) = &failure
            && self.transport.is_unknown_local_server()
        {
            match network.kind {
                FailureKind::Connection if !self.transport.was_asked() => is_brief = true,
                // It seems to be another service, or to need another scheme: waiting does not
                // help.
                FailureKind::Connection | FailureKind::Tls | FailureKind::Other => {
                    (class, retryable) = (UNREACHABLE, true);
                }
                _ => {}
            }
        }
        let mut message = self.describe(&failure);
        if let ReadFailure::Network(Failure { kind: FailureKind::Tls, .. }) = failure {
            message.push_str("; if the server has no TLS, its base URL begins with `http://`");
        }
        let retry_message = match class {
            UNREACHABLE => format!("{}: {message}", self.host()),
            _ => message.clone(),
        };
        let error = ModelError::Unavailable {
            status: None,
            delay: None,
            class,
            message: format!(
                "cannot reach the model service at {}, or it does not respond ({message}); \
                 run `parallax doctor` to check the connection",
                self.host()
            ),
        };
        let retry = retryable.then_some(RetryPlan {
            delay: None,
            is_guess: false,
            is_brief,
            class,
            status: None,
            message: retry_message,
        });
        FailedAttempt { error, retry, rejected: None }
    }

    /// Returns a failure after the first chunk.
    pub fn after_first_chunk(&self, failure: ReadFailure) -> ModelError {
        let (_, retryable) = self.classify_failure(&failure);
        let message = self.describe(&failure);
        match failure {
            ReadFailure::Refused(payload) => {
                let status = payload.code.unwrap_or(500);
                let failed =
                    self.evaluate(ErrorResponse { status, payload: *payload, retry_after: None });
                match failed.error {
                    error @ (ModelError::Quota { .. } | ModelError::Auth { .. }) => error,
                    // The conversation is compacted, as after a rejected request.
                    ModelError::BadRequest { status, code, message }
                        if is_context_overflow(code.as_deref(), &message) =>
                    {
                        ModelError::BadRequest { status, code, message }
                    }
                    error => ModelError::Broken {
                        status: Some(status),
                        message: format!("the stream ended with an error: {error}"),
                        retryable: failed
                            .retry
                            .as_ref()
                            .is_some_and(|retry| retry.delay.is_none_or(|delay| delay <= MAX_WAIT)),
                        delay: failed.retry.and_then(|retry| retry.delay),
                    },
                }
            }
            _ => ModelError::Broken {
                status: None,
                message: format!("the stream was interrupted: {message}"),
                retryable,
                delay: None,
            },
        }
    }

    /// Returns the class of a failure, and whether a retry may help.
    pub fn classify_failure(&self, failure: &ReadFailure) -> (&'static str, bool) {
        let unclear = self.transport.options.retry_fetch_errors;
        match failure {
            ReadFailure::Silent(_) | ReadFailure::NoContent(_) => (TIMEOUT, true),
            ReadFailure::Unfinished => ("incomplete", true),
            ReadFailure::Incomplete | ReadFailure::NotJson => ("incomplete", unclear),
            ReadFailure::TooLarge(_) | ReadFailure::Refused(_) | ReadFailure::Document(_) => {
                ("server", false)
            }
            ReadFailure::Network(failure) => match failure.kind {
                FailureKind::Timeout => (TIMEOUT, true),
                FailureKind::Refused | FailureKind::Dns | FailureKind::ConnectTimeout => {
                    (UNREACHABLE, true)
                }
                FailureKind::Certificate => ("tls", false),
                FailureKind::Request => ("network", false),
                FailureKind::Other => ("network", unclear),
                _ => ("network", true),
            },
        }
    }

    pub fn describe(&self, failure: &ReadFailure) -> String {
        let text = match failure {
            ReadFailure::Silent(idle) => format!("no data for {} s", idle.as_secs_f32()),
            ReadFailure::NoContent(idle) => {
                format!("nothing but keep-alive messages for {} s", idle.as_secs_f32())
            }
            ReadFailure::Incomplete => {
                "incomplete JSON segment at the end of the stream".to_owned()
            }
            ReadFailure::Unfinished => "the response ended without a finish reason".to_owned(),
            ReadFailure::NotJson => NOT_JSON.to_owned(),
            ReadFailure::Document(kind) => format!(
                "it returned a document (`{}`) instead of a stream; check the base URL `{}`, and \
                 whether a proxy or a sign-in page responds instead",
                one_line(kind),
                self.wire.base()
            ),
            ReadFailure::TooLarge(text) => text.clone(),
            ReadFailure::Network(Failure { message, .. }) => one_line(message),
            ReadFailure::Refused(payload) => payload.message.clone(),
        };
        self.transport.redact(text)
    }

    pub fn host(&self) -> String {
        let base = self.wire.base();
        let host = base.host_str().unwrap_or_default();
        match base.port() {
            Some(port) => format!("`{host}:{port}`"),
            None => format!("`{host}`"),
        }
    }
}
