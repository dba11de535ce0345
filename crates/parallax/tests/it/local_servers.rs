//! Model servers on the same machine: Ollama, and servers with their own rules.

use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::WireFormat;
use testkit::measure::FinishedProcess;

use crate::providers::WireWorld;
use crate::support::{World, finish};

#[test]
fn stopped_local_server_is_reported_at_once() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let started_at = std::time::Instant::now();
    let mut command = it.world.command(&["-m", "llamacpp:m", "-p", "go"]);
    command.env("LLAMACPP_BASE_URL", "http://127.0.0.1:9/v1").env_remove("GEMINI_API_KEY");
    let output = finish(command);
    assert_eq!(output.code(), 1, "{}", output.err());
    assert!(output.err().contains("127.0.0.1:9"), "{}", output.err());
    assert!(started_at.elapsed().as_secs() < 2);
}

#[test]
fn stopped_local_server_of_the_gemini_wire_is_reported_at_once() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let settings =
        json!({"providers": {"own": {"wire": "gemini", "baseUrl": "http://127.0.0.1:9"}}});
    it.world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    for model in ["own:m", "gemini-3.8-flash"] {
        let mut command = it.world.command(&["-m", model, "-p", "go"]);
        command.env("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9");
        // The usual waits between attempts.
        command.env_remove("PARALLAX_RETRY_BASE_MS");
        let started_at = std::time::Instant::now();
        let output = finish(command);
        assert_eq!(output.code(), 1, "{}", output.err());
        assert!(output.err().contains("127.0.0.1:9"), "{}", output.err());
        assert!(started_at.elapsed().as_secs() < 2, "{model}: {}", output.err());
    }
}

/// Returns the name of this machine, if it resolves to an address of it.
fn own_name() -> Option<String> {
    use std::net::{ToSocketAddrs as _, UdpSocket};
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    let mut addresses = (name.as_str(), 0).to_socket_addrs().ok()?.peekable();
    addresses.peek()?;
    addresses.all(|address| UdpSocket::bind(address).is_ok()).then_some(name)
}

#[test]
fn stopped_server_on_this_machine_is_reported_at_once_under_any_host_name() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let hosts = ["0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "localhost."].map(str::to_owned);
    for host in hosts.into_iter().chain(own_name()) {
        let url = format!("http://{host}:9");
        let entry = |wire: &str| json!({"wire": wire, "baseUrl": url});
        let settings =
            json!({"providers": {"own": entry("openai-chat"), "gem": entry("gemini")}}).to_string();
        it.world.home.write_home(".parallax/settings.json", &settings).expect("settings");
        for model in ["own:m", "gem:m", "gemini-3.8-flash"] {
            let mut command = it.world.command(&["-m", model, "-p", "go"]);
            // The usual waits between attempts.
            command.env("GOOGLE_GEMINI_BASE_URL", &url).env_remove("PARALLAX_RETRY_BASE_MS");
            let started_at = std::time::Instant::now();
            let output = finish(command);
            assert_eq!(output.code(), 1, "{host} {model}: {}", output.err());
            assert!(output.err().contains(":9`"), "{host} {model}: {}", output.err());
            assert!(started_at.elapsed().as_secs() < 2, "{host} {model}: {}", output.err());
        }
    }
}

#[test]
fn reasoning_is_sent_back_in_all_later_requests() {
    let calls = json!({"chunks": [{"candidates": [{"content": {"parts": [
        {"text": "deep thought", "thought": true},
        {"functionCall": {"name": "list_directory", "args": {"dir_path": "."}}}]},
        "finishReason": "STOP"}]}]});
    let it = WireWorld::new(
        WireFormat::Chat,
        &json!([{"text": "of another provider"}, calls, {"text": "done"}, {"text": "next"}]),
    );
    let url = it.world.server.url();
    let of =
        |wire: &str, base: String| json!({"wire": wire, "baseUrl": base, "apiKeyEnv": "WIRE_KEY"});
    let mut own = of("openai-chat", format!("{url}/v1"));
    own["quirks"] = json!({"echoReasoning": true});
    let settings = json!({"providers": {"own": own, "messages": of("anthropic", url.clone())}});
    it.world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    for (model, args) in [
        ("messages:m", &["-p", "zero"][..]),
        ("own:m", &["-r", "latest", "-p", "one"]),
        ("own:m", &["-r", "latest", "-p", "two"]),
    ] {
        let output = it.run_as(model, args);
        assert_eq!(output.code(), 0, "{}", output.err());
    }
    let requests = it.world.server.requests();
    let body: Value =
        serde_json::from_slice(&requests.last().expect("a request").body).expect("JSON");
    let messages = body["messages"].as_array().expect("messages").iter();
    let reasoning: Vec<&Value> = messages
        .filter(|message| message["role"] == "assistant")
        .map(|message| &message["reasoning_content"])
        .collect();
    assert_eq!(reasoning, [" ", "deep thought", " "]);
}

