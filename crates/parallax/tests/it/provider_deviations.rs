//! Providers that change their API, or that reject parts of a request.

use serde_json::json;
use testkit::WireFormat;

use crate::providers::{KEY, WireWorld, call, contains_text, service};
use crate::support::{World, finish};

#[test]
fn session_continues_when_its_provider_changes_its_api() {
    let calls = json!({"chunks": [{"candidates": [{"content": {"parts": [
        {"text": "I look first.", "thought": true, "thoughtSignature": "U0lHTkVE"},
        {"functionCall": {"name": "read_file", "args": {"file_path": "a.txt"}}}]},
        "finishReason": "STOP"}]}]});
    let apis = ["openai-responses", "openai-chat", "anthropic"];
    for (first, second) in
        apis.into_iter().flat_map(|one| apis.into_iter().map(move |two| (one, two)))
    {
        let it = WireWorld::new(WireFormat::Chat, &json!([calls, {"text": "1"}, {"text": "2"}]));
        it.world.home.write("a.txt", "hello from the file\n").expect("file");
        for (wire, args) in
            [(first, ["-p", "a"].as_slice()), (second, &["-r", "latest", "-p", "b"])]
        {
            let url = it.world.server.url();
            let url = if wire == "anthropic" { url } else { format!("{url}/v1") };
            let entry = json!({"wire": wire, "baseUrl": url, "apiKeyEnv": "WIRE_KEY"});
            let settings = json!({"providers": {"gateway": entry}}).to_string();
            it.world.home.write_home(".parallax/settings.json", &settings).expect("settings");
            let output = it.run_as("gateway:m", args);
            assert_eq!(output.code(), 0, "{first}, {second}: {}", output.err());
        }
        it.world.server.assert_clean();
        assert!(it.body(2).contains("hello from the file"), "{}", it.body(2));
    }
}

#[test]
fn session_continues_when_a_gateway_loses_the_responses_api() {
    let read = call("read_file", json!({"file_path": "a.txt"}));
    let missing = json!({"error": {"code": 404, "message": "no such path"}});
    let it = WireWorld::new(
        WireFormat::Responses,
        &json!([read, {"text": "1"}, missing, {"text": "by chat"}]),
    );
    it.world.home.write("a.txt", "hello from the file\n").expect("file");
    it.run_ok(&["-p", "read"]);
    assert_eq!(it.run_ok(&["-r", "latest", "-p", "again"]).trim(), "by chat");
}

