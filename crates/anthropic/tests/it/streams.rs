//! Responses: text, calls, thinking, hosted tools, and streams that break.

use parallax_protocol::CancellationToken;
use parallax_protocol::content::Part;
use parallax_protocol::model::{FinishReason, Model, ModelError, Refusal, ToolSet, Usage};
use serde_json::json;
use testkit::canned::{self, ResponsePiece, Server};

use crate::support::*;

#[tokio::test]
async fn text_arrives_with_usage_and_finish() {
    let (received, server) =
        serve(vec![stream(&message(vec![text(0, "Hello")], "end_turn"))]).await;
    assert!(received.end.is_ok(), "{:?}", received.end);
    assert_eq!(received.text(), "Hello");
    let meta = &received.answer.metadata;
    let finish = meta.finish.clone().expect("a finish");
    assert_eq!((finish.reason, finish.provider_reason.as_str()), (FinishReason::Stop, "end_turn"));
    let usage = Usage {
        prompt: 60,
        output: 10,
        cached: 30,
        thought: 15,
        tool_prompt: 0,
        cache_write: 20,
        total: 85,
        charged_cost: None,
    };
    assert_eq!(meta.usage, Some(usage));
    assert_eq!(meta.response_id.as_deref(), Some("msg_1"));
    let head = server.requests()[0].head.to_lowercase();
    assert!(head.starts_with("post /v1/messages "), "{head}");
    let key = format!("x-api-key: {KEY}");
    for header in [key.as_str(), "anthropic-version: 20", "user-agent: parallax/"] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(!head.contains("authorization") && !head.contains("anthropic-beta"), "{head}");
}

#[tokio::test]
async fn bearer_key_and_headers_of_the_user_are_sent() {
    let server = Server::start(vec![ok()]).await;
    let mut options = options(&format!("{}/gateway/v1/", server.base));
    options.bearer = true;
    options.headers = vec![("Anthropic-Beta".to_owned(), "some-beta".to_owned())];
    let received = drain(&model_with(options), hello()).await;
    assert_eq!(received.text(), "ok");
    let head = server.requests()[0].head.to_lowercase();
    assert!(head.starts_with("post /gateway/v1/messages "), "{head}");
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    assert!(head.contains("anthropic-beta: some-beta") && !head.contains("x-api-key"), "{head}");
}

#[tokio::test]
async fn call_arguments_are_joined() {
    let call = tool_use(0, "toolu_1", "read_file", &["", "{\"file", "_path\": \"a.txt\"}"]);
    let (received, _server) = serve(vec![stream(&message(vec![call], "tool_use"))]).await;
    assert_eq!(
        received.calls(),
        [json!({"id": "toolu_1", "name": "read_file", "args": {"file_path": "a.txt"}})]
    );
    assert_eq!(received.answer.metadata.finish.map(|it| it.reason), Some(FinishReason::ToolCalls));
}

#[tokio::test]
async fn interleaved_parallel_calls_stay_separate() {
    let first = tool_use(1, "t1", "a", &["{\"x\":", "1}"]);
    let second = tool_use(2, "t2", "b", &[]);
    let third = tool_use(3, "t3", "c", &["{\"y\":", "broken"]);
    let mut events = vec![start()];
    events.extend(text(0, "Looking."));
    for position in 0..4 {
        let rows = [&first, &second, &third].into_iter().filter_map(|row| row.get(position));
        events.extend(rows.cloned());
    }
    events.extend(stop("tool_use"));
    let (received, _server) = serve(vec![stream(&events)]).await;
    let mut calls = received.calls();
    calls.sort_by_key(|call| call["id"].to_string());
    assert_eq!(
        calls,
        [
            json!({"id": "t1", "name": "a", "args": {"x": 1}}),
            json!({"id": "t2", "name": "b", "args": {}}),
            json!({"id": "t3", "name": "c", "args": "{\"y\":broken"}),
        ]
    );
    assert_eq!(received.text(), "Looking.");
}

