//! Classifies service errors: who can act, and when.

use std::sync::LazyLock;
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::model::ModelError;
use regex::Regex;
use serde_json::Value;

use crate::payload::Payload;

/// Maximum wait for a retry.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(300);
/// The class of a model without capacity.
pub(crate) const CAPACITY: &str = "capacity";
/// The wait for a per-minute quota without a delay from the service.
const PER_MINUTE: Duration = Duration::from_secs(60);

/// What to do about an error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ErrorClass {
    /// Send again, not before the delay that the service asks for.
    Retry {
        delay: Option<Duration>,
        /// The delay is a guess, not the service's.
        guessed: bool,
        class: &'static str,
    },
    /// A quota is exhausted for longer than we wait.
    Quota { daily: bool, wait: Option<Duration> },
    /// Credentials are missing, invalid, or insufficient.
    Auth,
    /// An account must be verified first, at this address.
    Verify { link: Option<String> },
    /// The model does not exist.
    NotFound,
    /// The request is invalid.
    Bad,
}

/// An error response: status, payload, and the `Retry-After` header.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorResponse {
    pub(crate) status: u16,
    pub(crate) payload: Payload,
    pub(crate) retry_after: Option<Duration>,
}

static RETRY_IN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)please retry in ([0-9.]+ ?(?:ms|s)\b)").ok());
static LIMIT_ZERO: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\blimit: ?0(?:[^0-9.]|$)").ok());

/// Parses a duration as the service writes it: `34.07s`, `900ms`.
pub(crate) fn parse_delay(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    Duration::try_from_secs_f64(seconds).ok()
}

impl ErrorResponse {
    /// Classifies the error, in the order of the table in the service's documentation.
    pub(crate) fn classify(&self) -> ErrorClass {
        let payload = &self.payload;
        let info = payload.detail("google.rpc.ErrorInfo");
        let reason = info.and_then(|info| info.get("reason")).and_then(Value::as_str);
        let code_assist = info
            .and_then(|info| info.get("domain"))
            .and_then(Value::as_str)
            .is_some_and(|domain| domain.contains("cloudcode-pa"));
        match self.status {
            404 => return ErrorClass::NotFound,
            403 if reason == Some("VALIDATION_REQUIRED") => {
                return ErrorClass::Verify { link: self.verification_link(info) };
            }
            401 | 403 => return ErrorClass::Auth,
            // An invalid key is reported as 400.
            400 if matches!(reason, Some("API_KEY_INVALID" | "API_KEY_EXPIRED"))
                || payload.message.starts_with("API key not valid")
                || payload.message.starts_with("API key expired") =>
            {
                return ErrorClass::Auth;
            }
            429 | 499 | 500.. => {}
            _ => return ErrorClass::Bad,
        }
        self.classify_quota(reason, info, code_assist)
    }

    /// The rows of the table for 429, 499, and 5xx.
    fn classify_quota(
        &self,
        reason: Option<&str>,
        info: Option<&Object>,
        code_assist: bool,
    ) -> ErrorClass {
        let payload = &self.payload;
        let quota_status = matches!(self.status, 429 | 499 | 503);
        let matches = |regex: &LazyLock<Option<Regex>>| {
            regex.as_ref().is_some_and(|regex| regex.is_match(&payload.message))
        };
        if quota_status && matches(&LIMIT_ZERO) {
            return ErrorClass::Quota { daily: false, wait: None };
        }
        let description = self.server_delay();
        let exhausted_capacity = quota_status && is_exhausted_capacity(&payload.message);
        let violations = payload.detail("google.rpc.QuotaFailure").and_then(|failure| {
            failure.get("violations").and_then(Value::as_array).map(Vec::as_slice)
        });
        if info.is_none()
            && violations.is_none()
            && payload.detail("google.rpc.RetryInfo").is_none()
        {
            return match description {
                Some(delay) => self.waiting(delay),
                // Capacity returns.
                None if exhausted_capacity => self.capacity(None),
                None => self.later(),
            };
        }
        let quota_ids: Vec<&str> = violations
            .unwrap_or_default()
            .iter()
            .filter_map(|violation| violation.get("quotaId").and_then(Value::as_str))
            .collect();
        let has_quota = |word: &str| quota_ids.iter().any(|id| id.contains(word));
        if has_quota("PerDay") || has_quota("Daily") {
            return ErrorClass::Quota {
                daily: true,
                wait: description.filter(|wait| *wait > MAX_WAIT),
            };
        }
        match reason {
            Some("MODEL_CAPACITY_EXHAUSTED" | "MODEL_CAPACITY_EXCEEDED") => {
                return self.capacity(description);
            }
            Some("INSUFFICIENT_G1_CREDITS_BALANCE") => {
                return ErrorClass::Quota { daily: false, wait: description };
            }
            Some("QUOTA_EXHAUSTED") if code_assist => {
                return ErrorClass::Quota { daily: false, wait: description };
            }
            _ => {}
        }
        if let Some(delay) = description {
            return self.waiting(delay);
        }
        if code_assist && reason == Some("RATE_LIMIT_EXCEEDED") {
            return ErrorClass::Quota { daily: false, wait: None };
        }
        let limit = info
            .and_then(|info| info.get("metadata"))
            .and_then(|metadata| metadata.get("quota_limit"))
            .and_then(Value::as_str);
        if has_quota("PerMinute") || limit.is_some_and(|limit| limit.contains("PerMinute")) {
            return ErrorClass::Retry {
                delay: Some(PER_MINUTE),
                guessed: true,
                class: self.class(),
            };
        }
        if exhausted_capacity {
            return self.capacity(None);
        }
        self.later()
    }

