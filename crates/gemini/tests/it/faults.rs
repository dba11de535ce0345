//! Errors from the service and the network.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use parallax_gemini::Gemini;
use parallax_protocol::CancellationToken;
use parallax_protocol::model::{Model, ModelError, StreamEvent};

use crate::server::*;

fn refusal(status: u16, message: &str, details: &str) -> CannedResponse {
    let body = format!(
        r#"{{"error":{{"code":{status},"message":"{message}","status":"SOME_STATUS","details":[{details}]}}}}"#
    );
    with_length(status, "", &body)
}

fn ok() -> CannedResponse {
    stream(&[&last_chunk("ok")])
}

#[tokio::test]
async fn transient_errors_are_retried_and_reported() {
    let (received, server) = serve(vec![
        refusal(429, "slow down", ""),
        refusal(500, "oops", ""),
        with_length(499, "", ""),
        ok(),
    ])
    .await;
    assert_eq!(received.text, "ok");
    let report: Vec<_> = received
        .retries
        .iter()
        .map(|r| (r.attempt, r.max_attempts, r.class.as_str(), r.status))
        .collect();
    assert_eq!(
        report,
        [
            (1, 10, "rate_limit", Some(429)),
            (2, 10, "server", Some(500)),
            (3, 10, "server", Some(499))
        ]
    );
    assert_eq!(received.retries[0].message, "429 SOME_STATUS: slow down");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn request_with_fallback_is_retried_twice_without_capacity() {
    let full = || {
        let info = r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED"}"#;
        refusal(429, "full", info)
    };
    let server = Server::start(vec![full(), full(), full(), ok()]).await;
    let mut waiting = request();
    waiting.has_fallback = true;
    let received = drain(&gemini(&server), waiting).await;
    assert!(matches!(received.end, Err(ModelError::Unavailable { class: "capacity", .. })));
    let report: Vec<_> = received.retries.iter().map(|r| (r.attempt, r.max_attempts)).collect();
    assert_eq!(report, [(1, 3), (2, 3)]);
    assert_eq!(server.requests().len(), 3);
    // Without a fallback, the request waits as for any other failure.
    let (received, _) = serve(vec![full(), full(), full(), ok()]).await;
    assert_eq!(received.text, "ok");
}

#[tokio::test]
async fn server_delay_is_respected() {
    let delay = r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"120ms"}"#;
    let start = Instant::now();
    let (received, _) = serve(vec![refusal(429, "later", delay), ok()]).await;
    assert_eq!(received.text, "ok");
    assert!(
        (120..=150).contains(&received.retries[0].delay_ms),
        "{}",
        received.retries[0].delay_ms
    );
    assert!(start.elapsed() >= Duration::from_millis(120));

    let (received, _) = serve(vec![with_length(503, "Retry-After: 0.1\r\n", "busy"), ok()]).await;
    assert!(
        (100..=130).contains(&received.retries[0].delay_ms),
        "{}",
        received.retries[0].delay_ms
    );
}

#[tokio::test]
async fn permanent_error_is_not_retried() {
    let daily =
        r#"{"@type":"google.rpc.QuotaFailure","violations":[{"quotaId":"RequestsPerDay"}]}"#;
    for (answer, check) in [
        (refusal(400, "bad tool", ""), "bad"),
        (refusal(400, "API key not valid.", ""), "auth"),
        (refusal(401, "who", ""), "auth"),
        (refusal(403, "no", ""), "auth"),
        (refusal(404, "which", ""), "model"),
        (refusal(429, "spent", daily), "quota"),
        (with_length(429, "Retry-After: 3600\r\n", ""), "quota"),
        (with_length(302, "Location: http://elsewhere/\r\n", ""), "bad"),
    ] {
        let (received, server) = serve(vec![answer, ok()]).await;
        let error = received.end.expect_err(check);
        let kind = match &error {
            ModelError::BadRequest { .. } => "bad",
            ModelError::Auth { .. } => "auth",
            ModelError::ModelNotFound { .. } => "model",
            ModelError::Quota { reset, .. } => {
                assert!(reset.is_some());
                "quota"
            }
            _ => "other",
        };
        assert_eq!(kind, check, "{error}");
        assert_eq!(server.requests().len(), 1, "{error}");
    }
}

#[tokio::test]
async fn attempts_are_limited_by_the_request() {
    let server = Server::start(vec![refusal(503, "a", ""), refusal(503, "b", ""), ok()]).await;
    let mut request = request();
    request.max_attempts = Some(2);
    let received = drain(&gemini(&server), request).await;
    assert_eq!(received.retries.len(), 1);
    assert!(matches!(
        received.end,
        Err(ModelError::Unavailable { status: Some(503), class: "server", .. })
    ));
}