#[tokio::test]
async fn thinking_is_sent_back_unchanged_at_its_original_position() {
    let redacted = json!({"type": "redacted_thinking", "data": "b64=="});
    let first = message(
        vec![
            thinking(0, "Let me see.", "c2lnMQ=="),
            block(1, redacted.clone(), &[]),
            text(2, "I look."),
            tool_use(3, "t1", "look", &["{}"]),
            thinking(4, "", "c2lnMg=="),
            tool_use(5, "t2", "look", &["{}"]),
        ],
        "tool_use",
    );
    let server = Server::start(vec![stream(&first), ok(), ok()]).await;
    let model = model(&server);
    let received = drain(&model, hello()).await;
    assert_eq!(received.thoughts(), "Let me see.");
    let history = vec![
        user(vec![Part::text("hi")]),
        received.sealed(),
        user(vec![result("t1", "look", "one"), result("t2", "look", "two")]),
    ];
    assert!(!history[1].json().contains("c2lnMQ"), "signatures stay out of the history");
    drain(&model, request(history.clone())).await;
    let messages = body(&server, 1)["messages"].clone();
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnMQ=="},
            redacted,
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            {"type": "thinking", "thinking": "", "signature": "c2lnMg=="},
            {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
        ])
    );
    let mut other = request(history);
    other.model = "anthropic:claude-opus-5".to_owned();
    drain(&model, other).await;
    let text = server.requests()[2].body.clone();
    assert!(!text.contains("c2lnM") && !text.contains("b64==") && text.contains("tool_use"));
}

