//! Selects and sends a reply.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Shared, lock, parse_path};
use crate::http::Connection;
use crate::recorded::RecordedRequest;
use crate::script::{
    ConnectionCut, Loop, Match, Method, Reply, ReplyBody, StreamElement, response, text_response,
};
use crate::wire::{WireEvents, WireFormat};

/// Token counts of replies that define none. They are constant, so that output does not depend on
/// paths and dates in the prompt.
const USAGE: &str =
    r#""usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":10,"totalTokenCount":110}"#;

/// The reply to send.
struct PlannedReply<'a> {
    reply: &'a Reply,
    pieces: Pieces,
}

enum Pieces {
    List(Vec<StreamElement>),
    Text { chunks: u64, bytes: u64 },
}

/// Answers request `index`; returns the connection if it can serve more requests.
pub(super) async fn send(
    shared: &Shared,
    index: usize,
    mut connection: Connection,
) -> Option<Connection> {
    let request = lock(&shared.state).requests.get(index).cloned()?;
    if shared.options.discard_bodies
        && let Some(recorded) = lock(&shared.state).requests.get_mut(index)
    {
        recorded.body = std::sync::Arc::from([]);
    }
    let written = answer(shared, &request, &mut connection).await;
    match written {
        Ok(End::Open) => Some(connection),
        Ok(End::Cut(ConnectionCut::Reset)) => {
            connection.reset();
            None
        }
        Ok(End::Cut(_)) => {
            connection.close().await;
            None
        }
        Err(_) => {
            shared.mark_aborted(index);
            None
        }
    }
}

enum End {
    Open,
    Cut(ConnectionCut),
}

async fn answer(
    shared: &Shared,
    request: &RecordedRequest,
    connection: &mut Connection,
) -> io::Result<End> {
    if let Some(name) = request.path.strip_prefix("/_gate/") {
        shared.open_gate(name);
        return plain(connection, 200, &json!({ "opened": name })).await;
    }
    if let Some(document) = shared.script.documents.get(&request.path) {
        return plain(connection, 200, document).await;
    }
    if let Some(wire) = WireFormat::from_path(&request.path) {
        return wire_answer(shared, request, connection, wire).await;
    }
    let Some((method, model)) = parse_path(&request.path) else {
        return problem(connection, 404, "NOT_FOUND", "unknown path").await;
    };
    if shared.options.strict && !request.violations.is_empty() {
        let text = request.violations.join("; ");
        return problem(connection, 400, "INVALID_ARGUMENT", &text).await;
    }
    let Some(plan) = choose(shared, &[method], &model, || request.json()) else {
        if method == Method::CountTokens {
            let count = json!({ "totalTokens": request.body.len() / 4 });
            return plain(connection, 200, &count).await;
        }
        let text = format!("the script has no (further) reply for request {}", request.index);
        lock(&shared.state).general.push(text.clone());
        return problem(connection, 400, "FAILED_PRECONDITION", &text).await;
    };
    if let ReplyBody::Error(error) = &plan.reply.body {
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| code.try_into().ok());
        let status = plan.reply.status.or(code).unwrap_or(500);
        let body = json!({ "error": error }).to_string();
        connection
            .respond(status, &plan.reply.headers, "application/json", body.as_bytes())
            .await?;
        return Ok(End::Open);
    }
    if method == Method::StreamGenerateContent {
        return stream(shared, request, connection, plan).await;
    }
    let document = match plan.pieces {
        Pieces::Text { bytes, .. } => {
            let text = "x".repeat(usize::try_from(bytes).unwrap_or_default());
            text_response(&text, true)
        }
        Pieces::List(pieces) => {
            for piece in &pieces {
                match piece {
                    StreamElement::Response(_) => {}
                    StreamElement::Raw(bytes) => {
                        let status = plan.reply.status.unwrap_or(200);
                        let headers = &plan.reply.headers;
                        connection.respond(status, headers, "application/json", bytes).await?;
                        return Ok(End::Open);
                    }
                    StreamElement::Cut(cut) => return Ok(End::Cut(*cut)),
                    other => pause(shared, connection, other).await?,
                }
            }
            pieces
                .into_iter()
                .find_map(|piece| match piece {
                    StreamElement::Response(text) => Some(text),
                    _ => None,
                })
                .unwrap_or_else(|| "{}".to_owned())
        }
    };
    let status = plan.reply.status.unwrap_or(200);
    let headers = &plan.reply.headers;
    connection.respond(status, headers, "application/json", document.as_bytes()).await?;
    Ok(End::Open)
}

