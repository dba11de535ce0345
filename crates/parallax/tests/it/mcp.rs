//! MCP servers, from the settings to the model, with a test server that can misbehave.

mod calls;
mod commands;
pub(crate) mod network;
mod prompts;
mod sign_in;
mod tool_pinning;
mod waiting;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::World;

/// Returns the path of the test server.
fn script() -> String {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    here.canonicalize().expect("the server").display().to_string()
}

/// Returns the configuration of a stdio server with this behavior.
pub(crate) fn stdio(world: &World, r#do: &str) -> Value {
    let log = world.home.root().join("log").display().to_string();
    json!({"command": "python3", "args": [script(), "--log", log, "--do", r#do]})
}

pub(crate) fn set(world: &World, settings: &Value) {
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
}

fn with_server(script: &str, r#do: &str) -> World {
    let world = World::new(script);
    set(&world, &json!({"mcpServers": {"test": stdio(&world, r#do)}}));
    world
}

/// Returns a request to the model as JSON.
fn request(world: &World, number: usize) -> Value {
    serde_json::from_slice(&world.server.requests()[number].body).expect("JSON")
}

/// Returns the names of the tools declared in a request.
pub(crate) fn declared(world: &World, number: usize) -> Vec<String> {
    let request = request(world, number);
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let declarations = tools.iter().filter_map(|tool| tool["functionDeclarations"].as_array());
    declarations.flatten().filter_map(|it| it["name"].as_str()).map(str::to_owned).collect()
}

/// Returns the tool result of the last call.
pub(crate) fn answer(world: &World, number: usize) -> Value {
    let request = request(world, number);
    let contents = request["contents"].as_array().cloned().expect("contents");
    let parts = contents.last().expect("a content")["parts"].as_array().cloned().expect("parts");
    let response = parts.iter().find_map(|part| part.get("functionResponse"));
    response.expect("an answer")["response"].clone()
}

/// Returns the messages that the server received.
fn received_messages(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.home.root().join("log")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn call(tool: &str, args: &Value) -> String {
    json!([{"calls": [{"name": format!("mcp_test_{tool}"), "args": args}]}, {"text": "done"}])
        .to_string()
}

#[test]
fn servers_from_mcp_config_apply_to_one_run() {
    let script = call("echo", &json!({"text": "hi"}));
    let world = World::new(&script);
    let mut server = stdio(&world, "");
    server["trust"] = json!(true);
    let servers = json!({"mcpServers": {"test": server}}).to_string();
    world.home.write("servers.json", &servers).expect("file");
    let output = world.run(&["--mcp-config", "servers.json", "-p", "go"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(declared(&world, 0).contains(&"mcp_test_echo".to_owned()));
    // Only a rule or the user's settings can waive the approval.
    assert!(answer(&world, 1).to_string().contains("approval"), "{}", answer(&world, 1));
    for (content, message) in [
        ("{}", "mcpServers"),
        (r#"{"mcpServers": {"a": 1}}"#, "an object for each server"),
        ("{ broken", "servers.json"),
    ] {
        world.home.write("servers.json", content).expect("file");
        let output = world.run(&["--mcp-config", "servers.json", "-p", "go"]);
        assert_eq!(output.code(), 42, "{}", output.err());
        assert!(output.err().contains(message), "{}", output.err());
    }
    let output = world.run(&["--mcp-config", "nowhere.json", "-p", "go"]);
    assert_eq!(output.code(), 42);
    assert!(output.err().contains("does not exist"), "{}", output.err());
}
