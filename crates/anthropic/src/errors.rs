//! Classifies errors from the service.

use parallax_model_http::{CAPACITY, ErrorClass, ErrorResponse};

pub(crate) fn classify(response: &ErrorResponse) -> ErrorClass {
    let kind = response.payload.kind.as_deref().unwrap_or_default();
    // The service reports an exhausted balance as an invalid request.
    if response.status == 400 && response.payload.message.contains("credit balance") {
        return ErrorClass::Quota { daily: false, retry_after: None };
    }
    match (response.status, kind) {
        (529, _) | (_, "overloaded_error") => match response.retry_after {
            Some(delay) => response.retry_after(delay),
            None => ErrorClass::Retry { delay: None, is_guess: false, class: CAPACITY },
        },
        (401 | 403, _) | (_, "authentication_error" | "permission_error")
            if response.is_about_credentials() =>
        {
            ErrorClass::Auth
        }
        (402, _) | (_, "billing_error") => ErrorClass::Quota { daily: false, retry_after: None },
        (404, _) | (_, "not_found_error") => ErrorClass::NotFound,
        (408 | 409 | 429 | 499 | 500.., _) | (_, "rate_limit_error" | "api_error") => {
            match response.retry_after {
                Some(delay) => response.retry_after(delay),
                None => response.retry_after_backoff(),
            }
        }
        _ => ErrorClass::Bad,
    }
}

/// Returns the HTTP status for an error inside a stream.
pub(crate) fn status_of(kind: Option<&str>) -> u16 {
    match kind {
        Some("invalid_request_error") => 400,
        Some("authentication_error") => 401,
        Some("billing_error") => 402,
        Some("permission_error") => 403,
        Some("not_found_error") => 404,
        Some("request_too_large") => 413,
        Some("rate_limit_error") => 429,
        Some("timeout_error") => 504,
        Some("overloaded_error") => 529,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_model_http::ErrorPayload;

    #[test]
    fn errors_are_classified() {
        for (status, kind, expected) in [
            (400, "invalid_request_error", "Bad"),
            (401, "authentication_error", "Auth"),
            (404, "not_found_error", "NotFound"),
            (413, "request_too_large", "Bad"),
            (429, "rate_limit_error", "Retry"),
            (529, "overloaded_error", "Retry"),
            (500, "api_error", "Retry"),
        ] {
            let body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"m"}}}}"#);
            let payload = ErrorPayload::from_body(body.as_bytes());
            let class = classify(&ErrorResponse { status, payload, retry_after: None });
            assert!(format!("{class:?}").starts_with(expected), "{status}: {class:?}");
            assert_eq!(status_of(Some(kind)), status);
        }
        let payload = ErrorPayload::from_body(
            br#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
        );
        let class = classify(&ErrorResponse { status: 400, payload, retry_after: None });
        assert_eq!(class, ErrorClass::Quota { daily: false, retry_after: None });
    }
}
