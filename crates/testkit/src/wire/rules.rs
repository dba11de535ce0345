//! The rules that each wire format has for requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::WireFormat;

/// The rules, with the opaque data that the client must send back.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Data that a request must contain if it contains the call.
    opaque: BTreeMap<String, (WireFormat, Vec<Value>)>,
}

impl Rules {
    /// Records the data of a reply.
    pub(crate) fn record_reply(&mut self, wire: WireFormat, opaque: Vec<(String, Value)>) {
        for (call, data) in opaque {
            self.opaque.entry(call).or_insert((wire, Vec::new())).1.push(data);
        }
    }

    /// Returns the violations of a request.
    pub(crate) fn check(&self, wire: WireFormat, body: &Value) -> Vec<String> {
        let mut found = Vec::new();
        if body["model"].as_str().is_none_or(|model| {
            model.is_empty() || model.contains(':') && wire != WireFormat::Ollama
        }) {
            found.push(format!("not a model id: {}", body["model"]));
        }
        check_tools(wire, body, &mut found);
        let calls = match wire {
            WireFormat::Chat => chat(body, &mut found),
            WireFormat::Responses => responses(body, &mut found),
            WireFormat::Messages => messages(body, &mut found),
            WireFormat::Ollama => ollama(body, &mut found),
        };
        let whole = all_values(body);
        for (call, (origin, data)) in &self.opaque {
            // Other providers do not receive it.
            if *origin != wire || !calls.contains(call) {
                continue;
            }
            for data in data.iter().filter(|data| !whole.contains(data)) {
                found.push(format!("data before the call `{call}` did not come back: {data}"));
            }
        }
        found
    }
}

fn all_values(body: &Value) -> Vec<&Value> {
    let list = |key: &str| body[key].as_array().into_iter().flatten();
    let items = list("input").chain(list("messages"));
    let mut values: Vec<&Value> = Vec::new();
    for item in items {
        values.push(item);
        values.extend(item["content"].as_array().into_iter().flatten());
    }
    values
}

fn check_tools(wire: WireFormat, body: &Value, found: &mut Vec<String>) {
    for tool in body["tools"].as_array().into_iter().flatten() {
        // A tool that the provider runs.
        if tool["type"].as_str().is_some_and(|kind| kind.starts_with("web_search")) {
            continue;
        }
        let (function, schema) = match wire {
            WireFormat::Chat | WireFormat::Ollama => (&tool["function"], "parameters"),
            WireFormat::Responses => (tool, "parameters"),
            WireFormat::Messages => (tool, "input_schema"),
        };
        let name = function["name"].as_str().unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
            found.push(format!("invalid function name `{name}`"));
        }
        if function[schema]["type"] != "object" {
            found.push(format!("the schema of `{name}` is not an object"));
        }
        if has_upper_case_type(&function[schema]) {
            found.push(format!("the schema of `{name}` has a type in upper case"));
        }
    }
}

fn has_upper_case_type(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| match value {
            Value::String(text) => {
                key == "type" && text.chars().any(|letter| letter.is_ascii_uppercase())
            }
            value => has_upper_case_type(value),
        }),
        Value::Array(values) => values.iter().any(has_upper_case_type),
        _ => false,
    }
}

fn list<'a>(body: &'a Value, key: &str, found: &mut Vec<String>) -> &'a [Value] {
    match body[key].as_array() {
        Some(items) if !items.is_empty() => items,
        _ => {
            found.push(format!("`{key}` is missing or empty"));
            &[]
        }
    }
}

/// Checks that every assistant message with calls is followed by exactly its tool messages.
fn chat(body: &Value, found: &mut Vec<String>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let messages = list(body, "messages", found);
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        match role {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                if !open.remove(id) {
                    found.push(format!("message {index}: no call `{id}` is open"));
                }
                if !message["content"].is_string() {
                    found.push(format!("message {index}: content is not a string"));
                }
                continue;
            }
            "system" | "developer" if index == 0 => {}
            "user" => {}
            "assistant" => {}
            other => found.push(format!("message {index}: role `{other}`")),
        }
        if !open.is_empty() {
            found.push(format!("message {index}: calls {open:?} are not answered"));
            open.clear();
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if id.is_empty() || !open.insert(id.clone()) {
                found.push(format!("message {index}: call id `{id}` is empty or used twice"));
            }
            if !call["function"]["arguments"].is_string() {
                found.push(format!("message {index}: arguments are not a text"));
            }
            all.insert(id);
        }
        if role == "assistant" && message["content"].is_null() && message["tool_calls"].is_null() {
            found.push(format!("message {index}: neither content nor calls"));
        }
    }
    if !open.is_empty() {
        found.push(format!("calls {open:?} are not answered"));
    }
    if messages.last().is_some_and(|last| last["role"] == "assistant") {
        found.push("the last message is the assistant's".to_owned());
    }
    all
}