#[test]
fn call_ids_have_the_form_that_the_service_requires() {
    let read = json!({"functionCall": {"id": "chatcmpl-tool-0123456789abcdef0123456789abcdef",
        "name": "list_directory", "args": {"dir_path": "."}}});
    let call = json!({"chunks": [{"candidates": [{"content": {"parts": [read]},
        "finishReason": "STOP"}]}]});
    for (quirks, id) in
        [(json!({}), "call_000000010000"), (json!({"shortCallIds": true}), "000001000")]
    {
        let it = WireWorld::new(WireFormat::Chat, &json!([call, {"text": "done"}]));
        let url = format!("{}/v1", it.world.server.url());
        let settings = json!({"providers":
            {"own": {"wire": "openai-chat", "baseUrl": url, "apiKeyEnv": "WIRE_KEY", "quirks": quirks}}});
        it.world
            .home
            .write_home(".parallax/settings.json", &settings.to_string())
            .expect("settings");
        let output = it.run_as("own:m", &["-p", "list"]);
        assert_eq!(output.code(), 0, "{}", output.err());
        let body: Value = serde_json::from_str(&it.body(1)).expect("JSON");
        let messages = body["messages"].as_array().expect("messages");
        let of = |role: &str, pointer: &str| {
            let message = messages.iter().rfind(|message| message["role"] == role);
            message.and_then(|it| it.pointer(pointer)).cloned().unwrap_or_default()
        };
        assert_eq!(of("assistant", "/tool_calls/0/id"), id);
        assert_eq!(of("tool", "/tool_call_id"), id);
    }
}

#[test]
fn local_server_of_another_protocol_is_reported_at_once() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let serve = |bytes: &'static [u8]| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // Fails if the client has closed it already.
                let _ = stream.write_all(bytes);
            }
        });
        address
    };
    let plain = format!("https://{}", serve(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let other = format!("http://{}", serve(b"SSH-2.0-OpenSSH_9.6\r\n"));
    let closing = format!("http://{}", serve(b""));
    let tls = "begins with `http://`";
    for (address, hint) in [(plain, tls), (other, "cannot reach"), (closing, "cannot reach")] {
        let mut command = it.world.command(&["-m", "llamacpp:x", "-p", "hi"]);
        command.env("LLAMACPP_BASE_URL", format!("{address}/v1")).env_remove("GEMINI_API_KEY");
        let output = finish(command);
        let host = address.split("//").nth(1).unwrap_or_default();
        assert!(output.err().contains(host) && output.err().contains(hint), "{}", output.err());
        assert!(!output.err().contains("retrying"), "{}", output.err());
    }
}

#[test]
fn server_without_a_model_list_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = std::io::BufReader::new(&stream).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let response =
                "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnone";
            // Fails if the client has closed it already.
            let _ = (&stream).write_all(response.as_bytes());
        }
    });
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let run = |args: &[&str]| {
        let mut command = it.world.command(args);
        command.env("LLAMACPP_BASE_URL", &url).env_remove("GEMINI_API_KEY");
        let output = finish(command);
        assert!(!output.err().contains("``"), "{args:?}: {}", output.err());
        (output.code(), output.stdout() + &output.err())
    };
    for action in ["list", "refresh"] {
        let (code, text) = run(&["models", action, "llamacpp"]);
        assert!(code == 1 && text.contains("offers no list of models (404: none)"), "{text}");
    }
    let (code, text) = run(&["models", "show", "llamacpp:m"]);
    assert!(code == 0 && text.contains("(assumed: set it in `providers`)"), "{text}");
    let (_, text) = run(&["models", "test", "llamacpp:m"]);
    assert!(text.contains("unknown model `llamacpp:m` (404: none)"), "{text}");
    // A provider alone is not a model.
    for args in [
        &["models", "test", "llamacpp"],
        &["models", "show", "llamacpp"],
        &["-mllamacpp", "-p", "go"][..],
    ] {
        let (code, text) = run(args);
        assert!(
            code == 42 && text.contains("name one of its models as `llamacpp:MODEL`"),
            "{text}"
        );
    }
    for args in [
        &["models", "test", "llamacpp:"],
        &["models", "show", "llamacpp:"],
        &["-mllamacpp:", "-p", "go"][..],
    ] {
        let (code, text) = run(args);
        assert!(code == 42 && text.contains("`llamacpp:` lacks a model name"), "{text}");
    }
}