#[tokio::test]
async fn truncated_thinking_is_not_sent_back() {
    let start = json!({"type": "thinking", "thinking": "", "signature": ""});
    let partial = block(0, start, &[json!({"type": "thinking_delta", "thinking": "Hm"})]);
    let server = Server::start(vec![stream(&message(vec![partial], "max_tokens")), ok()]).await;
    let model = model(&server);
    let received = drain(&model, hello()).await;
    assert_eq!(received.thoughts(), "Hm");
    assert_eq!(
        received.answer.metadata.finish.as_ref().map(|it| it.reason),
        Some(FinishReason::MaxTokens)
    );
    let next = vec![user(vec![Part::text("a")]), received.sealed(), user(vec![Part::text("b")])];
    drain(&model, request(next)).await;
    assert_eq!(body(&server, 1)["messages"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn unknown_events_and_blocks_are_accepted() {
    let mut events = message(
        vec![block(0, json!({"type": "later_block", "n": 1}), &[]), text(1, "yes")],
        "end_turn",
    );
    events.insert(1, json!({"type": "later_event", "index": "x"}));
    events.insert(
        2,
        json!({"type": "content_block_delta", "index": 9,
        "delta": {"type": "later_delta"}}),
    );
    let server = Server::start(vec![stream(&events), ok()]).await;
    let model = model(&server);
    let received = drain(&model, hello()).await;
    assert_eq!((received.text().as_str(), received.end.is_ok()), ("yes", true));
    let next = vec![user(vec![Part::text("a")]), received.sealed(), user(vec![Part::text("b")])];
    drain(&model, request(next)).await;
    let kept = &body(&server, 1)["messages"][1]["content"][0];
    assert_eq!(kept, &json!({"type": "later_block", "n": 1}));
}

#[tokio::test]
async fn chunks_split_at_any_byte_are_decoded() {
    let call = tool_use(1, "t", "écrire", &["{\"ü\":", "\"🦀\"}"]);
    let events = message(vec![thinking(0, "Grüße", "sig"), call, text(2, "🦀 fertig")], "tool_use");
    let bytes: String = events.iter().map(event).collect();
    let mut answer = canned::head();
    answer.extend(bytes.as_bytes().iter().map(|byte| {
        let mut piece = b"1\r\n".to_vec();
        piece.push(*byte);
        piece.extend_from_slice(b"\r\n");
        ResponsePiece::Bytes(piece)
    }));
    answer.push(ResponsePiece::Bytes(b"0\r\n\r\n".to_vec()));
    let (received, _server) = serve(vec![answer]).await;
    assert_eq!((received.text().as_str(), received.thoughts().as_str()), ("🦀 fertig", "Grüße"));
    assert_eq!(received.calls(), [json!({"id": "t", "name": "écrire", "args": {"ü": "🦀"}})]);
}

#[tokio::test]
async fn stream_without_an_end_event_is_incomplete() {
    let mut events = vec![start()];
    events.extend(text(0, "half"));
    for answer in [cut(&events), stream(&events)] {
        let (received, _server) = serve(vec![answer]).await;
        assert_eq!(received.text(), "half");
        assert_eq!(received.answer.metadata.usage.map(|usage| usage.prompt), Some(60));
        assert!(
            matches!(&received.end, Err(ModelError::Broken { retryable: true, .. })),
            "{:?}",
            received.end
        );
    }
}

#[tokio::test]
async fn call_without_a_stop_event_is_completed_at_the_end() {
    let mut call = tool_use(0, "t", "a", &["{\"x\":1}"]);
    call.pop();
    let (received, _server) = serve(vec![stream(&message(vec![call], "tool_use"))]).await;
    assert_eq!(received.calls(), [json!({"id": "t", "name": "a", "args": {"x": 1}})]);
}

#[tokio::test]
async fn stop_reasons_are_mapped() {
    for (word, reason) in [
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::MaxTokens),
        ("model_context_window_exceeded", FinishReason::ContextFull),
        ("refusal", FinishReason::Refused(Refusal::Safety)),
        ("later_word", FinishReason::Unknown),
    ] {
        let (received, _server) = serve(vec![stream(&message(vec![text(0, "x")], word))]).await;
        let finish = received.answer.metadata.finish.expect("a finish");
        assert_eq!((finish.reason, finish.provider_reason.as_str()), (reason, word));
    }
}

#[tokio::test]
async fn refusal_is_explained() {
    let mut events = message(vec![text(0, "I")], "refusal");
    let delta = events.iter_mut().find(|it| it["type"] == "message_delta").expect("a delta");
    delta["delta"]["stop_details"] =
        json!({"type": "refusal", "category": "cyber", "explanation": "Not this."});
    let (received, _server) = serve(vec![stream(&events)]).await;
    assert_eq!(received.answer.metadata.finish_message.as_deref(), Some("Not this."));
}

#[tokio::test]
async fn paused_turn_is_continued_in_the_same_stream() {
    let paused = message(vec![text(0, "half ")], "pause_turn");
    let output = message(vec![text(0, "whole")], "end_turn");
    let (received, server) = serve(vec![stream(&paused), stream(&output)]).await;
    assert!(received.end.is_ok(), "{:?}", received.end);
    assert_eq!(received.answer.text(), "half whole");
    let finish = received.answer.metadata.finish.as_ref().map(|it| it.reason);
    assert_eq!(finish, Some(FinishReason::Stop));
    let usage = received.answer.metadata.usage.expect("usage");
    assert_eq!((usage.prompt, usage.output), (60, 20));
    let second = body(&server, 1);
    assert_eq!(second["messages"][1]["role"], "assistant");
    assert_eq!(second["messages"][1]["content"][0]["text"], "half ");
    let count = second["messages"].as_array().map(Vec::len);
    assert_eq!(count, Some(2), "the turn is sent back as it is");
    // A service that only pauses must not cause an endless loop.
    let (received, server) = serve(vec![stream(&paused); 12]).await;
    let finish = received.answer.metadata.finish.map(|it| it.reason);
    assert_eq!((finish, server.requests().len()), (Some(FinishReason::Paused), 9));
}

#[tokio::test]
async fn hosted_search_is_continued_after_a_pause() {
    let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let query = [json!({"type": "input_json_delta", "partial_json": "{\"query\":\"x\"}"})];
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
        {"type": "web_search_result", "url": "https://e.example/a", "title": "A",
            "encrypted_content": "e"}]});
    let paused = message(vec![text(0, "Searching. "), block(1, search, &query)], "pause_turn");
    let output = message(vec![block(0, found, &[]), text(1, "Found.")], "end_turn");
    let server = Server::start(vec![stream(&paused), stream(&output)]).await;
    let mut search = hello();
    search.tools = ToolSet::WebSearch;
    let answer = model(&server).generate(search, CancellationToken::new()).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.text(), "Searching. Found.");
    assert_eq!(answer.metadata.citations[0].uri, "https://e.example/a");
    let usage = answer.metadata.usage.expect("usage");
    assert_eq!((usage.prompt, usage.output, usage.total), (60, 20, 110));
    let second = body(&server, 1);
    assert_eq!(second["tools"][0]["name"], "web_search");
    let last = &second["messages"][1];
    assert_eq!(last["role"], "assistant");
    assert_eq!(
        last["content"][1],
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search",
            "input": {"query": "x"}})
    );
    assert_eq!(second["messages"].as_array().map(Vec::len), Some(2));
}