    /// The model is overloaded: retried like any other service failure, unless the wait is too
    /// long. It has its own class because a fallback may be preferred.
    fn capacity(&self, description: Option<Duration>) -> ErrorClass {
        match description {
            Some(delay) if delay > MAX_WAIT => self.waiting(delay),
            delay => ErrorClass::Retry { delay, guessed: false, class: CAPACITY },
        }
    }

    /// The longest delay in the response: `RetryInfo`, the message text, the `Retry-After` header.
    fn server_delay(&self) -> Option<Duration> {
        let info = self.payload.detail("google.rpc.RetryInfo");
        let info = info
            .and_then(|info| info.get("retryDelay"))
            .and_then(Value::as_str)
            .and_then(parse_delay);
        let words = RETRY_IN
            .as_ref()
            .and_then(|regex| regex.captures(&self.payload.message))
            .and_then(|found| parse_delay(found.get(1)?.as_str()));
        info.or(words).max(self.retry_after)
    }

    fn waiting(&self, delay: Duration) -> ErrorClass {
        if delay > MAX_WAIT {
            ErrorClass::Quota { daily: false, wait: Some(delay) }
        } else {
            ErrorClass::Retry { delay: Some(delay), guessed: false, class: self.class() }
        }
    }

    fn later(&self) -> ErrorClass {
        ErrorClass::Retry { delay: None, guessed: false, class: self.class() }
    }