#[test]
fn default_fields_that_the_service_rejects_are_omitted() {
    let error = |message: &str, param: &str| json!({"error": {"code": 400, "message": message, "param": param}});
    let script = json!([
        error("Encrypted content is not supported with this model.", "include"),
        error("Your organization must be verified to generate summaries.", "reasoning.summary"),
        {"text": "done"}]);
    let it = WireWorld::new(WireFormat::Responses, &script);
    let output = it.run(&["-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "done"), "{}", output.err());
    for name in ["does not accept `include`", "does not accept `reasoning.summary`"] {
        assert_eq!(output.err().matches(name).count(), 1, "{}", output.err());
    }
    let (first, last) =
        (it.world.server.requests()[0].json(), it.world.server.requests()[2].json());
    assert!(!first["include"].is_null() && !first["reasoning"].is_null());
    assert!(last["include"].is_null() && last["reasoning"].is_null(), "{last}");
}

#[test]
fn empty_response_is_requested_again_a_few_times_on_every_wire() {
    for wire in ["openai-chat", "openai-responses", "anthropic", "ollama", "gemini"] {
        let (url, received) = service("200 OK", String::new());
        let it = WireWorld::new(WireFormat::Chat, &json!([]));
        let entry = json!({"wire": wire, "baseUrl": url, "apiKeyEnv": "WIRE_KEY"});
        let settings = json!({"providers": {"empty": entry}}).to_string();
        it.world.home.write_home(".parallax/settings.json", &settings).expect("settings");
        let output = it.run_as("empty:m", &["-p", "go"]);
        assert_eq!(output.code(), 1, "{wire}: {}", output.err());
        assert!(output.err().contains("without a finish reason"), "{wire}: {}", output.err());
        let posts = received.try_iter().filter(|it| it.starts_with("POST")).count();
        assert_eq!(posts, 4, "{wire}: {}", output.err());
    }
}

#[test]
fn reasoning_is_not_requested_from_a_model_without_it() {
    let it = WireWorld::new(WireFormat::Responses, &json!([{"text": "done"}]));
    let mut command = it.world.command(&["-m", "openai:gpt-4.1", "-p", "go"]);
    let url = format!("{}/v1", it.world.server.url());
    command.env("OPENAI_BASE_URL", url).env("OPENAI_API_KEY", KEY);
    let output = finish(command);
    assert_eq!((output.code(), output.stdout().trim()), (0, "done"), "{}", output.err());
    it.world.server.assert_clean();
}

#[test]
fn variable_in_the_headers_of_the_search_is_redacted_from_its_results() {
    let search = call("google_web_search", json!({"query": "q"}));
    let echo = json!({"results": [{"title": "T", "url": "http://x/", "content": KEY}]});
    let (address, _received) = service("200 OK", echo.to_string());
    let settings = json!({"tools": {"webSearch": {"url": format!("{address}/?q={{query}}"),
        "headers": {"X-T": "$SEARCH_KEY"}}}});
    let script = json!([search, {"text": "done"}]);
    let it = WireWorld::with_settings(WireFormat::Ollama, &script, settings);
    let mut command = it.world.command(&["-m", "ollama:m", "-y", "-p", "go"]);
    command.env_remove("GEMINI_API_KEY").env("WIRE_KEY", "another-key").env("SEARCH_KEY", KEY);
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(it.body(1).contains("[secret]") && !it.body(1).contains(KEY), "{}", it.body(1));
    assert!(!contains_text(&it.world.home.parallax(), KEY));
}

/// Returns an event of an answer in Chat Completions whose only choice ended with an error.
fn choice_error(error: &serde_json::Value) -> serde_json::Value {
    let choice = json!({"index": 0, "delta": {"content": ""}, "finish_reason": "error",
        "error": error});
    json!({"raw": format!("data: {}\n\n", json!({"choices": [choice]}))})
}

/// Returns the error of the provider behind OpenRouter.
fn upstream(code: u16, text: &str) -> serde_json::Value {
    json!({"code": code, "message": "Provider returned error", "metadata": {"raw": text}})
}

#[test]
fn choice_error_is_retried_explained_or_compacted() {
    let half = json!({"candidates": [{"content": {"parts": [{"text": "half "}]}}]});
    let long: String = (0..4_000).map(|number| format!("word{number} ")).collect();
    let summary = json!({"text": "<state_snapshot>s</state_snapshot>"});
    let script = json!([
        // A failed provider, before and after text, and without an error object.
        {"chunks": [choice_error(&upstream(502, "boom"))]},
        {"chunks": [half, choice_error(&upstream(502, "boom"))]},
        {"chunks": [half, choice_error(&json!(null))]},
        {"text": &long}, {"text": &long},
        // An overflow after text.
        {"chunks": [half, choice_error(&upstream(400, "prompt is too long"))]},
        &summary, &summary,
        {"text": "short"},
        // What a retry does not help.
        {"chunks": [half, choice_error(&upstream(403, "Your input was flagged"))]},
    ]);
    let it = WireWorld::new(WireFormat::Chat, &script);
    let output = it.run(&["-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, long.trim()), "{}", output.err());
    assert!(output.err().contains("502: boom"), "{}", output.err());
    it.run_ok(&["-r", "latest", "-p", "more"]);
    let output = it.run(&["-r", "latest", "-p", "on"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "short"), "{}", output.err());
    let output = it.run(&["-p", "flagged"]);
    assert_eq!(output.code(), 1, "{}", output.err());
    assert!(output.err().contains("Your input was flagged"), "{}", output.err());
}

#[test]
fn error_during_an_answer_does_not_complete_it() {
    let half = json!({"candidates": [{"content": {"parts": [{"text": "half "}]}}]});
    let responses = "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\"}}\n\n";
    let messages =
        "data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}}\n\n";
    for (wire, event) in [
        (WireFormat::Chat, "data: {\"error\":{\"code\":502,\"message\":\"boom\"}}\n\n"),
        (WireFormat::Responses, responses),
        (WireFormat::Messages, messages),
        (WireFormat::Ollama, "{\"error\":\"boom\"}\n"),
    ] {
        let script = json!([{"chunks": [half, {"raw": event}]}, {"text": "whole"}]);
        let it = WireWorld::new(wire, &script);
        let output = it.run(&["-p", "go"]);
        assert_eq!(
            (output.code(), output.stdout().trim()),
            (0, "whole"),
            "{wire:?}: {}",
            output.err()
        );
    }
    let event = "data: {\"error\":{\"code\":502,\"message\":\"boom\"}}\n\n";
    let script = json!([{"chunks": [half, {"raw": event}]}, {"text": "whole"}]);
    let output = World::new(&script.to_string()).run(&["-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "whole"), "{}", output.err());
}
