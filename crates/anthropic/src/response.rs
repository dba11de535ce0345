//! Parses responses of the Messages API.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parallax_model_http::{
    Declarations, Decoder, ErrorPayload, EventError, function_call, thought,
};
use parallax_protocol::Object;
use parallax_protocol::content::Part;
use parallax_protocol::model::{Chunk, Citation, Finish, FinishReason, Refusal, Usage};
use serde_json::Value;
use serde_json::value::to_raw_value;

use crate::errors::status_of;

/// An event. Fields of an unexpected type count as absent, because later versions may add events.
struct MessagesEvent(Object);

impl MessagesEvent {
    fn kind(&self) -> &str {
        self.0.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    fn index(&self) -> u64 {
        self.0.get("index").and_then(Value::as_u64).unwrap_or_default()
    }

    fn object(&mut self, key: &str) -> Object {
        match self.0.get_mut(key).map(Value::take) {
            Some(Value::Object(object)) => object,
            _ => Object::new(),
        }
    }
}

/// A block under construction.
enum Block {
    Text,
    Call {
        id: String,
        name: String,
        input: String,
    },
    /// A block that is sent back unchanged: thinking, or a block of a hosted tool.
    Verbatim {
        fields: Object,
        input: String,
    },
}

/// The decoder of one response.
pub(crate) struct MessagesDecoder {
    declarations: Arc<Declarations>,
    blocks: BTreeMap<u64, Block>,
    usage: Usage,
    /// The usage reported at the start, until it is emitted.
    prompt_usage: Option<Usage>,
    finish: Option<Finish>,
    finish_message: Option<String>,
    response_id: Option<String>,
    model: Option<String>,
    finished: bool,
}

impl MessagesDecoder {
    pub(crate) fn new(declarations: Arc<Declarations>) -> Self {
        Self {
            declarations,
            blocks: BTreeMap::new(),
            usage: Usage::default(),
            prompt_usage: None,
            finish: None,
            finish_message: None,
            response_id: None,
            model: None,
            finished: false,
        }
    }

    fn start_block(&mut self, index: u64, block: Object, chunk: &mut Chunk) {
        // Some servers start the next block without stopping this one.
        self.stop_block(index, chunk);
        let text =
            |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let started = match text("type").as_str() {
            "text" => {
                push_text(chunk, text("text"));
                Block::Text
            }
            "tool_use" => {
                let input = match block.get("input") {
                    Some(Value::Object(input)) if !input.is_empty() => {
                        Value::Object(input.clone()).to_string()
                    }
                    _ => String::new(),
                };
                Block::Call { id: text("id"), name: text("name"), input }
            }
            _ => {
                let thinking = text("thinking");
                if !thinking.is_empty() {
                    chunk.parts.push(thought(thinking));
                }
                add_sources(&block, chunk);
                Block::Verbatim { fields: block, input: String::new() }
            }
        };
        self.blocks.insert(index, started);
    }

    fn apply_delta(&mut self, index: u64, delta: &Object, chunk: &mut Chunk) {
        let text = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        // Some servers do not start text blocks.
        let block = self.blocks.entry(index).or_insert(Block::Text);
        match (text("type"), block) {
            ("text_delta", Block::Text) => push_text(chunk, text("text").to_owned()),
            ("input_json_delta", Block::Call { input, .. } | Block::Verbatim { input, .. }) => {
                input.push_str(text("partial_json"));
            }
            ("thinking_delta", Block::Verbatim { fields, .. }) => {
                append(fields, "thinking", text("thinking"));
                if !text("thinking").is_empty() {
                    chunk.parts.push(thought(text("thinking").to_owned()));
                }
            }
            ("signature_delta", Block::Verbatim { fields, .. }) => {
                append(fields, "signature", text("signature"));
            }
            ("citations_delta", Block::Text) => {
                let citation = delta.get("citation");
                let field = |key: &str| citation?.get(key)?.as_str().map(str::to_owned);
                if let Some(uri) = field("url") {
                    chunk.citations.push(Citation { title: field("title"), uri });
                }
            }
            _ => {}
        }
    }

    fn stop_block(&mut self, index: u64, chunk: &mut Chunk) {
        match self.blocks.remove(&index) {
            Some(Block::Call { id, name, input }) => {
                let name = self.declarations.name_of(&name);
                chunk.parts.push(function_call(&id, &name, &input));
            }
            // Thinking that was cut off has no signature, so no service accepts it.
            Some(Block::Verbatim { fields, .. })
                if fields.get("type").is_some_and(|kind| kind == "thinking")
                    && fields.get("signature").is_none_or(|it| it.as_str() == Some("")) => {}
            Some(Block::Verbatim { mut fields, input }) => {
                if let Ok(input @ Value::Object(_)) = serde_json::from_str(&input) {
                    fields.insert("input".to_owned(), input);
                }
                chunk.parts.extend(to_raw_value(&fields).ok().map(Part::opaque_thought));
            }
            Some(Block::Text) | None => {}
        }
    }

