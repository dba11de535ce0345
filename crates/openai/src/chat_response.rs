//! Parses responses of the Chat Completions API, including deviations of servers.

use std::collections::VecDeque;
use std::sync::Arc;

use parallax_model_http::{
    Declarations, Decoder, ErrorPayload, EventError, function_call, random_call_id, thought,
};
use parallax_protocol::Object;
use parallax_protocol::content::Part;
use parallax_protocol::excerpt::one_line;
use parallax_protocol::model::{Chunk, Citation, Finish, FinishReason, Refusal};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::errors::without_status;
use crate::tagged_thought::{TaggedText, ThoughtTags};
use crate::usage::usage;

/// A call under construction.
#[derive(Debug, Default)]
struct CallInProgress {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Fields besides the function that are sent back with the call.
    extra: Object,
}

/// The decoder of one response.
pub(crate) struct ChatDecoder {
    declarations: Arc<Declarations>,
    tags: ThoughtTags,
    calls: Vec<CallInProgress>,
    reasoning: String,
    details: Vec<Value>,
    /// Whether anything visible was received.
    has_text: bool,
    finished: bool,
    /// The calls that were emitted: ids, names, and arguments.
    emitted_calls: Vec<(String, String, String)>,
}

impl ChatDecoder {
    pub(crate) fn new(declarations: Arc<Declarations>) -> Self {
        Self {
            declarations,
            tags: ThoughtTags::default(),
            calls: Vec::new(),
            reasoning: String::new(),
            details: Vec::new(),
            has_text: false,
            finished: false,
            emitted_calls: Vec::new(),
        }
    }

    fn apply_delta(&mut self, delta: &Object, chunk: &mut Chunk) {
        for key in ["reasoning_content", "reasoning"] {
            if let Some(Value::String(text)) = delta.get(key)
                && !text.is_empty()
            {
                self.reasoning.push_str(text);
                chunk.parts.push(thought(text.clone()));
                break;
            }
        }
        if let Some(Value::Array(details)) = delta.get("reasoning_details") {
            for detail in details {
                let has_plain = delta.contains_key("reasoning");
                if let Some(text) = reasoning_text(detail).filter(|_| !has_plain) {
                    chunk.parts.push(thought(text.to_owned()));
                }
                add_detail(&mut self.details, detail);
            }
        }
        for key in ["content", "refusal"] {
            if let Some(text) = delta.get(key).and_then(text_of) {
                let pieces = self.tags.push(&text);
                self.show(pieces, chunk);
            }
        }
        if let Some(Value::Array(calls)) = delta.get("tool_calls") {
            for call in calls.iter().filter_map(Value::as_object) {
                self.apply_call_delta(call);
            }
        }
        // The older format with a single call.
        if let Some(Value::Object(function)) = delta.get("function_call") {
            let mut call = Object::new();
            call.insert("index".to_owned(), json!(0));
            call.insert("function".to_owned(), Value::Object(function.clone()));
            self.apply_call_delta(&call);
        }
        let annotations = delta.get("annotations").and_then(Value::as_array);
        for annotation in annotations.into_iter().flatten() {
            let Some(source) = annotation.get("url_citation") else { continue };
            let field = |key: &str| source.get(key).and_then(Value::as_str).map(str::to_owned);
            chunk
                .citations
                .push(Citation { title: field("title"), uri: field("url").unwrap_or_default() });
        }
    }

    fn show(&mut self, pieces: impl IntoIterator<Item = TaggedText>, chunk: &mut Chunk) {
        for piece in pieces {
            match piece {
                TaggedText::Thought(text) => {
                    self.reasoning.push_str(&text);
                    chunk.parts.push(thought(text));
                }
                TaggedText::Text(text) => {
                    self.has_text |= !text.trim().is_empty();
                    chunk.parts.push(Part::text(text));
                }
            }
        }
    }

