//! What an error response means: who can act, and when.

use std::time::Duration;

use parallax_protocol::model::ModelError;

use crate::error_payload::ErrorPayload;

/// Maximum wait for a retry.
pub const MAX_WAIT: Duration = Duration::from_secs(300);
/// The class of a model without capacity.
pub const CAPACITY: &str = "capacity";

/// What to do about an error.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorClass {
    /// Send again, not before the delay that the service asks for.
    Retry {
        /// How long to wait at least.
        delay: Option<Duration>,
        /// The delay is a guess, not the service's.
        is_guess: bool,
        /// The class for messages and logs (`rate_limit`, `server`, [`CAPACITY`]).
        class: &'static str,
    },
    /// A quota is exhausted for longer than we wait.
    Quota {
        /// Whether it is a daily quota.
        daily: bool,
        /// How long it stays exhausted, if known.
        retry_after: Option<Duration>,
    },
    /// Credentials are missing, invalid, or insufficient.
    Auth,
    /// An account must be verified first, at this address.
    Verify {
        /// The address.
        link: Option<String>,
    },
    /// The model does not exist.
    NotFound,
    /// The request is invalid.
    Bad,
}

/// An error response: status, payload, and the `Retry-After` header.
#[derive(Debug, Clone, Default)]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// The payload.
    pub payload: ErrorPayload,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
}

impl ErrorResponse {
    /// Returns the class for sending again after a delay, unless it is too long to wait.
    pub fn retry_after(&self, delay: Duration) -> ErrorClass {
        if delay > MAX_WAIT {
            ErrorClass::Quota { daily: false, retry_after: Some(delay) }
        } else {
            ErrorClass::Retry { delay: Some(delay), is_guess: false, class: self.class() }
        }
    }

    /// Returns the class for sending again after the usual backoff.
    pub fn retry_after_backoff(&self) -> ErrorClass {
        ErrorClass::Retry { delay: None, is_guess: false, class: self.class() }
    }

    /// Returns the class of a failure that a retry may help: `rate_limit` or `server`.
    pub fn class(&self) -> &'static str {
        if self.status == 429 { "rate_limit" } else { "server" }
    }

    /// Whether a rejection (401 or 403) is about the credentials; other reasons have the same
    /// status: a flagged input, a region, or a model without access.
    pub fn is_about_credentials(&self) -> bool {
        const OTHER_REASONS: &[&str] = &[
            "flagged",
            "moderation",
            "content policy",
            "usage polic",
            "country",
            "region",
            "territory",
            "access to model",
            "access to the model",
            "data policy",
        ];
        let message = self.payload.message.to_lowercase();
        self.status != 403 || !OTHER_REASONS.iter().any(|reason| message.contains(reason))
    }

    /// Status, code, and the service's message on one line.
    pub fn description(&self) -> String {
        let mut line = self.status.to_string();
        if let Some(status) = &self.payload.status {
            line.push(' ');
            line.push_str(status);
        }
        if !self.payload.message.is_empty() {
            line.push_str(": ");
            // The message becomes part of a longer sentence.
            line.push_str(&self.payload.message);
        }
        line
    }

    /// Returns the error when no retry follows. `model` is the one of the request; requests for the
    /// list of models have none. `credentials` says what to check when the service rejects them.
    pub fn into_error(
        self,
        model: Option<&str>,
        class: ErrorClass,
        credentials: &str,
    ) -> ModelError {
        let description = self.description();
        match class {
            ErrorClass::Retry { delay, is_guess, class } => ModelError::Unavailable {
                status: Some(self.status),
                delay: delay.filter(|_| !is_guess),
                class,
                message: match model {
                    Some(model) => {
                        format!(
                            "the service is currently unavailable for `{model}` ({description})"
                        )
                    }
                    None => format!("the service is currently unavailable ({description})"),
                },
            },
            ErrorClass::Quota { daily, retry_after } => {
                quota_error(self.status, model, &description, daily, retry_after)
            }
            ErrorClass::Auth => ModelError::Auth {
                status: Some(self.status),
                message: format!(
                    "the service rejected the credentials ({description}); check {credentials}"
                ),
            },
            ErrorClass::Verify { link } => ModelError::Auth {
                status: Some(self.status),
                message: match link {
                    Some(link) => {
                        format!("the account must be verified first: open {link} ({description})")
                    }
                    None => format!("the account must be verified first ({description})"),
                },
            },
            ErrorClass::NotFound => match model {
                Some(model) => ModelError::ModelNotFound {
                    model: model.to_owned(),
                    message: format!(
                        "unknown model `{model}` ({description}); choose another \
                         with `--model`, and check the base URL if one is set"
                    ),
                },
                None => ModelError::BadRequest {
                    status: self.status,
                    code: self.payload.status.clone(),
                    message: format!(
                        "the service offers no list of models ({description}); check the base URL \
                         if one is set"
                    ),
                },
            },
            ErrorClass::Bad => ModelError::BadRequest {
                status: self.status,
                code: self.payload.status.clone(),
                message: format!("the service rejected the request ({description})"),
            },
        }
    }
}

fn quota_error(
    status: u16,
    model: Option<&str>,
    description: &str,
    daily: bool,
    wait: Option<Duration>,
) -> ModelError {
    let reset = match (wait, daily) {
        (Some(wait), _) => Some(format!("in {}", duration_text(wait))),
        (None, true) => Some(pacific_midnight(&jiff::Timestamp::now())),
        (None, false) => None,
    };
    let kind = if daily { "daily quota" } else { "quota or capacity" };
    let until = match &reset {
        Some(reset) => format!(", available again {reset}"),
        None => String::new(),
    };
    let model_suffix = model.map(|model| format!(" of `{model}`")).unwrap_or_default();
    ModelError::Quota {
        daily,
        status,
        message: format!(
            "quota exhausted: the {kind}{model_suffix} is used up{until} ({description}); use another model (`--model`) or another key"
        ),
        reset,
    }
}

/// Returns the time until midnight in California, when daily quotas are reset.
fn pacific_midnight(now: &jiff::Timestamp) -> String {
    let wait = jiff::tz::TimeZone::get("America/Los_Angeles").ok().and_then(|zone| {
        let today = now.to_zoned(zone);
        let midnight = today.tomorrow().ok()?.start_of_day().ok()?;
        u64::try_from(midnight.timestamp().as_second() - now.as_second()).ok()
    });
    match wait {
        Some(seconds) => {
            format!("at midnight Pacific time (in {})", duration_text(Duration::from_secs(seconds)))
        }
        None => "at midnight Pacific time".to_owned(),
    }
}

/// Returns a duration for display: `2 h 5 min`, `6 min`, `40 s`.
fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}