#[tokio::test]
async fn connection_failures_are_retried() {
    let (received, _) = serve(vec![vec![], head(), ok()]).await;
    assert_eq!(received.text, "ok");
    let classes: Vec<_> = received.retries.iter().map(|retry| retry.class.as_str()).collect();
    assert_eq!(classes, ["network", "network"]);

    let mut options = options("http://127.0.0.1:1");
    // More attempts do not help if no server of this machine is listening.
    options.transport.max_attempts = 10;
    let received = drain(&Gemini::new(options).expect("a model"), request()).await;
    assert_eq!(received.retries.len(), 0);
    assert!(matches!(received.end, Err(ModelError::Unavailable { class: "connect", .. })));
}

#[tokio::test]
async fn silence_times_out_for_headers_and_chunks() {
    let (received, _) = serve(vec![vec![ResponsePiece::Hang], ok()]).await;
    assert_eq!(received.retries[0].class, "timeout");
    assert_eq!(received.text, "ok");

    let mut answer = head();
    answer.extend([data(&text_chunk("a")), ResponsePiece::Hang]);
    let (received, _) = serve(vec![answer]).await;
    assert_eq!(received.text, "a");
    let error = received.end.expect_err("silence");
    assert!(matches!(error, ModelError::Broken { status: None, retryable: true, .. }), "{error}");
    assert!(error.to_string().contains("no data for"), "{error}");
}

#[tokio::test]
async fn slow_chunks_are_not_silence() {
    let mut answer = head();
    for _ in 0..4 {
        answer.extend([data(&text_chunk("a")), ResponsePiece::Wait(Duration::from_millis(60))]);
    }
    answer.extend([data(&last_chunk("b")), ResponsePiece::Bytes(b"0\r\n\r\n".to_vec())]);
    let (received, _) = serve(vec![answer]).await;
    assert_eq!((received.text.as_str(), received.end.is_ok()), ("aaaab", true));
}

#[tokio::test]
async fn stream_cut_after_its_first_chunk_is_broken() {
    let mut cut = head();
    cut.push(data(&text_chunk("a")));
    let incomplete = with_length(200, "", &format!("data: {}\n\ndata: {{\"cand", text_chunk("a")));
    let not_json = stream(&[&text_chunk("a"), "{oops secret}"]);
    for answer in [cut, incomplete, not_json] {
        let (received, server) = serve(vec![answer, ok()]).await;
        assert_eq!(received.text, "a");
        let error = received.end.expect_err("broken");
        assert!(matches!(error, ModelError::Broken { retryable: true, .. }), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn error_inside_a_stream_is_classified_by_its_code() {
    let busy = r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#;
    // Before the first chunk, the request is retried, even if the error has no `data:` prefix.
    let mut bare = head();
    bare.extend([raw(busy), ResponsePiece::Bytes(b"0\r\n\r\n".to_vec())]);
    let (received, _) = serve(vec![stream(&[busy]), bare, ok()]).await;
    assert_eq!((received.text.as_str(), received.retries.len()), ("ok", 2));

    let mut late = head();
    late.extend([data(&text_chunk("a")), raw(busy), ResponsePiece::Bytes(b"0\r\n\r\n".to_vec())]);
    let (received, _) = serve(vec![late]).await;
    assert!(matches!(
        received.end,
        Err(ModelError::Broken { status: Some(503), retryable: true, .. })
    ));

    let bad = r#"{"error":{"code":400,"message":"no"}}"#;
    let (received, _) = serve(vec![stream(&[&text_chunk("a"), bad])]).await;
    assert!(matches!(
        received.end,
        Err(ModelError::Broken { status: Some(400), retryable: false, .. })
    ));
}

#[tokio::test]
async fn retry_wait_is_cancelled_at_once() {
    let server = Server::start(vec![with_length(503, "Retry-After: 60\r\n", "")]).await;
    let cancel = CancellationToken::new();
    let mut stream = gemini(&server).stream(request(), cancel.clone());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Retry(_)))));
    let start = Instant::now();
    let (next, ()) = tokio::join!(stream.next(), async { cancel.cancel() });
    assert!(matches!(next, Some(Err(ModelError::Cancelled))));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn utility_request_is_attempted_five_times() {
    let server = Server::start((0..6).map(|_| refusal(503, "x", "")).collect()).await;
    let error = gemini(&server).generate(request(), CancellationToken::new()).await;
    assert!(matches!(error, Err(ModelError::Unavailable { status: Some(503), .. })));
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn error_messages_are_short_and_contain_no_key() {
    let long = "x".repeat(100_000);
    let (received, _) = serve(vec![refusal(400, &format!("key {KEY} {long}"), "")]).await;
    let text = received.end.expect_err("an error").to_string();
    assert!(text.contains("[secret]") && !text.contains(KEY) && text.len() < 3000, "{text}");
}
