//! Requests: turns, media, tools, and generation settings.

use parallax_protocol::content::{Content, Part};
use serde_json::{Value, json};
use testkit::canned::Server;

use crate::support::*;

fn without_cache_marks(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.values_mut().for_each(|it| *it = without_cache_marks(it.take()));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|it| *it = without_cache_marks(it.take()));
        }
        _ => {}
    }
    value
}

#[tokio::test]
async fn user_turns_are_merged_with_results_first() {
    let calls = Content::model(vec![
        Part::function_call(None, "a", object(json!({"x": 1}))),
        Part::function_call(Some("id.2"), "b", object(json!({}))),
    ]);
    let answered = vec![
        Part::text("by the way"),
        Part::function_response(Some("id.2"), "b", object(json!({"error": "no"})), Vec::new()),
    ];
    let sent = sent(request(vec![
        user(vec![Part::text("one")]),
        user(vec![Part::text(" "), Part::text("two")]),
        calls.seal_for("gemini-3-pro"),
        user(answered),
        user(vec![Part::text("three")]),
    ]))
    .await;
    let messages = without_cache_marks(sent)["messages"].take();
    let calls = messages[1]["content"].as_array().expect("blocks").clone();
    let ids: Vec<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
    let [first, second] = ids.as_slice() else { unreachable!("two calls: {calls:?}") };
    assert!(first.starts_with("call_") && first.len() == 17, "{first}");
    assert!(second.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{second}");
    assert_eq!(
        messages[0]["content"],
        json!([{"type": "text", "text": "one"},
        {"type": "text", "text": "two"}])
    );
    assert_eq!(
        messages[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": first, "is_error": true,
                "content": "The call was cancelled and has no result."},
            {"type": "tool_result", "tool_use_id": second, "is_error": true, "content": "no"},
            {"type": "text", "text": "by the way"},
            {"type": "text", "text": "three"},
        ])
    );
    assert_eq!(messages.as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn conversation_never_ends_with_the_model() {
    let model = || Content::model(vec![Part::text("done")]).seal_for(MODEL);
    for contents in [vec![user(vec![Part::text("a")]), model()], vec![model()], Vec::new()] {
        let messages = sent(request(contents)).await["messages"].take();
        let last = messages.as_array().and_then(|all| all.last()).expect("a message").clone();
        assert_eq!(last["role"], "user");
    }
}

#[tokio::test]
async fn media_are_converted_to_blocks() {
    let nested =
        vec![Part::inline_data("image/jpg", "SlBH"), Part::inline_data("audio/wav", "UUU")];
    let call = Content::model(vec![Part::function_call(Some("c"), "look", object(json!({})))]);
    let response =
        Part::function_response(Some("c"), "look", object(json!({"output": "seen"})), nested);
    let sent = sent(request(vec![
        user(vec![Part::text("see"), Part::inline_data("application/pdf", "UERG")]),
        call.seal_for(MODEL),
        user(vec![response, Part::inline_data("image/png", "UE5H")]),
    ]))
    .await;
    let messages = without_cache_marks(sent)["messages"].take();
    let image = |mime: &str, data: &str| {
        json!({"type": "image", "source":
            {"type": "base64", "media_type": mime, "data": data}})
    };
    assert_eq!(
        messages[0]["content"][1],
        json!({"type": "document", "source":
            {"type": "base64", "media_type": "application/pdf", "data": "UERG"}})
    );
    let result = &messages[2]["content"][0];
    assert_eq!(result["content"][0], json!({"type": "text", "text": "seen"}));
    assert_eq!(result["content"][1], image("image/jpeg", "SlBH"));
    assert_eq!(result["content"][2]["type"], "text");
    assert_eq!(messages[2]["content"][1], image("image/png", "UE5H"));
}

#[tokio::test]
async fn tool_names_and_schemas_fit_the_api() {
    let long = format!("mcp_{}_search", "server".repeat(12));
    let declared = json!([
        {"name": long, "description": "Searches.", "parameters":
            {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}, "required": ["q"]}},
        {"name": "a.b", "description": "", "parametersJsonSchema":
            {"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}]}},
                "anyOf": [{"required": ["x"]}]}},
    ]);
    let server = Server::start(vec![ok(), ok()]).await;
    let model = model(&server);
    let mut first = hello();
    first.tools = functions(&declared);
    drain(&model, first.clone()).await;
    let tools = body(&server, 0)["tools"].clone();
    let names: Vec<&str> = [0, 1].map(|at| tools[at]["name"].as_str().unwrap_or_default()).to_vec();
    for name in &names {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        assert!(name.len() <= 64 && name.bytes().all(is_plain), "{name}");
    }
    assert_eq!(
        tools[0]["input_schema"],
        json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
    );
    assert_eq!(
        tools[1]["input_schema"],
        json!({"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}]}}})
    );

    let call = tool_use(0, "t", names[0], &["{\"q\":\"x\"}"]);
    let called = Server::start(vec![stream(&message(vec![call], "tool_use"))]).await;
    let received = drain(&crate::support::model(&called), first.clone()).await;
    assert_eq!(received.calls()[0]["name"], long.as_str());
    first.contents.push(received.sealed());
    first.contents.push(user(vec![result("t", &long, "found")]));
    drain(&model, first).await;
    assert_eq!(body(&server, 1)["messages"][1]["content"][0]["name"], names[0]);
}

#[tokio::test]
async fn unparsable_arguments_are_sent_back_as_text() {
    let call = tool_use(0, "t", "a", &["{\"x\": "]);
    let server = Server::start(vec![stream(&message(vec![call], "tool_use")), ok()]).await;
    let model = model(&server);
    let received = drain(&model, hello()).await;
    let next =
        vec![user(vec![Part::text("hi")]), received.sealed(), user(vec![result("t", "a", "bad")])];
    drain(&model, request(next)).await;
    let call = body(&server, 1)["messages"][1]["content"][0].clone();
    assert_eq!(call["input"], json!({"invalid_json": "{\"x\": "}));
}

#[tokio::test]
async fn at_most_four_blocks_are_marked_for_the_cache() {
    let turn = |at: usize| match at % 2 {
        0 => user(vec![Part::text(format!("question {at}")), Part::text("more")]),
        _ => Content::model(vec![Part::text("answer")]).seal_for(MODEL),
    };
    let mut long = request((0..9).map(turn).collect());
    long.tools = functions(&json!([{"name": "a"}, {"name": "b"}]));
    let sent = sent(long).await;
    assert_eq!(sent.to_string().matches("cache_control").count(), 4);
    for marked in [
        &sent["tools"][1],
        &sent["system"][0],
        &sent["messages"][6]["content"][1],
        &sent["messages"][8]["content"][1],
    ] {
        assert_eq!(marked["cache_control"], json!({"type": "ephemeral"}));
    }
}

#[tokio::test]
async fn settings_become_fields_and_sampling_is_dropped_with_one_notice() {
    let server = Server::start(vec![ok(), ok()]).await;
    let model = model(&server);
    let mut request = hello();
    request.generation = object(json!({"temperature": 0.5, "topP": 0.9, "topK": 3,
        "maxOutputTokens": 900, "stopSequences": ["END"],
        "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true},
        "responseJsonSchema": {"type": "object", "properties": {"a": {"type": "number"}}}}));
    let first = drain(&model, request.clone()).await;
    let second = drain(&model, request).await;
    assert_eq!((first.notices.len(), second.notices.len()), (1, 0), "{:?}", first.notices);
    assert!(first.notices[0].contains("`temperature`"), "{:?}", first.notices);
    let mut sent = body(&server, 0);
    for key in ["messages", "system"] {
        object_of(&mut sent).shift_remove(key);
    }
    assert_eq!(
        sent,
        json!({"model": "claude-sonnet-5", "stream": true, "max_tokens": 900,
            "stop_sequences": ["END"], "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema":
                {"type": "object", "properties": {"a": {"type": "number"}},
                    "additionalProperties": false}}}})
    );
}