#[test]
fn silent_local_server_is_reported_while_the_run_waits() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let settings = json!({"model": {"streamIdleTimeoutMs": 3000}}).to_string();
    it.world.home.write_home(".parallax/settings.json", &settings).expect("settings");
    let mut command = it.world.command(&["-m", "llamacpp:m", "-p", "go", "-o", "json"]);
    command.env("LLAMACPP_BASE_URL", format!("http://{address}/v1")).env_remove("GEMINI_API_KEY");
    let output = finish(command);
    drop(listener);
    assert_eq!(output.code(), 1, "{}", output.err());
    let out: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    let warnings = out["warnings"].to_string();
    let notice = format!("`{address}` has not answered yet");
    assert_eq!(warnings.matches(&notice).count(), 1, "{out}");
    let error = out["error"]["message"].to_string();
    assert!(error.contains(&address) && error.contains("no data for 3 s"), "{out}");
    assert!(!output.err().contains("Attempt 2"), "the wait is not repeated: {}", output.err());
}

/// Runs a prompt with a local Ollama that returns these descriptions of its model.
fn run_ollama(shown: Value, loaded: Value) -> (WireWorld, FinishedProcess) {
    let documents = json!({"/api/show": shown, "/api/ps": {"models": [loaded]}});
    let script = json!({"documents": documents, "replies": [{"text": "hello"}]});
    let it = WireWorld::new(WireFormat::Ollama, &script);
    it.world.home.write_home(".parallax/settings.json", "{}").expect("settings");
    let mut command = it.world.command(&["-m", "ollama:tiny", "-p", "go"]);
    command.env("OLLAMA_HOST", it.world.server.url()).env_remove("GEMINI_API_KEY");
    let output = finish(command);
    (it, output)
}

#[test]
fn key_whose_check_is_interrupted_is_not_stored() {
    let world = World::new("[]");
    // It accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let entry = json!({"wire": "openai-chat", "baseUrl": format!("http://{address}/v1")});
    let settings = json!({"providers": {"gateway": entry}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).expect("settings");
    let add = |arguments: &[&str], key: &str| {
        let mut command = world.command(&[&["auth", "add", "gateway"], arguments].concat());
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = command.spawn().expect("started");
        let mut stdin = child.stdin.take().expect("stdin");
        stdin.write_all(key.as_bytes()).expect("written");
        child
    };
    assert!(add(&["--no-check"], "sk-good\n").wait().expect("ended").success());
    let mut child = add(&[], "sk-typed\n");
    let _connection = silent.accept().expect("the check");
    child.kill().expect("killed");
    child.wait().expect("ended");
    let stored = world.home.parallax().join("provider-keys.json");
    let stored = std::fs::read_to_string(stored).expect("the keys");
    assert!(stored.contains("sk-good") && !stored.contains("sk-typed"), "{stored}");
}

#[test]
fn keys_added_concurrently_are_all_stored() {
    let world = World::new("[]");
    let wire = |name: &str| {
        (name.to_owned(), json!({"wire": "openai-chat", "baseUrl": "http://127.0.0.1:9/v1"}))
    };
    let names: Vec<String> = (0..6).map(|number| format!("gateway{number}")).collect();
    let providers: serde_json::Map<_, _> = names.iter().map(|name| wire(name)).collect();
    let settings = json!({"providers": providers}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).expect("settings");
    let add = |name: &str| {
        let mut command = world.command(&["auth", "add", name]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = command.spawn().expect("started");
        let mut stdin = child.stdin.take().expect("stdin");
        stdin.write_all(format!("sk-{name}\n").as_bytes()).expect("written");
        drop(stdin);
        assert!(child.wait().expect("ended").success());
    };
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| add(name));
        }
    });
    let file = world.home.parallax().join("provider-keys.json");
    let stored = std::fs::read_to_string(file).expect("the keys");
    for name in &names {
        assert!(stored.contains(&format!("sk-{name}")), "{name}: {stored}");
    }
}

