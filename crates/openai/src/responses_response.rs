//! Parses responses of the Responses API.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use parallax_model_http::{
    Declarations, Decoder, ErrorPayload, EventError, function_call, random_call_id, thought,
};
use parallax_protocol::Object;
use parallax_protocol::content::Part;
use parallax_protocol::model::{Chunk, Citation, Finish, FinishReason, Refusal};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::errors::without_status;
use crate::usage::usage;

#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    delta: Option<Value>,
    #[serde(default)]
    item_id: Option<String>,
    #[serde(default)]
    summary_index: Option<u64>,
    #[serde(default, borrow)]
    item: Option<&'a RawValue>,
    #[serde(default, borrow)]
    response: Option<&'a RawValue>,
    #[serde(default)]
    annotation: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

/// The complete response, as in the last event.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WholeResponse<'a> {
    id: Option<String>,
    model: Option<String>,
    status: Option<String>,
    usage: Option<Value>,
    incomplete_details: Option<Value>,
    error: Option<Value>,
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

/// The decoder of one response.
pub(crate) struct ResponsesDecoder {
    declarations: Arc<Declarations>,
    /// Messages whose text was received in pieces.
    streamed_messages: BTreeSet<String>,
    /// Items that are complete.
    completed: BTreeSet<String>,
    has_calls: bool,
    has_refusal: bool,
    finished: bool,
}

impl ResponsesDecoder {
    pub(crate) fn new(declarations: Arc<Declarations>) -> Self {
        Self {
            declarations,
            streamed_messages: BTreeSet::new(),
            completed: BTreeSet::new(),
            has_calls: false,
            has_refusal: false,
            finished: false,
        }
    }

