//! Converts chunks of the Gemini API to events of another wire format.

use serde_json::{Value, json};

use super::WireFormat;

/// The event stream of one reply.
#[derive(Debug)]
pub(crate) struct WireEvents {
    wire: WireFormat,
    /// Distinguishes the IDs of this reply from those of others.
    reply: usize,
    /// The number of blocks or items opened so far.
    opened_items: usize,
    sequence: usize,
    /// The kind of the open text block.
    block: Option<&'static str>,
    calls: usize,
    output: Vec<Value>,
    finish: Option<String>,
    usage: Value,
    started: bool,
    /// Opaque data that the client must send back unchanged, with the ID of the call that follows
    /// it.
    opaque: Vec<(Option<String>, Value)>,
}

impl WireEvents {
    pub(crate) fn new(wire: WireFormat, reply: usize) -> Self {
        Self {
            wire,
            reply,
            opened_items: 0,
            sequence: 0,
            block: None,
            calls: 0,
            output: Vec::new(),
            finish: None,
            usage: json!({}),
            started: false,
            opaque: Vec::new(),
        }
    }

    /// Returns the opaque data that the next request must contain, by the call that follows it.
    pub(crate) fn opaque(&self) -> Vec<(String, Value)> {
        let known = self.opaque.iter();
        known.filter_map(|(call, data)| Some((call.clone()?, data.clone()))).collect()
    }