fn responses(body: &Value, found: &mut Vec<String>) -> BTreeSet<String> {
    let (mut calls, mut answered) = (BTreeSet::new(), BTreeSet::new());
    if body["store"] != false {
        found.push("`store` is not false".to_owned());
    }
    let model = body["model"].as_str().unwrap_or_default();
    if ["gpt-3", "gpt-4"].iter().any(|family| model.starts_with(family)) {
        // The service refuses these fields for models that do not reason.
        for key in ["include", "reasoning"].into_iter().filter(|key| !body[*key].is_null()) {
            found.push(format!("`{key}` is not supported with the model `{model}`"));
        }
    }
    for (index, item) in list(body, "input", found).iter().enumerate() {
        let id = || item["call_id"].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str() {
            Some("function_call") => {
                if !item["arguments"].is_string() {
                    found.push(format!("item {index}: arguments are not a text"));
                }
                calls.insert(id());
            }
            Some("function_call_output") => {
                if !calls.contains(&id()) {
                    found.push(format!("item {index}: no call `{}` before it", id()));
                }
                answered.insert(id());
            }
            Some("message") | Some("reasoning") => {}
            other => found.push(format!("item {index}: type {other:?}")),
        }
    }
    for call in calls.difference(&answered) {
        found.push(format!("the call `{call}` is not answered"));
    }
    calls
}

/// Checks that roles alternate and that results answer all calls of the previous message.
fn messages(body: &Value, found: &mut Vec<String>) -> BTreeSet<String> {
    for key in ["temperature", "top_p", "top_k"] {
        if !body[key].is_null() {
            found.push(format!("`{key}` is not accepted"));
        }
    }
    if body["max_tokens"].as_u64().is_none_or(|count| count == 0) {
        found.push("`max_tokens` is missing".to_owned());
    }
    if body.to_string().matches("\"cache_control\"").count() > 4 {
        found.push("more than four blocks with `cache_control`".to_owned());
    }
    let (mut all, mut open) = (BTreeSet::new(), BTreeSet::new());
    let mut last = "assistant";
    for (index, message) in list(body, "messages", found).iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == last {
            found.push(format!("message {index}: role `{role}` twice"));
        }
        last = if role == "user" { "user" } else { "assistant" };
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        if blocks.is_empty() {
            found.push(format!("message {index}: no content"));
        }
        let mut answered = BTreeSet::new();
        let mut others = false;
        for block in &blocks {
            let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
            match (role, block["type"].as_str().unwrap_or_default()) {
                ("user", "tool_result") => {
                    if others {
                        found.push(format!("message {index}: a result behind other blocks"));
                    }
                    answered.insert(text("tool_use_id"));
                }
                ("assistant", "tool_use") => {
                    if !block["input"].is_object() {
                        found.push(format!("message {index}: input is not an object"));
                    }
                    open.insert(text("id"));
                    all.insert(text("id"));
                }
                (_, "text") => {
                    others = true;
                    if text("text").is_empty() {
                        found.push(format!("message {index}: empty text"));
                    }
                }
                ("user", "image" | "document") => others = true,
                ("assistant", "thinking" | "redacted_thinking") => {}
                (_, kind) => found.push(format!("message {index}: block `{kind}` of {role}")),
            }
        }
        if role == "user" {
            if answered != open {
                found.push(format!("message {index}: calls {open:?} are answered by {answered:?}"));
            }
            open.clear();
        }
    }
    if last != "user" {
        found.push("the last message is the assistant's".to_owned());
    }
    all
}

fn ollama(body: &Value, found: &mut Vec<String>) -> BTreeSet<String> {
    let mut open = 0usize;
    for (index, message) in list(body, "messages", found).iter().enumerate() {
        if !message["content"].is_string() {
            found.push(format!("message {index}: content is not a string"));
        }
        if message["role"] == "tool" {
            match open.checked_sub(1) {
                Some(rest) => open = rest,
                None => found.push(format!("message {index}: a result without a call")),
            }
            continue;
        }
        if open > 0 {
            found.push(format!("message {index}: {open} calls are not answered"));
        }
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        open = calls.len();
        if calls.iter().any(|call| !call["function"]["arguments"].is_object()) {
            found.push(format!("message {index}: arguments are not an object"));
        }
    }
    if body["options"]["num_ctx"].as_u64().is_none() {
        found.push("`options.num_ctx` is missing".to_owned());
    }
    BTreeSet::new()
}