/// Runs a prompt that reads a file with llama.cpp in router mode.
fn run_router(properties: Value) -> FinishedProcess {
    let loaded = json!({"/props": {"role": "router", "default_generation_settings": {"n_ctx": 0}},
        "/props?model=tiny": properties});
    let read = json!({"calls": [{"name": "read_file", "args": {"file_path": "a.txt"}}]});
    let script = json!({"documents": loaded, "replies": [read, {"text": "hello"}]});
    let it = WireWorld::new(WireFormat::Chat, &script);
    it.world.home.write_home(".parallax/settings.json", "{}").expect("settings");
    it.world.home.write("a.txt", "text").expect("written");
    let mut command = it.world.command(&["-m", "llamacpp:tiny", "-p", "go"]);
    command.env("LLAMACPP_BASE_URL", format!("{}/v1", it.world.server.url()));
    command.env_remove("GEMINI_API_KEY");
    finish(command)
}

#[test]
fn llama_router_describes_the_model() {
    let known = json!({"default_generation_settings": {"n_ctx": 8192}});
    let output = run_router(known);
    assert_eq!(output.stdout(), "hello\n", "{}", output.err());
    assert!(output.err().contains("only 8192 tokens"), "{}", output.err());
    // A window of 0 is unknown.
    let output = run_router(json!({"default_generation_settings": {"n_ctx": 0}}));
    assert_eq!(output.stdout(), "hello\n", "{}", output.err());
    assert!(!output.err().contains("context window"), "{}", output.err());
    // The template of this model has no tools.
    let without = json!({"chat_template_caps": {"supports_tools": false}});
    assert!(run_router(without).err().contains("tools"));
}

fn chat_bodies(it: &WireWorld) -> Vec<Value> {
    let requests = it.world.server.requests();
    requests.iter().filter(|it| it.path == "/api/chat").map(|it| it.json()).collect()
}

#[test]
fn ollama_window_is_requested_and_small_one_is_reported() {
    let shown = |length: u64| json!({"capabilities": ["completion", "tools"], "model_info": {"llama.context_length": length}});
    let loaded = |length: u64| json!({"name": "tiny:latest", "context_length": length});

    let (it, done) = run_ollama(shown(131_072), loaded(32_768));
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(!done.err().contains("tokens"), "{}", done.err());
    assert_eq!(chat_bodies(&it)[0]["options"]["num_ctx"], 32_768, "not all that it could have");
    assert_eq!(chat_bodies(&it)[0].get("think"), None);

    let (it, done) = run_ollama(shown(20_000), loaded(4_096));
    assert_eq!(chat_bodies(&it)[0]["options"]["num_ctx"], 20_000);
    assert_eq!((done.code(), done.stdout().trim()), (0, "hello"));
    let report = done.err();
    assert!(report.contains("4096 tokens") && report.contains("OLLAMA_CONTEXT_LENGTH"), "{report}");

    let (_, done) = run_ollama(shown(8_192), loaded(8_192));
    assert_eq!(done.err().matches("8192 tokens").count(), 1, "{}", done.err());
}

#[test]
fn ollama_model_without_tools_is_rejected_before_the_request() {
    let shown = json!({"capabilities": ["completion"]});
    let (it, done) = run_ollama(shown, json!({}));
    assert_eq!(done.code(), 1, "{}", done.err());
    assert!(
        done.err().contains("`tiny`") && done.err().contains("does not support tools"),
        "{}",
        done.err()
    );
    assert!(chat_bodies(&it).is_empty());
}

#[test]
fn unresolvable_local_server_is_reported_at_once() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let mut command = it.world.command(&["-m", "llamacpp:m", "-p", "go"]);
    let base = "http://no-such-host.invalid:8080/v1";
    command.env("LLAMACPP_BASE_URL", base).env_remove("GEMINI_API_KEY");
    let output = finish(command);
    assert_eq!(output.code(), 1, "{}", output.err());
    assert!(output.err().contains("no-such-host.invalid:8080"), "{}", output.err());
    assert!(!output.err().contains("Attempt 2"), "{}", output.err());
}

