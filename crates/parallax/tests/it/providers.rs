//! The same conversations over the wire format of every provider.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::WireFormat;
use testkit::measure::FinishedProcess;

use crate::support::{World, finish};

/// A key that may occur only in a header.
pub(crate) const KEY: &str = "key-of-the-provider-4711";

fn name(wire: WireFormat) -> &'static str {
    match wire {
        WireFormat::Chat => "chat",
        WireFormat::Responses => "responses",
        WireFormat::Messages => "messages",
        WireFormat::Ollama => "ollama",
    }
}

/// A world whose model uses a wire format.
pub(crate) struct WireWorld {
    pub(crate) world: World,
    wire: WireFormat,
}

impl WireWorld {
    pub(crate) fn new(wire: WireFormat, script: &Value) -> Self {
        Self::with_settings(wire, script, json!({}))
    }

    pub(crate) fn with_settings(wire: WireFormat, script: &Value, settings: Value) -> Self {
        let world = World::new(&script.to_string());
        let it = Self { world, wire };
        it.write_settings(settings);
        it
    }

    pub(crate) fn write_settings(&self, mut settings: Value) {
        let url = self.world.server.url();
        settings["providers"] = json!({
            "chat": {"wire": "openai-chat", "baseUrl": format!("{url}/v1"), "apiKeyEnv": "WIRE_KEY"},
            "responses": {"wire": "openai-responses", "baseUrl": format!("{url}/v1"), "apiKeyEnv": "WIRE_KEY"},
            "messages": {"wire": "anthropic", "baseUrl": url, "apiKeyEnv": "WIRE_KEY"},
            "ollama": {"wire": "ollama", "baseUrl": url, "apiKeyEnv": "WIRE_KEY"},
        });
        let path = ".parallax/settings.json";
        self.world.home.write_home(path, &settings.to_string()).expect("settings");
    }

    pub(crate) fn run(&self, args: &[&str]) -> FinishedProcess {
        let model = format!("{}:test-model", name(self.wire));
        self.run_as(&model, args)
    }

    pub(crate) fn run_as(&self, model: &str, args: &[&str]) -> FinishedProcess {
        let mut command = self.world.command(&[&["-m", model], args].concat());
        command.env_remove("GEMINI_API_KEY").env("WIRE_KEY", KEY);
        finish(command)
    }

    pub(crate) fn run_ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code(), 0, "{:?}: {}", self.wire, output.err());
        self.world.server.assert_clean();
        output.stdout()
    }

    pub(crate) fn body(&self, number: usize) -> String {
        String::from_utf8_lossy(&self.world.server.requests()[number].body).into_owned()
    }
}

pub(crate) fn call(name: &str, args: Value) -> Value {
    json!({"calls": [{"name": name, "args": args}]})
}

pub(crate) fn for_each_wire(script: Value, test: impl Fn(&WireWorld)) {
    for wire in WireFormat::ALL {
        test(&WireWorld::new(wire, &script));
    }
}

#[test]
fn file_is_read_and_thinking_is_sent_back_unchanged() {
    let calls = json!({"chunks": [{"candidates": [{"content": {"parts": [
        {"text": "I look first.", "thought": true, "thoughtSignature": "U0lHTkVE"},
        {"functionCall": {"name": "read_file", "args": {"file_path": "a.txt"}}}]},
        "finishReason": "STOP"}]}]});
    for_each_wire(json!([calls, {"text": "It says hello."}, {"text": "Again."}]), |it| {
        it.world.home.write("a.txt", "hello from the file\n").expect("file");
        assert_eq!(it.run_ok(&["-p", "read a.txt"]).trim(), "It says hello.");
        assert!(it.body(1).contains("hello from the file"));
        it.run_ok(&["-r", "latest", "-p", "again"]);
        let requests = it.world.server.requests();
        for request in &requests {
            assert!(request.headers.iter().any(|(_, value)| value.contains(KEY)), "{request:?}");
            assert!(!String::from_utf8_lossy(&request.body).contains(KEY));
            assert!(!request.path.contains(KEY));
        }
        let journals = it.world.home.parallax();
        assert!(!contains_text(&journals, KEY), "the key is below {}", journals.display());
    });
}

