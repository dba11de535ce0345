//! Keys of model providers: where they come from, and where they never go.

use serde_json::{Value, json};
use testkit::WireFormat;

use crate::providers::{KEY, WireWorld, call};
use crate::support::{World, finish};

#[test]
fn provider_key_is_withheld_from_commands() {
    let call = call("run_shell_command", json!({"command": "env"}));
    let it = WireWorld::new(WireFormat::Chat, &json!([call, {"text": "done"}]));
    let settings = json!({"providers": {"gw": {"wire": "openai-chat",
        "baseUrl": format!("{}/v1", it.world.server.url()), "apiKeyEnv": "MYGW"}}});
    it.world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let mut command = it.world.command(&["-m", "gw:m", "-p", "go", "-y"]);
    command.env_remove("GEMINI_API_KEY").env("MYGW", KEY);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-token=collector-4711").env("KEPT", "kept-4711");
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    let sent = it.body(1);
    assert!(sent.contains("KEPT=kept-4711"), "{sent}");
    assert!(!sent.contains("MYGW") && !sent.contains("collector-4711"), "{sent}");
}

#[test]
fn configured_secret_variables_are_withheld_from_commands() {
    let call = call("run_shell_command", json!({"command": "env"}));
    let it = WireWorld::new(WireFormat::Chat, &json!([call, {"text": "done"}]));
    let settings = json!({
        "providers": {"gw": {"wire": "openai-chat", "baseUrl": format!("{}/v1", it.world.server.url()),
            "headers": {"X-Auth": "a ${GWHDR}"}}},
        "tools": {"webSearch": {"url": "http://127.0.0.1:9/?q={query}", "headers": {"X": "$SRCHHDR"}}},
        "mcpServers": {"m": {"httpUrl": "http://127.0.0.1:9/", "headers": {"X": "$MCPHDR"}},
            "n": {"command": "false", "env": {"GH_PAT": "$MCPENV", "GOPATH": "$MCPKEPT"}}},
        "security": {"environmentVariableRedaction": {"enabled": false, "allowed": ["GWHDR"]}},
    });
    it.world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let agent = "---\nkind: remote\nname: far\ndescription: d\n\
                 agent_card_url: https://a.invalid/card.json\n\
                 auth:\n  type: apiKey\n  key: $A2AHDR\n---\n";
    it.world.home.write_home(".parallax/agents/far.md", agent).expect("an agent");
    let mut command = it.world.command(&["-m", "gw:m", "-p", "go", "-y"]);
    command.env_remove("GEMINI_API_KEY");
    for name in ["GWHDR", "SRCHHDR", "MCPHDR", "MCPENV", "A2AHDR", "MCPKEPT"] {
        command.env(name, format!("v-{name}"));
    }
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    let request = it.world.server.requests().pop().expect("a request");
    assert_eq!(request.header("x-auth"), Some("a v-GWHDR"));
    let sent = String::from_utf8_lossy(&request.body).into_owned();
    assert!(sent.contains("v-MCPKEPT"), "{sent}");
    for name in ["GWHDR", "SRCHHDR", "MCPHDR", "MCPENV", "A2AHDR"] {
        assert!(!sent.contains(&format!("v-{name}")), "{name}: {sent}");
    }
}

#[test]
fn google_keys_are_stored_together() {
    let world = World::new("[]");
    let run = |args: &[&str], stdin: &str| {
        let mut command = world.command(args);
        command.env_remove("GEMINI_API_KEY");
        let output = testkit::measure::run(command, Some(stdin.as_bytes()), crate::support::LIMIT);
        output.expect("run").stdout()
    };
    let sources = || {
        let list: Value =
            serde_json::from_str(&run(&["auth", "list", "--json"], "")).expect("json");
        let rows = list["providers"].as_array().expect("rows").clone();
        let source = |name: &str| {
            let row = rows.iter().find(|row| row["provider"] == name);
            row.expect("a row")["source"].as_str().expect("a source").to_owned()
        };
        (source("gemini"), source("vertex"))
    };
    let (stored, missing) = ("stored".to_owned(), "missing".to_owned());
    let text = run(&["auth", "add", "gemini", "--no-check"], "g\n");
    assert_eq!(text, "Stored the key for `gemini`\n");
    let text = run(&["auth", "add", "vertex", "--no-check"], "v\n");
    assert!(text.contains("the key for `gemini` is kept"), "{text}");
    assert_eq!(sources(), (stored.clone(), stored.clone()));
    let text = run(&["auth", "remove", "vertex"], "");
    assert_eq!(text, "Removed the stored key for `vertex`\n");
    assert_eq!(sources(), (stored, missing));
    let text = run(&["auth", "remove", "vertex"], "");
    assert_eq!(text, "No stored key for `vertex`\n");
}

