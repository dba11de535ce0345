//! The Agent2Agent protocol (A2A) 1.0, and 0.3 for older clients: tasks over JSON-RPC and HTTP.
//!
//! A task is a session: its id is the session's, and its context's. Messages are prompts, and an
//! approval request is the state "input required", which the next message answers. Format:
//! <https://a2a-protocol.org>.

mod acp_client;
mod agent_settings;
mod errors;
mod messages;
mod routes;
mod stream;
mod task;
mod task_query;
mod tasks;
mod version;

pub(crate) use routes::{is_route, route};
pub(crate) use tasks::A2aTasks;

use std::net::SocketAddr;

use serde_json::{Value, json};

/// Returns the public description of the agent.
pub(crate) fn card(address: SocketAddr, version: &str) -> Value {
    let url = format!("http://{address}");
    let skill = |id: &str, name: &str, description: &str| json!({"id": id, "name": name, "description": description, "tags": ["code"]});
    json!({
        "name": "Parallax",
        "description": "A coding agent for the project in the server's directory: it reads and \
            edits files, runs commands, and requests approval for risky actions.",
        "version": version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "capabilities": {"streaming": true, "pushNotifications": false},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [
            skill("code_generation", "Code generation", "Writes and changes code in the project."),
            skill("code_investigation", "Code investigation", "Explains how the project works."),
        ],
        "securitySchemes": {
            "bearer": {
                "httpAuthSecurityScheme": {"scheme": "Bearer"},
                "type": "http", "scheme": "bearer",
            },
        },
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        // Read by clients of version 0.3.
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": "JSONRPC",
        "security": [{"bearer": []}],
    })
}
