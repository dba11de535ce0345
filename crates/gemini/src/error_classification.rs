//! Classifies service errors: who can act, and when.

use std::sync::LazyLock;
use std::time::Duration;

use parallax_model_http::{CAPACITY, ErrorClass, ErrorResponse, MAX_WAIT};
use parallax_protocol::Object;
use regex::Regex;
use serde_json::Value;

/// The wait for a per-minute quota without a delay from the service.
const PER_MINUTE: Duration = Duration::from_secs(60);

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

/// Classifies an error, in the order of the table in the service's documentation.
pub(crate) fn classify(response: &ErrorResponse) -> ErrorClass {
    Rejection(response).classify()
}

struct Rejection<'a>(&'a ErrorResponse);

impl Rejection<'_> {
    fn classify(&self) -> ErrorClass {
        let payload = &self.0.payload;
        let info = payload.detail("google.rpc.ErrorInfo");
        let reason = info.and_then(|info| info.get("reason")).and_then(Value::as_str);
        let code_assist = info
            .and_then(|info| info.get("domain"))
            .and_then(Value::as_str)
            .is_some_and(|domain| domain.contains("cloudcode-pa"));
        match self.0.status {
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

    /// Classifies 429, 499, and 5xx.
    fn classify_quota(
        &self,
        reason: Option<&str>,
        info: Option<&Object>,
        code_assist: bool,
    ) -> ErrorClass {
        let payload = &self.0.payload;
        let quota_status = matches!(self.0.status, 429 | 499 | 503);
        let matches = |regex: &LazyLock<Option<Regex>>| {
            regex.as_ref().is_some_and(|regex| regex.is_match(&payload.message))
        };
        if quota_status && matches(&LIMIT_ZERO) {
            return ErrorClass::Quota { daily: false, retry_after: None };
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
                Some(delay) => self.0.retry_after(delay),
                // Capacity returns.
                None if exhausted_capacity => self.capacity(None),
                None => self.0.retry_after_backoff(),
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
                retry_after: description.filter(|wait| *wait > MAX_WAIT),
            };
        }
        match reason {
            Some("MODEL_CAPACITY_EXHAUSTED" | "MODEL_CAPACITY_EXCEEDED") => {
                return self.capacity(description);
            }
            Some("INSUFFICIENT_G1_CREDITS_BALANCE") => {
                return ErrorClass::Quota { daily: false, retry_after: description };
            }
            Some("QUOTA_EXHAUSTED") if code_assist => {
                return ErrorClass::Quota { daily: false, retry_after: description };
            }
            _ => {}
        }
        if let Some(delay) = description {
            return self.0.retry_after(delay);
        }
        if code_assist && reason == Some("RATE_LIMIT_EXCEEDED") {
            return ErrorClass::Quota { daily: false, retry_after: None };
        }
        let limit = info
            .and_then(|info| info.get("metadata"))
            .and_then(|metadata| metadata.get("quota_limit"))
            .and_then(Value::as_str);
        if has_quota("PerMinute") || limit.is_some_and(|limit| limit.contains("PerMinute")) {
            return ErrorClass::Retry {
                delay: Some(PER_MINUTE),
                is_guess: true,
                class: self.0.class(),
            };
        }
        if exhausted_capacity {
            return self.capacity(None);
        }
        self.0.retry_after_backoff()
    }

    /// Returns the class of an overloaded model: it is retried like any other service failure,
    /// unless the wait is too long. It is a separate class because a fallback may be preferred.
    fn capacity(&self, description: Option<Duration>) -> ErrorClass {
        match description {
            Some(delay) if delay > MAX_WAIT => self.0.retry_after(delay),
            delay => ErrorClass::Retry { delay, is_guess: false, class: CAPACITY },
        }
    }

    /// Returns the longest delay in the response: `RetryInfo`, the message text, the `Retry-After`
    /// header.
    fn server_delay(&self) -> Option<Duration> {
        let info = self.0.payload.detail("google.rpc.RetryInfo");
        let info = info
            .and_then(|info| info.get("retryDelay"))
            .and_then(Value::as_str)
            .and_then(parse_delay);
        let words = RETRY_IN
            .as_ref()
            .and_then(|regex| regex.captures(&self.0.payload.message))
            .and_then(|found| parse_delay(found.get(1)?.as_str()));
        info.or(words).max(self.0.retry_after)
    }

    fn verification_link(&self, info: Option<&Object>) -> Option<String> {
        let help = self.0.payload.detail("google.rpc.Help");
        let link = help
            .and_then(|help| help.get("links"))
            .and_then(|links| links.get(0))
            .and_then(|link| link.get("url"));
        let metadata = info
            .and_then(|info| info.get("metadata"))
            .and_then(|metadata| metadata.get("validation_link"));
        link.or(metadata).and_then(Value::as_str).map(str::to_owned)
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
    use parallax_model_http::ErrorPayload;

    fn refusal(status: u16, message: &str, details: &str) -> ErrorResponse {
        let message = serde_json::to_string(message).expect("json");
        let body = format!(r#"{{"error":{{"message":{message},"details":[{details}]}}}}"#);
        ErrorResponse {
            status,
            payload: ErrorPayload::from_body(body.as_bytes()),
            retry_after: None,
        }
    }

    fn capacity(seconds: impl Into<Option<u64>>) -> ErrorClass {
        let delay = seconds.into().map(Duration::from_secs);
        ErrorClass::Retry { delay, is_guess: false, class: CAPACITY }
    }

    fn retry(seconds: impl Into<Option<u64>>) -> ErrorClass {
        let delay = seconds.into().map(Duration::from_secs);
        ErrorClass::Retry { delay, is_guess: false, class: "rate_limit" }
    }

    fn quota(daily: bool, wait: Option<u64>) -> ErrorClass {
        ErrorClass::Quota { daily, retry_after: wait.map(Duration::from_secs) }
    }

    #[test]
    fn error_table_is_applied_in_order() {
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
                ErrorClass::Retry { delay: Some(PER_MINUTE), is_guess: true, class: "rate_limit" },
            ),
            (
                429,
                "",
                info("RATE_LIMIT_EXCEEDED", "x", r#","metadata":{"quota_limit":"XPerMinuteY"}"#),
                ErrorClass::Retry { delay: Some(PER_MINUTE), is_guess: true, class: "rate_limit" },
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
                ErrorClass::Retry { delay: None, is_guess: false, class: "server" },
            ),
        ] {
            assert_eq!(classify(&refusal(status, message, &details)), want, "{message} {details}");
        }
    }

    #[test]
    fn verification_link_is_extracted() {
        let refusal = refusal(
            403,
            "verify",
            r#"{"@type":"google.rpc.ErrorInfo","reason":"VALIDATION_REQUIRED","domain":"cloudcode-pa.googleapis.com"},
            {"@type":"google.rpc.Help","links":[{"url":"https://verify.example"}]}"#,
        );
        let class = classify(&refusal);
        assert!(
            refusal
                .into_error(Some("m"), class, "the key")
                .to_string()
                .contains("https://verify.example")
        );
    }

    #[test]
    fn longest_retry_delay_wins() {
        let mut refusal = refusal(429, "Please retry in 2.5s", "");
        refusal.retry_after = Some(Duration::from_secs(9));
        assert_eq!(classify(&refusal), retry(9));
    }

    #[test]
    fn daily_quota_error_names_the_reset_time() {
        let refusal = refusal(
            429,
            "spent",
            r#"{"@type":"google.rpc.QuotaFailure","violations":[{"quotaId":"PerDay"}]}"#,
        );
        let class = classify(&refusal);
        let text = refusal.into_error(Some("m"), class, "the key").to_string();
        assert!(
            text.contains("daily") && text.contains("429") && text.contains("midnight"),
            "{text}"
        );
    }

    #[test]
    fn retry_delays_are_parsed() {
        assert_eq!(parse_delay("34.07s"), Some(Duration::from_millis(34070)));
        assert_eq!(parse_delay("900ms"), Some(Duration::from_millis(900)));
        for text in ["", "s", "-1s", "1e999s", "NaNs", "5"] {
            assert_eq!(parse_delay(text), None, "{text}");
        }
    }
}
