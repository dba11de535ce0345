//! Sends requests to a scripted server and collects the responses.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use parallax_anthropic::AnthropicOptions;
use parallax_model_http::{HttpModel, TransportOptions};
use parallax_protocol::content::{Content, Part, PartView, SealedContent};
use parallax_protocol::model::{
    Answer, Limits, Model, ModelCatalog, ModelError, Request, Retry, StreamEvent, ToolSet,
};
use parallax_protocol::secret::Secret;
use parallax_protocol::{CancellationToken, Object};
use serde_json::{Value, json};
use testkit::canned::{self, Server};

pub(crate) const KEY: &str = "sk-ant-a-very-secret-key";
pub(crate) const MODEL: &str = "anthropic:claude-sonnet-5";

#[derive(Debug)]
struct Catalog;

impl ModelCatalog for Catalog {
    fn limits(&self, _model: &str) -> Limits {
        Limits {
            context: 200_000,
            output: 64_000,
            multimodal_tool_results: true,
            shared_window: false,
        }
    }

    fn resolve(&self, name: &str) -> String {
        name.to_owned()
    }
}

pub(crate) fn options(base: &str) -> AnthropicOptions {
    let env = |name: &str| (name == "PARALLAX_RETRY_BASE_MS").then(|| "2".to_owned());
    let mut transport = TransportOptions::from_env(&env);
    transport.idle_timeout = Duration::from_millis(500);
    AnthropicOptions {
        base_url: base.to_owned(),
        base_url_source: "the test".to_owned(),
        key: Some(Secret::new(KEY)),
        bearer: false,
        credentials_hint: "`ANTHROPIC_API_KEY`".to_owned(),
        headers: Vec::new(),
        version: "1.0".to_owned(),
        transport,
    }
}

pub(crate) fn model(server: &Server) -> HttpModel {
    parallax_anthropic::model(options(&server.base), Arc::new(Catalog)).expect("a good base")
}

pub(crate) fn model_with(options: AnthropicOptions) -> HttpModel {
    parallax_anthropic::model(options, Arc::new(Catalog)).expect("a good base")
}

pub(crate) fn user(parts: Vec<Part>) -> SealedContent {
    Content::user(parts).seal()
}

pub(crate) fn request(contents: Vec<SealedContent>) -> Request {
    Request {
        model: MODEL.into(),
        system: "be brief".into(),
        contents,
        tools: ToolSet::None,
        generation: Object::new(),
        role: "main".into(),
        alias: String::new(),
        max_attempts: None,
        has_fallback: false,
        is_retry: false,
        continuation: None,
    }
}

pub(crate) fn hello() -> Request {
    request(vec![user(vec![Part::text("hi")])])
}

pub(crate) fn functions(declared: &Value) -> ToolSet {
    let declared = serde_json::value::to_raw_value(declared).expect("json");
    ToolSet::Functions(Arc::from(declared))
}

pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

/// Creates a function response with an output.
pub(crate) fn result(id: &str, name: &str, output: &str) -> Part {
    Part::function_response(Some(id), name, object(json!({"output": output})), Vec::new())
}

/// Formats an event.
pub(crate) fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

pub(crate) fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "model": "claude-sonnet-5", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 30, "output_tokens": 1}}})
}

pub(crate) fn stop(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 25, "output_tokens_details": {"thinking_tokens": 15}}}),
        json!({"type": "message_stop"}),
    ]
}

