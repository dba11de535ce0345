//! Builds requests of the Chat Completions API.

use parallax_model_http::{
    Declarations, Dialogue, Media, ModelPart, ToolResult, Turn, UserPart, wire_name,
};
use parallax_models::{MaxTokensField, Quirks, ReasoningField};
use parallax_protocol::Object;
use parallax_protocol::model::{Request, ToolSet};
use serde_json::{Value, json};

use crate::generation::Generation;
use crate::strict_schema::is_strict;

/// What is needed to build a request body, in addition to the request.
pub(crate) struct ChatRequestContext<'a> {
    /// The model id at the provider.
    pub(crate) model: &'a str,
    pub(crate) quirks: &'a Quirks,
    /// Whether PDF files can be sent.
    pub(crate) accepts_files: bool,
    /// OpenRouter's `provider` setting.
    pub(crate) routing: Option<&'a Object>,
    pub(crate) generation: &'a Generation,
    pub(crate) declarations: &'a Declarations,
    /// `prompt_cache_key`, if supported.
    pub(crate) cache_key: Option<&'a str>,
}

/// Returns the body of a request.
pub(crate) fn body(
    request: &Request,
    dialogue: Dialogue,
    format: &ChatRequestContext<'_>,
) -> Value {
    let quirks = format.quirks;
    let has_calls = dialogue.turns.iter().any(|turn| match turn {
        Turn::Model(pieces) => pieces.iter().any(|it| matches!(it, ModelPart::Call { .. })),
        Turn::User { .. } => false,
    });
    let mut body = json!({"model": format.model, "stream": true});
    if quirks.usage_in_stream != Some(false) {
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(key) = format.cache_key {
        body["prompt_cache_key"] = json!(key);
    }
    if !format.declarations.list.is_empty() {
        let tools = format.declarations.list.iter().map(|it| {
            let mut function = json!({"name": it.name, "description": it.description,
                "parameters": it.schema});
            if quirks.strict_schemas == Some(true) && is_strict(&it.schema) {
                function["strict"] = json!(true);
            }
            json!({"type": "function", "function": function})
        });
        body["tools"] = tools.collect();
        if let Some(parallel) = quirks.parallel_tool_calls {
            body["parallel_tool_calls"] = json!(parallel);
        }
    } else if has_calls && quirks.empty_tools_with_history == Some(true) {
        body["tools"] = json!([]);
    }
    add_generation(&mut body, format);
    if let Some(routing) = format.routing.filter(|routing| !routing.is_empty()) {
        body["provider"] = Value::Object(routing.clone());
    }
    if matches!(request.tools, ToolSet::WebSearch) && format.routing.is_some() {
        body["plugins"] = json!([{"id": "web"}]);
    }
    body["messages"] = Value::Array(messages(request, dialogue, format));
    body
}

fn add_generation(body: &mut Value, format: &ChatRequestContext<'_>) {
    let generation = format.generation;
    let max_tokens = match format.quirks.max_tokens_field {
        Some(MaxTokensField::MaxCompletionTokens) => "max_completion_tokens",
        Some(MaxTokensField::MaxTokens) | None => "max_tokens",
    };
    for (key, value) in [
        ("temperature", &generation.temperature),
        ("top_p", &generation.top_p),
        ("seed", &generation.seed),
        ("stop", &generation.stop),
        (max_tokens, &generation.max_tokens),
    ] {
        if let Some(value) = value {
            body[key] = value.clone();
        }
    }
    if let Some(effort) = &generation.effort {
        body["reasoning_effort"] = json!(effort);
    }
    if let Some(schema) = &generation.schema {
        body["response_format"] = json!({"type": "json_schema", "json_schema": {
            "name": "answer", "schema": schema,
            "strict": format.quirks.strict_schemas == Some(true) && is_strict(schema)}});
    } else if generation.json {
        body["response_format"] = json!({"type": "json_object"});
    }
}

fn messages(request: &Request, dialogue: Dialogue, format: &ChatRequestContext<'_>) -> Vec<Value> {
    let quirks = format.quirks;
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        let role = if quirks.developer_role == Some(true) { "developer" } else { "system" };
        messages.push(json!({"role": role, "content": &*request.system}));
    }
    for turn in dialogue.turns {
        match turn {
            Turn::Model(pieces) => messages.push(assistant(pieces, format)),
            Turn::User { results, pieces } => {
                push_user_messages(results, pieces, format, &mut messages)
            }
        }
    }
    messages
}

