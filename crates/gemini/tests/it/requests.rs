//! The requests that are sent.

use std::sync::Arc;

use parallax_gemini::{Auth, Gemini, GeminiOptions};
use parallax_models::ModelTable;
use parallax_protocol::secret::Secret;
use serde_json::json;

use crate::server::*;

#[tokio::test]
async fn url_headers_and_body_match_the_documentation() {
    let server = Server::start(vec![stream(&[&last_chunk("ok")])]).await;
    let mut options = options(&format!("{}/gw", server.base));
    options.custom_headers = parallax_model_http::parse_custom_headers("X-Team: a, b, X-Env: test");
    options.version = "1.2.3".into();
    let model = Gemini::new(options).expect("a model");
    let received = drain(&model, request()).await;
    assert_eq!(received.text, "ok");
    let seen = server.requests().remove(0);
    let head = seen.head.to_ascii_lowercase();
    assert!(seen.head.starts_with(
        "POST /gw/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse HTTP/1.1"
    ));
    assert!(head.contains(&format!("x-goog-api-key: {}", KEY.to_ascii_lowercase())));
    assert!(head.contains("x-team: a, b\r\n") && head.contains("x-env: test\r\n"));
    assert!(head.contains("content-type: application/json"));
    assert!(head.contains("user-agent: parallax/1.2.3/gemini-3-flash-preview ("));
    assert!(head.contains("; terminal)"));
    let table = ModelTable::default();
    assert_eq!(seen.body.as_bytes(), parallax_gemini::request_body(&request(), &table));
}

#[tokio::test]
async fn vertex_express_and_bearer_requests_are_sent() {
    let server = Server::start(vec![stream(&[&last_chunk("ok")])]).await;
    let base = server.base.clone();
    let env = |name: &str| match name {
        "GOOGLE_VERTEX_BASE_URL" => Some(base.clone()),
        "GOOGLE_GENAI_API_VERSION" => Some("v1".into()),
        "GEMINI_API_KEY_AUTH_MECHANISM" => Some("bearer".into()),
        _ => None,
    };
    let options = GeminiOptions::from_env(Auth::VertexExpress(Secret::new(KEY)), &env);
    let received = drain(&Gemini::new(options).expect("a model"), request()).await;
    assert_eq!(received.text, "ok");
    let seen = server.requests().remove(0);
    assert!(seen.head.starts_with("POST /v1/publishers/google/models/gemini-3-flash-preview:"));
    assert!(seen.head.contains(&format!("Bearer {KEY}")));
    assert!(!seen.head.contains("x-goog-api-key"));
}

#[tokio::test]
async fn retry_settings_change_the_second_body() {
    let unavailable = with_length(503, "", "");
    let server = Server::start(vec![unavailable, stream(&[&last_chunk("ok")])]).await;
    let mut options = options(&server.base);
    let settings = json!({"customOverrides": [
        {"match": {"isRetry": true}, "modelConfig": {"generateContentConfig": {"seed": 7}}}
    ]});
    options.models = Arc::new(ModelTable::from_settings(&settings).expect("settings"));
    drain(&Gemini::new(options).expect("a model"), request()).await.end.expect("an answer");
    let requests = server.requests();
    assert!(!requests[0].body.contains("\"seed\":7") && requests[1].body.contains("\"seed\":7"));
}

#[test]
fn debug_output_contains_no_key() {
    let options = options("http://127.0.0.1:1");
    assert!(!format!("{options:?}").contains(KEY));
}