    /// Returns the events of one chunk.
    pub(crate) fn chunk(&mut self, text: &str) -> Vec<String> {
        let chunk: Value = serde_json::from_str(text).unwrap_or_default();
        let mut events = Vec::new();
        self.start(&mut events);
        if let Some(usage) = chunk.get("usageMetadata") {
            self.usage = usage.clone();
        }
        if let Some(error) = chunk.get("error") {
            let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            let error = self.wire.error(code.unwrap_or(500), error);
            let event = match self.wire {
                WireFormat::Responses => {
                    json!({"type": "error", "message": error["error"]["message"]})
                }
                _ => error,
            };
            self.push(&mut events, &event);
            return events;
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part, &mut events);
        }
        if let Some(word) = candidate["finishReason"].as_str() {
            self.finish = Some(word.to_owned());
        }
        events
    }

    /// Returns the events at the end.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        let Some(word) = self.finish.clone() else { return events };
        self.close(&mut events);
        let count = |key: &str| self.usage[key].as_u64().unwrap_or(0);
        let (prompt, output) = (count("promptTokenCount"), count("candidatesTokenCount"));
        let (has_calls, cut) = (self.calls > 0, word == "MAX_TOKENS");
        match self.wire {
            WireFormat::Chat => {
                let reason = match (cut, has_calls) {
                    (true, _) => "length",
                    (_, true) => "tool_calls",
                    _ => "stop",
                };
                self.push(
                    &mut events,
                    &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
                );
                self.push(
                    &mut events,
                    &json!({"choices": [], "usage": {"prompt_tokens": prompt,
                    "completion_tokens": output, "total_tokens": prompt + output}}),
                );
                events.push("data: [DONE]\n\n".to_owned());
            }
            WireFormat::Responses => {
                let kind = if cut { "incomplete" } else { "completed" };
                let mut response = self.response(kind);
                response["output"] = json!(self.output);
                response["usage"] = json!({"input_tokens": prompt, "output_tokens": output,
                    "total_tokens": prompt + output, "input_tokens_details": {"cached_tokens": 0},
                    "output_tokens_details": {"reasoning_tokens": 0}});
                if cut {
                    response["incomplete_details"] = json!({"reason": "max_output_tokens"});
                }
                self.push(
                    &mut events,
                    &json!({"type": format!("response.{kind}"), "response": response}),
                );
            }
            WireFormat::Messages => {
                let reason = match (cut, has_calls) {
                    (true, _) => "max_tokens",
                    (_, true) => "tool_use",
                    _ => "end_turn",
                };
                self.push(
                    &mut events,
                    &json!({"type": "message_delta",
                    "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}}),
                );
                self.push(&mut events, &json!({"type": "message_stop"}));
            }
            WireFormat::Ollama => {
                let reason = if cut { "length" } else { "stop" };
                self.push(
                    &mut events,
                    &json!({"message": {"role": "assistant", "content": ""},
                    "model": "scripted", "done": true, "done_reason": reason,
                    "prompt_eval_count": prompt, "eval_count": output}),
                );
            }
        }
        events
    }

    fn start(&mut self, events: &mut Vec<String>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        match self.wire {
            WireFormat::Messages => {
                let message = json!({"id": format!("msg_{}", self.reply), "type": "message",
                    "role": "assistant", "model": "scripted", "content": [],
                    "stop_reason": null, "stop_sequence": null,
                    "usage": {"input_tokens": 100, "output_tokens": 1}});
                self.push(events, &json!({"type": "message_start", "message": message}));
                self.push(events, &json!({"type": "ping"}));
            }
            WireFormat::Responses => {
                let response = self.response("in_progress");
                self.push(events, &json!({"type": "response.created", "response": response}));
            }
            WireFormat::Chat => {
                let delta = json!({"role": "assistant", "content": ""});
                events.push(": keep-alive\n\n".to_owned());
                self.push(events, &json!({"choices": [{"index": 0, "delta": delta}]}));
            }
            WireFormat::Ollama => {}
        }
    }

    fn part(&mut self, part: &Value, events: &mut Vec<String>) {
        if let Some(call) = part.get("functionCall") {
            if let Some(signature) = part["thoughtSignature"].as_str() {
                self.thought("", signature, events);
            }
            return self.call(call, events);
        }
        let Some(text) = part["text"].as_str() else { return };
        match (part["thought"] == true, part["thoughtSignature"].as_str()) {
            (true, signature) => self.thought(text, signature.unwrap_or("c2ln"), events),
            (false, _) => self.text(text, events),
        }
    }

    fn text(&mut self, text: &str, events: &mut Vec<String>) {
        match self.wire {
            WireFormat::Chat => {
                self.push(events, &json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
            }
            WireFormat::Ollama => {
                self.push(
                    events,
                    &json!({"message": {"role": "assistant", "content": text}, "done": false}),
                );
            }
            WireFormat::Responses => {
                let id = format!("msg_{}_{}", self.reply, self.opened_items);
                let index = self.output.len() - usize::from(self.block.is_some());
                if self.block.is_none() {
                    self.block = Some("text");
                    let empty = json!({"type": "message", "id": id, "role": "assistant",
                        "status": "in_progress", "content": []});
                    self.push(
                        events,
                        &json!({"type": "response.output_item.added", "output_index": index,
                        "item": empty}),
                    );
                    let part = json!({"type": "output_text", "text": "", "annotations": []});
                    self.push(
                        events,
                        &json!({"type": "response.content_part.added", "item_id": id,
                        "output_index": index, "content_index": 0, "part": part}),
                    );
                    self.output.push(json!({"type": "message", "id": id, "role": "assistant",
                        "status": "completed", "content": [part]}));
                }
                if let Some(Value::String(whole)) =
                    self.output.last_mut().and_then(|item| item.pointer_mut("/content/0/text"))
                {
                    whole.push_str(text);
                }
                self.push(
                    events,
                    &json!({"type": "response.output_text.delta", "item_id": id,
                    "output_index": index, "content_index": 0, "delta": text, "logprobs": []}),
                );
            }
            WireFormat::Messages => {
                if self.block.is_none() {
                    self.block = Some("text");
                    let block = json!({"type": "text", "text": ""});
                    self.push(
                        events,
                        &json!({"type": "content_block_start",
                        "index": self.opened_items, "content_block": block}),
                    );
                }
                let delta = json!({"type": "text_delta", "text": text});
                self.push(
                    events,
                    &json!({"type": "content_block_delta", "index": self.opened_items,
                    "delta": delta}),
                );
            }
        }
    }

    /// Closes the open text block.
    fn close(&mut self, events: &mut Vec<String>) {
        if self.block.take().is_none() {
            return;
        }
        match self.wire {
            WireFormat::Responses => {
                let index = self.output.len().saturating_sub(1);
                let item = self.output.last().cloned().unwrap_or_default();
                let (id, part) = (&item["id"], &item["content"][0]);
                let at = |kind: &str, key: &str, value: &Value| {
                    let mut event = json!({"type": kind, "item_id": id, "output_index": index,
                        "content_index": 0, "logprobs": []});
                    event[key] = value.clone();
                    event
                };
                let text = at("response.output_text.done", "text", &part["text"]);
                let whole = at("response.content_part.done", "part", part);
                self.push(events, &text);
                self.push(events, &whole);
                self.push(
                    events,
                    &json!({"type": "response.output_item.done", "output_index": index,
                    "item": item}),
                );
            }
            WireFormat::Messages => {
                self.push(
                    events,
                    &json!({"type": "content_block_stop", "index": self.opened_items}),
                );
            }
            WireFormat::Chat | WireFormat::Ollama => {}
        }
        self.opened_items += 1;
    }

    /// Emits reasoning with opaque data, if the wire format supports it.
    fn thought(&mut self, text: &str, signature: &str, events: &mut Vec<String>) {
        self.close(events);
        match self.wire {
            WireFormat::Chat => {
                if !text.is_empty() {
                    let delta = json!({"reasoning_content": text});
                    self.push(events, &json!({"choices": [{"index": 0, "delta": delta}]}));
                }
            }
            WireFormat::Ollama => {
                self.push(
                    events,
                    &json!({"message": {"role": "assistant", "content": "",
                    "thinking": text}, "done": false}),
                );
            }
            WireFormat::Responses => {
                let item = json!({"type": "reasoning", "id": format!("rs_{}_{}", self.reply, self.opened_items),
                    "summary": [{"type": "summary_text", "text": text}],
                    "encrypted_content": signature, "later_field": 1.5});
                let index = self.output.len();
                // The item is incomplete until it is done.
                let mut empty = item.clone();
                (empty["summary"], empty["encrypted_content"]) = (json!([]), json!("c2hvcnQ="));
                let events_of = |event: &str, key: &str, value: Value| {
                    let mut event = json!({"type": format!("response.{event}"),
                        "item_id": item["id"], "output_index": index, "summary_index": 0});
                    event[key] = value;
                    event
                };
                let part = json!({"type": "summary_text", "text": text});
                let nothing = json!({"type": "summary_text", "text": ""});
                for event in [
                    json!({"type": "response.output_item.added", "output_index": index, "item": empty}),
                    events_of("reasoning_summary_part.added", "part", nothing),
                    events_of("reasoning_summary_text.delta", "delta", json!(text)),
                    events_of("reasoning_summary_text.done", "text", json!(text)),
                    events_of("reasoning_summary_part.done", "part", part),
                    json!({"type": "response.output_item.done", "output_index": index, "item": item}),
                ] {
                    self.push(events, &event);
                }
                self.output.push(item.clone());
                self.opaque.push((None, item));
                self.opened_items += 1;
            }
            WireFormat::Messages => {
                let index = self.opened_items;
                let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                self.push(
                    events,
                    &json!({"type": "content_block_start", "index": index, "content_block": block}),
                );
                let delta = json!({"type": "thinking_delta", "thinking": text});
                self.push(
                    events,
                    &json!({"type": "content_block_delta", "index": index, "delta": delta}),
                );
                let delta = json!({"type": "signature_delta", "signature": signature});
                self.push(
                    events,
                    &json!({"type": "content_block_delta", "index": index, "delta": delta}),
                );
                self.push(events, &json!({"type": "content_block_stop", "index": index}));
                let block = json!({"type": "thinking", "thinking": text, "signature": signature});
                self.opaque.push((None, block));
                self.opened_items += 1;
            }
        }
    }

    fn call(&mut self, call: &Value, events: &mut Vec<String>) {
        self.close(events);
        let number = self.calls;
        self.calls += 1;
        let id = match call["id"].as_str() {
            Some(id) => id.to_owned(),
            None => format!("call_{}_{number}", self.reply),
        };
        for (owner, _) in self.opaque.iter_mut().filter(|(owner, _)| owner.is_none()) {
            *owner = Some(id.clone());
        }
        let (name, args) = (&call["name"], &call["args"]);
        let arguments = match args {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.clone(),
            args => args.to_string(),
        };
        // Sent in two pieces, split at a character boundary.
        let half =
            (0..=arguments.len() / 2).rev().find(|&offset| arguments.is_char_boundary(offset));
        let (head, tail) = arguments.split_at(half.unwrap_or(0));
        match self.wire {
            WireFormat::Chat => {
                let first = json!([{"index": number, "id": id, "type": "function",
                    "function": {"name": name, "arguments": head}}]);
                let second = json!([{"index": number, "function": {"arguments": tail}}]);
                for calls in [first, second] {
                    self.push(
                        events,
                        &json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}),
                    );
                }
            }
            WireFormat::Ollama => {
                let calls = json!([{"function": {"name": name, "arguments": args}}]);
                self.push(
                    events,
                    &json!({"message": {"role": "assistant", "content": "",
                    "tool_calls": calls}, "done": false}),
                );
            }
            WireFormat::Responses => {
                let item = json!({"type": "function_call", "id": format!("fc_{}_{number}", self.reply),
                    "call_id": id, "name": name, "arguments": arguments, "status": "completed"});
                let index = self.output.len();
                let mut empty = item.clone();
                (empty["arguments"], empty["status"]) = (json!(""), json!("in_progress"));
                for event in [
                    json!({"type": "response.output_item.added", "output_index": index, "item": empty}),
                    json!({"type": "response.function_call_arguments.delta",
                        "item_id": item["id"], "output_index": index, "delta": arguments}),
                    json!({"type": "response.function_call_arguments.done", "name": name,
                        "item_id": item["id"], "output_index": index, "arguments": arguments}),
                    json!({"type": "response.output_item.done", "output_index": index, "item": item}),
                ] {
                    self.push(events, &event);
                }
                self.output.push(item);
                self.opened_items += 1;
            }
            WireFormat::Messages => {
                let index = self.opened_items;
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.push(
                    events,
                    &json!({"type": "content_block_start", "index": index, "content_block": block}),
                );
                for piece in ["", head, tail] {
                    let delta = json!({"type": "input_json_delta", "partial_json": piece});
                    self.push(
                        events,
                        &json!({"type": "content_block_delta", "index": index, "delta": delta}),
                    );
                }
                self.push(events, &json!({"type": "content_block_stop", "index": index}));
                self.opened_items += 1;
            }
        }
    }

    /// Returns the response object of the Responses API.
    fn response(&self, status: &str) -> Value {
        json!({"id": format!("resp_{}", self.reply), "object": "response", "created_at": 0,
            "model": "scripted", "status": status, "output": [], "parallel_tool_calls": true,
            "tool_choice": "auto", "tools": [], "error": null, "incomplete_details": null})
    }

    fn push(&mut self, events: &mut Vec<String>, event: &Value) {
        let mut event = event.clone();
        match self.wire {
            WireFormat::Responses => {
                event["sequence_number"] = json!(self.sequence);
                self.sequence += 1;
            }
            WireFormat::Chat if event.get("choices").is_some() => {
                for (key, value) in [
                    ("id", json!(format!("chatcmpl_{}", self.reply))),
                    ("object", json!("chat.completion.chunk")),
                    ("created", json!(0)),
                    ("model", json!("scripted")),
                ] {
                    event[key] = value;
                }
            }
            _ => {}
        }
        events.push(match self.wire {
            WireFormat::Ollama => format!("{event}\n"),
            WireFormat::Messages => {
                format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("error"))
            }
            WireFormat::Chat | WireFormat::Responses => format!("data: {event}\n\n"),
        });
    }
}
