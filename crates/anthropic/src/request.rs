//! Writes requests of the Messages API.

use parallax_model_http::{
    Declarations, Dialogue, Media, ModelPiece, ToolResult, Turn, UserPiece, wire_name,
};
use parallax_protocol::Object;
use parallax_protocol::content::Sealed;
use parallax_protocol::model::{Request, ToolSet};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// Image types that the API reads.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// What a request depends on besides itself.
pub(crate) struct RequestFormat<'a> {
    /// The model's id for the provider.
    pub(crate) model: &'a str,
    /// The fields of the generation settings.
    pub(crate) generation: Object,
    pub(crate) declarations: &'a Declarations,
    /// Thinking blocks are not sent: the service rejected one.
    pub(crate) without_thoughts: bool,
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
    messages: Vec<Message>,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Box<RawValue>>,
}

/// The body of a request.
pub(crate) fn body(request: &Request, format: RequestFormat<'_>) -> Vec<u8> {
    let bare: Vec<Sealed>;
    let contents = match format.without_thoughts {
        true => {
            bare = request.contents.iter().map(without_origin).collect();
            &bare
        }
        false => &request.contents,
    };
    let messages = messages(Dialogue::new(contents, &request.model));
    let mut tools: Vec<Value> = format
        .declarations
        .list
        .iter()
        .map(
            |it| json!({"name": it.name, "description": it.description, "input_schema": it.schema}),
        )
        .collect();
    match request.tools {
        ToolSet::WebSearch => {
            tools.push(json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5}));
        }
        ToolSet::UrlContext => {
            tools.push(json!({"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 5}));
        }
        ToolSet::None | ToolSet::Functions(_) => {}
    }
    if let Some(last) = tools.last_mut() {
        last["cache_control"] = cache_control();
    }
    let system = match request.system.is_empty() {
        true => Vec::new(),
        false => {
            vec![
                json!({"type": "text", "text": &*request.system, "cache_control": cache_control()}),
            ]
        }
    };
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

fn cache_control() -> Value {
    json!({"type": "ephemeral"})
}

/// A content of the same bytes without its provider's data.
fn without_origin(sealed: &Sealed) -> Sealed {
    Sealed::from_json(sealed.raw().to_owned()).unwrap_or_else(|_| sealed.clone())
}

fn messages(dialogue: Dialogue) -> Vec<Message> {
    let user_turns = dialogue.turns.iter().filter(|it| matches!(it, Turn::User { .. })).count();
    let mut users = 0;
    dialogue
        .turns
        .into_iter()
        .map(|turn| match turn {
            Turn::User { results, pieces } => {
                users += 1;
                let results = results.into_iter().map(tool_result);
                let mut blocks: Vec<Value> =
                    results.chain(pieces.into_iter().map(user_block)).collect();
                if blocks.is_empty() {
                    blocks.push(json!({"type": "text", "text": "Continue."}));
                }
                // The newest two are read again by the next request.
                if users + 2 > user_turns
                    && let Some(last) = blocks.last_mut()
                {
                    last["cache_control"] = cache_control();
                }
                let content = blocks.iter().filter_map(|it| to_raw_value(it).ok()).collect();
                Message { role: "user", content }
            }
            Turn::Model(pieces) => Message {
                role: "assistant",
                content: pieces.into_iter().filter_map(assistant_block).collect(),
            },
        })
        .filter(|message| !message.content.is_empty())
        .collect()
}

fn assistant_block(piece: ModelPiece) -> Option<Box<RawValue>> {
    match piece {
        ModelPiece::Opaque(data) => Some(data),
        ModelPiece::Text { text, .. } if text.trim().is_empty() => None,
        ModelPiece::Text { text, .. } => to_raw_value(&json!({"type": "text", "text": text})).ok(),
        ModelPiece::Call { id, name, arguments, .. } => {
            let input = match serde_json::from_str::<Value>(&arguments) {
                Ok(input @ Value::Object(_)) => input,
                // The API takes objects only; the model sees what it wrote.
                _ => json!({"invalid_json": arguments}),
            };
            let block = json!({"type": "tool_use", "id": wire_id(&id), "name": wire_name(&name),
                "input": input});
            to_raw_value(&block).ok()
        }
    }
}

/// Ids may come from another provider; the API accepts letters, digits, `_`, and `-`.
fn wire_id(id: &str) -> String {
    wire_name(id)
}

fn tool_result(result: ToolResult) -> Value {
    let content = match result.media.is_empty() {
        true => json!(result.text),
        false => {
            let text = (!result.text.is_empty()).then_some(UserPiece::Text(result.text));
            let media = result.media.into_iter().map(UserPiece::Media);
            Value::Array(text.into_iter().chain(media).map(user_block).collect())
        }
    };
    let mut block =
        json!({"type": "tool_result", "tool_use_id": wire_id(&result.id), "content": content});
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}

fn user_block(piece: UserPiece) -> Value {
    match piece {
        UserPiece::Text(text) => json!({"type": "text", "text": text}),
        UserPiece::Media(media) => media_block(&media),
    }
}

fn media_block(media: &Media) -> Value {
    let source = || json!({"type": "base64", "media_type": media.mime, "data": media.data});
    if IMAGES.contains(&media.mime.as_str()) {
        json!({"type": "image", "source": source()})
    } else if media.is_pdf() {
        json!({"type": "document", "source": source()})
    } else {
        json!({"type": "text", "text": media.omitted()})
    }
}