/// Returns a chat server that rejects assistant messages without content, and answers every other
/// request. Records the output limit of each.
fn strict_server(limits: Arc<Mutex<Vec<u64>>>) -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let (mut text, mut buffer) = (String::new(), [0; 65_536]);
            let whole = |text: &str| {
                let (head, body) = text.split_once("\r\n\r\n")?;
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.trim().parse().ok())?
                });
                (body.len() >= length.unwrap_or(0usize)).then(|| body.to_owned())
            };
            let body = loop {
                let length = connection.read(&mut buffer).unwrap_or(0);
                text.push_str(&String::from_utf8_lossy(&buffer[..length]));
                if let Some(body) = whole(&text) {
                    break body;
                }
                if length == 0 {
                    break String::new();
                }
            };
            let request: Value = serde_json::from_str(&body).unwrap_or_default();
            if let Some(body) = request.as_object().filter(|body| body.contains_key("messages")) {
                let limit = body.get("max_tokens").and_then(Value::as_u64).unwrap_or_default();
                limits.lock().expect("limits").push(limit);
            }
            let messages = request["messages"].as_array().cloned().unwrap_or_default();
            let is_bad =
                messages.iter().any(|it| it["role"] == "assistant" && it["content"].is_null());
            let has_result = messages.iter().any(|it| it["role"] == "tool");
            let delta = match request["tools"].is_array() && !has_result {
                true => json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                    "function": {"name": "report_color", "arguments": "{\"color\":\"blue\"}"}}]}),
                false => json!({"content": "{\"color\":\"blue\"}"}),
            };
            let (status, kind, answer) = match is_bad {
                true => (
                    400,
                    "application/json",
                    json!({"error": {"message": "content is null"}}).to_string(),
                ),
                false => {
                    let chunk =
                        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]});
                    (200, "text/event-stream", format!("data: {chunk}\n\ndata: [DONE]\n\n"))
                }
            };
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            let _ = connection.write_all([head.as_bytes(), answer.as_bytes()].concat().as_slice());
        }
    });
    address
}