#[test]
fn keys_are_stored_listed_and_removed() {
    let it = WireWorld::new(WireFormat::Responses, &json!([{"text": "hello"}]));
    let run = |args: &[&str], stdin: &str| {
        let mut command = it.world.command(args);
        command.env_remove("GEMINI_API_KEY");
        testkit::measure::run(command, Some(stdin.as_bytes()), crate::support::LIMIT).expect("run")
    };
    let listed = |name: &str| -> Value {
        let list: Value =
            serde_json::from_str(&run(&["auth", "list", "--json"], "").stdout()).expect("json");
        let rows = list["providers"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["provider"] == name).expect("a row")
    };
    assert_eq!(listed("responses")["source"], "missing");
    let output = run(&["auth", "add", "responses", "--no-check"], "key-of-the-provider-4711\n");
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(!output.stdout().contains(KEY));
    assert_eq!(listed("responses")["source"], "stored");
    let output = run(&["-m", "responses:m", "-p", "go"], "");
    assert_eq!(output.stdout().trim(), "hello", "{}", output.err());
    let requests = it.world.server.requests();
    assert_eq!(requests[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
    let output = run(&["auth", "remove", "responses"], "");
    assert!(output.stdout().contains("Removed"), "{}", output.stdout());
    assert_eq!(listed("responses")["source"], "missing");
    for (args, code) in [
        (&["auth", "add", "nope"][..], 42),
        (&["auth", "add", "responses"], 42),
        (&["models", "list", "nope"], 42),
        (&["models", "show", "nope:m"], 42),
        (&["models", "test", "responses:m"], 41),
    ] {
        let output = run(args, "");
        assert_eq!(output.code(), code, "{args:?}: {}", output.err());
    }
}

#[test]
fn key_invalid_in_headers_does_not_replace_the_stored_key() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let run = |args: &[&str], stdin: &[u8]| {
        let mut command = it.world.command(args);
        command.env_remove("GEMINI_API_KEY");
        testkit::measure::run(command, Some(stdin), crate::support::LIMIT).expect("run")
    };
    let file = it.world.home.parallax().join("provider-keys.json");
    let output = run(&["auth", "add", "openai", "--no-check"], b"good-key-4711\n");
    assert!(output.stdout().contains("provider-keys.json"), "{}", output.stdout());
    let stored = std::fs::read_to_string(&file).expect("stored");
    for key in ["a\0b\n", "a\tb\n", "a\x1b[31mb\n", "a\u{e9}b\n"] {
        for args in [&["auth", "add", "openai"][..], &["auth", "add", "openai", "--no-check"]] {
            let output = run(args, key.as_bytes());
            assert_eq!(output.code(), 41, "{key:?}: {}", output.stdout());
            assert!(output.err().contains("was not stored"), "{}", output.err());
        }
        assert_eq!(run(&["auth", "add", "gemini", "--no-check"], key.as_bytes()).code(), 41);
    }
    assert_eq!(std::fs::read_to_string(&file).expect("stored"), stored);
    assert_eq!(run(&["auth", "remove", "nosuch"], b"").code(), 42);
    assert_eq!(run(&["models", "show", ""], b"").code(), 42);
    let output = run(&["auth", "add", "foo"], b"");
    assert!(output.err().contains("`gemini`, `vertex`"), "{}", output.err());
}

#[test]
fn google_key_is_stored_by_the_same_command() {
    let world = World::new(r#"[{"text": "hello"}]"#);
    let settings = r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}}"#;
    world.home.write_home(".parallax/settings.json", settings).expect("settings");
    let run = |args: &[&str], stdin: &str| {
        let mut command = world.command(args);
        command.env_remove("GEMINI_API_KEY");
        testkit::measure::run(command, Some(stdin.as_bytes()), crate::support::LIMIT).expect("run")
    };
    let missing = run(&["-p", "go"], "");
    assert_eq!(missing.code(), 41);
    assert!(missing.err().contains("parallax auth add gemini"), "{}", missing.err());
    let source = || {
        let list: Value =
            serde_json::from_str(&run(&["auth", "list", "--json"], "").stdout()).expect("json");
        let rows = list["providers"].as_array().expect("rows").clone();
        let row = rows.into_iter().find(|row| row["provider"] == "gemini").expect("a row");
        row["source"].clone()
    };
    assert_eq!(source(), "missing");
    let output = run(&["auth", "add", "gemini", "--no-check"], "key-of-google-4711\n");
    assert_eq!(output.code(), 0, "{}", output.err());
    assert_eq!(source(), "stored");
    assert_eq!(run(&["-p", "go"], "").stdout().trim(), "hello");
    let key = world.server.requests()[0].header("x-goog-api-key").map(str::to_owned);
    assert_eq!(key.as_deref(), Some("key-of-google-4711"));
    assert!(run(&["auth", "remove", "gemini"], "").stdout().contains("Removed"));
    assert_eq!(run(&["-p", "go"], "").code(), 41);
}

