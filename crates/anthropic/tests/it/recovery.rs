//! Requests of which the service rejects one piece, which is then omitted.

use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{ModelError, Request};
use serde_json::{Value, json};
use testkit::canned::Server;

use crate::support::*;

const INVALID: &str = "messages.1.content.0: Invalid `signature` in `thinking` block";

fn bad_request(message: &str) -> testkit::canned::CannedResponse {
    refusal(400, "invalid_request_error", message)
}

fn thought(signature: &str) -> Part {
    let data = json!({"type": "thinking", "thinking": "t", "signature": signature});
    Part::opaque_thought(serde_json::value::to_raw_value(&data).expect("json"))
}

fn history(signatures: &[&str]) -> Request {
    let mut contents = vec![user(vec![Part::text("hi")])];
    for signature in signatures {
        let parts = vec![thought(signature), Part::text("answer")];
        contents.push(Content::model(parts).seal_for(MODEL));
        contents.push(user(vec![Part::text("go on")]));
    }
    request(contents)
}

#[tokio::test]
async fn thinking_with_an_invalid_signature_is_dropped_for_good() {
    let server = Server::start(vec![bad_request(INVALID), ok(), ok()]).await;
    let model = model(&server);
    let received = drain(&model, history(&["old"])).await;
    assert_eq!((received.text().as_str(), received.notices.len()), ("ok", 1), "{:?}", received.end);
    assert!(received.notices[0].contains("thinking"), "{:?}", received.notices);
    let bodies: Vec<String> = server.requests().into_iter().map(|it| it.body).collect();
    assert!(bodies[0].contains("\"old\"") && !bodies[1].contains("\"old\""));
    // Newer thinking is valid.
    let received = drain(&model, history(&["old", "new"])).await;
    assert!(received.notices.is_empty(), "{:?}", received.notices);
    let last = &server.requests()[2].body;
    assert!(!last.contains("\"old\"") && last.contains("\"new\""), "{last}");
}

#[tokio::test]
async fn signature_error_without_thinking_is_an_error() {
    let (received, server) = serve(vec![bad_request("Invalid signature"), ok()]).await;
    assert!(matches!(received.end, Err(ModelError::BadRequest { .. })), "{:?}", received.end);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn fields_that_a_model_does_not_accept_are_omitted() {
    let server = Server::start(vec![
        bad_request("thinking.adaptive.display: Extra inputs are not permitted"),
        bad_request("This model does not support the effort parameter."),
        bad_request("adaptive thinking is not supported on this model"),
        ok(),
        ok(),
    ])
    .await;
    let model = model(&server);
    let mut request = hello();
    request.generation = object(json!({"thinkingConfig": {"thinkingLevel": "high"}}));
    let received = drain(&model, request.clone()).await;
    assert_eq!((received.text().as_str(), received.notices.len()), ("ok", 3), "{:?}", received.end);
    let fields = |index: usize| -> (Value, Value) {
        let mut body = body(&server, index);
        (body["thinking"].take(), body["output_config"].take())
    };
    let effort = json!({"effort": "high"});
    assert_eq!(fields(0), (json!({"type": "adaptive", "display": "summarized"}), effort.clone()));
    assert_eq!(fields(1), (json!({"type": "adaptive"}), effort));
    assert_eq!(fields(2), (json!({"type": "adaptive"}), Value::Null));
    assert_eq!(fields(3), (Value::Null, Value::Null));
    let received = drain(&model, request).await;
    assert!(received.notices.is_empty(), "{:?}", received.notices);
    assert_eq!(fields(4), (Value::Null, Value::Null));
}

#[tokio::test]
async fn cache_markers_are_omitted_where_they_are_not_supported() {
    let unknown = "messages.0.content.0.cache_control: Extra inputs are not permitted";
    let (received, server) = serve(vec![bad_request(unknown), ok()]).await;
    assert_eq!(received.text(), "ok");
    let requests = server.requests();
    assert!(
        requests[0].body.contains("cache_control") && !requests[1].body.contains("cache_control")
    );
}

#[tokio::test]
async fn rejected_image_is_dropped_and_others_stay() {
    let image = |data: &str| Part::inline_data("image/png", data);
    let nested = vec![image("QkFE"), Part::inline_data("application/pdf", "UERG")];
    let call = Content::model(vec![Part::function_call(Some("c"), "look", object(json!({})))]);
    let response = Part::function_response(Some("c"), "look", object(json!({})), nested);
    let contents = vec![user(vec![image("R09PRA==")]), call.seal_for(MODEL), user(vec![response])];
    let server = Server::start(vec![
        bad_request("messages.2.content.0.tool_result.content.0.image.source.base64: exceeds 5 MB"),
        ok(),
        bad_request("Could not process image"),
        ok(),
    ])
    .await;
    let model = model(&server);
    let received = drain(&model, request(contents.clone())).await;
    assert_eq!((received.text().as_str(), received.notices.len()), ("ok", 1), "{:?}", received.end);
    let received = drain(&model, request(contents)).await;
    assert_eq!((received.text().as_str(), received.notices.len()), ("ok", 1), "{:?}", received.end);
    let bodies: Vec<String> = server.requests().into_iter().map(|it| it.body).collect();
    assert!(bodies[0].contains("QkFE") && bodies[0].contains("R09PRA"));
    assert!(
        !bodies[1].contains("QkFE")
            && bodies[1].contains("R09PRA")
            && bodies[1].contains("omitted")
    );
    assert!(!bodies[3].contains("R09PRA"), "{}", bodies[3]);
}

#[tokio::test]
async fn tool_with_a_rejected_schema_is_omitted() {
    let server = Server::start(vec![
        bad_request("tools.1.custom.input_schema: JSON schema is invalid"),
        bad_request("tools.1.custom.input_schema.properties: Property keys should match pattern"),
        ok(),
    ])
    .await;
    let mut request = hello();
    request.tools =
        functions(&json!([{"name": "a"}, {"name": "b.x"}, {"name": "c"}, {"name": "d"}]));
    let received = drain(&model(&server), request).await;
    assert_eq!(received.text(), "ok");
    assert!(
        received.notices[0].contains("`b.x`") && received.notices[1].contains("`c`"),
        "{:?}",
        received.notices
    );
    let tools = body(&server, 2)["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["a", "d"]);
}

#[tokio::test]
async fn unfixable_error_is_reported_once() {
    let (received, server) = serve(vec![bad_request("tools.7.custom: no"), ok()]).await;
    assert!(matches!(received.end, Err(ModelError::BadRequest { .. })), "{:?}", received.end);
    assert_eq!((server.requests().len(), received.notices.len()), (1, 0));
}
