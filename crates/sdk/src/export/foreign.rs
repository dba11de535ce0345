//! A session in the forms that other agents keep theirs in, so that their
//! programs and those that read their files can take it up.

use parallax_protocol::store::Record;
use parallax_store::LoadedSession;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::past::{self, PastItem};

/// What is said of a result that never came.
const NO_RESULT: &str = "The call was interrupted.";

/// A transcript of Claude Code: a line a block, each naming the one before it.
pub(super) fn claude(session: &LoadedSession) -> String {
    let mut lines = Claude { session, text: String::new(), parent: Value::Null };
    let model = model(session);
    let mut time = session.head.start_time.clone();
    let mut number = 0;
    for item in past::items(&session.records) {
        number += 1;
        let mut answer = |block: Value, stop: &str, time: &str| {
            let message = json!({
                "id": format!("msg_{number}"), "type": "message", "role": "assistant",
                "model": model, "content": [block], "stop_reason": stop, "stop_sequence": null,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            });
            lines.line("assistant", &message, time);
        };
        match item {
            PastItem::User { text, time: at, .. } => {
                time = if at.is_empty() { time } else { at };
                lines.line("user", &json!({"role": "user", "content": text}), &time);
            }
            PastItem::Steer { text } => {
                lines.line("user", &json!({"role": "user", "content": text}), &time);
            }
            PastItem::Shell { command, output, .. } => {
                let text = shell(&command, &output);
                lines.line("user", &json!({"role": "user", "content": text}), &time);
            }
            PastItem::Text { text, .. } => {
                answer(json!({"type": "text", "text": text}), "end_turn", &time);
            }
            PastItem::Tool { name, args, status, output, .. } => {
                let id = format!("toolu_{number}");
                let call = json!({"type": "tool_use", "id": id, "name": name, "input": args});
                answer(call, "tool_use", &time);
                let output = if status.is_some() { &*output } else { NO_RESULT };
                let failed = status.as_deref() != Some("success");
                let result = json!({
                    "type": "tool_result", "tool_use_id": id, "content": output,
                    "is_error": failed,
                });
                lines.line("user", &json!({"role": "user", "content": [result]}), &time);
            }
            // Their thoughts are signed, and without that they are refused; ends have no form.
            PastItem::Image(_) | PastItem::Thought { .. } | PastItem::Ended { .. } => {}
        }
    }
    lines.text
}

struct Claude<'a> {
    session: &'a LoadedSession,
    text: String,
    parent: Value,
}

impl Claude<'_> {
    fn line(&mut self, kind: &str, message: &Value, time: &str) {
        let head = &self.session.head;
        let id = Value::String(Uuid::new_v4().to_string());
        let line = json!({
            "parentUuid": self.parent, "isSidechain": false, "userType": "external",
            "cwd": head.project, "sessionId": head.session_id, "version": VERSION,
            "gitBranch": "", "type": kind, "message": message, "uuid": id, "timestamp": time,
        });
        self.parent = id;
        self.text.push_str(&format!("{line}\n"));
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A rollout of Codex: a head, then what was said and done.
pub(super) fn codex(session: &LoadedSession) -> String {
    let head = &session.head;
    let mut time = head.start_time.clone();
    let mut text = String::new();
    let mut line = |kind: &str, payload: Value, time: &str| {
        let line = json!({"timestamp": time, "type": kind, "payload": payload});
        text.push_str(&format!("{line}\n"));
    };
    let meta = json!({
        "id": head.session_id, "timestamp": time, "cwd": head.project, "originator": "parallax",
        "cli_version": VERSION, "instructions": null,
    });
    line("session_meta", meta, &time);
    line("turn_context", json!({"cwd": head.project, "model": model(session)}), &time);
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    for (number, item) in past::items(&session.records).into_iter().enumerate() {
        if let PastItem::User { time: at, .. } = &item
            && !at.is_empty()
        {
            time.clone_from(at);
        }
        let mut said = |text: &str| {
            line("response_item", message("user", "input_text", text), &time);
            line("event_msg", json!({"type": "user_message", "message": text}), &time);
        };
        match item {
            PastItem::User { text, .. } | PastItem::Steer { text } => said(&text),
            PastItem::Shell { command, output, .. } => said(&shell(&command, &output)),
            PastItem::Text { text, .. } => {
                line("response_item", message("assistant", "output_text", &text), &time);
                line("event_msg", json!({"type": "agent_message", "message": text}), &time);
            }
            PastItem::Tool { name, args, status, output, .. } => {
                let id = format!("call_{number}");
                let arguments = Value::Object(args).to_string();
                let call = json!({
                    "type": "function_call", "name": name, "arguments": arguments, "call_id": id,
                });
                line("response_item", call, &time);
                let output = if status.is_some() { output } else { NO_RESULT.to_owned() };
                let result =
                    json!({"type": "function_call_output", "call_id": id, "output": output});
                line("response_item", result, &time);
            }
            // Their thoughts are sealed by the service; ends have no form.
            PastItem::Image(_) | PastItem::Thought { .. } | PastItem::Ended { .. } => {}
        }
    }
    text
}

fn shell(command: &str, output: &str) -> String {
    format!("I ran this command:\n\n{command}\n\nIts output:\n\n{output}")
}

/// The model that answered last.
fn model(session: &LoadedSession) -> String {
    let last = session.records.iter().rev().find_map(|record| match record {
        Record::Content(content) => content.model.clone(),
        _ => None,
    });
    last.unwrap_or_default()
}
