//! Model descriptions that services return, and how they are cached.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::measure::FinishedProcess;

use crate::support::{World, finish};

/// Starts a server that responds by path: a list, a description, and a short response to each
/// prompt, which waits until `cache` (if given) has a description of this server: the program
/// does not wait for it at its end.
fn serve(cache: Option<PathBuf>) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    let (sender, seen) = channel();
    let own_url = url.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (sender, cache, url) = (sender.clone(), cache.clone(), own_url.clone());
            let wait = move || {
                let Some(cache) = cache else { return };
                let deadline = Instant::now() + Duration::from_secs(5);
                let is_cached =
                    || std::fs::read_to_string(&cache).is_ok_and(|it| it.contains(&url));
                while !is_cached() && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(10));
                }
            };
            std::thread::spawn(move || answer(stream, &sender, wait));
        }
    });
    (url, seen)
}

fn answer(mut stream: TcpStream, seen: &Sender<(String, String)>, wait: impl FnOnce()) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    let (head, body) = loop {
        let read = stream.read(&mut buffer).unwrap_or(0);
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.to_lowercase().split_once("content-length: ").map(|it| it.1.to_owned());
            let length: usize =
                length.and_then(|it| it.lines().next().and_then(|it| it.parse().ok())).unwrap_or(0);
            if body.len() >= length || read == 0 {
                break (head.to_owned(), body.to_owned());
            }
        } else if read == 0 {
            return;
        }
    };
    let line = head.lines().next().unwrap_or_default().to_owned();
    let (kind, text) = if line.starts_with("GET /v1/models/claude-test ") {
        let description = json!({"type": "model", "id": "claude-test", "display_name": "Test",
            "max_input_tokens": 150_000, "max_tokens": 777, "capabilities": {
                "image_input": {"supported": false}, "pdf_input": {"supported": true}}});
        ("application/json", description.to_string())
    } else if line.starts_with("GET /v1/models") {
        let list = json!({"data": [{"id": "a/b", "context_length": 4321},
            {"id": "c", "context_length": 99_000}]});
        ("application/json", list.to_string())
    } else {
        wait();
        let events = [
            json!({"type": "message_start", "message": {"id": "m", "type": "message",
                "role": "assistant", "content": [], "model": "claude-test",
                "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": "hello"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ];
        let events = events.iter().map(|event| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
        });
        ("text/event-stream", events.collect())
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = seen.send((line, body));
    let _ = stream.write_all(answer.as_bytes());
}

fn run(world: &World, variables: &[(&str, &str)], args: &[&str]) -> FinishedProcess {
    let mut command = world.command(args);
    command.env_remove("GEMINI_API_KEY").envs(variables.iter().copied());
    finish(command)
}

#[test]
fn model_description_of_the_service_is_cached_for_a_day() {
    let world = World::new("[]");
    let cache = world.home.parallax().join("cache/models.json");
    let (url, seen) = serve(Some(cache.clone()));
    let variables = [("ANTHROPIC_BASE_URL", url.as_str()), ("ANTHROPIC_API_KEY", "k-4711")];
    let args = ["-m", "anthropic:claude-test", "-p", "go"];
    for _ in 0..2 {
        let output = run(&world, &variables, &args);
        assert_eq!((output.code(), output.stdout().trim()), (0, "hello"), "{}", output.err());
    }
    let requests: Vec<(String, String)> = seen.try_iter().collect();
    let described = requests.iter().filter(|it| it.0.starts_with("GET")).count();
    assert_eq!((requests.len(), described), (3, 1), "{requests:?}");
    let last: Value = serde_json::from_str(&requests[2].1).expect("a request");
    assert_eq!(last["max_tokens"], 777);
    // Another base URL is another service.
    let (other, seen) = serve(Some(cache));
    let variables = [("ANTHROPIC_BASE_URL", other.as_str()), ("ANTHROPIC_API_KEY", "k-4711")];
    run(&world, &variables, &args);
    assert!(seen.try_iter().any(|it| it.0.starts_with("GET")));
}

#[test]
fn refreshed_limits_are_available_offline() {
    let world = World::new("[]");
    let (url, _seen) = serve(None);
    let settings = |url: &str| {
        let providers = json!({"mine": {"wire": "openai-chat", "baseUrl": format!("{url}/v1"),
            "apiKeyEnv": "MINE_KEY"}});
        let settings = json!({"providers": providers}).to_string();
        world.home.write_home(".parallax/settings.json", &settings).expect("settings");
    };
    settings(&url);
    let variables = [("MINE_KEY", "k-4711")];
    let output = run(&world, &variables, &["models", "refresh", "mine"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "mine: 2 models"), "{}", output.err());
    let file = world.home.parallax().join("cache/models.json");
    let stored = std::fs::read_to_string(&file).expect("stored");
    assert!(stored.contains("4321") && !stored.contains("k-4711"), "{stored}");
    // The cache belongs to the base URL; only its port is closed now.
    std::fs::write(&file, stored.replace(&url, "http://127.0.0.1:9")).expect("written");
    settings("http://127.0.0.1:9");
    let output = run(&world, &variables, &["models", "show", "mine:a/b", "--json"]);
    let stdout: Value = serde_json::from_str(&output.stdout()).expect("json");
    assert_eq!((output.code(), &stdout["contextWindow"]), (0, &json!(4321)), "{stdout}");
    let output = run(&world, &variables, &["models", "refresh", "mine"]);
    assert_ne!(output.code(), 0);
    assert!(output.err().contains("127.0.0.1:9"), "{}", output.err());
    std::fs::write(&file, "{ damaged").expect("written");
    settings(&url);
    assert_eq!(run(&world, &variables, &["models", "refresh"]).code(), 0);
    assert_eq!(run(&world, &variables, &["models", "refresh", "nope"]).code(), 42);
}

#[test]
fn gemini_models_are_those_that_the_service_lists() {
    let listed = json!({"models": [
        {"name": "models/gemini-2.5-pro", "inputTokenLimit": 777_777, "outputTokenLimit": 2222,
            "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/gemini-99", "inputTokenLimit": 4321, "displayName": "Newest",
            "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]}]});
    let documents = json!({"/v1beta/models?pageSize=1000": listed});
    let world = World::new(&json!({"documents": documents, "replies": []}).to_string());
    for args in [&["models", "list"][..], &["models", "list", "gemini"]] {
        let out = world.run_ok(args).stdout();
        assert!(out.contains("gemini-99") && out.contains("Newest"), "{out}");
        assert!(out.contains("gemini-2.5-pro") && !out.contains("gemini-2.5-flash"), "{out}");
    }
    let output = world.run_ok(&["models", "refresh", "gemini"]);
    assert_eq!(output.stdout().trim(), "gemini: 2 models");
    // What the service stated takes precedence over the table, for its base URL only.
    let limits = |model: &str, base_url: Option<&str>| {
        let mut command = world.command(&["models", "show", model, "--json"]);
        command.envs(base_url.map(|url| ("GOOGLE_GEMINI_BASE_URL", url)));
        let shown: Value = serde_json::from_str(&finish(command).stdout()).expect("json");
        (shown["contextWindow"].clone(), shown["maxOutput"].clone())
    };
    assert_eq!(limits("gemini-2.5-pro", None), (json!(777_777), json!(2222)));
    assert_eq!(limits("gemini-99", None).0, json!(4321));
    let elsewhere = limits("gemini-2.5-pro", Some("http://127.0.0.1:9"));
    assert_eq!(elsewhere, (json!(1_048_576), json!(65_536)));
    let keys = world.server.requests();
    assert!(keys.iter().all(|it| it.header("x-goog-api-key").is_some()));
    let output = world.run(&["models", "refresh", "vertex"]);
    assert_eq!(output.code(), 42, "{}", output.err());
    assert!(world.run_ok(&["models", "list", "vertex"]).stdout().contains("vertex:gemini-"));
    // With a project, Vertex AI can be used beside the Gemini API.
    let listed = |variables: &[(&str, &str)]| {
        let mut command = world.command(&["models", "list"]);
        command.envs(variables.iter().copied());
        finish(command).stdout()
    };
    let project = [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "global")];
    assert!(listed(&project).contains("vertex:gemini-") && !listed(&[]).contains("vertex:"));
}

#[test]
fn shown_model_has_its_inputs_levels_and_prices() {
    let world = World::new("[]");
    let models = json!([{"id": "m", "input": ["text", "image"], "thinking": ["low", "max"],
        "price": {"input": 1, "cached": 0.5, "output": 2}}]);
    let providers = json!({"mine": {"wire": "openai-chat", "baseUrl": "http://127.0.0.1:9/v1",
        "models": models}});
    let settings = json!({"providers": providers}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).expect("settings");
    let show = |name: &str| -> Value {
        let done = run(&world, &[], &["models", "show", name, "--json"]);
        assert_eq!(done.code(), 0, "{}", done.err());
        serde_json::from_str(&done.stdout()).expect("JSON")
    };
    let mine = show("mine:m");
    assert_eq!(mine["input"], json!(["text", "image"]));
    assert_eq!(mine["thinking"], json!({"control": "levels", "levels": ["low", "max"]}));
    assert_eq!(mine["price"], json!({"input": 1.0, "cached": 0.5, "output": 2.0}));
    let flash = show("gemini-3.8-flash");
    assert_eq!(flash["thinking"]["levels"], json!(["low", "medium", "high"]));
    assert!(flash["input"].as_array().is_some_and(|kinds| kinds.contains(&json!("video"))));
    assert_eq!(show("gemini-2.5-pro")["thinking"], json!({"control": "budget"}));
    let pro = show("gemini-2.5-pro")["price"].clone();
    assert!(pro["above"]["output"].as_f64() > pro["output"].as_f64(), "{pro}");

    let done = run(&world, &[], &["models", "show", "mine:m"]);
    for row in ["Input           text, image", "Thinking        low, max", "$0.5 cached input"] {
        assert!(done.stdout().contains(row), "{}", done.stdout());
    }
}