async fn plain(connection: &mut Connection, status: u16, body: &Value) -> io::Result<End> {
    let body = body.to_string();
    connection.respond(status, &[], "application/json", body.as_bytes()).await?;
    Ok(End::Open)
}

async fn problem(
    connection: &mut Connection,
    code: u16,
    status: &str,
    message: &str,
) -> io::Result<End> {
    let error = json!({"error": {"code": code, "message": message, "status": status}});
    plain(connection, code, &error).await
}

/// Waits, stops at a gate, or hangs, unless the client disconnects.
async fn pause(shared: &Shared, connection: &Connection, piece: &StreamElement) -> io::Result<()> {
    let wait = async {
        match piece {
            StreamElement::Wait(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            StreamElement::Gate(name) => shared.wait_for_gate(name).await,
            StreamElement::Hang => std::future::pending().await,
            StreamElement::Response(_) | StreamElement::Raw(_) | StreamElement::Cut(_) => {}
        }
    };
    tokio::select! {
        () = wait => Ok(()),
        () = connection.wait_for_disconnect() => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// Returns the first unused reply for one of these methods that matches the request.
fn choose<'a>(
    shared: &'a Shared,
    methods: &[Method],
    model: &str,
    request: impl Fn() -> Value,
) -> Option<PlannedReply<'a>> {
    let mut state = lock(&shared.state);
    let mut body: Option<Value> = None;
    for (reply, used) in shared.script.replies.iter().zip(0..) {
        let count = state.used_replies.get(used).copied().unwrap_or_default();
        let expected_method = reply.method.unwrap_or(Method::StreamGenerateContent);
        if !methods.contains(&expected_method) || (reply.repeat != 0 && count >= reply.repeat) {
            continue;
        }
        if !is_empty(&reply.matches) {
            let body = body.get_or_insert_with(&request);
            if !matches(&reply.matches, body, model) {
                continue;
            }
        }
        if let Some(used) = state.used_replies.get_mut(used) {
            *used += 1;
        }
        let pieces = match &reply.body {
            ReplyBody::Chunks(pieces) => Pieces::List(pieces.clone()),
            ReplyBody::Error(_) => Pieces::List(Vec::new()),
            ReplyBody::Generate { chunks, bytes } => {
                Pieces::Text { chunks: *chunks, bytes: *bytes }
            }
            ReplyBody::Loop(looped) => {
                Pieces::List(vec![StreamElement::Response(expand_loop(looped, count))])
            }
        };
        let pieces = match pieces {
            Pieces::List(pieces) => Pieces::List(with_usage(pieces)),
            text => text,
        };
        return Some(PlannedReply { reply, pieces });
    }
    None
}

fn expand_loop(looped: &Loop, count: u64) -> String {
    if count >= looped.calls {
        return text_response(&looped.final_text, true);
    }
    let calls = (0..looped.parallel.max(1)).map(|nth| {
        let number = (count * looped.parallel.max(1) + nth).to_string();
        let mut args = looped.args.clone();
        for value in args.values_mut() {
            if let Value::String(text) = value {
                *text = text.replace("{i}", &number);
            }
        }
        let mut part = json!({"functionCall": {"name": looped.name, "args": args}});
        if looped.signed && nth == 0 {
            part["thoughtSignature"] = format!("c2lnbmF0dXJl{number}").into();
        }
        part
    });
    response(&calls.collect::<Vec<_>>(), true)
}

/// Adds token counts to the last response document if none has any.
fn with_usage(mut pieces: Vec<StreamElement>) -> Vec<StreamElement> {
    let has = |piece: &StreamElement| matches!(piece, StreamElement::Response(text) if text.contains("\"usageMetadata\"") || text.contains("\"error\""));
    if !pieces.iter().any(has)
        && let Some(StreamElement::Response(text)) =
            pieces.iter_mut().rev().find(|piece| matches!(piece, StreamElement::Response(_)))
        && let Some(open) = text.strip_suffix('}')
    {
        let comma = if open.trim_end().ends_with('{') { "" } else { "," };
        *text = format!("{open}{comma}{USAGE}}}");
    }
    pieces
}

fn is_empty(matches: &Match) -> bool {
    let Match { last_tool_result_contains, prompt_contains, system_contains, model_contains } =
        matches;
    last_tool_result_contains.is_none()
        && prompt_contains.is_none()
        && system_contains.is_none()
        && model_contains.is_none()
}

fn matches(matches: &Match, body: &Value, model: &str) -> bool {
    let last = body.pointer("/contents").and_then(Value::as_array).and_then(|all| all.last());
    let parts = |content: Option<&Value>| -> Vec<Value> {
        content.and_then(|content| content.get("parts")?.as_array().cloned()).unwrap_or_default()
    };
    let within = |wanted: &Option<String>, content: Option<&Value>, key: &str| match wanted {
        None => true,
        Some(expected) => parts(content)
            .iter()
            .any(|part| part.get(key).is_some_and(|value| any_string(value, expected))),
    };
    within(&matches.last_tool_result_contains, last, "functionResponse")
        && within(&matches.prompt_contains, last, "text")
        && within(&matches.system_contains, body.get("systemInstruction"), "text")
        && matches.model_contains.as_ref().is_none_or(|name| model.contains(name))
}

/// Whether any string inside the value contains the text.
fn any_string(value: &Value, expected: &str) -> bool {
    match value {
        Value::String(text) => text.contains(expected),
        Value::Array(items) => items.iter().any(|item| any_string(item, expected)),
        Value::Object(object) => object.values().any(|item| any_string(item, expected)),
        _ => false,
    }
}

/// The bytes of a stream, framed as HTTP chunks; delayed only if the script says so.
struct ReplyWriter<'a> {
    connection: &'a mut Connection,
    split: usize,
    coalesce: usize,
    pending_bytes: Vec<u8>,
}

