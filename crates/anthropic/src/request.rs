//! Builds requests of the Messages API.

use parallax_model_http::{
    Declaration, Declarations, Dialogue, Media, ModelPart, OpaqueFormat, ToolResult, Turn,
    UserPart, wire_name,
};
use parallax_protocol::Object;
use parallax_protocol::content::Role;
use parallax_protocol::model::{Request, ToolSet};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::rejected::{OmittedContent, OptionalField};

/// Image types that the API accepts.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// What is needed to build a request body, in addition to the request.
pub(crate) struct MessagesRequestContext<'a> {
    /// The model id at the provider.
    pub(crate) model: &'a str,
    /// The fields of the generation settings.
    pub(crate) generation: Object,
    pub(crate) declarations: &'a Declarations,
    pub(crate) rejected: &'a OmittedContent,
    /// Whether the request continues a turn that the service paused.
    pub(crate) resumes_pause: bool,
}

#[derive(Serialize)]
struct MessagesBody<'a> {
    model: &'a str,
    stream: bool,
    #[serde(flatten)]
    generation: Object,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Vec<WireMessage>,
}

#[derive(Serialize)]
struct WireMessage {
    role: &'static str,
    content: Vec<Block>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block {
    Parallax(Value),
    /// A block exactly as the service sent it.
    Verbatim(Box<RawValue>),
}

impl Block {
    /// Whether it is thinking of the model.
    fn is_thinking(&self) -> bool {
        #[derive(Deserialize)]
        struct BlockKind {
            #[serde(rename = "type", default)]
            kind: String,
        }
        let Self::Verbatim(data) = self else { return false };
        serde_json::from_str(data.get())
            .is_ok_and(|block: BlockKind| matches!(&*block.kind, "thinking" | "redacted_thinking"))
    }
}

/// Returns the body of a request.
pub(crate) fn body(
    request: &Request,
    dialogue: Dialogue,
    mut format: MessagesRequestContext<'_>,
) -> Vec<u8> {
    let mut messages = messages(request, dialogue, format.rejected, format.resumes_pause);
    let declared = format.declarations.list.iter();
    let mut tools: Vec<Value> =
        declared.filter(|it| !format.rejected.has_tool(&it.name)).map(tool).collect();
    match request.tools {
        ToolSet::WebSearch => {
            tools.push(json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5}));
        }
        ToolSet::None | ToolSet::Functions(_) | ToolSet::UrlContext => {}
    }
    let mut system = Vec::new();
    if !request.system.trim().is_empty() {
        system.push(json!({"type": "text", "text": &*request.system}));
    }
    if !format.rejected.has_field(format.model, OptionalField::CacheControl) {
        let users = messages.iter_mut().rev().filter(|message| message.role == "user");
        // The next request reads the newest two from the cache.
        let newest = users.take(2).filter_map(|message| match message.content.last_mut() {
            Some(Block::Parallax(block)) => Some(block),
            _ => None,
        });
        for block in newest.chain(tools.last_mut()).chain(system.last_mut()) {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
    }
    if is_budget(&format.generation) && continues_without_thinking(&messages) {
        format.generation.shift_remove("thinking");
    }
    let body = MessagesBody {
        model: format.model,
        stream: true,
        generation: format.generation,
        tools,
        system,
        messages,
    };
    // Strings and raw values cannot fail to serialize into memory.
    serde_json::to_vec(&body).unwrap_or_default()
}

fn tool(declaration: &Declaration) -> Value {
    let mut schema = declaration.schema.clone();
    if let Value::Object(fields) = &mut schema {
        // The API rejects these keywords at the top level. They only restrict what the properties
        // allow, and the tool validates its arguments itself.
        for key in ["oneOf", "anyOf", "allOf"] {
            fields.shift_remove(key);
        }
    }
    json!({"name": declaration.name, "description": declaration.description, "input_schema": schema})
}

fn is_budget(generation: &Object) -> bool {
    generation.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled")
}

/// Whether the current turn must continue without thinking. Models with a thinking budget can
/// continue a turn with thinking only if it started with thinking, which is not the case if another
/// model started it or the signature became invalid.
fn continues_without_thinking(messages: &[WireMessage]) -> bool {
    let [.., model, user] = messages else { return false };
    let has_results = matches!(user.content.first(),
        Some(Block::Parallax(block)) if block["type"] == "tool_result");
    has_results && !model.content.first().is_some_and(Block::is_thinking)
}

