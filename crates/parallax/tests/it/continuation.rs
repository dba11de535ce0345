//! Answers that are longer than one response.

use serde_json::{Value, json};

use crate::support::World;

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

/// The server's own rules know one response per answer.
fn world(replies: &Value) -> World {
    World::new(&json!({"ignore": ["prefix", "reply"], "replies": replies}).to_string())
}

fn tokens(world: &World) -> Vec<Value> {
    world.server.requests().iter().map(|it| it.json()["continuationToken"].clone()).collect()
}

#[test]
fn long_answer_is_one_text_over_several_requests() {
    let world = world(&json!([
        {"chunks": [counted(chunk("one ", Some("T1"), Some("CONTINUATION")), 100, 10)]},
        {"chunks": [counted(chunk("two ", Some("T2"), Some("CONTINUATION")), 110, 20)]},
        {"chunks": [counted(chunk("three", None, Some("STOP")), 130, 30)]},
        {"text": "next"}
    ]));
    let done = world.run_well(&["-m", "gemini-4-argon", "-p", "go", "-o", "json"]);
    let out: Value = serde_json::from_str(&done.out()).expect("json");
    assert_eq!(out["response"], "one two three");
    let tokens_used = &out["stats"]["models"]["gemini-4-argon"]["tokens"];
    assert_eq!((&tokens_used["prompt"], &tokens_used["candidates"]), (&json!(100), &json!(60)));
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), json!("T2")]);
    let bodies: Vec<Value> = world.server.requests().iter().map(|it| it.json()).collect();
    assert_eq!(bodies[0]["contents"], bodies[2]["contents"]);
    world.run_well(&["-m", "gemini-4-argon", "-r", "latest", "-p", "again"]);
    let last = world.server.requests().pop().expect("a request").json();
    assert_eq!(last["contents"][1]["parts"], json!([{"text": "one two three"}]));
}

#[test]
fn cut_answer_is_resumed_from_its_checkpoint() {
    let world = world(&json!([
        {"chunks": [chunk("one ", Some("T1"), None), chunk("two ", None, None), {"cut": "reset"}]},
        {"chunks": [chunk("two three", None, Some("STOP"))]}
    ]));
    let done = world.run_well(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(done.out().trim(), "one two three");
    assert_eq!(tokens(&world), [Value::Null, json!("T1")]);
}

#[test]
fn same_token_twice_and_endless_cuts_end_the_run() {
    let same = json!({"chunks": [chunk("a", Some("T1"), Some("CONTINUATION"))], "repeat": 0});
    let world = world(&json!([same]));
    let done = world.run(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_ne!(done.code(), 0);
    assert!(done.err().contains("same continuation token twice"), "{}", done.err());
    assert!(world.server.requests().len() <= 8, "{}", world.server.requests().len());
}

#[test]
fn refused_hop_is_retried_as_usual() {
    let world = world(&json!([
        {"chunks": [chunk("one ", Some("T1"), Some("CONTINUATION"))]},
        {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}},
        {"chunks": [chunk("two", None, Some("STOP"))]}
    ]));
    let done = world.run_well(&["-m", "gemini-4-argon", "-p", "go"]);
    assert_eq!(done.out().trim(), "one two");
    assert_eq!(tokens(&world), [Value::Null, json!("T1"), json!("T1")]);
}