impl ReplyWriter<'_> {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending_bytes.extend_from_slice(bytes);
        if self.pending_bytes.len() >= self.coalesce { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if self.pending_bytes.is_empty() {
            return Ok(());
        }
        let mut framed = Vec::with_capacity(self.pending_bytes.len() + 16);
        if self.split > 0 {
            // Each piece is a separate HTTP chunk, so that no layer of the client merges them.
            for piece in self.pending_bytes.chunks(self.split) {
                framed.clear();
                frame(&mut framed, piece);
                self.connection.write_split(&framed, framed.len()).await?;
            }
        } else {
            frame(&mut framed, &self.pending_bytes);
            self.connection.write(&framed).await?;
        }
        self.pending_bytes.clear();
        Ok(())
    }
}

fn frame(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

async fn stream(
    shared: &Shared,
    request: &RecordedRequest,
    connection: &mut Connection,
    plan: PlannedReply<'_>,
) -> io::Result<End> {
    let reply = plan.reply;
    let array = reply.json_array;
    let kind = if array { "application/json" } else { "text/event-stream" };
    let status = reply.status.unwrap_or(200);
    let wire = WireFormat::from_path(&request.path);
    let kind = wire.map_or(kind, WireFormat::content_type);
    let mut events = wire.map(|wire| WireEvents::new(wire, request.index));
    let mut sent = Vec::new();
    let mut understood = true;
    let pending_bytes = Vec::new();
    // A cut before the first byte leaves the client without a status.
    if let Pieces::List(pieces) = &plan.pieces
        && let Some(StreamElement::Cut(cut)) = pieces.first()
    {
        return Ok(End::Cut(*cut));
    }
    connection.respond_chunked(status, &reply.headers, kind).await?;
    let (split, coalesce) = (reply.split, reply.coalesce);
    let mut out = ReplyWriter { connection, split, coalesce, pending_bytes };
    if array {
        out.write(b"[").await?;
    }
    match plan.pieces {
        Pieces::Text { chunks, bytes } => {
            understood = false;
            let text = "lorem ipsum dolor sit amet "
                .chars()
                .cycle()
                .take(usize::try_from(bytes / chunks.max(1)).unwrap_or_default().max(1))
                .collect::<String>();
            let first = text_response(&text, false);
            for _ in 1..chunks {
                out.write(&frame_document(&mut events, reply.eol, &first)).await?;
            }
            let last = with_usage(vec![StreamElement::Response(text_response(&text, true))]);
            if let Some(StreamElement::Response(last)) = last.first() {
                out.write(&frame_document(&mut events, reply.eol, last)).await?;
            }
        }
        Pieces::List(pieces) => {
            for piece in pieces {
                match piece {
                    StreamElement::Response(text) if array => {
                        let comma = if sent.is_empty() { "" } else { ",\r\n" };
                        out.write(format!("{comma}{text}").as_bytes()).await?;
                        sent.push(text);
                    }
                    StreamElement::Response(text) => {
                        out.write(&frame_document(&mut events, reply.eol, &text)).await?;
                        sent.push(text);
                    }
                    StreamElement::Raw(bytes) => {
                        understood = false;
                        out.write(&bytes).await?;
                    }
                    StreamElement::Cut(cut) => {
                        out.flush().await?;
                        if cut == ConnectionCut::MidChunk {
                            out.connection.write(b"400\r\ndata: {\"candi").await?;
                        }
                        return Ok(End::Cut(cut));
                    }
                    pausing => {
                        out.flush().await?;
                        pause(shared, out.connection, &pausing).await?;
                    }
                }
            }
        }
    }
    if array {
        out.write(b"]").await?;
    }
    if let (Some(wire), Some(events)) = (wire, &mut events) {
        let rest = events.finish().concat();
        out.write(rest.as_bytes()).await?;
        lock(&shared.state).rules.record_reply(wire, events.opaque());
    }
    if reply.is_used {
        out.write(&event(reply.eol, "[DONE]")).await?;
    }
    out.flush().await?;
    // Reported before the end is written, because the next request may follow immediately.
    if wire.is_none() && (200..300).contains(&status) {
        lock(&shared.state)
            .checker
            .record_response(request.index, understood.then_some(sent.as_slice()));
    }
    out.connection.write(b"0\r\n\r\n").await?;
    Ok(End::Open)
}

/// Returns a response document in the wire format.
fn frame_document(events: &mut Option<WireEvents>, eol: &str, text: &str) -> Vec<u8> {
    match events {
        Some(events) => events.chunk(text).concat().into_bytes(),
        None => event(eol, text),
    }
}

/// Answers a request of another wire format.
async fn wire_answer(
    shared: &Shared,
    request: &RecordedRequest,
    connection: &mut Connection,
    wire: WireFormat,
) -> io::Result<End> {
    if shared.options.strict && !request.violations.is_empty() {
        let error = json!({"message": request.violations.join("; "), "status": "invalid"});
        return plain(connection, 400, &wire.error(400, &error)).await;
    }
    let (body, model) = wire.as_gemini(&request.json());
    let methods = [Method::StreamGenerateContent, Method::GenerateContent];
    let Some(plan) = choose(shared, &methods, &model, || body.clone()) else {
        let text = format!("the script has no (further) reply for request {}", request.index);
        lock(&shared.state).general.push(text.clone());
        return plain(connection, 400, &wire.error(400, &json!({"message": text}))).await;
    };
    if let ReplyBody::Error(error) = &plan.reply.body {
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| code.try_into().ok());
        let status = plan.reply.status.or(code).unwrap_or(500);
        let body = wire.error(status, error).to_string();
        let headers = &plan.reply.headers;
        connection.respond(status, headers, "application/json", body.as_bytes()).await?;
        return Ok(End::Open);
    }
    stream(shared, request, connection, plan).await
}

fn event(eol: &str, text: &str) -> Vec<u8> {
    format!("data: {text}{eol}{eol}").into_bytes()
}
