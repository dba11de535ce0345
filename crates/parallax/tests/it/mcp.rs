//! MCP servers from settings to the model, with a server that behaves badly.

mod calls;
mod commands;
pub(crate) mod network;
mod pins;
mod prompts;
mod sign_in;
mod waiting;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::World;

/// The server of the tests.
fn script() -> String {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    here.canonicalize().expect("the server").display().to_string()
}

/// A stdio server that does these things.
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

/// What the model was asked, as JSON.
fn request(world: &World, number: usize) -> Value {
    serde_json::from_slice(&world.server.requests()[number].body).expect("JSON")
}

/// The names that were declared with a request.
pub(crate) fn declared(world: &World, number: usize) -> Vec<String> {
    let request = request(world, number);
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let declarations = tools.iter().filter_map(|tool| tool["functionDeclarations"].as_array());
    declarations.flatten().filter_map(|it| it["name"].as_str()).map(str::to_owned).collect()
}

/// The answer that the model got to its last call.
pub(crate) fn answer(world: &World, number: usize) -> Value {
    let request = request(world, number);
    let contents = request["contents"].as_array().cloned().expect("contents");
    let parts = contents.last().expect("a content")["parts"].as_array().cloned().expect("parts");
    let response = parts.iter().find_map(|part| part.get("functionResponse"));
    response.expect("an answer")["response"].clone()
}

/// What the server was told.
fn told(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.home.root().join("log")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn call(tool: &str, args: &Value) -> String {
    json!([{"calls": [{"name": format!("mcp_test_{tool}"), "args": args}]}, {"text": "done"}])
        .to_string()
}
