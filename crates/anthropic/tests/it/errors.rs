//! Errors from the service, and retries.

use parallax_protocol::model::ModelError;
use serde_json::json;
use testkit::canned;

use crate::support::*;

#[tokio::test]
async fn overloaded_service_is_retried() {
    let busy = || refusal(529, "overloaded_error", "Overloaded");
    let rate = canned::with_length(429, "Retry-After: 0\r\n", "{}");
    let (received, server) = serve(vec![busy(), rate, busy(), ok()]).await;
    assert_eq!((received.text().as_str(), received.retries.len()), ("ok", 3));
    let classes: Vec<&str> = received.retries.iter().map(|retry| retry.class.as_str()).collect();
    assert_eq!(classes, ["capacity", "rate_limit", "capacity"]);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.body == requests[0].body));
}

#[tokio::test]
async fn error_before_the_first_content_is_retried() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let (received, _server) = serve(vec![stream(&[start(), error]), ok()]).await;
    assert_eq!((received.text().as_str(), received.retries.len()), ("ok", 1));
    assert_eq!(received.retries[0].status, Some(529));
}

#[tokio::test]
async fn error_inside_a_stream_ends_it() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "sorry"}});
    for (kind, expected_status, may_retry) in
        [("overloaded_error", 529, true), ("invalid_request_error", 400, false)]
    {
        let mut events = vec![start()];
        events.extend(text(0, "half"));
        events.push(error(kind));
        let (received, _server) = serve(vec![stream(&events)]).await;
        assert_eq!(received.text(), "half");
        match received.end {
            Err(ModelError::Broken { status, retryable, message, .. }) => {
                assert_eq!((status, retryable), (Some(expected_status), may_retry));
                assert!(message.contains("sorry"), "{message}");
            }
            other => unreachable!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn errors_say_who_can_fix_them() {
    for (status, kind, message, expected) in [
        (400, "invalid_request_error", "no", "BadRequest"),
        (400, "invalid_request_error", "Your credit balance is too low", "Quota"),
        (401, "authentication_error", "invalid x-api-key", "Auth"),
        (403, "permission_error", "no", "Auth"),
        (404, "not_found_error", "model: x", "ModelNotFound"),
        (413, "request_too_large", "Request exceeds the maximum size", "BadRequest"),
    ] {
        let (received, _server) = serve(vec![refusal(status, kind, message)]).await;
        let error = received.end.expect_err("an error");
        assert!(format!("{error:?}").starts_with(expected), "{status}: {error:?}");
        assert_eq!(error.status(), Some(status));
        let text = error.to_string();
        assert!(text.contains(message) && !text.contains(KEY), "{text}");
    }
}

#[tokio::test]
async fn context_overflow_error_stays_recognizable() {
    let message = "prompt is too long: 210000 tokens > 200000 maximum";
    let (received, _server) = serve(vec![refusal(400, "invalid_request_error", message)]).await;
    match received.end {
        Err(ModelError::BadRequest { status: 400, message, .. }) => {
            assert!(message.contains("prompt is too long"), "{message}");
        }
        other => unreachable!("{other:?}"),
    }
    assert!(received.notices.is_empty() && received.retries.is_empty());
}

#[tokio::test]
async fn page_instead_of_a_stream_is_an_error() {
    let page = canned::with_length(200, "Content-Type: text/html\r\n", "<html>login</html>");
    let (received, _server) = serve((0..12).map(|_| page.clone()).collect()).await;
    assert!(matches!(received.end, Err(ModelError::Unavailable { .. })), "{:?}", received.end);
}