#[test]
fn missing_gemini_key_names_the_keys_of_other_providers() {
    let world = World::new("[]");
    let run = |variables: &[(&str, &str)]| {
        let mut command = world.command(&["-p", "go"]);
        command.env_remove("GEMINI_API_KEY").env_remove("GOOGLE_GEMINI_BASE_URL");
        command.envs(variables.iter().copied());
        let output = finish(command);
        assert_eq!(output.code(), 41, "{}", output.err());
        output.err()
    };
    let text = run(&[("OPENAI_API_KEY", KEY)]);
    assert!(text.contains("`OPENAI_API_KEY` (`openai`) was found"), "{text}");
    assert!(text.contains("`-m openai:MODEL`") && !text.contains(KEY), "{text}");
    let text = run(&[("ANTHROPIC_API_KEY", KEY), ("OPENROUTER_API_KEY", KEY)]);
    assert!(
        text.contains("`-m anthropic:MODEL`") && text.contains("(`openrouter`) were"),
        "{text}"
    );
    let text = run(&[("OPENAI_API_KEY", " ")]);
    assert!(!text.contains("openai"), "{text}");
    let text = run(&[("OLLAMA_HOST", "127.0.0.1:9")]);
    assert!(text.contains("the provider `ollama` was found"), "{text}");
    let entry = json!({"wire": "openai-chat", "baseUrl": "http://gw.invalid/v1",
        "apiKeyEnv": "GW_KEY"});
    let settings = json!({"providers": {"gw": entry}});
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let text = run(&[("GW_KEY", KEY)]);
    assert!(text.contains("`GW_KEY` (`gw`) was found"), "{text}");
    assert!(text.contains("`-m gw:MODEL`"), "{text}");
    assert!(!run(&[]).contains("`gw`"));
    // A selected method of Google is named first.
    let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
    let text = run(&[("OPENAI_API_KEY", KEY)]);
    assert!(text.contains("`gemini-api-key` needs"), "{text}");
    assert!(text.contains("`-m openai:MODEL`"), "{text}");
}

pub(crate) fn contains_text(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).expect("a folder").any(|entry| {
        let path: PathBuf = entry.expect("an entry").path();
        match path.is_dir() {
            true => contains_text(&path, text),
            false => std::fs::read(&path)
                .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)),
        }
    })
}

#[test]
fn file_is_edited() {
    let edit =
        call("replace", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}));
    let read = call("read_file", json!({"file_path": "a.txt"}));
    for_each_wire(json!([read, edit, {"text": "done"}]), |it| {
        it.world.home.write("a.txt", "one\n").expect("file");
        it.run_ok(&["--approval-mode", "auto_edit", "-p", "edit"]);
        assert_eq!(it.world.read("a.txt"), "two\n", "{:?}", it.wire);
    });
}

#[test]
fn shell_command_runs_without_the_key() {
    let run = call("run_shell_command", json!({"command": "echo out-$((40+2)); env"}));
    for_each_wire(json!([run, {"text": "done"}]), |it| {
        it.run_ok(&["-y", "-p", "run"]);
        assert!(it.body(1).contains("out-42"), "{:?}", it.wire);
        assert!(!it.body(1).contains(KEY), "{:?}", it.wire);
    });
}

