//! Builds requests of the Responses API, without state at the service.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use parallax_model_http::{
    Declarations, Dialogue, Media, ModelPart, ToolResult, Turn, UserPart, wire_name,
};
use parallax_models::Quirks;
use parallax_protocol::Object;
use parallax_protocol::model::{Request, ToolSet};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::generation::Generation;
use crate::rejected_fields::RejectedFields;
use crate::strict_schema::is_strict;

/// What is needed to build a request body, in addition to the request.
pub(crate) struct ResponsesRequestContext<'a> {
    /// The model id at the provider.
    pub(crate) model: &'a str,
    pub(crate) quirks: &'a Quirks,
    pub(crate) generation: &'a Generation,
    pub(crate) declarations: &'a Declarations,
    pub(crate) cache_key: Option<&'a str>,
    /// Whether the model is known not to reason; such models reject fields about it.
    pub(crate) lacks_reasoning: bool,
    /// What the service rejected before.
    pub(crate) rejected: &'a RejectedFields,
}

#[derive(Serialize)]
struct ResponsesBody<'a> {
    #[serde(flatten)]
    settings: Object,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Box<RawValue>>,
}

/// Returns the body of a request.
pub(crate) fn body(
    request: &Request,
    dialogue: Dialogue,
    format: &ResponsesRequestContext<'_>,
) -> Vec<u8> {
    let body = ResponsesBody {
        settings: settings(request, format),
        instructions: &request.system,
        input: input(dialogue),
    };
    // Strings and raw values cannot fail to serialize into memory.
    serde_json::to_vec(&body).unwrap_or_default()
}

fn settings(request: &Request, format: &ResponsesRequestContext<'_>) -> Object {
    let (quirks, generation) = (format.quirks, format.generation);
    let mut body = json!({"model": format.model, "stream": true, "store": false});
    let mut reasoning = Object::new();
    if !format.lacks_reasoning {
        body["include"] = json!(["reasoning.encrypted_content"]);
        reasoning.insert("summary".to_owned(), json!("auto"));
    }
    if let Some(key) = format.cache_key {
        body["prompt_cache_key"] = json!(key);
    }
    let strict = quirks.strict_schemas == Some(true);
    let mut tools: Vec<Value> = format
        .declarations
        .list
        .iter()
        .map(|it| {
            json!({"type": "function", "name": it.name, "description": it.description,
                "parameters": it.schema, "strict": strict && is_strict(&it.schema)})
        })
        .collect();
    if matches!(request.tools, ToolSet::WebSearch) {
        tools.push(json!({"type": "web_search"}));
    }
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
        body["parallel_tool_calls"] = json!(quirks.parallel_tool_calls.unwrap_or(true));
    }
    for (key, value) in [
        ("temperature", &generation.temperature),
        ("top_p", &generation.top_p),
        ("max_output_tokens", &generation.max_tokens),
    ] {
        if let Some(value) = value {
            body[key] = value.clone();
        }
    }
    if let Some(effort) = &generation.effort {
        reasoning.insert("effort".to_owned(), json!(effort));
    }
    if !reasoning.is_empty() {
        body["reasoning"] = Value::Object(reasoning);
    }
    if let Some(schema) = &generation.schema {
        body["text"] = json!({"format": {"type": "json_schema", "name": "answer",
            "schema": schema, "strict": strict && is_strict(schema)}});
    } else if generation.json {
        body["text"] = json!({"format": {"type": "json_object"}});
    }
    let Value::Object(mut fields) = body else { return Object::new() };
    format.rejected.filter(&request.model, &mut fields);
    fields
}

/// Returns the hashes of the reasoning in a dialogue.
pub(crate) fn reasoning(dialogue: &Dialogue) -> Vec<u64> {
    let pieces = dialogue.turns.iter().flat_map(|turn| match turn {
        Turn::Model(pieces) => pieces.as_slice(),
        Turn::User { .. } => &[],
    });
    pieces.filter_map(reasoning_of).collect()
}

fn reasoning_of(piece: &ModelPart) -> Option<u64> {
    let ModelPart::Opaque(data) = piece else { return None };
    let item: Object = serde_json::from_str(data.get()).ok()?;
    // An item of the Responses API, or the reasoning of Chat Completions through OpenRouter.
    let is_reasoning = item.get("type").and_then(Value::as_str) == Some("reasoning")
        || item.contains_key("reasoning_details");
    is_reasoning.then(|| {
        let mut hasher = DefaultHasher::new();
        data.get().hash(&mut hasher);
        hasher.finish()
    })
}