/// Creates the events of a block with its deltas.
pub(crate) fn block(index: u64, start: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "content_block_start", "index": index, "content_block": start})];
    events.extend(
        deltas
            .iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

pub(crate) fn text(index: u64, text: &str) -> Vec<Value> {
    let deltas = [json!({"type": "text_delta", "text": text})];
    block(index, json!({"type": "text", "text": ""}), &deltas)
}

pub(crate) fn thinking(index: u64, text: &str, signature: &str) -> Vec<Value> {
    let deltas = [
        json!({"type": "thinking_delta", "thinking": text}),
        json!({"type": "signature_delta", "signature": signature}),
    ];
    block(index, json!({"type": "thinking", "thinking": "", "signature": ""}), &deltas)
}

pub(crate) fn tool_use(index: u64, id: &str, name: &str, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<Value> = pieces
        .iter()
        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
        .collect();
    let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    block(index, start, &deltas)
}

/// Creates the events of a message.
pub(crate) fn message(blocks: Vec<Vec<Value>>, reason: &str) -> Vec<Value> {
    let mut events = vec![start(), json!({"type": "ping"})];
    events.extend(blocks.into_iter().flatten());
    events.extend(stop(reason));
    events
}

/// Creates a complete stream of events.
pub(crate) fn stream(events: &[Value]) -> canned::CannedResponse {
    let mut answer = cut(events);
    answer.push(canned::ResponsePiece::Bytes(b"0\r\n\r\n".to_vec()));
    answer
}

/// Creates a stream whose connection is closed early.
pub(crate) fn cut(events: &[Value]) -> canned::CannedResponse {
    let mut answer = canned::head();
    answer.extend(events.iter().map(|it| canned::raw(&event(it))));
    answer
}

pub(crate) fn ok() -> canned::CannedResponse {
    stream(&message(vec![text(0, "ok")], "end_turn"))
}

pub(crate) fn refusal(status: u16, kind: &str, message: &str) -> canned::CannedResponse {
    let error = json!({"type": "error", "error": {"type": kind, "message": message}});
    canned::with_length(status, "Content-Type: application/json\r\n", &error.to_string())
}

/// The result of a stream.
#[derive(Debug)]
pub(crate) struct StreamResult {
    pub(crate) answer: Answer,
    pub(crate) notices: Vec<String>,
    pub(crate) retries: Vec<Retry>,
    pub(crate) end: Result<(), ModelError>,
}

impl StreamResult {
    pub(crate) fn text(&self) -> String {
        self.answer.text()
    }

    pub(crate) fn thoughts(&self) -> String {
        let thought = |part: &Part| match part.view() {
            PartView::Thought(text) => Some(text.to_owned()),
            _ => None,
        };
        self.answer.parts.iter().filter_map(thought).collect()
    }

    /// Returns the calls with id, name, and arguments.
    pub(crate) fn calls(&self) -> Vec<Value> {
        let calls = self.answer.parts.iter().filter_map(|part| part.object().get("functionCall"));
        calls.cloned().collect()
    }

    /// Returns the content as stored in the history.
    pub(crate) fn sealed(&self) -> SealedContent {
        Content::model(self.answer.parts.clone()).seal_for(MODEL)
    }
}

pub(crate) async fn drain(model: &dyn Model, request: Request) -> StreamResult {
    let mut stream = model.stream(request, CancellationToken::new());
    let mut received = StreamResult {
        answer: Answer::default(),
        notices: Vec::new(),
        retries: Vec::new(),
        end: Ok(()),
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Chunk(chunk)) => received.answer.push(*chunk),
            Ok(StreamEvent::Retry(retry)) => received.retries.push(retry),
            Ok(StreamEvent::Notice(notice)) => received.notices.push(notice),
            Ok(StreamEvent::NextHop) => {}
            Err(error) => received.end = Err(error),
        }
    }
    received
}

/// Serves the answers and reads one stream.
pub(crate) async fn serve(answers: Vec<canned::CannedResponse>) -> (StreamResult, Server) {
    let server = Server::start(answers).await;
    let received = drain(&model(&server), hello()).await;
    (received, server)
}

/// Returns the body that a request sends.
pub(crate) async fn sent(request: Request) -> Value {
    let server = Server::start(vec![ok()]).await;
    let received = drain(&model(&server), request).await;
    assert!(received.end.is_ok(), "{:?}", received.end);
    body(&server, 0)
}

/// Returns the body of a request that the server received.
pub(crate) fn body(server: &Server, index: usize) -> Value {
    let requests = server.requests();
    let seen = requests.get(index).expect("a request");
    serde_json::from_str(&seen.body).expect("a body of JSON")
}