#[test]
fn parallel_calls_are_answered_in_order() {
    let calls = json!({"calls": [
        {"name": "read_file", "args": {"file_path": "a.txt"}},
        {"name": "read_file", "args": {"file_path": "b.txt"}},
        {"name": "read_file", "args": {"file_path": "missing.txt"}}]});
    for_each_wire(json!([calls, {"text": "done"}]), |it| {
        it.world.home.write("a.txt", "alpha").expect("file");
        it.world.home.write("b.txt", "beta").expect("file");
        it.run_ok(&["-p", "read"]);
        let body = it.body(1);
        let offset = |text: &str| body.find(text).unwrap_or_else(|| panic!("{text}: {body}"));
        assert!(offset("alpha") < offset("beta"));
    });
}

#[test]
fn fifty_steps_of_calls_succeed() {
    let looped = json!({"loop": {"calls": 50, "name": "read_file", "signed": true,
        "args": {"file_path": "f{i}.txt"}, "final": "all read"}});
    for wire in WireFormat::ALL {
        let settings = json!({"model": {"disableLoopDetection": true}});
        let it = WireWorld::with_settings(wire, &json!([looped]), settings);
        (0..50).for_each(|number| {
            it.world
                .home
                .write(&format!("f{number}.txt"), &format!("text {number}"))
                .expect("file");
        });
        assert_eq!(it.run_ok(&["-p", "read all"]).trim(), "all read");
        assert_eq!(it.world.server.requests().len(), 51);
    }
}

#[test]
fn image_is_sent() {
    let dot = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dot = std::fs::read(dot.join("../../tests/scenarios/read-image/input/dot.png"));
    let dot = dot.expect("an image");
    let read = call("read_file", json!({"file_path": "dot.png"}));
    for_each_wire(json!([read, {"text": "a dot"}]), |it| {
        std::fs::write(it.world.home.project().join("dot.png"), &dot).expect("file");
        it.run_ok(&["-p", "look"]);
        assert!(it.body(1).contains("iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"), "{:?}", it.wire);
    });
}

#[test]
fn image_is_omitted_for_a_model_whose_input_is_text() {
    let dot = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dot = std::fs::read(dot.join("../../tests/scenarios/read-image/input/dot.png"));
    let dot = dot.expect("an image");
    let read = call("read_file", json!({"file_path": "dot.png"}));
    for_each_wire(json!([read, {"text": "no eyes"}]), |it| {
        std::fs::write(it.world.home.project().join("dot.png"), &dot).expect("file");
        let path = it.world.home.parallax().join("settings.json");
        let settings = std::fs::read_to_string(&path).expect("settings");
        let model =
            "\"apiKeyEnv\":\"WIRE_KEY\",\"models\":[{\"id\":\"test-model\",\"input\":[\"text\"]}]";
        let settings = settings.replace("\"apiKeyEnv\":\"WIRE_KEY\"", model);
        std::fs::write(&path, settings).expect("settings");
        it.run_ok(&["-p", "look"]);
        let body = it.body(1);
        assert!(!body.contains("iVBORw0KGgo"), "{:?}", it.wire);
        assert!(body.contains("omitted: data of type `image/png`"), "{:?}: {body}", it.wire);
    });
}

#[test]
fn errors_are_retried_or_explained() {
    let error = |code: u16, message: &str| json!({"error": {"code": code, "message": message}});
    let script = json!([error(503, "busy"), error(429, "slow down"), {"text": "at last"},
        error(401, "bad key")]);
    for_each_wire(script, |it| {
        assert_eq!(it.run_ok(&["-p", "go"]).trim(), "at last");
        let output = it.run(&["-p", "go"]);
        assert_eq!(output.code(), 41, "{}", output.err());
        assert!(output.err().contains("`WIRE_KEY`"), "{}", output.err());
        assert!(!output.err().contains(KEY), "{}", output.err());
    });
}

#[test]
fn cut_stream_is_repeated() {
    let cut = json!({"chunks": [{"candidates": [{"content": {"parts": [{"text": "half"}]}}]},
        {"cut": "close"}]});
    for_each_wire(json!([cut, {"text": "whole"}]), |it| {
        assert_eq!(it.run_ok(&["-p", "go"]).trim(), "whole", "{:?}", it.wire);
    });
}