/// Removes rejected reasoning. The other items of such a turn lose the ids by which the service
/// expects the reasoning before them.
pub(crate) fn without_reasoning(mut dialogue: Dialogue, rejected: &HashSet<u64>) -> Dialogue {
    if rejected.is_empty() {
        return dialogue;
    }
    for turn in &mut dialogue.turns {
        let Turn::Model(pieces) = turn else { continue };
        let before = pieces.len();
        pieces.retain(|piece| reasoning_of(piece).is_none_or(|hash| !rejected.contains(&hash)));
        if pieces.len() == before {
            continue;
        }
        for piece in pieces {
            match piece {
                ModelPart::Text { opaque, .. } | ModelPart::Call { opaque, .. } => *opaque = None,
                ModelPart::Opaque(_) => {}
            }
        }
    }
    dialogue
}

fn input(dialogue: Dialogue) -> Vec<Box<RawValue>> {
    let mut items = Vec::new();
    // A value cannot fail to serialize into memory.
    let push = |items: &mut Vec<Box<RawValue>>, item: &Value| items.extend(to_raw_value(item).ok());
    for turn in dialogue.turns {
        match turn {
            Turn::User { results, pieces } => {
                results.into_iter().for_each(|result| push(&mut items, &output_item(result)));
                let content: Vec<Value> = pieces.into_iter().map(user_item).collect();
                if !content.is_empty() {
                    let item = json!({"type": "message", "role": "user", "content": content});
                    push(&mut items, &item);
                }
            }
            Turn::Model(pieces) => {
                for piece in pieces {
                    match piece {
                        ModelPart::Opaque(data) => items.push(data),
                        ModelPart::Text { text, opaque } => {
                            let content =
                                json!([{"type": "output_text", "text": text, "annotations": []}]);
                            let item =
                                json!({"type": "message", "role": "assistant", "content": content});
                            push(&mut items, &with_fields(item, opaque.as_deref()));
                        }
                        ModelPart::Call { id, name, arguments, opaque } => {
                            let item = json!({"type": "function_call", "call_id": id,
                                "name": wire_name(&name), "arguments": arguments});
                            push(&mut items, &with_fields(item, opaque.as_deref()));
                        }
                    }
                }
            }
        }
    }
    items
}

/// Adds the fields that the service sent with an item (`id`, `phase`).
fn with_fields(mut item: Value, opaque: Option<&RawValue>) -> Value {
    let fields = opaque.and_then(|data| serde_json::from_str::<Object>(data.get()).ok());
    for (key, value) in fields.into_iter().flatten() {
        item[key] = value;
    }
    item
}

fn output_item(result: ToolResult) -> Value {
    let output = match result.media.is_empty() {
        true => json!(result.text),
        false => {
            let text = (!result.text.is_empty()).then_some(UserPart::Text(result.text));
            let media = result.media.into_iter().map(UserPart::Media);
            Value::Array(text.into_iter().chain(media).map(user_item).collect())
        }
    };
    json!({"type": "function_call_output", "call_id": result.id, "output": output})
}

fn user_item(piece: UserPart) -> Value {
    match piece {
        UserPart::Text(text) => json!({"type": "input_text", "text": text}),
        UserPart::Media(media) => media_item(&media),
    }
}

fn media_item(media: &Media) -> Value {
    if media.is_image() {
        json!({"type": "input_image", "image_url": media.data_url()})
    } else if media.is_pdf() {
        json!({"type": "input_file", "filename": "file.pdf", "file_data": media.data_url()})
    } else {
        json!({"type": "input_text", "text": media.placeholder_text()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_reasoning_of_a_gateway_is_left_out() {
        let data = json!({"reasoning_details": [{"type": "reasoning.text", "signature": "S"}]});
        let opaque = || {
            let data = to_raw_value(&data).expect("JSON");
            let text = ModelPart::Text { text: "one".to_owned(), opaque: None };
            let mut dialogue = Dialogue::default();
            dialogue.turns.push(Turn::Model(vec![ModelPart::Opaque(data), text]));
            dialogue
        };
        let rejected: HashSet<u64> = reasoning(&opaque()).into_iter().collect();
        assert_eq!(rejected.len(), 1);
        let rest = without_reasoning(opaque(), &rejected);
        assert!(matches!(&rest.turns[..], [Turn::Model(parts)] if parts.len() == 1));
    }
}