#[test]
fn keys_in_urls_are_rejected_and_a_closed_port_is_reported_at_once() {
    let world = World::new("[]");
    for url in ["http://u:p@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=SECRET-4711"] {
        let settings = json!({"providers": {"mine": {"wire": "openai-chat", "baseUrl": url}}});
        let path = ".parallax/settings.json";
        world.home.write_home(path, &settings.to_string()).expect("settings");
        let output = world.run(&["-m", "mine:m", "-p", "go"]);
        assert_eq!(output.code(), 52, "{}", output.err());
        let message = output.err();
        assert!(message.contains("keys do not belong in addresses"), "{message}");
        assert!(!message.contains("SECRET-4711"), "{message}");
    }
    world.home.write_home(".parallax/settings.json", "{}").expect("settings");
    let started_at = std::time::Instant::now();
    let mut command = world.command(&["-m", "openai:m", "-p", "go"]);
    command.env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1").env("OPENAI_API_KEY", "k");
    let output = finish(command);
    assert_eq!(output.code(), 1, "{}", output.err());
    assert!(started_at.elapsed().as_secs() < 2 && output.err().contains("127.0.0.1:9"));
}

#[test]
fn key_command_runs_again_when_its_key_has_expired() {
    let expired = json!({"error": {"code": 401, "message": "the token has expired"}});
    let script = json!([{"calls": [{"name": "list_directory", "args": {"dir_path": "."}}]},
        expired, {"text": "done"}, expired, expired]);
    let it = WireWorld::new(WireFormat::Chat, &script);
    it.write_settings(json!({}));
    let path = it.world.home.parallax().join("settings.json");
    let text = std::fs::read_to_string(&path).expect("settings");
    let count = it.world.home.parallax().join("count");
    let command = format!("echo x >> '{0}'; echo KEY-$(wc -l < '{0}')", count.display());
    let command = format!("\"apiKeyCommand\":{}", Value::String(command));
    let text = text.replace("\"apiKeyEnv\":\"WIRE_KEY\"", &command);
    std::fs::write(&path, text).expect("settings");
    let run = || {
        let mut command = it.world.command(&["-m", "chat:m", "-p", "go"]);
        command.env_remove("GEMINI_API_KEY");
        finish(command)
    };
    let output = run();
    assert_eq!((output.code(), output.stdout().trim()), (0, "done"), "{}", output.err());
    // A key that is rejected again ends the run.
    assert_eq!(run().code(), 41);
    let requests = it.world.server.requests();
    let keys: Vec<_> = requests.iter().filter_map(|it| it.header("authorization")).collect();
    let expected = ["KEY-1", "KEY-1", "KEY-2", "KEY-3", "KEY-4"].map(|it| format!("Bearer {it}"));
    assert_eq!(keys, expected);
}

#[test]
fn variables_in_headers_are_redacted_from_what_services_answer() {
    let error = format!("refused: X-Key: {KEY}");
    let script = json!([{"error": {"code": 401, "message": error}}]);
    let it = WireWorld::new(WireFormat::Chat, &script);
    it.write_settings(json!({}));
    let path = it.world.home.parallax().join("settings.json");
    let text = std::fs::read_to_string(&path).expect("settings");
    let headers = "\"headers\":{\"X-Key\":\"Bearer ${MY_HEADER}\"}";
    std::fs::write(&path, text.replace("\"apiKeyEnv\":\"WIRE_KEY\"", headers)).expect("settings");
    let mut command = it.world.command(&["-m", "chat:m", "-p", "go"]);
    command.env_remove("GEMINI_API_KEY").env("MY_HEADER", KEY);
    let output = finish(command);
    assert_eq!(output.code(), 41, "{}", output.err());
    assert!(output.err().contains("refused: X-Key: [secret]"), "{}", output.err());
    assert!(!crate::providers::contains_text(&it.world.home.parallax(), KEY));
}

#[test]
fn key_command_provides_the_key_and_a_project_cannot_redirect_it() {
    let it = WireWorld::new(WireFormat::Chat, &json!([{"text": "one"}]));
    it.write_settings(json!({}));
    let path = it.world.home.parallax().join("settings.json");
    let text = std::fs::read_to_string(&path).expect("settings");
    let command = format!("\"apiKeyCommand\":\"echo {KEY}\"");
    let text = text.replace("\"apiKeyEnv\":\"WIRE_KEY\"", &command);
    std::fs::write(&path, text).expect("settings");
    // A base URL set by the project would receive the key.
    let moved = json!({"providers": {"chat": {"wire": "openai-chat",
        "baseUrl": "http://127.0.0.1:9/v1", "apiKeyEnv": "HOME"}}});
    it.world.home.write(".gemini/settings.json", &moved.to_string()).expect("settings");
    let mut command = it.world.command(&["-m", "chat:m", "-p", "go"]);
    command.env_remove("GEMINI_API_KEY");
    let output = finish(command);
    assert_eq!((output.code(), output.stdout().trim()), (0, "one"), "{}", output.err());
    let requests = it.world.server.requests();
    assert_eq!(requests[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
}