#[test]
fn events_split_at_any_byte_are_parsed() {
    let calls = json!({"split": 1, "chunks": [{"candidates": [{"content": {"parts": [
        {"text": "Grüße 🦀 "},
        {"functionCall": {"name": "read_file", "args": {"file_path": "ü.txt"}}}]},
        "finishReason": "STOP"}]}]});
    for_each_wire(json!([calls, {"split": 3, "text": "Fertig 🦀"}]), |it| {
        it.world.home.write("ü.txt", "umlaut").expect("file");
        assert!(it.run_ok(&["-p", "go"]).contains("Fertig 🦀"), "{:?}", it.wire);
        assert!(it.body(1).contains("umlaut") && it.body(1).contains("Grüße 🦀"));
    });
}

#[test]
fn context_overflow_compacts_once_and_continues() {
    let overflow = json!({"error": {"code": 400,
        "message": "prompt is too long: the input exceeds the context length of the model"}});
    let long: String = (0..4_000).map(|number| format!("word{number} ")).collect();
    let script = json!([{"text": long}, {"text": long}, overflow, {"text": "<state>short</state>"},
        {"text": "<state>short</state>"}, {"text": "went on", "repeat": 0}]);
    for_each_wire(script, |it| {
        it.run_ok(&["-p", "one"]);
        it.run_ok(&["-r", "latest", "-p", "two"]);
        let output = it.run(&["-r", "latest", "-p", "three"]);
        assert_eq!(output.code(), 0, "{:?}: {}", it.wire, output.err());
        assert!(output.stdout().contains("went on"), "{:?}: {}", it.wire, output.stdout());
    });
}

#[test]
fn subagent_uses_the_same_provider_protocol() {
    let scout = "---\nname: scout\ndescription: Looks.\ntools: [read_file]\nmodel: inherit\n\
                 ---\nYou are the scout. ${query}\n";
    let invoke = call("invoke_agent", json!({"agent_name": "scout", "prompt": "look"}));
    let output = call("complete_task", json!({"result": "found it", "response": "found it"}));
    for_each_wire(json!([invoke, output, {"text": "the scout found it"}]), |it| {
        it.world.home.write(".gemini/agents/scout.md", scout).expect("agent");
        it.world.run_ok(&["agents", "accept"]);
        let out = it.run_ok(&["-y", "-p", "send the scout"]);
        assert!(out.contains("the scout found it"), "{:?}: {out}", it.wire);
    });
}

#[test]
fn mcp_tools_are_called() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    let echo = call("mcp_test_echo", json!({"text": "from afar"}));
    for wire in WireFormat::ALL {
        let settings = json!({"mcpServers": {"test": {"command": "python3",
            "args": [server.to_string_lossy()], "trust": true}}});
        let it = WireWorld::with_settings(wire, &json!([echo, {"text": "done"}]), settings);
        it.run_ok(&["-y", "-p", "echo"]);
        assert!(it.body(1).contains("from afar"), "{wire:?}: {}", it.body(1));
    }
}

#[test]
fn answer_follows_a_schema() {
    let script = json!([{"text": "It is 42."}, {"text": "```json\n{\"answer\": 42}\n```"}]);
    for_each_wire(script, |it| {
        let schema = json!({"type": "object", "properties": {"answer": {"type": "number"}},
            "required": ["answer"]});
        it.world.home.write("schema.json", &schema.to_string()).expect("file");
        let out = it.run_ok(&["-p", "go", "-o", "json", "--output-schema", "schema.json"]);
        let out: Value = serde_json::from_str(&out).expect("json");
        assert_eq!(out["structured"], json!({"answer": 42}), "{:?}", it.wire);
    });
}