    fn apply_call_delta(&mut self, delta: &Object) {
        fn text(value: Option<&Value>) -> &str {
            value.and_then(Value::as_str).unwrap_or_default()
        }
        let index = delta.get("index").and_then(Value::as_u64);
        let id = text(delta.get("id"));
        let function = delta.get("function").and_then(Value::as_object);
        let name = text(function.and_then(|it| it.get("name")));
        let position = self.position(index, id, name);
        let Some(call) = self.calls.get_mut(position) else { return };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        // Some servers repeat the name, others send it in pieces.
        if !name.is_empty() && call.name != name {
            if call.arguments.is_empty() {
                call.name.push_str(name);
            } else if call.name.is_empty() {
                name.clone_into(&mut call.name);
            }
        }
        match function.and_then(|it| it.get("arguments")) {
            Some(Value::String(more)) => call.arguments.push_str(more),
            Some(whole @ Value::Object(_)) => call.arguments = whole.to_string(),
            _ => {}
        }
        if let Some(extra) = delta.get("extra_content") {
            call.extra.insert("extra_content".to_owned(), extra.clone());
        }
    }

    /// Returns the index of the call that a delta belongs to, and adds a call if necessary.
    fn position(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let differs =
            |call: &CallInProgress| !id.is_empty() && !call.id.is_empty() && call.id != id;
        let known = match index {
            // Some servers send index 0 for all calls.
            Some(_) => self.calls.iter().rposition(|call| call.index == index && !differs(call)),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            // Without an index and an id, a name starts another call once arguments were received.
            None => {
                self.calls.iter().rposition(|_| true).filter(|&last| {
                    name.is_empty() || !is_complete_json(&self.calls[last].arguments)
                })
            }
        };
        known.unwrap_or_else(|| {
            self.calls.push(CallInProgress { index, ..CallInProgress::default() });
            self.calls.len() - 1
        })
    }

    /// Emits held-back output and the finish reason.
    fn complete(&mut self, word: &str, chunk: &mut Chunk) {
        self.finished = true;
        let rest = self.tags.finish();
        self.show(rest, chunk);
        chunk.parts.extend(self.reasoning_part());
        let calls = std::mem::take(&mut self.calls);
        let has_calls = !calls.is_empty() || !self.emitted_calls.is_empty();
        for call in calls.into_iter().filter(|call| !call.name.is_empty()) {
            self.emitted_calls.push((call.id.clone(), call.name.clone(), call.arguments.clone()));
            chunk.parts.push(self.call_part(call));
        }
        let reason = match word {
            "length" | "max_tokens" => FinishReason::MaxTokens,
            "content_filter" => FinishReason::Refused(Refusal::Safety),
            _ if has_calls => FinishReason::ToolCalls,
            "" | "stop" | "eos" | "tool_calls" | "function_call" | "end_turn" => FinishReason::Stop,
            _ => FinishReason::Unknown,
        };
        chunk.finish = Some(Finish::new(reason, word));
    }

    fn reasoning_part(&mut self) -> Option<Part> {
        let mut data = Object::new();
        if !self.details.is_empty() {
            let details = std::mem::take(&mut self.details);
            data.insert("reasoning_details".to_owned(), Value::Array(details));
        }
        let reasoning = std::mem::take(&mut self.reasoning);
        if !reasoning.is_empty() {
            data.insert("reasoning".to_owned(), Value::String(reasoning));
        }
        if data.is_empty() {
            return None;
        }
        to_raw_value(&data).ok().map(Part::opaque_thought)
    }

