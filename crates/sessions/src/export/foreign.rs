//! Exports sessions in the formats of other agents, for use with their tools.

use parallax_protocol::model::Usage;
use parallax_protocol::store::{HookContinuation, Record};
use parallax_store::LoadedSession;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::recorded_items::{self, RecordedItem};

/// Text for a missing tool result.
pub(super) const NO_RESULT: &str = "The call was interrupted.";

/// Returns a transcript in Claude Code's format: one line per block, each naming the previous one.
pub(super) fn claude(session: &LoadedSession) -> String {
    let mut lines = ClaudeExporter { session, text: String::new(), parent: Value::Null };
    let last_model = model(session);
    let mut time = session.head.start_time.clone();
    let conversation = recorded_items::items_and_answers(&session.records);
    let mut answers = conversation.answers.iter().enumerate().peekable();
    let mut current = None;
    for (number, (item, at)) in conversation.items.into_iter().zip(conversation.times).enumerate() {
        time = if at.is_empty() { time } else { at };
        while let Some(answer) = answers.next_if(|(_, answer)| answer.first <= number) {
            current = Some(answer);
        }
        let mut answer = |block: Value, stop: &str, time: &str| {
            // The blocks of an answer share its id and usage, so that readers count the usage once.
            let (id, usage) = current.map_or((0, Usage::default()), |(at, it)| (at + 1, it.usage));
            let model = current.and_then(|(_, it)| it.model.as_deref()).unwrap_or(&last_model);
            let cached = usage.cached;
            let message = json!({
                "id": format!("msg_{}_{id}", session.head.session_id), "type": "message",
                "role": "assistant", "model": model, "content": [block], "stop_reason": stop,
                "stop_sequence": null,
                "usage": {
                    "input_tokens": usage.prompt.saturating_sub(cached),
                    "cache_creation_input_tokens": 0,
                    "cache_read_input_tokens": cached,
                    "output_tokens":
                        usage.output.saturating_add(usage.thought),
                },
            });
            let request = format!("req_{}_{id}", session.head.session_id);
            lines.push_line_of_request("assistant", &message, time, Some(&request));
        };
        match item {
            RecordedItem::User { text, .. } => {
                lines.push_line("user", &json!({"role": "user", "content": text}), &time);
            }
            // These formats have only the user for what the model answers.
            RecordedItem::Steer { text }
            | RecordedItem::Continued(HookContinuation { text, .. }) => {
                lines.push_line("user", &json!({"role": "user", "content": text}), &time);
            }
            RecordedItem::Shell { command, output, .. } => {
                let text = shell(&command, &output);
                lines.push_line("user", &json!({"role": "user", "content": text}), &time);
            }
            RecordedItem::Text { text, .. } => {
                answer(json!({"type": "text", "text": text}), "end_turn", &time);
            }
            RecordedItem::Tool { name, args, status, output, .. } => {
                let id = format!("toolu_{number}");
                let call = json!({"type": "tool_use", "id": id, "name": name, "input": args});
                answer(call, "tool_use", &time);
                let output = if status.is_some() { &*output } else { NO_RESULT };
                let failed = status.as_deref() != Some("success");
                let result = json!({
                    "type": "tool_result", "tool_use_id": id, "content": output,
                    "is_error": failed,
                });
                lines.push_line("user", &json!({"role": "user", "content": [result]}), &time);
            }
            // Claude Code rejects thoughts without a signature; the format has no entry for ends of
            // turns.
            RecordedItem::Image(_) | RecordedItem::Thought { .. } | RecordedItem::Ended { .. } => {}
        }
    }
    lines.text
}

struct ClaudeExporter<'a> {
    session: &'a LoadedSession,
    text: String,
    parent: Value,
}

