//! Answers that span more than one response.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, raw_contents, wait_until};

fn chunk(text: &str, token: Option<&str>, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": [{"text": text}]}});
    if let Some(token) = token {
        candidate["continuationToken"] = json!(token);
    }
    if let Some(word) = finish {
        candidate["finishReason"] = json!(word);
    }
    json!({"candidates": [candidate]})
}

fn counted(mut chunk: Value, prompt: u64, output: u64) -> Value {
    chunk["usageMetadata"] = json!({"promptTokenCount": prompt, "candidatesTokenCount": output,
        "totalTokenCount": prompt + output});
    chunk
}

/// Disables server checks that assume one response per answer.
fn create_world(replies: &Value) -> World {
    World::new(&json!({"ignore": ["prefix", "reply"], "replies": replies}).to_string())
}

fn tokens(world: &World) -> Vec<Value> {
    world.server.requests().iter().map(|it| it.json()["continuationToken"].clone()).collect()
}

#[test]
fn long_answer_is_joined_over_several_requests() {
    let world = create_world(&json!([
        {"chunks": [counted(chunk("one ", Some("T1"), Some("CONTINUATION")), 100, 10)]},
        {"chunks": [counted(chunk("two ", Some("T2"), Some("CONTINUATION")), 110, 20)]},
        {"chunks": [counted(chunk("three", None, Some("STOP")), 130, 30)]},
        {"text": "next"}
    ]));
    let output = world.run_ok(&["-m", "gemini-4-argon", "-p", "go", "-o", "json"]);
    let out: Value = serde_json::from_str(&output.stdout()).expect("json");
    assert_eq!(out["response"], "one two three");
    let tokens_used = &out["stats"]["models"]["gemini-4-argon"]["tokens"];
    assert_eq!((&tokens_used["prompt"], &tokens_used["candidates"]), (&json!(100), &json!(60)));
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), json!("T2")]);
    let bodies: Vec<Value> = world.server.requests().iter().map(|it| it.json()).collect();
    assert_eq!(bodies[0]["contents"], bodies[2]["contents"]);
    world.run_ok(&["-m", "gemini-4-argon", "-r", "latest", "-p", "again"]);
    let last = world.server.requests().pop().expect("a request").json();
    assert_eq!(last["contents"][1]["parts"], json!([{"text": "one two three"}]));
}

#[test]
fn budget_is_checked_between_the_requests_of_an_answer() {
    let world = create_world(&json!([
        {"chunks": [counted(chunk("one ", Some("T1"), Some("CONTINUATION")), 100, 10)]},
        {"chunks": [counted(chunk("two ", Some("T2"), Some("CONTINUATION")), 100, 200)]},
        {"chunks": [counted(chunk("three", None, Some("STOP")), 100, 30)]},
    ]));
    let output = world.run(&["-m", "gemini-4-argon", "--max-tokens", "300", "-p", "go"]);
    assert_eq!(output.code(), 57, "{}", output.err());
    assert_eq!(output.stdout().trim(), "one two");
    assert_eq!(tokens(&world), [Value::Null, json!("T1")]);
    // The answer is continued once there is a budget.
    let output = world.run_ok(&["-m", "gemini-4-argon", "-r", "latest"]);
    assert!(output.stdout().contains("three"), "{}", output.stdout());
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), json!("T2")]);
}

#[test]
fn cut_answer_is_resumed_from_its_checkpoint() {
    let world = create_world(&json!([
        {"chunks": [chunk("one ", Some("T1"), None), chunk("two ", None, None), {"cut": "reset"}]},
        {"chunks": [chunk("two three", None, Some("STOP"))]}
    ]));
    let output = world.run_ok(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(output.stdout().trim(), "one two three");
    assert_eq!(tokens(&world), [Value::Null, json!("T1")]);
}

#[test]
fn response_without_its_end_is_resumed_from_the_token() {
    let world = create_world(&json!([
        {"chunks": [chunk("one ", Some("T1"), Some("CONTINUATION"))]},
        {"chunks": []},
        {"chunks": [chunk("two ", None, None)]},
        {"chunks": [chunk("two three", None, Some("STOP"))]}
    ]));
    let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "one two three"), "{}", output.err());
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), json!("T1"), json!("T1")]);
}

#[test]
fn text_stays_in_the_history_if_no_response_continues_it() {
    let mut replies = vec![json!({"chunks": [chunk("one ", Some("T1"), Some("CONTINUATION"))]})];
    replies.extend((0..4).map(|_| json!({"chunks": []})));
    replies.push(json!({"text": "next"}));
    let world = create_world(&json!(replies));
    let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(output.code(), 1, "{}", output.err());
    assert_eq!(tokens(&world).len(), 5, "{}", output.err());
    assert_eq!(output.stdout().trim(), "one");
    world.run(&["-m", "gemini-4-argon", "-r", "latest", "-p", "again"]);
    let last = world.server.requests().pop().expect("a request").json();
    assert_eq!(last["contents"][1]["parts"], json!([{"text": "one "}]));
}