    fn call_part(&self, call: CallInProgress) -> Part {
        let id = if call.id.is_empty() { random_call_id() } else { call.id };
        let name = self.declarations.name_of(&call.name);
        let opaque: Option<Box<RawValue>> =
            (!call.extra.is_empty()).then(|| to_raw_value(&call.extra).ok()).flatten();
        function_call(&id, &name, &call.arguments).with_opaque(opaque)
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, data: &[u8], chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        let text = String::from_utf8_lossy(data);
        let event: Value = serde_json::from_str(&text).map_err(|_| EventError::NotJson)?;
        let Value::Object(fields) = &event else { return Err(EventError::NotJson) };
        let is_error = fields.get("error").is_some_and(|error| !error.is_null())
            || fields.get("object").is_some_and(|object| object == "error");
        if is_error {
            let payload = without_status(ErrorPayload::from_value(&event).unwrap_or_default());
            return Err(EventError::Refused(Box::new(payload)));
        }
        let mut chunk = Chunk { usage: fields.get("usage").and_then(usage), ..Chunk::default() };
        let choice = fields.get("choices").and_then(|choices| choices.get(0));
        if let Some(choice) = choice {
            if let Some(payload) = choice_error(choice) {
                return Err(EventError::Refused(Box::new(payload)));
            }
            let delta = choice.get("delta").filter(|it| it.is_object()).or(choice.get("message"));
            if let Some(Value::Object(delta)) = delta {
                self.apply_delta(delta, &mut chunk);
            }
            if let Some(Value::String(word)) = choice.get("finish_reason")
                && !word.is_empty()
                && !self.finished
            {
                let is_empty = !self.has_text && self.calls.is_empty() && self.reasoning.is_empty();
                let visible = chunk.parts.iter().any(|part| !part.is_thought());
                if word == "length" && is_empty && !visible {
                    return Err(EventError::Refused(Box::new(output_limit_error())));
                }
                self.complete(word, &mut chunk);
            }
        }
        if chunk.finish.is_some() {
            let id = fields.get("id").and_then(Value::as_str);
            chunk.response_id = id.map(str::to_owned);
            let model = fields.get("model").and_then(Value::as_str);
            chunk.model_version = model.map(str::to_owned);
        }
        if !chunk.parts.is_empty() || chunk.finish.is_some() || chunk.usage.is_some() {
            chunks.push_back(chunk);
        }
        Ok(())
    }

    fn end(&mut self, chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        if self.finished {
            // Some servers send a finish reason with each chunk, or repeat all calls at the end.
            let emitted = std::mem::take(&mut self.emitted_calls);
            self.calls.retain(|call| {
                let is_same = |(id, name, arguments): &(String, String, String)| match id.as_str() {
                    "" => *name == call.name && *arguments == call.arguments,
                    id => id == call.id,
                };
                is_complete_json(&call.arguments) && !emitted.iter().any(is_same)
            });
            self.emitted_calls = emitted;
            if !self.calls.is_empty() {
                let mut chunk = Chunk::default();
                self.complete("", &mut chunk);
                chunks.push_back(chunk);
            }
            return Ok(());
        }
        let whole_calls = !self.calls.is_empty()
            && self
                .calls
                .iter()
                .all(|call| !call.name.is_empty() && is_complete_json(&call.arguments));
        if !whole_calls && (!self.calls.is_empty() || !self.has_text) {
            return Err(EventError::Incomplete);
        }
        let mut chunk = Chunk::default();
        self.complete("", &mut chunk);
        chunks.push_back(chunk);
        Ok(())
    }
}

/// Returns the error that ended a choice: OpenRouter puts the one of the provider behind it there.
/// Without an object, the finish reason says that there was one.
fn choice_error(choice: &Value) -> Option<ErrorPayload> {
    if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
        let payload = ErrorPayload::from_value(&json!({"error": error})).unwrap_or_default();
        return Some(without_status(payload));
    }
    if choice.get("finish_reason").and_then(Value::as_str) != Some("error") {
        return None;
    }
    let native = choice.get("native_finish_reason").and_then(Value::as_str);
    let native = native.filter(|word| !matches!(*word, "" | "error"));
    let reason = native.map(|word| format!(" (`{}`)", one_line(word))).unwrap_or_default();
    Some(ErrorPayload {
        code: Some(502),
        message: format!("the provider ended the answer with an error{reason}"),
        ..ErrorPayload::default()
    })
}

/// Returns the error for an output limit that was reached without output: the prompt fills the
/// context window.
fn output_limit_error() -> ErrorPayload {
    ErrorPayload {
        code: Some(400),
        message: "the prompt exceeds the context length of the model: no output tokens were left"
            .to_owned(),
        ..ErrorPayload::default()
    }
}