#[test]
fn arguments_that_do_not_parse_are_an_error_for_the_model() {
    let bad = json!({"calls": [{"name": "read_file", "args": "{\"file_path\": "}]});
    for wire in [WireFormat::Chat, WireFormat::Responses, WireFormat::Messages] {
        let it = WireWorld::new(wire, &json!([bad, {"text": "done"}]));
        it.run_ok(&["-p", "go"]);
        let body = it.body(1);
        assert!(body.contains("file_path") && body.contains("JSON"), "{wire:?}: {body}");
    }
}

#[test]
fn session_moves_between_providers_and_back_to_gemini() {
    let signed = |file: &str| {
        json!({"chunks": [{"candidates": [{"content": {"parts": [
            {"text": "hm", "thought": true, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "read_file", "args": {"file_path": file}},
                "thoughtSignature": "c2ln"}]}, "finishReason": "STOP"}]}]})
    };
    let mut script = Vec::new();
    for round in 0..6 {
        script.push(signed(&format!("f{round}.txt")));
        script.push(json!({"text": format!("answer {round}")}));
    }
    let it = WireWorld::new(WireFormat::Chat, &Value::Array(script));
    let models = [
        "chat:m",
        "messages:m",
        "gemini-3-pro-preview",
        "responses:m",
        "messages:m",
        "gemini-3-pro-preview",
    ];
    for (round, model) in models.into_iter().enumerate() {
        it.world.home.write(&format!("f{round}.txt"), &format!("text {round}")).expect("file");
        let mut args = vec!["-m", model, "-p", "go on"];
        if round > 0 {
            args.extend(["-r", "latest"]);
        }
        let mut command = it.world.command(&args);
        command.env("WIRE_KEY", KEY);
        let output = finish(command);
        assert_eq!(output.code(), 0, "{model}: {}", output.err());
        assert_eq!(output.stdout().trim(), format!("answer {round}"));
    }
    it.world.server.assert_clean();
    let last = it.body(it.world.server.requests().len() - 1);
    (0..6).for_each(|round| assert!(last.contains(&format!("text {round}")), "{round}: {last}"));
}

