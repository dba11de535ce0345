//! Wire formats other than the Gemini API. The replies of a script, which are written for the
//! Gemini API, are converted to the format of the request, and the request is checked by the rules
//! of its format.

mod events;
mod rules;

use serde_json::{Value, json};

pub(crate) use events::WireEvents;
pub(crate) use rules::Rules;

/// A wire format, detected by the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// `/chat/completions`, as offered by OpenAI and many others.
    Chat,
    /// OpenAI's `/responses`.
    Responses,
    /// Anthropic's `/messages`.
    Messages,
    /// Ollama's `/api/chat`.
    Ollama,
}

impl WireFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Ollama];

    pub(crate) fn from_path(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        [
            ("/chat/completions", Self::Chat),
            ("/responses", Self::Responses),
            ("/messages", Self::Messages),
            ("/api/chat", Self::Ollama),
        ]
        .into_iter()
        .find_map(|(end, wire)| path.ends_with(end).then_some(wire))
    }

    /// Returns the content type of a stream.
    pub(crate) fn content_type(self) -> &'static str {
        if self == Self::Ollama { "application/x-ndjson" } else { "text/event-stream" }
    }

    /// Converts an error document of the Gemini API.
    pub(crate) fn error(self, status: u16, error: &Value) -> Value {
        let message = error.get("message").cloned().unwrap_or_default();
        let code = error.get("status").and_then(Value::as_str).unwrap_or_default();
        match self {
            Self::Chat | Self::Responses => {
                let param = error.get("param").cloned().unwrap_or_default();
                json!({"error": {"message": message, "type": "error", "param": param,
                    "code": code}})
            }
            Self::Messages => {
                let kind = match status {
                    400 | 422 => "invalid_request_error",
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    _ => "api_error",
                };
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Self::Ollama => json!({"error": message}),
        }
    }

    /// Converts a request to the Gemini API, as far as scripts examine it: the last content, the
    /// system instruction, and the model name.
    pub(crate) fn as_gemini(self, body: &Value) -> (Value, String) {
        let model = body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |key: &str| body.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let (items, system) = match self {
            Self::Responses => (list("input"), body.get("instructions").cloned()),
            Self::Messages => (list("messages"), body.get("system").cloned()),
            Self::Chat | Self::Ollama => {
                let messages = list("messages");
                let first = messages.first().filter(|it| it["role"] == "system").cloned();
                (messages, first)
            }
        };
        let from_model = |item: &Value| item["role"] == "assistant" || is_model_item(item);
        let start = items.iter().rposition(from_model).map_or(0, |index| index + 1);
        let mut parts = Vec::new();
        for item in items.iter().skip(start) {
            self.add_parts(item, &mut parts);
        }
        let system = json!([{"text": system.unwrap_or_default().to_string()}]);
        let contents = json!([{"role": "user", "parts": parts}]);
        (json!({"contents": contents, "systemInstruction": {"parts": system}}), model)
    }

    fn add_parts(self, item: &Value, parts: &mut Vec<Value>) {
        let result = |output: &Value| json!({"functionResponse": {"response": output}});
        match self {
            Self::Responses if item["type"] == "function_call_output" => {
                parts.push(result(&item["output"]));
            }
            Self::Chat | Self::Ollama if item["role"] == "tool" => {
                parts.push(result(&item["content"]));
            }
            _ => match &item["content"] {
                Value::String(text) => parts.push(json!({"text": text})),
                Value::Array(blocks) => {
                    for block in blocks {
                        match block["type"].as_str() {
                            Some("tool_result") => parts.push(result(&block["content"])),
                            _ => parts.push(json!({"text": block["text"]})),
                        }
                    }
                }
                _ => {}
            },
        }
    }
}

/// Whether an item of the Responses API comes from the model.
fn is_model_item(item: &Value) -> bool {
    matches!(item["type"].as_str(), Some("function_call" | "reasoning"))
}