    fn class(&self) -> &'static str {
        if self.status == 429 { "rate_limit" } else { "server" }
    }

    fn verification_link(&self, info: Option<&Object>) -> Option<String> {
        let help = self.payload.detail("google.rpc.Help");
        let link = help
            .and_then(|help| help.get("links"))
            .and_then(|links| links.get(0))
            .and_then(|link| link.get("url"));
        let metadata = info
            .and_then(|info| info.get("metadata"))
            .and_then(|metadata| metadata.get("validation_link"));
        link.or(metadata).and_then(Value::as_str).map(str::to_owned)
    }

    /// Status, code, and the service's message on one line.
    pub(crate) fn description(&self) -> String {
        let mut line = self.status.to_string();
        if let Some(status) = &self.payload.status {
            line.push(' ');
            line.push_str(status);
        }
        if !self.payload.message.is_empty() {
            line.push_str(": ");
            line.push_str(&self.payload.message);
        }
        line
    }

    /// The error for the engine when no retry follows.
    pub(crate) fn into_error(self, model: &str, classify: ErrorClass) -> ModelError {
        let description = self.description();
        match classify {
            ErrorClass::Retry { delay, guessed, class } => ModelError::Unavailable {
                status: Some(self.status),
                delay: delay.filter(|_| !guessed),
                class,
                message: format!("the service is not available for `{model}` now ({description})"),
            },
            ErrorClass::Quota { daily, wait } => {
                quota_error(self.status, model, &description, daily, wait)
            }
            ErrorClass::Auth => ModelError::Auth {
                status: Some(self.status),
                message: format!(
                    "the service rejected the credentials ({description}); check the API key (`GEMINI_API_KEY`, or `GOOGLE_API_KEY` for Vertex AI) and its permissions"
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
            ErrorClass::NotFound => ModelError::ModelNotFound {
                model: model.to_owned(),
                message: format!(
                    "the service does not know the model `{model}` ({description}); choose another with `--model`, and check the base URL if one is set"
                ),
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
    model: &str,
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
    ModelError::Quota {
        daily,
        status,
        message: format!(
            "quota exhausted: the {kind} of `{model}` is used up{until} ({description}); use another model (`--model`) or another key"
        ),
        reset,
    }
}

/// Daily quotas are reset at midnight in California.
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

/// A duration for display: `2 h 5 min`, `6 min`, `40 s`.
fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

fn is_exhausted_capacity(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    lower.contains("exhausted your capacity")
        || lower.contains("capacity exhausted")
        || lower.contains("no capacity available")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, message: &str, details: &str) -> ErrorResponse {
        let message = serde_json::to_string(message).expect("json");
        let body = format!(r#"{{"error":{{"message":{message},"details":[{details}]}}}}"#);
        ErrorResponse { status, payload: Payload::from_body(body.as_bytes()), retry_after: None }
    }

    fn capacity(seconds: impl Into<Option<u64>>) -> ErrorClass {
        let delay = seconds.into().map(Duration::from_secs);
        ErrorClass::Retry { delay, guessed: false, class: CAPACITY }
    }

    fn retry(seconds: impl Into<Option<u64>>) -> ErrorClass {
        let delay = seconds.into().map(Duration::from_secs);
        ErrorClass::Retry { delay, guessed: false, class: "rate_limit" }
    }

    fn quota(daily: bool, wait: Option<u64>) -> ErrorClass {
        ErrorClass::Quota { daily, wait: wait.map(Duration::from_secs) }
    }

    #[test]
    fn the_table_is_followed_from_top_to_bottom() {
        let info = |reason: &str, domain: &str, rest: &str| {
            format!(
                r#"{{"@type":"x/google.rpc.ErrorInfo","reason":"{reason}","domain":"{domain}"{rest}}}"#
            )
        };
        let delay =
            |text: &str| format!(r#"{{"@type":"x/google.rpc.RetryInfo","retryDelay":"{text}"}}"#);
        let violation = |id: &str| {
            format!(
                r#"{{"@type":"x/google.rpc.QuotaFailure","violations":[{{"quotaId":"{id}"}}]}}"#
            )
        };
        let assist = "cloudcode-pa.googleapis.com";
        for (status, message, details, want) in [
            (404, "no", String::new(), ErrorClass::NotFound),
            (429, "limit: 0, model", String::new(), quota(false, None)),
            (429, "limit: 05", String::new(), retry(None)),
            (429, "Please retry in 2s", String::new(), retry(2)),
            (429, "Please retry in 301s.", String::new(), quota(false, Some(301))),
            (429, "You have exhausted your capacity", String::new(), capacity(None)),
            (429, "slow down", String::new(), retry(None)),
            (429, "", [violation("RequestsPerDay"), delay("3s")].join(","), quota(true, None)),
            (429, "", info("MODEL_CAPACITY_EXHAUSTED", "x", ""), capacity(None)),
            (429, "", info("INSUFFICIENT_G1_CREDITS_BALANCE", "x", ""), quota(false, None)),
            (429, "", info("RATE_LIMIT_EXCEEDED", assist, ""), quota(false, None)),
            (429, "", [info("RATE_LIMIT_EXCEEDED", assist, ""), delay("7s")].join(","), retry(7)),
            (429, "", info("QUOTA_EXHAUSTED", assist, ""), quota(false, None)),
            (429, "", delay("34s"), retry(34)),
            (429, "", delay("400s"), quota(false, Some(400))),
            (
                429,
                "",
                violation("TokensPerMinute"),
                ErrorClass::Retry { delay: Some(PER_MINUTE), guessed: true, class: "rate_limit" },
            ),
            (
                429,
                "",
                info("RATE_LIMIT_EXCEEDED", "x", r#","metadata":{"quota_limit":"XPerMinuteY"}"#),
                ErrorClass::Retry { delay: Some(PER_MINUTE), guessed: true, class: "rate_limit" },
            ),
            (429, "", info("RATE_LIMIT_EXCEEDED", "x", ""), retry(None)),
            (401, "who", String::new(), ErrorClass::Auth),
            (403, "no", String::new(), ErrorClass::Auth),
            (400, "API key not valid. Please pass", String::new(), ErrorClass::Auth),
            (400, "bad", String::new(), ErrorClass::Bad),
            (
                502,
                "",
                String::new(),
                ErrorClass::Retry { delay: None, guessed: false, class: "server" },
            ),
        ] {
            assert_eq!(refusal(status, message, &details).classify(), want, "{message} {details}");
        }
    }

    #[test]
    fn the_verification_link_is_found() {
        let refusal = refusal(
            403,
            "verify",
            r#"{"@type":"google.rpc.ErrorInfo","reason":"VALIDATION_REQUIRED","domain":"cloudcode-pa.googleapis.com"},
            {"@type":"google.rpc.Help","links":[{"url":"https://verify.example"}]}"#,
        );
        let classify = refusal.classify();
        assert!(refusal.into_error("m", classify).to_string().contains("https://verify.example"));
    }

    #[test]
    fn the_longest_wait_wins() {
        let mut refusal = refusal(429, "Please retry in 2.5s", "");
        refusal.retry_after = Some(Duration::from_secs(9));
        assert_eq!(refusal.classify(), retry(9));
    }

    #[test]
    fn a_daily_quota_says_when_it_resets() {
        let refusal = refusal(
            429,
            "spent",
            r#"{"@type":"google.rpc.QuotaFailure","violations":[{"quotaId":"PerDay"}]}"#,
        );
        let classify = refusal.classify();
        let text = refusal.into_error("m", classify).to_string();
        assert!(
            text.contains("daily") && text.contains("429") && text.contains("midnight"),
            "{text}"
        );
    }

    #[test]
    fn delays_are_read() {
        assert_eq!(parse_delay("34.07s"), Some(Duration::from_millis(34070)));
        assert_eq!(parse_delay("900ms"), Some(Duration::from_millis(900)));
        for text in ["", "s", "-1s", "1e999s", "NaNs", "5"] {
            assert_eq!(parse_delay(text), None, "{text}");
        }
    }
}
