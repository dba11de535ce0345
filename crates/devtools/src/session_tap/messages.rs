//! The messages of a tap: JSON objects with one key.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use parallax_model_http::WireObservation;
use parallax_protocol::event::{EventBody, ItemDone, ItemStart};
use parallax_protocol::model::Request;
use parallax_protocol::observer::{
    CallEnd, EventScope, HookRun, McpMessage, Observation, is_mcp_startup,
};
use serde_json::{Value, json};

use super::body_delta::BodyDelta;

/// Maximum bytes shown of an MCP message.
const MAX_MCP_MESSAGE: usize = 64 << 10;
/// The version of the messages.
const VERSION: u32 = 1;

/// Milliseconds since 1970.
fn millis(time: SystemTime) -> u64 {
    let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

fn now() -> u64 {
    millis(SystemTime::now())
}

/// Returns the first message to a viewer.
pub(super) fn hello_message() -> String {
    let hello = json!({"version": VERSION, "pid": std::process::id(), "time": now()});
    format!("{}\n", json!({"hello": hello}))
}

/// Returns a message with the number of messages dropped before the next one.
pub(super) fn dropped_message(count: u64) -> String {
    format!("{}\n", json!({"dropped": {"count": count, "time": now()}}))
}

pub(super) fn body(delta: BodyDelta, bytes: usize) -> Value {
    let BodyDelta { key, base, prefix, suffix, text } = delta;
    json!({"key": key, "base": base, "prefix": prefix, "suffix": suffix, "text": text, "bytes": bytes})
}

pub(super) fn request(
    id: u64,
    request: &Request,
    attempt: u32,
    (url, headers, body): (String, BTreeMap<String, String>, Value),
) -> Value {
    json!({
        "id": id,
        "time": now(),
        "attempt": attempt,
        "model": request.model,
        "role": request.role,
        "size": request.bytes(),
        "method": "POST",
        "url": url,
        "headers": headers,
        "body": body,
    })
}

pub(super) fn wire(id: u64, observation: WireObservation<'_>) -> Option<(&'static str, Value)> {
    let time = now();
    let message = match observation {
        // It has a body; see [`request`].
        WireObservation::Sent(_) => return None,
        WireObservation::Responded { status, headers } => {
            ("response", json!({"id": id, "time": time, "status": status, "headers": headers}))
        }
        WireObservation::Chunk { bytes } => {
            ("chunk", json!({"id": id, "time": time, "bytes": bytes}))
        }
        WireObservation::Retry(retry) => (
            "retry",
            json!({
                "id": id,
                "time": time,
                "attempt": retry.attempt,
                "max": retry.max_attempts,
                "delay": retry.delay_ms,
                "class": retry.class,
                "status": retry.status,
                "message": retry.message,
            }),
        ),
        WireObservation::Ended { error } => {
            ("end", json!({"id": id, "time": time, "error": error}))
        }
    };
    Some(message)
}

pub(super) fn observation_message(
    scope: &EventScope,
    observation: &Observation<'_>,
) -> Option<(&'static str, Value)> {
    match observation {
        Observation::HookEnded(run) => Some(("hook", hook(run))),
        Observation::CallEnded(end) => Some(("call_end", call_end(scope, end))),
        Observation::Event(event) => event_message(scope, event),
        Observation::CommandRun { name } => Some((
            "log",
            json!({"time": now(), "level": "info", "target": "command", "text": format!("/{name}")}),
        )),
        // Viewers that attach later get a part of it; see [`mcp`].
        Observation::McpMessage(_)
        | Observation::RequestStarted { .. }
        | Observation::RequestEnded(_) => None,
    }
}

/// Returns a message to or from an MCP server, and whether it belongs to the start of the server.
/// Long ones have no contents.
pub(super) fn mcp(message: &McpMessage<'_>) -> (Value, bool) {
    let McpMessage { server, is_sent, method, message } = message;
    let bytes = message.to_string().len();
    let contents = (bytes <= MAX_MCP_MESSAGE).then_some(message);
    let value = json!({
        "time": now(),
        "server": server,
        "sent": is_sent,
        "method": method,
        "id": message.get("id"),
        "is_response": message.get("method").is_none(),
        "failed": message.get("error").is_some(),
        "bytes": bytes,
        "message": contents,
    });
    (value, is_mcp_startup(method))
}

fn hook(run: &HookRun) -> Value {
    json!({
        "time": millis(run.started),
        "duration": run.duration_ms,
        "event": run.event,
        "kind": run.kind,
        "name": run.name,
        "success": run.success,
        "exit_code": run.exit_code,
        "input": run.input,
        "output": run.output,
        "stdout": run.stdout,
        "stderr": run.stderr,
        "error": run.error,
    })
}

fn agents(scope: &EventScope) -> Vec<&str> {
    scope.subagents.iter().map(|subagent| subagent.name.as_str()).collect()
}

/// Returns the items of the calls that started these agents: several agents can have the same name.
fn runs(scope: &EventScope) -> Vec<&str> {
    scope.subagents.iter().map(|subagent| subagent.item.as_str()).collect()
}

/// Returns the request and the response of an MCP tool call; for other calls, the arguments.
fn call_end(scope: &EventScope, end: &CallEnd<'_>) -> Value {
    let done = end.done;
    json!({
        "time": now(),
        "agents": agents(scope),
        "runs": runs(scope),
        "item": end.item.as_str(),
        "name": done.name,
        "tool": end.tool,
        "server": end.server,
        "arguments": end.arguments,
        "status": done.status,
        "duration": done.duration_ms,
        "data": end.server.and(done.data.as_ref()),
    })
}

fn event_message(scope: &EventScope, event: &EventBody) -> Option<(&'static str, Value)> {
    let time = now();
    let log = |level: &str, target: &str, text: String| {
        Some(("log", json!({"time": time, "level": level, "target": target, "text": text})))
    };
    match event {
        EventBody::ItemStarted { item, start: ItemStart::Tool(start) } => Some((
            "call",
            json!({
                "time": time,
                "agents": agents(scope),
                "runs": runs(scope),
                "item": item.as_str(),
                "index": start.index,
                "name": start.name,
                "args": start.args,
            }),
        )),
        EventBody::CallState(state) => Some((
            "call_state",
            json!({
                "time": time,
                "agents": agents(scope),
                "runs": runs(scope),
                "item": state.item.as_str(),
                "phase": state.phase,
                "title": state.title,
            }),
        )),
        EventBody::ItemDone { done: ItemDone::Notice { level, text, .. }, .. } => {
            Some(("log", json!({"time": time, "level": level, "target": "notice", "text": text})))
        }
        EventBody::Aside { text } => log("info", "notice", text.clone()),
        EventBody::Retry(retry) => log(
            "warning",
            "retry",
            format!(
                "{}: attempt {} of {} failed ({}), next in {} ms: {}",
                retry.model,
                retry.attempt,
                retry.max_attempts,
                retry.class,
                retry.delay_ms,
                retry.message
            ),
        ),
        EventBody::HooksRun { names } if !names.is_empty() => {
            log("debug", "hook", format!("Running {}", names.join(", ")))
        }
        _ => None,
    }
}