#[test]
fn resumed_session_continues_with_its_model_unless_a_flag_selects_another() {
    let script = json!([{"text": "1"}, {"text": "2"}, {"text": "3"}, {"text": "4"}]);
    let it = WireWorld::new(WireFormat::Chat, &script);
    let run = |it: &WireWorld, args: &[&str]| {
        let mut command = it.world.command(args);
        command.env("WIRE_KEY", KEY);
        finish(command)
    };
    let path = |it: &WireWorld, number: usize| it.world.server.requests()[number].path.clone();
    assert_eq!(run(&it, &["-m", "chat:m", "-p", "one"]).code(), 0);
    let output = run(&it, &["-r", "latest", "-p", "two"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(!output.err().contains("Continuing"), "{}", output.err());
    assert!(path(&it, 1).ends_with("/chat/completions"), "{}", path(&it, 1));
    // The model of new sessions does not move a conversation to another provider.
    it.write_settings(json!({"model": {"name": "gemini-3-pro-preview"}}));
    let output = run(&it, &["-r", "latest", "-p", "three"]);
    assert!(path(&it, 2).ends_with("/chat/completions"), "{}", path(&it, 2));
    assert!(output.err().contains("Continuing with `chat:m`"), "{}", output.err());
    let output = run(&it, &["-r", "latest", "-m", "gemini-3-pro-preview", "-p", "four"]);
    assert_eq!((output.code(), output.err().as_str()), (0, ""));
    assert!(path(&it, 3).contains("gemini-3-pro-preview"), "{}", path(&it, 3));
    it.world.server.assert_clean();
}

#[test]
fn resumed_session_names_its_unusable_model() {
    let it = WireWorld::new(WireFormat::Chat, &json!([{"text": "1"}]));
    assert_eq!(it.run_as("chat:m", &["-p", "one"]).code(), 0);
    let mut command = it.world.command(&["-r", "latest", "-p", "two"]);
    command.env_remove("WIRE_KEY");
    let output = finish(command);
    assert_eq!(output.code(), 41, "{}", output.err());
    for words in ["`chat:m`", "WIRE_KEY", "-m MODEL"] {
        assert!(output.err().contains(words), "{words}: {}", output.err());
    }
    it.world.home.write_home(".parallax/settings.json", "{}").expect("settings");
    let output = finish(it.world.command(&["-r", "latest", "-p", "two"]));
    assert_eq!(output.code(), 42, "{}", output.err());
    assert!(output.err().contains("`chat:m`"), "{}", output.err());
    assert_eq!(it.world.server.requests().len(), 1, "nothing is sent to another provider");
}

#[test]
fn rejected_sampling_setting_is_dropped_with_one_warning() {
    let message = "`temperature` is not supported for this model";
    let error = json!({"error": {"code": 400, "message": message}});
    let settings = json!({"modelConfigs": {"customOverrides": [{"match": {"model": "gemini-4-argon"},
        "modelConfig": {"generateContentConfig": {"temperature": 0.3, "topK": 5}}}]}});
    let call = call("list_directory", json!({"dir_path": "."}));
    let script = json!([error, call, {"text": "done"}]);
    let it = WireWorld::with_settings(WireFormat::Chat, &script, settings);
    let output = finish(it.world.command(&["-m", "gemini-4-argon", "-p", "go"]));
    assert_eq!((output.code(), output.stdout().trim()), (0, "done"), "{}", output.err());
    assert_eq!(
        output.err().matches("does not accept `temperature`").count(),
        1,
        "{}",
        output.err()
    );
    let sent: Vec<Value> = it
        .world
        .server
        .requests()
        .iter()
        .map(|request| request.json()["generationConfig"].clone())
        .collect();
    assert_eq!(sent[0]["temperature"], 0.3);
    assert!(sent[1..].iter().all(|it| it.get("temperature").is_none() && it["topK"] == 5));
    assert_eq!(sent.len(), 3);
}

#[test]
fn provider_errors_suggest_a_fix() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let mut command = it.world.command(&["-m", "openai:gpt-6", "-p", "go"]);
    command.env_remove("GEMINI_API_KEY");
    let output = finish(command);
    assert_eq!(output.code(), 41);
    for words in ["`OPENAI_API_KEY`", "parallax auth add openai"] {
        assert!(output.err().contains(words), "{}", output.err());
    }
    let output = it.run_as("nope:m", &["-p", "go"]);
    assert_eq!(output.code(), 42, "{}", output.err());
    assert!(output.err().contains("`openai:`") && output.err().contains("providers.nope"));
    let settings = json!({"providers": {"mine": {"wire": "openai-chat"}}}).to_string();
    it.world.home.write_home(".parallax/settings.json", &settings).expect("settings");
    let output = it.run_as("mine:m", &["-p", "go"]);
    assert_eq!(output.code(), 52, "{}", output.err());
    assert!(output.err().contains("providers.mine.baseUrl"), "{}", output.err());
}

#[test]
fn model_name_without_a_model_is_an_input_error() {
    let it = WireWorld::new(WireFormat::Chat, &json!([]));
    let output = it.run_as("chat:", &["-p", "go"]);
    assert_eq!(output.code(), 42, "{}", output.err());
    assert!(output.err().contains("parallax models list chat"), "{}", output.err());
}

#[test]
fn overflow_in_a_stream_compacts_the_history() {
    let error = r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#;
    let too_long = json!({"chunks": [{"raw": format!("data: {error}\n\n")}]});
    let it = WireWorld::new(
        WireFormat::Chat,
        &json!([{"text": "one"}, too_long, {"text": "a summary"}, {"text": "after"}, {"text": "x"}]),
    );
    it.run_ok(&["-p", "first"]);
    let output = it.run(&["--resume", "latest", "-p", "second", "-o", "json"]);
    assert!(!output.err().contains("retrying"), "{}", output.err());
    assert!(output.stdout().contains("\"compactions\""), "{}{}", output.stdout(), output.err());
}

#[test]
fn missing_responses_api_is_replaced_by_chat_completions() {
    let missing = json!({"error": {"code": 404, "message": "no such path"}});
    let it = WireWorld::new(
        WireFormat::Responses,
        &json!([missing, {"text": "by chat"}, {"text": "2"}]),
    );
    let output = it.run(&["-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "by chat"), "{}", output.err());
    assert!(output.err().contains("Chat Completions"), "{}", output.err());
    let paths: Vec<String> = it.world.server.requests().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["/v1/responses", "/v1/chat/completions"]);
}

#[test]
fn web_search_is_declared_if_the_provider_has_one() {
    let search = call("google_web_search", json!({"query": "weather"}));
    for wire in [WireFormat::Responses, WireFormat::Messages] {
        let it = WireWorld::new(wire, &json!([search, {"text": "It rains."}, {"text": "done"}]));
        it.run_ok(&["-y", "-p", "search"]);
        assert!(it.body(1).contains("\"web_search"), "{wire:?}: {}", it.body(1));
        assert!(it.body(2).contains("It rains."), "{wire:?}");
    }
    for wire in [WireFormat::Chat, WireFormat::Ollama] {
        let it = WireWorld::new(wire, &json!([{"text": "done"}]));
        let output = it.run(&["-p", "go"]);
        assert!(output.err().contains("has no web search"), "{}", output.err());
        assert!(!it.body(0).contains("google_web_search"), "{wire:?}");
    }
}

/// Answers every request with a status and a body; returns the address and what was received.
pub(crate) fn service(
    status: &'static str,
    body: String,
) -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut bytes = vec![0; 65_536];
            let length = connection.read(&mut bytes).unwrap_or_default();
            let _ = sender.send(String::from_utf8_lossy(&bytes[..length]).into_owned());
            let length = body.len();
            let _ = write!(
                connection,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    (address, received)
}

#[test]
fn configured_search_serves_providers_without_one() {
    let search = call("google_web_search", json!({"query": "best & fast"}));
    let result = json!({"title": "Forum", "url": "https://f.example/", "content": "Fast </b>."});
    let (address, received) = service("200 OK", json!({"results": [result]}).to_string());
    for (more, expected) in [
        (json!({"url": format!("{address}/s?q={{query}}")}), "GET /s?q=best%20%26%20fast HTTP"),
        (
            json!({"url": format!("{address}/s"), "body": {"q": "{query}", "n": 3}}),
            "{\"q\":\"best & fast\",\"n\":3}",
        ),
    ] {
        let mut settings = json!({"tools": {"webSearch": more}});
        settings["tools"]["webSearch"]["headers"] = json!({"X-Key": "$SEARCH_KEY"});
        let script = json!([search, {"text": "done"}]);
        let it = WireWorld::with_settings(WireFormat::Chat, &script, settings);
        let mut command = it.world.command(&["-m", "chat:test-model", "-y", "-p", "go"]);
        command.env_remove("GEMINI_API_KEY").env("WIRE_KEY", KEY).env("SEARCH_KEY", "s3cret");
        let output = finish(command);
        assert_eq!((output.code(), output.err().as_str()), (0, ""), "{}", output.stdout());
        let request = received.recv_timeout(std::time::Duration::from_secs(10)).expect("a search");
        assert!(request.contains(expected), "{request}");
        assert!(request.to_lowercase().contains("x-key: s3cret"), "{request}");
        assert!(it.body(1).contains("[1] Forum\\nhttps://f.example/\\nFast ."), "{}", it.body(1));
        assert!(it.body(1).contains("untrusted_context"), "{}", it.body(1));
        assert!(!it.body(1).contains("s3cret"));
    }
}

#[test]
fn failed_search_names_its_host_and_invalid_settings_are_reported() {
    let search = call("google_web_search", json!({"query": "q"}));
    let (address, _received) = service("403 Forbidden", "no such key".to_owned());
    let settings = json!({"tools": {"webSearch": {"url": format!("{address}/?q={{query}}")}}});
    let script = json!([search, {"text": "done"}]);
    let it = WireWorld::with_settings(WireFormat::Ollama, &script, settings);
    it.run_ok(&["-y", "-p", "go"]);
    assert!(it.body(1).contains("127.0.0.1 answered 403 Forbidden: no such key"), "{}", it.body(1));

    let settings = json!({"tools": {"webSearch": {"url": "http://127.0.0.1:1/"}}});
    let it = WireWorld::with_settings(WireFormat::Ollama, &json!([{"text": "done"}]), settings);
    let output = it.run(&["-p", "go"]);
    assert!(output.err().contains("contains `{query}`"), "{}", output.err());
    assert!(!it.body(0).contains("google_web_search"));

    // A project's service would receive the user's queries: the user must accept it.
    let it = WireWorld::new(WireFormat::Ollama, &json!([{"text": "done"}]));
    let settings = json!({"tools": {"webSearch": {"url": format!("{address}/?q={{query}}")}}});
    it.world.home.write(".gemini/settings.json", &settings.to_string()).expect("settings");
    let output = it.run(&["-p", "go"]);
    assert!(output.err().contains("`tools.webSearch`"), "{}", output.err());
    assert!(!it.body(0).contains("google_web_search"));
}

#[test]
fn reasoning_rejected_by_the_service_is_removed() {
    let calls = json!({"chunks": [{"candidates": [{"content": {"parts": [
        {"text": "I look first.", "thought": true, "thoughtSignature": "U0lHTkVE"},
        {"functionCall": {"name": "read_file", "args": {"file_path": "a.txt"}}}]},
        "finishReason": "STOP"}]}]});
    let message = "The encrypted content gAAA could not be verified.";
    let rejected = json!({"error": {"code": 400, "message": message}});
    let script = json!([calls, rejected, {"text": "done"}, {"text": "again"}]);
    let it = WireWorld::new(WireFormat::Responses, &script);
    it.world.home.write("a.txt", "hello from the file\n").expect("file");
    let output = it.run(&["-p", "read a.txt"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "done"), "{}", output.err());
    assert!(output.err().contains("cannot read the reasoning"), "{}", output.err());
    let kind = r#""type":"reasoning""#;
    assert!(it.body(1).contains(kind), "{}", it.body(1));
    assert!(!it.body(2).contains(kind), "{}", it.body(2));
    assert!(it.body(2).contains("hello from the file"), "{}", it.body(2));
}

#[test]
fn web_page_instead_of_an_answer_is_an_error_at_once() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut connection = connection;
            let _ = connection.read(&mut [0; 65_536]);
            let page = "<!DOCTYPE html><title>Sign in</title>";
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                page.len()
            );
            let _ = connection.write_all([head.as_bytes(), page.as_bytes()].concat().as_slice());
        }
    });
    for wire in ["openai-chat", "openai-responses", "anthropic", "ollama"] {
        let it = WireWorld::new(WireFormat::Chat, &json!([]));
        let base = format!("http://{address}");
        let settings = json!({"providers": {"p": {"wire": wire, "baseUrl": base}}});
        it.world
            .home
            .write_home(".parallax/settings.json", &settings.to_string())
            .expect("settings");
        let started_at = std::time::Instant::now();
        let output = it.run_as("p:m", &["-p", "go"]);
        assert_eq!(output.code(), 1, "{wire}: {}", output.err());
        assert!(output.err().contains("`text/html`"), "{wire}: {}", output.err());
        assert!(output.err().contains(&address.to_string()), "{wire}: {}", output.err());
        assert!(started_at.elapsed().as_secs() < 10, "{wire}");
    }
}