#[test]
fn repeated_token_and_endless_cuts_end_the_run() {
    let same = json!({"chunks": [chunk("a", Some("T1"), Some("CONTINUATION"))], "repeat": 0});
    let world = create_world(&json!([same]));
    let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_ne!(output.code(), 0);
    assert!(output.err().contains("same continuation token twice"), "{}", output.err());
    assert!(world.server.requests().len() <= 8, "{}", world.server.requests().len());
}

#[test]
fn rejected_continuation_is_retried() {
    let world = create_world(&json!([
        {"chunks": [chunk("one ", Some("T1"), Some("CONTINUATION"))]},
        {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}},
        {"chunks": [chunk("two", None, Some("STOP"))]}
    ]));
    let output = world.run_ok(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(output.stdout().trim(), "one two");
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), json!("T1")]);
}

/// Waits until the first part of the answer is in the journal, then kills the program. The gate is
/// after the second part.
fn kill_during_answer(world: &World) {
    let running = world.start(&["-m", "gemini-4-argon", "-p", "go", "--session-id", "half"]);
    world.at_gate("cut");
    wait_until("a piece in the journal", || {
        let journals = world.home.home().join(".parallax/sessions");
        let files = std::fs::read_dir(journals).into_iter().flatten().flatten();
        let files = files.map(|folder| folder.path().join("half.jsonl"));
        files.filter_map(|file| std::fs::read_to_string(file).ok()).any(|it| it.contains("\"T1\""))
    });
    kill_process(running.pid(), Signal::KILL).expect("kill");
    drop(running.finish(Duration::from_secs(10)));
}

fn half_answer() -> Value {
    json!({"chunks": [chunk("one ", Some("T1"), None), chunk("two ", None, None), {"gate": "cut"}]})
}

#[test]
fn killed_process_resumes_a_half_written_answer() {
    let world = create_world(&json!([
        half_answer(),
        {"chunks": [chunk("two three", None, Some("STOP"))]},
        {"text": "next"}
    ]));
    kill_during_answer(&world);
    // The model of the session, although no flag selects it.
    let output = world.run(&["-r", "half"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "one two three"), "{}", output.err());
    assert_eq!(tokens(&world), [Value::Null, json!("T1")]);
    let requests = world.server.requests();
    assert!(requests[1].path.contains("gemini-4-argon"), "{}", requests[1].path);
    assert_eq!(raw_contents(&requests[0]), raw_contents(&requests[1]), "the same body");
    world.run(&["-m", "gemini-4-argon", "-r", "half", "-p", "again"]);
    let last = world.server.requests().pop().expect("a request").json();
    assert_eq!(last["contents"][1]["parts"], json!([{"text": "one two three"}]));
    assert_eq!(last["contents"].as_array().map(Vec::len), Some(3));
}

#[test]
fn terminated_process_resumes_from_the_newest_token() {
    let half = json!({"chunks": [chunk("one ", Some("T1"), None), chunk("two ", Some("T2"), None),
        chunk("three ", None, None), {"gate": "cut"}]});
    let world = create_world(&json!([half, {"chunks": [chunk("three four", None, Some("STOP"))]}]));
    let arguments = ["-m", "gemini-4-argon", "-p", "go", "--session-id", "half", "--stream-text"];
    let running = world.start(&arguments);
    wait_until("the text", || running.output().contains("three"));
    kill_process(running.pid(), Signal::TERM).expect("signal");
    let output = running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!(output.code(), 143, "{}", output.err());
    let output = world.run(&["-m", "gemini-4-argon", "-r", "half"]);
    assert_eq!(
        (output.code(), output.stdout().trim()),
        (0, "one two three four"),
        "{}",
        output.err()
    );
    assert_eq!(tokens(&world), [Value::Null, json!("T2")]);
}

#[test]
fn rejected_token_keeps_the_text_and_the_rest_is_requested() {
    let world = create_world(&json!([
        {"chunks": [chunk("one ", Some("T1"), Some("CONTINUATION"))]},
        {"status": 400, "error": {"code": 400, "message": "bad token", "status": "INVALID_ARGUMENT"}},
        {"text": "two"}
    ]));
    let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "one two"), "{}", output.err());
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), Value::Null]);
    let body = world.server.requests()[2].json();
    assert_eq!(body["contents"][1]["parts"], json!([{"text": "one "}]));
    assert!(output.err().contains("rejected the continuation token"), "{}", output.err());
}

#[test]
fn unknown_token_is_not_an_unknown_model() {
    for status in [404, 409, 410] {
        let world = create_world(&json!([
            {"chunks": [chunk("one ", Some("T1"), Some("CONTINUATION"))]},
            {"status": status, "error": {"code": status, "message": "Continuation not found.",
                "status": "NOT_FOUND"}},
            {"text": "two"}
        ]));
        let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
        let answer = output.stdout();
        assert_eq!((output.code(), answer.trim()), (0, "one two"), "{status}: {}", output.err());
        assert_eq!(tokens(&world), [Value::Null, json!("T1"), Value::Null], "{status}");
        assert!(!output.err().contains("unknown model"), "{status}: {}", output.err());
    }
}

