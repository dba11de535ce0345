//! Parses responses from Ollama's own chat API: one JSON object per line.

use std::collections::VecDeque;
use std::sync::Arc;

use parallax_model_http::{
    Declarations, Decoder, ErrorPayload, EventError, function_call, random_call_id, thought,
};
use parallax_protocol::content::Part;
use parallax_protocol::model::{Chunk, Finish, FinishReason, Usage};
use serde_json::Value;

use crate::errors::without_status;

/// The decoder of one response.
pub(crate) struct OllamaDecoder {
    declarations: Arc<Declarations>,
    has_calls: bool,
    finished: bool,
}

impl OllamaDecoder {
    pub(crate) fn new(declarations: Arc<Declarations>) -> Self {
        Self { declarations, has_calls: false, finished: false }
    }
}

impl Decoder for OllamaDecoder {
    fn event(&mut self, data: &[u8], chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        let text = String::from_utf8_lossy(data);
        let event: Value = serde_json::from_str(&text).map_err(|_| EventError::NotJson)?;
        if event.get("error").is_some_and(|error| !error.is_null()) {
            let payload = without_status(ErrorPayload::from_value(&event).unwrap_or_default());
            return Err(EventError::Refused(Box::new(payload)));
        }
        let mut chunk = Chunk::default();
        let message = event.get("message");
        let field = |key: &str| message.and_then(|it| it.get(key)).and_then(Value::as_str);
        if let Some(text) = field("thinking").filter(|text| !text.is_empty()) {
            chunk.parts.push(thought(text.to_owned()));
        }
        if let Some(text) = field("content").filter(|text| !text.is_empty()) {
            chunk.parts.push(Part::text(text));
        }
        let calls = message.and_then(|it| it.get("tool_calls")).and_then(Value::as_array);
        for function in calls.into_iter().flatten().filter_map(|call| call.get("function")) {
            self.has_calls = true;
            let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
            let arguments = match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            let name = self.declarations.name_of(name);
            chunk.parts.push(function_call(&random_call_id(), &name, &arguments));
        }
        if event.get("done").and_then(Value::as_bool) == Some(true) {
            self.finished = true;
            let word = event.get("done_reason").and_then(Value::as_str).unwrap_or("stop");
            let reason = match word {
                "length" => FinishReason::MaxTokens,
                _ if self.has_calls => FinishReason::ToolCalls,
                _ => FinishReason::Stop,
            };
            chunk.finish = Some(Finish::new(reason, word));
            let model = event.get("model").and_then(Value::as_str);
            chunk.model_version = model.map(str::to_owned);
            let count = |key: &str| event.get(key).and_then(Value::as_u64).unwrap_or(0);
            let (prompt, output) = (count("prompt_eval_count"), count("eval_count"));
            let total = prompt.saturating_add(output);
            chunk.usage = Some(Usage { prompt, output, total, ..Usage::default() });
        }
        if !chunk.parts.is_empty() || chunk.finish.is_some() {
            chunks.push_back(chunk);
        }
        Ok(())
    }

    fn end(&mut self, _chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        if self.finished { Ok(()) } else { Err(EventError::Incomplete) }
    }
}