impl ClaudeExporter<'_> {
    fn push_line(&mut self, kind: &str, message: &Value, time: &str) {
        self.push_line_of_request(kind, message, time, None);
    }

    /// `request` is the id of the request that a line answers.
    fn push_line_of_request(
        &mut self,
        kind: &str,
        message: &Value,
        time: &str,
        request: Option<&str>,
    ) {
        let head = &self.session.head;
        let id = Value::String(Uuid::new_v4().to_string());
        let mut line = json!({
            "parentUuid": self.parent, "isSidechain": false, "userType": "external",
            "cwd": head.project, "sessionId": head.session_id, "version": VERSION,
            "gitBranch": "", "type": kind, "message": message, "uuid": id, "timestamp": time,
        });
        if let Some(request) = request {
            line["requestId"] = request.into();
        }
        self.parent = id;
        self.text.push_str(&format!("{line}\n"));
    }
}

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns a rollout in Codex's format: a header, then the items.
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
    let last_model = model(session);
    let conversation = recorded_items::items_and_answers(&session.records);
    let mut answers = conversation.answers.into_iter().peekable();
    let mut known_model = String::new();
    let mut total = Usage::default();
    let mut open: Option<Usage> = None;
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    for (number, (item, at)) in conversation.items.into_iter().zip(conversation.times).enumerate() {
        while let Some(answer) = answers.next_if(|answer| answer.first <= number) {
            if let Some(usage) = open.replace(answer.usage) {
                line("event_msg", token_count(&usage, &mut total), &time);
            }
            let model = answer.model.unwrap_or_else(|| last_model.clone());
            if model != known_model {
                line("turn_context", json!({"cwd": head.project, "model": model}), &time);
                known_model = model;
            }
        }
        if matches!(item, RecordedItem::User { .. })
            && let Some(usage) = open.take()
        {
            line("event_msg", token_count(&usage, &mut total), &time);
        }
        time = if at.is_empty() { time } else { at };
        let mut push_prompt = |text: &str| {
            line("response_item", message("user", "input_text", text), &time);
            line("event_msg", json!({"type": "user_message", "message": text}), &time);
        };
        match item {
            RecordedItem::User { text, .. }
            | RecordedItem::Steer { text }
            | RecordedItem::Continued(HookContinuation { text, .. }) => push_prompt(&text),
            RecordedItem::Shell { command, output, .. } => push_prompt(&shell(&command, &output)),
            RecordedItem::Text { text, .. } => {
                line("response_item", message("assistant", "output_text", &text), &time);
                line("event_msg", json!({"type": "agent_message", "message": text}), &time);
            }
            RecordedItem::Tool { name, args, status, output, .. } => {
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
            // Codex's thoughts are encrypted by the provider; the format has no entry for ends of
            // turns.
            RecordedItem::Image(_) | RecordedItem::Thought { .. } | RecordedItem::Ended { .. } => {}
        }
    }
    for usage in open.into_iter().chain(answers.map(|answer| answer.usage)) {
        line("event_msg", token_count(&usage, &mut total), &time);
    }
    text
}

/// Builds the event with the usage of an answer and the running total.
fn token_count(usage: &Usage, total: &mut Usage) -> Value {
    total.add(usage);
    let counted = |usage: &Usage| {
        json!({
            "input_tokens": usage.prompt,
            "cached_input_tokens": usage.cached,
            "output_tokens":
                usage.output.saturating_add(usage.thought),
            "reasoning_output_tokens": usage.thought,
            "total_tokens": usage.total,
        })
    };
    let info = json!({"total_token_usage": counted(total), "last_token_usage": counted(usage)});
    json!({"type": "token_count", "info": info, "rate_limits": null})
}

pub(super) fn shell(command: &str, output: &str) -> String {
    format!("I ran this command:\n\n{command}\n\nIts output:\n\n{output}")
}

/// Returns the model of the last answer.
pub(super) fn model(session: &LoadedSession) -> String {
    let last = session.records.iter().rev().find_map(|record| match record {
        Record::Content(content) => content.model.clone(),
        _ => None,
    });
    last.unwrap_or_default()
}