#[test]
fn rejected_tokens_are_counted_since_the_last_accepted_one() {
    // Each answer has two accepted requests, then a refused one.
    let mut replies: Vec<Value> = (0..6)
        .flat_map(|number| {
            let text = |half: &str| format!("{half}{number} ");
            let token = |half: &str| format!("{half}{number}");
            [
                json!({"chunks": [chunk(&text("a"), Some(&token("A")), Some("CONTINUATION"))]}),
                json!({"chunks": [chunk(&text("b"), Some(&token("B")), Some("CONTINUATION"))]}),
                json!({"status": 400, "error": {"code": 400, "message": "bad token"}}),
            ]
        })
        .collect();
    replies.push(json!({"text": "end"}));
    let world = create_world(&json!(replies));
    let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert_eq!(output.stdout().trim(), "a0 b0 a1 b1 a2 b2 a3 b3 a4 b4 a5 b5 end");
}

#[test]
fn service_that_rejects_all_tokens_is_tried_only_a_few_times() {
    let replies = (0..20).flat_map(|number| {
        let (text, token) = (format!("text{number} "), format!("T{number}"));
        [
            json!({"chunks": [chunk(&text, Some(&token), Some("CONTINUATION"))]}),
            json!({"status": 400, "error": {"code": 400, "status": "INVALID_ARGUMENT",
                "message": "Unknown name \"continuationToken\": Cannot find field."}}),
        ]
    });
    let world = create_world(&replies.collect());
    let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(output.code(), 1, "{}", output.err());
    assert_eq!(world.server.requests().len(), 8);
    assert_eq!(output.err().matches("so a new request asks for the rest").count(), 1);
    assert!(
        output.err().contains("rejected the continuation token of `gemini-4-argon` 4 times"),
        "{}",
        output.err()
    );
}

#[test]
fn text_that_differs_after_a_cut_replaces_only_what_followed_the_token() {
    let world = create_world(&json!([
        {"chunks": [chunk("one ", Some("T1"), None), chunk("two ", Some("T2"), None),
            chunk("thr", None, None), {"cut": "reset"}]},
        {"chunks": [chunk("3 end", None, Some("STOP"))], "repeat": 0}
    ]));
    let output = world.run_ok(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(output.stdout().trim(), "one two 3 end");
}

#[test]
fn partial_answer_stays_in_the_history_of_a_new_prompt() {
    let world = create_world(&json!([half_answer(), {"text": "other"}, {"text": "more"}]));
    kill_during_answer(&world);
    world.run(&["-m", "gemini-4-argon", "-r", "half", "-p", "something else"]);
    world.run(&["-m", "gemini-4-argon", "-r", "half", "-p", "and more"]);
    for (request, contents) in [(1, 3), (2, 5)] {
        let body = world.server.requests()[request].json();
        assert_eq!(body["contents"][1]["parts"], json!([{"text": "one "}]));
        assert_eq!(body["contents"].as_array().map(Vec::len), Some(contents));
        assert_eq!(body["continuationToken"], Value::Null);
    }
}

#[test]
fn rejected_continuation_token_falls_back_to_a_request_for_the_rest() {
    let world = create_world(&json!([
        half_answer(),
        {"status": 400, "error": {"code": 400, "message": "the token has expired",
            "status": "INVALID_ARGUMENT"}},
        {"text": "two three"},
        {"text": "next"}
    ]));
    kill_during_answer(&world);
    let output = world.run(&["-m", "gemini-4-argon", "-r", "half"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(output.stdout().contains("two three"), "{}", output.stdout());
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), Value::Null]);
    let body = world.server.requests()[2].json();
    assert_eq!(body["contents"][1]["parts"], json!([{"text": "one "}]));
    assert!(body["contents"][2]["parts"][0]["text"].as_str().unwrap().contains("Continue where"));
}

#[test]
fn failed_resumption_can_be_tried_again() {
    let busy = json!({"status": 403, "error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}});
    let world = create_world(
        &json!([half_answer(), busy, {"chunks": [chunk("two three", None, Some("STOP"))]}]),
    );
    kill_during_answer(&world);
    assert_ne!(world.run(&["-m", "gemini-4-argon", "-r", "half"]).code(), 0);
    let output = world.run(&["-m", "gemini-4-argon", "-r", "half"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "one two three"), "{}", output.err());
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), json!("T1")]);
}

#[test]
fn resumptions_without_progress_end_the_run() {
    let mut replies = vec![json!({"chunks": [chunk("one ", Some("T1"), None), {"cut": "reset"}]})];
    replies.extend((0..8).map(|_| json!({"chunks": [{"cut": "reset"}]})));
    let world = create_world(&json!(replies));
    let output = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_ne!(output.code(), 0);
    let tokens = tokens(&world);
    assert!(tokens.len() <= 5, "{tokens:?}: {}", output.err());
}