fn messages(
    request: &Request,
    dialogue: Dialogue,
    rejected: &OmittedContent,
    resumes_pause: bool,
) -> Vec<WireMessage> {
    let mut turns = dialogue.turns;
    // A turn that the service paused is sent back unchanged, because the user did not reply.
    let is_continued = resumes_pause
        && request.contents.last().is_some_and(|last| last.role() == Role::Model)
        && matches!(turns.as_slice(), [.., Turn::Model(_), Turn::User { results, .. }] if results.is_empty());
    if is_continued {
        turns.pop();
    }
    let mut messages: Vec<WireMessage> = Vec::new();
    for turn in turns {
        let (role, content) = match turn {
            Turn::User { results, pieces } => {
                let results = results.into_iter().map(|result| tool_result(result, rejected));
                let pieces = pieces.into_iter().filter_map(|piece| user_block(piece, rejected));
                ("user", results.chain(pieces).map(Block::Parallax).collect())
            }
            Turn::Model(pieces) => ("assistant", assistant_blocks(pieces, rejected)),
        };
        if content.is_empty() {
            continue;
        }
        match messages.last_mut() {
            // The turn between them was empty.
            Some(last) if last.role == role => last.content.extend(content),
            _ => messages.push(WireMessage { role, content }),
        }
    }
    // The first and last turns may have been empty.
    let is_user = |message: Option<&WireMessage>| message.is_some_and(|it| it.role == "user");
    if !is_user(messages.first()) {
        messages.insert(0, placeholder());
    }
    if !is_continued && !is_user(messages.last()) {
        messages.push(placeholder());
    }
    messages
}

fn placeholder() -> WireMessage {
    let text = json!({"type": "text", "text": "Continue."});
    WireMessage { role: "user", content: vec![Block::Parallax(text)] }
}

/// Returns the images and documents of a request: the indices of the message and its block, and the
/// data.
pub(crate) fn media(request: &Request, rejected: &OmittedContent) -> Vec<((usize, usize), String)> {
    let mut found = Vec::new();
    for (at, message) in messages(
        request,
        Dialogue::new(&request.contents, &request.model, OpaqueFormat::Messages),
        rejected,
        false,
    )
    .into_iter()
    .enumerate()
    {
        for (index, block) in message.content.into_iter().enumerate() {
            let Block::Parallax(mut block) = block else { continue };
            let nested = match block["content"].take() {
                Value::Array(nested) => nested,
                _ => Vec::new(),
            };
            for mut block in nested.into_iter().chain([block]) {
                if let Value::String(data) = block["source"]["data"].take() {
                    found.push(((at, index), data));
                }
            }
        }
    }
    found
}

fn assistant_blocks(pieces: Vec<ModelPart>, rejected: &OmittedContent) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for piece in pieces {
        match piece {
            ModelPart::Opaque(data) if rejected.has_thought(&data) => {}
            ModelPart::Opaque(data) => blocks.push(Block::Verbatim(data)),
            ModelPart::Text { text, .. } if text.trim().is_empty() => {}
            ModelPart::Text { text, .. } => {
                blocks.push(Block::Parallax(json!({"type": "text", "text": text})));
            }
            ModelPart::Call { id, name, arguments, .. } => {
                let input = match serde_json::from_str::<Value>(&arguments) {
                    Ok(input @ Value::Object(_)) => input,
                    // The API accepts only objects; this way the model sees what it wrote.
                    _ => json!({"invalid_json": arguments}),
                };
                blocks.push(Block::Parallax(json!({"type": "tool_use", "id": wire_id(&id),
                    "name": wire_name(&name), "input": input})));
            }
        }
    }
    // Trailing thinking is an error: the output limit was reached, or the turn was cancelled.
    while blocks.last().is_some_and(Block::is_thinking) {
        blocks.pop();
    }
    blocks
}

/// Converts an id of another provider; the API accepts letters, digits, `_`, and `-`.
fn wire_id(id: &str) -> String {
    wire_name(id)
}

fn tool_result(result: ToolResult, rejected: &OmittedContent) -> Value {
    let content = match result.media.is_empty() {
        true => json!(result.text),
        false => {
            let text = (!result.text.is_empty()).then_some(UserPart::Text(result.text));
            let media = result.media.into_iter().map(UserPart::Media);
            let pieces = text.into_iter().chain(media);
            Value::Array(pieces.filter_map(|piece| user_block(piece, rejected)).collect())
        }
    };
    let mut block =
        json!({"type": "tool_result", "tool_use_id": wire_id(&result.id), "content": content});
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}

fn user_block(piece: UserPart, rejected: &OmittedContent) -> Option<Value> {
    match piece {
        // The API rejects blank text.
        UserPart::Text(text) if text.trim().is_empty() => None,
        UserPart::Text(text) => Some(json!({"type": "text", "text": text})),
        UserPart::Media(media) => Some(media_block(&media, rejected)),
    }
}

fn media_block(media: &Media, rejected: &OmittedContent) -> Value {
    let mime = match media.mime.as_str() {
        "image/jpg" => "image/jpeg",
        mime => mime,
    };
    let source = || json!({"type": "base64", "media_type": mime, "data": media.data});
    if rejected.has_media(&media.data) {
        json!({"type": "text", "text": media.placeholder_text()})
    } else if IMAGES.contains(&mime) {
        json!({"type": "image", "source": source()})
    } else if media.is_pdf() {
        json!({"type": "document", "source": source()})
    } else {
        json!({"type": "text", "text": media.placeholder_text()})
    }
}

#[cfg(test)]
mod tests;
