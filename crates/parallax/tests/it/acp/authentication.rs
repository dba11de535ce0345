//! Authentication methods, and how a client authenticates.

use serde_json::{Value, json};

use super::Editor;
use crate::support::World;

fn ids(answer: &Value) -> Vec<String> {
    let methods = answer["result"]["authMethods"].as_array().expect("methods");
    methods.iter().map(|it| it["id"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn methods_include_configured_providers_and_terminal_auth_only_if_client_supports_it() {
    let world = World::new("[]");
    let providers = json!({"mine": {"wire": "openai-chat", "baseUrl": "http://127.0.0.1:9/v1",
        "apiKeyEnv": "MINE_KEY"}});
    let settings = json!({"providers": providers}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).expect("settings");
    let mut editor = Editor::start(&world, &[]);
    let offered = json!({"auth": {"terminal": true}});
    let params = json!({"protocolVersion": 1, "clientCapabilities": offered});
    let answer = editor.call("initialize", params);
    let found = ids(&answer);
    for id in [
        "gemini-api-key",
        "vertex-ai",
        "gateway",
        "oauth-personal",
        "openai",
        "anthropic",
        "mine",
        "setup",
    ] {
        assert!(found.iter().any(|it| it == id), "{id}: {found:?}");
    }
    let mut plain = Editor::start(&world, &[]);
    let answer = plain.call("initialize", json!({"protocolVersion": 1}));
    assert!(!ids(&answer).contains(&"setup".to_owned()));
}

#[test]
fn clients_that_name_the_google_account_use_the_configured_credentials() {
    let world = World::new(r#"[{"text":"fine"}]"#);
    let mut editor = Editor::start(&world, &[]);
    editor.call("initialize", json!({"protocolVersion": 1}));
    let params = json!({"methodId": "oauth-personal"});
    assert_eq!(editor.call("authenticate", params.clone())["result"], json!({}));
    let session = editor.open(&world);
    let id = editor.prompt(&session, "go");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    // Nothing is selected for other sessions.
    assert!(!world.home.parallax().join("settings.json").exists());
    let mut command = world.command(&["--acp"]);
    for name in ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"] {
        command.env_remove(name);
    }
    let mut editor = Editor::spawn(command);
    editor.call("initialize", json!({"protocolVersion": 1}));
    let refused = editor.call("authenticate", params);
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    assert!(refused.to_string().contains("GEMINI_API_KEY"), "{refused}");
}

#[test]
fn gateway_of_the_client_receives_the_requests_with_its_headers() {
    let world = World::new(r#"[{"text":"over the gateway"}]"#);
    let url = world.server.url();
    let mut command = world.command(&["--acp"]);
    for name in ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"] {
        command.env_remove(name);
    }
    let mut editor = Editor::spawn(command);
    editor.call("initialize", json!({"protocolVersion": 1}));
    let refused = editor.call("session/new", json!({"cwd": world.home.project()}));
    let session = refused["result"]["sessionId"].clone();
    assert!(session.is_null(), "no credentials yet: {refused}");
    for gateway in
        [json!(null), json!({"baseUrl": "ftp://x"}), json!({"baseUrl": url, "headers": [1]})]
    {
        let params = json!({"methodId": "gateway", "_meta": {"gateway": gateway}});
        assert_eq!(editor.call("authenticate", params)["error"]["code"], -32602);
    }
    let gateway = json!({"baseUrl": url, "headers": {"X-Team": "blue"}});
    let params = json!({"methodId": "gateway", "_meta": {"gateway": gateway}});
    assert_eq!(editor.call("authenticate", params)["result"], json!({}));
    let session = editor.open(&world);
    let id = editor.prompt(&session, "go");
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    let requests = world.server.requests();
    let sent = requests.last().expect("a request");
    assert_eq!(sent.header("x-team"), Some("blue"));
}

#[test]
fn provider_key_is_stored_and_missing_keys_are_reported() {
    let world = World::new("[]");
    let mut editor = Editor::ready(&world, &[]);
    let missing = editor.call("authenticate", json!({"methodId": "openai"}));
    assert_eq!(missing["error"]["code"], -32000, "{missing}");
    let output = missing["error"]["message"].as_str().unwrap_or_default();
    assert!(output.contains("OPENAI_API_KEY"), "{output}");
    let unknown = editor.call("authenticate", json!({"methodId": "nonsense"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let params = json!({"methodId": "openai", "_meta": {"api-key": "k-4711"}});
    assert_eq!(editor.call("authenticate", params)["result"], json!({}));
    assert_eq!(editor.call("authenticate", json!({"methodId": "openai"}))["result"], json!({}));
}

#[test]
fn thinking_level_is_an_option_of_models_that_have_levels() {
    let world = World::new(r#"[{"text":"a"},{"text":"b"}]"#);
    let mut editor = Editor::ready(&world, &["-m", "gemini-3.8-flash"]);
    let session = editor.open(&world);
    let set = |editor: &mut Editor, value: &str| {
        let params = json!({"sessionId": session, "configId": "thought_level", "value": value});
        editor.call("session/set_config_option", params)
    };
    assert_eq!(set(&mut editor, "huge")["error"]["code"], -32602);
    let answer = set(&mut editor, "low");
    let options = answer["result"]["configOptions"].as_array().expect("options");
    let level = options.iter().find(|it| it["category"] == "thought_level").expect("the level");
    assert_eq!(level["currentValue"], "low");
    for (value, expected) in [("low", "LOW"), ("default", "HIGH")] {
        set(&mut editor, value);
        let id = editor.prompt(&session, "go");
        assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
        let requests = world.server.requests();
        let body: Value =
            serde_json::from_slice(&requests.last().expect("a request").body).expect("JSON");
        let thinking = &body["generationConfig"]["thinkingConfig"];
        let sent = thinking["thinkingLevel"].as_str().unwrap_or_default().to_uppercase();
        assert_eq!((sent.as_str(), &thinking["includeThoughts"]), (expected, &json!(true)));
        assert!(thinking.get("thinkingBudget").is_none(), "{thinking}");
    }
}

#[test]
fn forked_session_has_the_history_and_its_own_id() {
    let world = World::new(r#"[{"text":"first answer"},{"text":"second answer"}]"#);
    let mut editor = Editor::start(&world, &[]);
    let offered = json!({"session": {"fork": {}}});
    let params = json!({"protocolVersion": 1, "clientCapabilities": offered});
    let answer = editor.call("initialize", params);
    let served = &answer["result"]["agentCapabilities"]["sessionCapabilities"];
    assert!(served["fork"].is_object() && served["additionalDirectories"].is_object());
    let session = editor.open(&world);
    let id = editor.prompt(&session, "remember 4711");
    editor.answer(id);
    let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
    let forked = editor.call("session/fork", params);
    let fork = forked["result"]["sessionId"].as_str().expect("an id").to_owned();
    assert_ne!(fork, session);
    let id = editor.prompt(&fork, "go on");
    editor.answer(id);
    let requests = world.server.requests();
    let body = String::from_utf8_lossy(&requests.last().expect("a request").body).into_owned();
    assert!(body.contains("remember 4711"), "{body}");
}