fn assistant(pieces: Vec<ModelPart>, format: &ChatRequestContext<'_>) -> Value {
    let quirks = format.quirks;
    let reasoning = match quirks.reasoning_field {
        Some(ReasoningField::Reasoning) => "reasoning",
        _ => "reasoning_content",
    };
    let mut message = json!({"role": "assistant"});
    if quirks.echo_reasoning() {
        // DeepSeek rejects messages without reasoning, and with empty reasoning, such as those of
        // another provider.
        message[reasoning] = json!(" ");
    }
    let (mut text, mut calls) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            ModelPart::Text { text: more, .. } => text.push_str(&more),
            ModelPart::Call { id, name, arguments, opaque } => {
                let mut call = json!({"id": id, "type": "function",
                    "function": {"name": wire_name(&name), "arguments": arguments}});
                let extra = opaque.and_then(|data| serde_json::from_str::<Object>(data.get()).ok());
                for (key, value) in extra.into_iter().flatten() {
                    call[key] = value;
                }
                calls.push(call);
            }
            ModelPart::Opaque(data) => {
                let Ok(Value::Object(fields)) = serde_json::from_str(data.get()) else { continue };
                for (key, value) in fields {
                    match key.as_str() {
                        "reasoning_details" => message[key] = value,
                        "reasoning" if quirks.echo_reasoning() => message[reasoning] = value,
                        _ => {}
                    }
                }
            }
        }
    }
    message["content"] = match text.is_empty() {
        true if calls.is_empty() || quirks.non_null_assistant_content == Some(true) => json!(""),
        true => Value::Null,
        false => json!(text),
    };
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

fn push_user_messages(
    results: Vec<ToolResult>,
    pieces: Vec<UserPart>,
    format: &ChatRequestContext<'_>,
    messages: &mut Vec<Value>,
) {
    let has_results = !results.is_empty();
    let mut media = Vec::new();
    for result in results {
        let mut text = result.text;
        if !result.media.is_empty() {
            // Tool messages cannot contain media.
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str("[The file follows in the next user message.]");
            media.extend(result.media);
        }
        let mut message = json!({"role": "tool", "tool_call_id": result.id, "content": text});
        if format.quirks.tool_result_name == Some(true) {
            message["name"] = json!(wire_name(&result.name));
        }
        messages.push(message);
    }
    let media = media.into_iter().map(UserPart::Media);
    let pieces: Vec<UserPart> = media.chain(pieces).collect();
    if pieces.is_empty() {
        return;
    }
    if has_results && format.quirks.assistant_after_tool_result == Some(true) {
        messages.push(json!({"role": "assistant", "content": "I have read the results."}));
    }
    messages.push(json!({"role": "user", "content": user_content(pieces, format)}));
}

/// Returns a string if there is only text, because some servers accept nothing else.
fn user_content(pieces: Vec<UserPart>, format: &ChatRequestContext<'_>) -> Value {
    let mut items: Vec<Value> = Vec::new();
    let mut only_text = true;
    let mut texts: Vec<String> = Vec::new();
    for piece in pieces {
        let text = match piece {
            UserPart::Text(text) => text,
            UserPart::Media(media) => match media_item(&media, format.accepts_files) {
                Some(item) => {
                    only_text = false;
                    items.push(item);
                    continue;
                }
                None => media.placeholder_text(),
            },
        };
        items.push(json!({"type": "text", "text": text}));
        texts.push(text);
    }
    if only_text { json!(texts.join("\n\n")) } else { Value::Array(items) }
}

fn media_item(media: &Media, takes_files: bool) -> Option<Value> {
    if media.is_image() {
        return Some(json!({"type": "image_url", "image_url": {"url": media.data_url()}}));
    }
    (media.is_pdf() && takes_files).then(
        || json!({"type": "file", "file": {"filename": "file.pdf", "file_data": media.data_url()}}),
    )
}
