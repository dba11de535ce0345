//! Classifies errors of these services.

use parallax_model_http::{ErrorClass, ErrorResponse};
use parallax_protocol::model::is_context_overflow;

/// Error codes of an exhausted balance.
const NO_BALANCE: &[&str] =
    &["insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"];

pub(crate) fn classify(response: &ErrorResponse) -> ErrorClass {
    let payload = &response.payload;
    let words = [payload.status.as_deref(), payload.kind.as_deref()];
    let is_any = |codes: &[&str]| words.iter().flatten().any(|word| codes.contains(word));
    match response.status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::Quota { daily: false, retry_after: None },
        404 => ErrorClass::NotFound,
        429 if is_any(NO_BALANCE) => ErrorClass::Quota { daily: false, retry_after: None },
        501 | 505 => ErrorClass::Bad,
        // An error in a stream has no HTTP status.
        500.. if is_context_overflow(payload.status.as_deref(), &payload.message) => {
            ErrorClass::Bad
        }
        408 | 409 | 429 | 499 | 500.. => match response.retry_after {
            Some(delay) => response.waiting(delay),
            None => response.retry_after_backoff(),
        },
        _ => ErrorClass::Bad,
    }
}

/// Whether the service rejects reasoning of an earlier answer: it was encrypted for another
/// account, or the item is unknown.
pub(crate) fn rejects_reasoning(response: &ErrorResponse) -> bool {
    let message = response.payload.message.to_lowercase();
    response.payload.status.as_deref() == Some("invalid_encrypted_content")
        || message.contains("encrypted content")
        || message.contains("encrypted_content")
        || (message.contains("item with id") && message.contains("not found"))
        || (message.contains("reasoning") && message.contains("without its required"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_model_http::ErrorPayload;

    #[test]
    fn errors_are_classified() {
        for (status, body, expected) in [
            (401, "{}", "Auth"),
            (400, r#"{"error":{"message":"bad"}}"#, "Bad"),
            (404, "{}", "NotFound"),
            (429, r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#, "Quota"),
            (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, "Retry"),
            (503, r#"{"error":{"message":"Loading model","code":503}}"#, "Retry"),
            (529, "{}", "Retry"),
            (500, r#"{"error":{"message":"prompt is too long: 210000 tokens"}}"#, "Bad"),
            (500, r#"{"error":{"code":"context_length_exceeded"}}"#, "Bad"),
        ] {
            let payload = ErrorPayload::from_body(body.as_bytes());
            let class = classify(&ErrorResponse { status, payload, retry_after: None });
            assert!(format!("{class:?}").starts_with(expected), "{status}: {class:?}");
        }
    }
}
