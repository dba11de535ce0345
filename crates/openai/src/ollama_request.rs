//! Builds requests for Ollama's own chat API.

use parallax_model_http::{Declarations, Dialogue, ModelPart, Turn, UserPart, wire_name};
use parallax_protocol::Object;
use parallax_protocol::model::Request;
use serde_json::{Value, json};

use crate::generation::Generation;

/// What is needed to build a request body, in addition to the request.
pub(crate) struct OllamaRequestContext<'a> {
    /// The model id at the provider.
    pub(crate) model: &'a str,
    pub(crate) generation: &'a Generation,
    pub(crate) declarations: &'a Declarations,
    /// The context window that is requested from the server, in tokens.
    pub(crate) context: u64,
    /// Whether thinking is enabled.
    pub(crate) think: bool,
}

/// Returns the body of a request.
pub(crate) fn body(
    request: &Request,
    dialogue: Dialogue,
    format: &OllamaRequestContext<'_>,
) -> Value {
    let generation = format.generation;
    let mut options = json!({"num_ctx": format.context});
    for (key, value) in [
        ("temperature", &generation.temperature),
        ("top_p", &generation.top_p),
        ("seed", &generation.seed),
        ("stop", &generation.stop),
        ("num_predict", &generation.max_tokens),
    ] {
        if let Some(value) = value {
            options[key] = value.clone();
        }
    }
    let mut body = json!({"model": format.model, "stream": true, "options": options});
    if let Some(effort) = generation.effort.as_deref().filter(|_| format.think) {
        body["think"] = match effort {
            "minimal" | "none" => json!(false),
            "low" | "medium" | "high" if format.model.starts_with("gpt-oss") => json!(effort),
            _ => json!(true),
        };
    }
    if let Some(schema) = &generation.schema {
        body["format"] = schema.clone();
    } else if generation.json {
        body["format"] = json!("json");
    }
    if !format.declarations.list.is_empty() {
        let tools = format.declarations.list.iter().map(|it| {
            json!({"type": "function", "function": {"name": it.name,
                "description": it.description, "parameters": it.schema}})
        });
        body["tools"] = tools.collect();
    }
    body["messages"] = Value::Array(messages(request, dialogue));
    body
}

fn messages(request: &Request, dialogue: Dialogue) -> Vec<Value> {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": &*request.system}));
    }
    for turn in dialogue.turns {
        match turn {
            Turn::Model(pieces) => messages.push(assistant(pieces)),
            Turn::User { results, pieces } => {
                let mut media = Vec::new();
                for result in results {
                    messages.push(json!({"role": "tool", "tool_name": wire_name(&result.name),
                        "content": result.text}));
                    media.extend(result.media.into_iter().map(UserPart::Media));
                }
                media.extend(pieces);
                messages.extend(user(media));
            }
        }
    }
    messages
}

fn user(pieces: Vec<UserPart>) -> Option<Value> {
    if pieces.is_empty() {
        return None;
    }
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            UserPart::Text(text) => texts.push(text),
            UserPart::Media(media) if media.is_image() => images.push(media.data),
            UserPart::Media(media) => texts.push(media.placeholder_text()),
        }
    }
    let mut message = json!({"role": "user", "content": texts.join("\n\n")});
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    Some(message)
}

fn assistant(pieces: Vec<ModelPart>) -> Value {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            ModelPart::Text { text: more, .. } => text.push_str(&more),
            ModelPart::Call { name, arguments, .. } => {
                let arguments: Object = serde_json::from_str(&arguments).unwrap_or_default();
                calls.push(json!({"function": {"name": wire_name(&name), "arguments": arguments}}));
            }
            ModelPart::Opaque(_) => {}
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}