/// Whether the arguments are complete.
fn is_complete_json(arguments: &str) -> bool {
    arguments.trim().is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

/// Returns the text of a string or of a list of text items.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let texts = items.iter().filter_map(|item| item.get("text").and_then(Value::as_str));
            Some(texts.collect())
        }
        _ => None,
    }
    .filter(|text: &String| !text.is_empty())
}

fn reasoning_text(detail: &Value) -> Option<&str> {
    let text = detail.get("text").or_else(|| detail.get("summary"))?;
    text.as_str().filter(|text| !text.is_empty())
}

/// Adds a piece of a detail; pieces with the same index and type are joined.
fn add_detail(details: &mut Vec<Value>, detail: &Value) {
    let key = |value: &Value| (value.get("index").cloned(), value.get("type").cloned());
    let last = details.last_mut().filter(|last| key(last).0.is_some() && key(last) == key(detail));
    let (Some(Value::Object(last)), Value::Object(detail)) = (last, detail) else {
        details.push(detail.clone());
        return;
    };
    for (name, value) in detail {
        match (last.get_mut(name), value, name.as_str()) {
            (Some(Value::String(text)), Value::String(more), "text" | "summary" | "data") => {
                text.push_str(more);
            }
            (_, Value::Null, _) => {}
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::content::PartView;

    /// Returns the names of the calls that a stream of events contains.
    fn calls(events: &[Value]) -> Vec<String> {
        let mut decoder = ChatDecoder::new(Arc::default());
        let mut chunks = VecDeque::new();
        for event in events {
            decoder.event(event.to_string().as_bytes(), &mut chunks).expect("an event");
        }
        decoder.end(&mut chunks).expect("an end");
        let parts = chunks.iter().flat_map(|chunk| &chunk.parts);
        let name = |part: &Part| match part.view() {
            PartView::Call(call) => Some(call.name.to_string()),
            _ => None,
        };
        parts.filter_map(name).collect()
    }

    fn call(name: &str, id: &str) -> Value {
        let function = json!({"name": name, "arguments": "{}"});
        json!({"choices": [{"finish_reason": "tool_calls",
            "delta": {"tool_calls": [{"index": 0, "id": id, "function": function}]}}]})
    }

    #[test]
    fn calls_after_a_finish_reason_are_kept_but_not_repeated() {
        let text = json!({"choices": [{"finish_reason": "stop", "delta": {"content": "hey"}}]});
        assert_eq!(calls(&[text, call("glob", "x")]), ["glob"]);
        assert_eq!(calls(&[call("glob", "x"), call("glob", "x")]), ["glob"]);
    }

    #[test]
    fn choice_error_fails_the_answer() {
        let upstream = json!({"code": 400, "message": "Provider returned error",
            "metadata": {"raw": "{\"error\":{\"message\":\"prompt is too long\"}}"}});
        for (mut choice, code, message) in [
            (json!({"error": upstream}), 400, "prompt is too long"),
            (json!({"error": "boom"}), 500, "boom"),
            (json!({"error": {"code": "rate_limit_exceeded"}}), 429, ""),
            (json!({}), 502, "the provider ended the answer with an error"),
            (
                json!({"error": null, "native_finish_reason": "MALFORMED_FUNCTION_CALL"}),
                502,
                "the provider ended the answer with an error (`MALFORMED_FUNCTION_CALL`)",
            ),
        ] {
            choice["finish_reason"] = json!("error");
            choice["delta"] = json!({"content": ""});
            let mut decoder = ChatDecoder::new(Arc::default());
            let mut chunks = VecDeque::new();
            let text = json!({"choices": [{"delta": {"content": "half"}}]}).to_string();
            decoder.event(text.as_bytes(), &mut chunks).expect("text");
            let event = json!({"choices": [choice]}).to_string();
            let result = decoder.event(event.as_bytes(), &mut chunks);
            let Err(EventError::Refused(payload)) = result else { panic!("{event}: {result:?}") };
            assert_eq!((payload.code, payload.message.as_str()), (Some(code), message));
        }
    }
}