    /// Handles a complete item.
    fn handle_item(&mut self, raw: &RawValue, chunk: &mut Chunk) {
        let Ok(item) = serde_json::from_str::<Object>(raw.get()) else { return };
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        let id = text("id");
        if !id.is_empty() && !self.completed.insert(id.to_owned()) {
            return;
        }
        let picked = |keys: &[&str]| {
            let fields: Object = keys
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone())))
                .filter(|(_, value)| !value.is_null())
                .collect();
            (!fields.is_empty()).then(|| to_raw_value(&fields).ok()).flatten()
        };
        match text("type") {
            "message" => {
                let mut whole = String::new();
                if !self.streamed_messages.contains(id) {
                    let content = item.get("content").and_then(Value::as_array);
                    for piece in content.into_iter().flatten() {
                        let text = piece.get("text").or_else(|| piece.get("refusal"));
                        whole.push_str(text.and_then(Value::as_str).unwrap_or_default());
                    }
                }
                chunk.parts.push(Part::text(whole).with_opaque(picked(&["id", "phase"])));
            }
            "function_call" => {
                self.has_calls = true;
                let call_id = match text("call_id") {
                    "" => random_call_id(),
                    id => id.to_owned(),
                };
                let name = self.declarations.name_of(text("name"));
                let call = function_call(&call_id, &name, text("arguments"));
                chunk.parts.push(call.with_opaque(picked(&["id"])));
            }
            _ => chunk.parts.push(Part::opaque_thought(raw.to_owned())),
        }
    }

    fn complete(
        &mut self,
        kind: &str,
        raw: &RawValue,
        chunk: &mut Chunk,
    ) -> Result<(), EventError> {
        let response: WholeResponse<'_> =
            serde_json::from_str(raw.get()).map_err(|_| EventError::NotJson)?;
        if let Some(error) = response.error.filter(|error| !error.is_null()) {
            return Err(EventError::Refused(Box::new(error_payload(&error))));
        }
        if kind == "failed" || response.status.as_deref() == Some("failed") {
            return Err(EventError::Refused(Box::new(ErrorPayload {
                code: Some(500),
                message: "the response failed without an error message".to_owned(),
                ..ErrorPayload::default()
            })));
        }
        // Some gateways send the items only here.
        for item in &response.output {
            self.handle_item(item, chunk);
        }
        self.finished = true;
        let details = response.incomplete_details.unwrap_or_default();
        let word = match details.get("reason").and_then(Value::as_str) {
            Some(word) => word,
            None => kind,
        };
        let reason = match word {
            "max_output_tokens" => FinishReason::MaxTokens,
            "content_filter" => FinishReason::Refused(Refusal::Safety),
            _ if self.has_calls => FinishReason::ToolCalls,
            "completed" if self.has_refusal => FinishReason::Refused(Refusal::Safety),
            "completed" => FinishReason::Stop,
            _ => FinishReason::Other,
        };
        chunk.finish = Some(Finish::new(reason, word));
        chunk.usage = response.usage.as_ref().and_then(usage);
        chunk.response_id = response.id;
        chunk.model_version = response.model;
        Ok(())
    }
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, data: &[u8], chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        let text = String::from_utf8_lossy(data);
        let event: ResponsesEvent<'_> =
            serde_json::from_str(&text).map_err(|_| EventError::NotJson)?;
        let mut chunk = Chunk::default();
        let delta = || event.delta.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.has_refusal |= event.kind == "response.refusal.delta";
                self.streamed_messages.extend(event.item_id.clone());
                chunk.parts.push(Part::text(delta()));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                chunk.parts.push(thought(delta()));
            }
            "response.reasoning_summary_part.added" if event.summary_index.unwrap_or(0) > 0 => {
                chunk.parts.push(thought("\n\n".to_owned()));
            }
            "response.output_text.annotation.added" => {
                let annotation = event.annotation.unwrap_or_default();
                let field = |key: &str| annotation.get(key).and_then(Value::as_str);
                if let Some(uri) = field("url") {
                    let title = field("title").map(str::to_owned);
                    chunk.citations.push(Citation { title, uri: uri.to_owned() });
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.handle_item(item, &mut chunk);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.done" => {
                let kind = event.kind.trim_start_matches("response.");
                let kind = if kind == "done" { "completed" } else { kind };
                let whole = event.response.ok_or(EventError::NotJson)?;
                self.complete(kind, whole, &mut chunk)?;
            }
            "error" | "response.error" => {
                let whole: Value = serde_json::from_str(&text).unwrap_or_default();
                let error = event.error.unwrap_or(whole);
                return Err(EventError::Refused(Box::new(error_payload(&error))));
            }
            // An error of a gateway, without a type.
            "" if event.error.is_some() => {
                let error = event.error.unwrap_or_default();
                return Err(EventError::Refused(Box::new(error_payload(&error))));
            }
            _ => {}
        }
        let is_empty = chunk.parts.is_empty() && chunk.finish.is_none();
        if !is_empty || !chunk.citations.is_empty() {
            chunks.push_back(chunk);
        }
        Ok(())
    }

    fn end(&mut self, _chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        if self.finished { Ok(()) } else { Err(EventError::Incomplete) }
    }
}

/// Parses an error object, with the HTTP status that corresponds to its code.
fn error_payload(error: &Value) -> ErrorPayload {
    without_status(ErrorPayload::from_value(&json!({"error": error})).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_responses_are_errors_after_text() {
        for (event, code, message) in [
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}"#,
                500,
                "boom",
            ),
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"too long"}}}"#,
                400,
                "too long",
            ),
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#,
                500,
                "the response failed without an error message",
            ),
            (
                r#"{"type":"response.done","response":{"status":"failed"}}"#,
                500,
                "the response failed without an error message",
            ),
            (r#"{"type":"error","code":"rate_limit_exceeded","message":"slow"}"#, 429, "slow"),
            (r#"{"type":"response.error","error":{"message":"boom"}}"#, 500, "boom"),
            (r#"{"error":{"message":"boom","code":503}}"#, 503, "boom"),
        ] {
            let mut decoder = ResponsesDecoder::new(Arc::default());
            let mut chunks = VecDeque::new();
            let text = r#"{"type":"response.output_text.delta","delta":"half","item_id":"m"}"#;
            decoder.event(text.as_bytes(), &mut chunks).expect("text");
            let result = decoder.event(event.as_bytes(), &mut chunks);
            let Err(EventError::Refused(payload)) = result else { panic!("{event}: {result:?}") };
            assert_eq!((payload.code, payload.message.as_str()), (Some(code), message), "{event}");
        }
    }
}
