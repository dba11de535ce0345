//! Classifies errors of these services.

use parallax_model_http::{ErrorClass, ErrorPayload, ErrorResponse};
use parallax_protocol::model::is_context_overflow;

/// Error codes of an exhausted balance.
const NO_BALANCE: &[&str] =
    &["insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"];

/// Parts of messages about what only the user can change, whatever the status.
const NEEDS_CHANGE: &[&str] = &[
    // OpenRouter, about its settings or missing capabilities.
    "no endpoints found",
    // LM Studio and Ollama.
    "failed to load model",
    "requires more system memory",
    // llama.cpp.
    "requires --jinja",
];

pub(crate) fn classify(response: &ErrorResponse) -> ErrorClass {
    let payload = &response.payload;
    let message = payload.message.to_lowercase();
    if matches!(response.status, 404 | 500..) && NEEDS_CHANGE.iter().any(|it| message.contains(it))
    {
        return ErrorClass::Bad;
    }
    let words = [payload.status.as_deref(), payload.kind.as_deref()];
    let is_any = |codes: &[&str]| words.iter().flatten().any(|word| codes.contains(word));
    match response.status {
        401 | 403 if response.is_about_credentials() => ErrorClass::Auth,
        402 => ErrorClass::Quota { daily: false, retry_after: None },
        404 => ErrorClass::NotFound,
        429 if is_any(NO_BALANCE) => ErrorClass::Quota { daily: false, retry_after: None },
        501 | 505 => ErrorClass::Bad,
        // An error in a stream has no HTTP status.
        500.. if is_context_overflow(payload.status.as_deref(), &payload.message) => {
            ErrorClass::Bad
        }
        408 | 409 | 429 | 499 | 500.. => match response.retry_after {
            Some(delay) => response.retry_after(delay),
            None => response.retry_after_backoff(),
        },
        _ => ErrorClass::Bad,
    }
}

/// Parts of the words with which services name errors, and the HTTP status that corresponds to
/// them. The first match applies.
const STATUS_OF_WORDS: &[(&[&str], u16)] = &[
    (&["rate_limit", "ratelimit", "quota", "too_many", "billing", "balance"], 429),
    (&["api_key", "auth", "permission", "forbidden"], 401),
    (&["not_found", "notfound"], 404),
    (&["server", "internal", "overload", "unavailable", "timeout", "slow_down"], 500),
    (&["invalid", "bad", "unsupported", "context_length", "too_long", "policy"], 400),
];

/// Returns an error inside an answer, which has no HTTP status, with the one that corresponds to
/// its code or its type. What is unknown counts as a failure of the service.
pub(crate) fn without_status(mut payload: ErrorPayload) -> ErrorPayload {
    let status_of = |word: &String| {
        let word = word.to_lowercase();
        let is_in = |parts: &&[&str]| parts.iter().any(|part| word.contains(part));
        STATUS_OF_WORDS.iter().find(|(parts, _)| is_in(parts)).map(|(_, status)| *status)
    };
    // LM Studio answers so to an unknown path.
    let is_unknown =
        |message: &str| message.contains("not found") || message.starts_with("unexpected endpoint");
    let from_message = || is_unknown(&payload.message.to_lowercase()).then_some(404);
    payload.code = payload
        .code
        .or_else(|| payload.status.as_ref().and_then(status_of))
        .or_else(|| payload.kind.as_ref().and_then(status_of))
        .or_else(from_message)
        .or(Some(500));
    payload
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

/// Whether the service behind a gateway rejects the signatures in reasoning of earlier answers.
pub(crate) fn rejects_signature(response: &ErrorResponse) -> bool {
    let message = response.payload.message.to_lowercase();
    message.contains("signature")
        && ["invalid", "thinking", "reasoning"].iter().any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_an_answer_are_classified_by_their_text() {
        for (error, expected) in [
            (r#"{"code":"insufficient_quota","type":"insufficient_quota"}"#, 429),
            (r#"{"code":"invalid_api_key","type":"invalid_request_error"}"#, 401),
            (r#"{"code":"model_not_found","type":"invalid_request_error"}"#, 404),
            (r#"{"code":null,"type":"invalid_request_error"}"#, 400),
            (r#"{"type":"authentication_error"}"#, 401),
            (r#"{"type":"BadRequestError"}"#, 400),
            (r#"{"type":"InternalServerError"}"#, 500),
            (r#"{"code":"server_error"}"#, 500),
            (r#"{"code":"rate_limit_exceeded"}"#, 429),
            (r#"{"code":"context_length_exceeded"}"#, 400),
            (r#"{"code":402,"type":"x"}"#, 402),
            (r#"{"code":"something_new","message":"m"}"#, 500),
            (r#""model 'x' not found""#, 404),
            (r#""llama runner process has terminated""#, 500),
        ] {
            let body = format!(r#"{{"error":{error}}}"#);
            let payload = without_status(ErrorPayload::from_body(body.as_bytes()));
            assert_eq!(payload.code, Some(expected), "{error}");
        }
    }

    #[test]
    fn rejected_signatures_are_recognized() {
        for (message, expected) in [
            ("messages.1.content.0: Invalid `signature` in `thinking` block", true),
            ("Invalid reasoning_details signature", true),
            ("the signature of the request is missing", false),
            ("invalid schema", false),
        ] {
            let payload = ErrorPayload { message: message.to_owned(), ..ErrorPayload::default() };
            let response = ErrorResponse { status: 400, payload, retry_after: None };
            assert_eq!(rejects_signature(&response), expected, "{message}");
        }
    }

    #[test]
    fn errors_are_classified() {
        for (status, body, expected) in [
            (401, "{}", "Auth"),
            (400, r#"{"error":{"message":"bad"}}"#, "Bad"),
            (403, "{}", "Auth"),
            (403, r#"{"error":{"message":"Your input was flagged for \"violence\""}}"#, "Bad"),
            (
                403,
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"Country, region, or territory not supported"}}}"#,
                "Bad",
            ),
            (404, "{}", "NotFound"),
            (404, r#"{"error":{"message":"No endpoints found that support tool use."}}"#, "Bad"),
            (500, r#"{"error":"model requires more system memory (9 GiB)"}"#, "Bad"),
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