fn object_of(value: &mut Value) -> &mut parallax_protocol::Object {
    value.as_object_mut().expect("an object")
}

#[tokio::test]
async fn budget_model_continues_a_turn_of_another_model_without_thinking() {
    let first_turn = |origin: &str| {
        let data = json!({"type": "thinking", "thinking": "t", "signature": "s"});
        let data = serde_json::value::to_raw_value(&data).expect("json");
        let call = Part::function_call(Some("c"), "a", object(json!({})));
        Content::model(vec![Part::opaque_thought(data), call]).seal_for(origin)
    };
    let old = "anthropic:claude-sonnet-4-5";
    for (origin, has_thinking) in [(old, true), ("openai:gpt-6", false)] {
        let mut request = request(vec![
            user(vec![Part::text("hi")]),
            first_turn(origin),
            user(vec![result("c", "a", "done")]),
        ]);
        request.model = old.to_owned();
        request.generation = object(json!({"thinkingConfig": {"thinkingLevel": "high"}}));
        let sent = sent(request).await;
        assert_eq!(sent["thinking"]["type"] == "enabled", has_thinking, "{sent}");
    }
}

#[test]
fn only_the_first_colon_splits_a_model_name() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut request = hello();
        request.model = "mine:vendor/model:tag".to_owned();
        assert_eq!(sent(request).await["model"], "vendor/model:tag");
    });
}

#[test]
fn invalid_base_names_its_source() {
    let error = parallax_anthropic::model(options("nowhere"), std::sync::Arc::new(NoCatalog));
    let error = error.err().expect("an error").to_string();
    assert!(error.contains("the test"), "{error}");
}

struct NoCatalog;

impl parallax_protocol::model::ModelCatalog for NoCatalog {
    fn limits(&self, model: &str) -> parallax_protocol::model::Limits {
        unreachable!("limits of {model}")
    }

    fn resolve(&self, name: &str) -> String {
        name.to_owned()
    }
}