#[test]
fn model_test_prints_the_required_server_settings() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let limits = Arc::new(Mutex::new(Vec::new()));
    let base = format!("http://{}/v1", strict_server(Arc::clone(&limits)));
    let settings = json!({"providers": {"p": {"wire": "openai-chat", "baseUrl": base}}});
    it.world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let output = finish(it.world.command(&["models", "test", "p:m"]));
    assert_eq!(output.code(), 0, "{}{}", output.stdout(), output.err());
    assert!(output.stdout().contains("results    ok"), "{}", output.stdout());
    assert!(output.stdout().contains(r#""nonNullAssistantContent": true"#), "{}", output.stdout());
    let sent = limits.lock().expect("limits").clone();
    assert!(!sent.is_empty() && sent.iter().all(|limit| (1..=256).contains(limit)), "{sent:?}");
    let output = finish(it.world.command(&["models", "test", "p:m", "--json"]));
    let value: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    let quirks = &value["settings"]["providers"]["p"]["quirks"];
    assert_eq!(*quirks, json!({"nonNullAssistantContent": true}));
}

#[test]
fn model_test_finds_switches_for_reasoning_and_parallel_calls() {
    let text = json!({"text": "ready"});
    let error = json!({"error": {"code": 400, "message": "not like this"}});
    let color = json!({"functionCall": {"name": "report_color", "args": {"color": "blue"}}});
    let thought = json!({"text": "hm", "thought": true});
    let call = json!({"chunks": [{"candidates": [{"content": {"parts": [thought, color]},
        "finishReason": "STOP"}]}]});
    let object = json!({"text": "{\"color\":\"blue\"}"});
    for (replies, expected) in [
        (json!([text, error, call, text, object]), json!({"parallelToolCalls": false})),
        (json!([text, call, error, text, object]), json!({"echoReasoning": true})),
    ] {
        let it = WireWorld::new(WireFormat::Chat, &replies);
        let output = it.run(&["models", "test", "chat:m", "--json"]);
        let value: Value = serde_json::from_str(&output.stdout()).expect("JSON");
        assert_eq!(value["settings"]["providers"]["chat"]["quirks"], expected, "{value}");
        it.world.server.assert_clean();
    }
}

#[test]
fn reported_context_window_is_shown_and_unreported_one_is_unknown() {
    let list = json!({"object": "list", "data": [{"id": "tiny", "object": "model"}]});
    let properties = json!({"default_generation_settings": {"n_ctx": 8192}});
    for (documents, window, is_known) in [
        (json!({"/v1/models": list, "/props": properties}), 8192, true),
        (json!({"/v1/models": list}), 32_768, false),
    ] {
        let script = json!({"documents": documents, "replies": []});
        let it = WireWorld::new(WireFormat::Chat, &script);
        let mut command = it.world.command(&["models", "show", "llamacpp:tiny", "--json"]);
        command.env("LLAMACPP_BASE_URL", format!("{}/v1", it.world.server.url()));
        let output = finish(command);
        let value: Value = serde_json::from_str(&output.stdout()).expect("JSON");
        assert_eq!(value["contextWindow"], window, "{value}");
        assert_eq!(value["contextWindowKnown"], is_known, "{value}");
    }
}

/// Runs a prompt against a server that answers queries about its models with a status, and closes
/// the first connection with a prompt.
fn run_with_a_lost_connection(status: &'static str) -> FinishedProcess {
    use std::io::Read as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut is_first = true;
        for mut connection in listener.incoming().flatten() {
            let mut request = vec![0; 1 << 20];
            let length = connection.read(&mut request).unwrap_or_default();
            let is_model = request[..length].starts_with(b"POST");
            if is_model && std::mem::take(&mut is_first) {
                continue;
            }
            let body = match is_model {
                true => {
                    "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\
                    \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
                }
                false => "{\"default_generation_settings\":{\"n_ctx\":32768}}",
            };
            let kind = if is_model { "text/event-stream" } else { "application/json" };
            let answer = format!(
                "HTTP/1.1 {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
                    connection: close\r\n\r\n{body}",
                if is_model { "200 OK" } else { status },
                body.len()
            );
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let mut command = it.world.command(&["-m", "llamacpp:m", "-p", "go"]);
    command.env("LLAMACPP_BASE_URL", format!("http://{address}/v1"));
    finish(command)
}

#[test]
fn request_is_retried_if_a_known_local_server_loses_the_connection() {
    for status in ["200 OK", "404 Not Found", "500 Internal Server Error"] {
        let output = run_with_a_lost_connection(status);
        let answer = output.stdout();
        assert_eq!((output.code(), answer.trim()), (0, "hello"), "{status}: {}", output.err());
    }
}

#[test]
fn run_waits_for_a_local_server_that_restarts() {
    use std::io::Read as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let call = json!({"choices": [{"finish_reason": "tool_calls", "delta": {"tool_calls": [{
        "index": 0, "id": "c".repeat(80), "type": "function",
        "function": {"name": "list_directory", "arguments": "{\"dir_path\": \".\"}"}}]}}]});
    let text = json!({"choices": [{"finish_reason": "stop", "delta": {"content": "hello"}}]});
    let seen = Arc::new(Mutex::new(String::new()));
    let requests = Arc::clone(&seen);
    std::thread::spawn(move || {
        let mut listener = Some(listener);
        let mut answers = [call, text].into_iter();
        loop {
            let bound = listener.take().or_else(|| std::net::TcpListener::bind(address).ok());
            let Some(current) = bound else { continue };
            let Ok((mut connection, _)) = current.accept() else { break };
            listener = Some(current);
            let mut request = vec![0; 1 << 20];
            let length = connection.read(&mut request).unwrap_or_default();
            let is_model = request[..length].starts_with(b"POST");
            let (kind, body) = match is_model {
                true => {
                    let Some(answer) = answers.next() else { break };
                    let mut seen = requests.lock().expect("the requests");
                    seen.push_str(&String::from_utf8_lossy(&request[..length]));
                    ("text/event-stream", format!("data: {answer}\n\ndata: [DONE]\n\n"))
                }
                false => (
                    "application/json",
                    json!({"default_generation_settings": {"n_ctx": 32768}}).to_string(),
                ),
            };
            let head = format!(
                "HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
                    connection: close\r\n\r\n",
                body.len()
            );
            let _ = connection.write_all((head + &body).as_bytes());
            if is_model {
                // The port is refused for a moment.
                drop((connection, listener.take()));
                std::thread::sleep(Duration::from_millis(150));
            }
        }
    });
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let mut command = it.world.command(&["-m", "llamacpp:m", "-p", "go"]);
    command.env("LLAMACPP_BASE_URL", format!("http://{address}/v1"));
    command.env("PARALLAX_RETRY_BASE_MS", "400");
    let output = finish(command);
    assert_eq!((output.code(), output.stdout().trim()), (0, "hello"), "{}", output.err());
    let seen = seen.lock().expect("the requests");
    assert!(!seen.contains(&"c".repeat(80)), "ids that services refuse are replaced");
}