    fn add_usage(&mut self, usage: &Value) {
        let count = |key: &str| usage.get(key).and_then(Value::as_u64);
        let old = self.usage;
        let cached = count("cache_read_input_tokens").unwrap_or(old.cached);
        let cache_write = count("cache_creation_input_tokens").unwrap_or(old.cache_write);
        let fresh = count("input_tokens").unwrap_or_else(|| {
            let known = old.cached.saturating_add(old.cache_write);
            old.prompt.saturating_sub(known)
        });
        let all = count("output_tokens").unwrap_or(old.output.saturating_add(old.thought));
        let details = usage.get("output_tokens_details");
        let thought = details.and_then(|it| it.get("thinking_tokens")).and_then(Value::as_u64);
        let thought = thought.unwrap_or(old.thought).min(all);
        let prompt = fresh.saturating_add(cached).saturating_add(cache_write);
        self.usage = Usage {
            prompt,
            output: all - thought,
            thought,
            cached,
            cache_write,
            total: prompt.saturating_add(all),
            tool_prompt: 0,
            charged_cost: None,
        };
    }

    fn finish(&mut self, delta: &Object) {
        let Some(word) = delta.get("stop_reason").and_then(Value::as_str) else { return };
        let reason = match word {
            "end_turn" | "stop_sequence" => FinishReason::Stop,
            "tool_use" => FinishReason::ToolCalls,
            "max_tokens" => FinishReason::MaxTokens,
            "refusal" => FinishReason::Refused(Refusal::Safety),
            "pause_turn" => FinishReason::Paused,
            "model_context_window_exceeded" => FinishReason::ContextFull,
            _ => FinishReason::Unknown,
        };
        self.finish = Some(Finish::new(reason, word));
        let details = delta.get("stop_details");
        let field = |key: &str| details?.get(key)?.as_str().map(str::to_owned);
        self.finish_message = field("explanation").or_else(|| field("category"));
    }

    /// Completes the message.
    fn complete(&mut self, chunks: &mut VecDeque<Chunk>) {
        self.finished = true;
        let mut last = Chunk::default();
        while let Some(index) = self.blocks.keys().next().copied() {
            self.stop_block(index, &mut last);
        }
        let finish = self.finish.take();
        chunks.push_back(Chunk {
            parts: last.parts,
            finish: finish.or_else(|| Some(Finish::new(FinishReason::Stop, "message_stop"))),
            finish_message: self.finish_message.take(),
            usage: Some(self.usage),
            response_id: self.response_id.take(),
            model_version: self.model.take(),
            ..Chunk::default()
        });
    }
}

impl Decoder for MessagesDecoder {
    fn event(&mut self, data: &[u8], chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        let text = String::from_utf8_lossy(data);
        let event = serde_json::from_str(&text).map_err(|_| EventError::NotJson)?;
        let mut event = MessagesEvent(event);
        let mut chunk = Chunk::default();
        let (kind, index) = (event.kind().to_owned(), event.index());
        // Gateways add errors to other events.
        if kind == "error" || event.0.get("error").is_some_and(|error| !error.is_null()) {
            let mut payload = ErrorPayload::from_value(&Value::Object(event.0)).unwrap_or_default();
            let status = status_of(payload.kind.as_deref());
            payload.code.get_or_insert(status);
            return Err(EventError::Refused(Box::new(payload)));
        }
        match kind.as_str() {
            "message_start" => {
                let message = event.object("message");
                if let Some(usage) = message.get("usage") {
                    self.add_usage(usage);
                    self.prompt_usage = Some(self.usage);
                }
                let id = message.get("id").and_then(Value::as_str);
                self.response_id = id.map(str::to_owned);
                let model = message.get("model").and_then(Value::as_str);
                self.model = model.map(str::to_owned);
            }
            "content_block_start" => {
                self.start_block(index, event.object("content_block"), &mut chunk);
            }
            "content_block_delta" => self.apply_delta(index, &event.object("delta"), &mut chunk),
            "content_block_stop" => self.stop_block(index, &mut chunk),
            "message_delta" => {
                self.add_usage(&Value::Object(event.object("usage")));
                self.finish(&event.object("delta"));
            }
            "message_stop" => {
                self.complete(chunks);
                return Ok(());
            }
            // `ping`, and events that later versions add.
            _ => {}
        }
        if !chunk.parts.is_empty() || !chunk.citations.is_empty() {
            // The prompt is charged even if the rest does not arrive.
            chunk.usage = self.prompt_usage.take();
            chunks.push_back(chunk);
        }
        Ok(())
    }

    fn end(&mut self, chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        match (self.finished, &self.finish) {
            (true, _) => Ok(()),
            // Only the last event is missing.
            (false, Some(_)) => {
                self.complete(chunks);
                Ok(())
            }
            (false, None) => Err(EventError::Incomplete),
        }
    }
}

fn push_text(chunk: &mut Chunk, text: String) {
    if !text.is_empty() {
        chunk.parts.push(Part::text(text));
    }
}

fn append(fields: &mut Object, key: &str, more: &str) {
    match fields.get_mut(key) {
        Some(Value::String(text)) => text.push_str(more),
        _ => {
            fields.insert(key.to_owned(), Value::String(more.to_owned()));
        }
    }
}

/// Adds the results of a hosted search as sources of the answer.
fn add_sources(block: &Object, chunk: &mut Chunk) {
    let results = block.get("content").and_then(Value::as_array);
    for result in results.into_iter().flatten() {
        let field = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(uri) = field("url") {
            chunk.citations.push(Citation { title: field("title"), uri });
        }
    }
}

#[cfg(test)]
mod tests;
