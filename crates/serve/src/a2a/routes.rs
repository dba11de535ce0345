//! The routes: JSON-RPC at `/`, HTTP+JSON next to it, and those of Gemini CLI's server.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::agent_settings::AgentSettings;
use super::errors::A2aError;
use super::messages;
use super::stream;
use super::task::{Task, TaskState};
use super::task_query::TaskQuery;
use super::tasks::A2aTasks;
use super::version::A2aVersion;
use crate::reply::{ReplyBody, json_reply};

/// Maximum bytes of a request.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// How long a client may take to send it.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// Whether a path belongs to this protocol.
pub(crate) fn is_route(path: &str) -> bool {
    matches!(
        path,
        "/" | "/message:send"
            | "/message:stream"
            | "/v1/message:send"
            | "/v1/message:stream"
            | "/tasks"
            | "/v1/tasks"
            | "/executeCommand"
            | "/listCommands"
    ) || path.starts_with("/tasks/")
        || path.starts_with("/v1/tasks/")
}

/// Answers a request.
pub(crate) async fn route(
    tasks: &Arc<A2aTasks>,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let (head, body) = request.into_parts();
    let is_rpc = head.uri.path() == "/";
    let version = match A2aVersion::from_headers(&head.headers) {
        Ok(version) => version,
        Err(error) if is_rpc => return rpc_reply(&Value::Null, Err(error)),
        Err(error) => return http_error(&error),
    };
    let query = head.uri.query().unwrap_or_default().to_owned();
    let path = head.uri.path().strip_prefix("/v1").unwrap_or(head.uri.path()).to_owned();
    let body = match head.method {
        Method::GET => Value::Null,
        Method::POST => match read(body).await {
            Ok(body) => body,
            Err((status, error)) => return json_reply(status, &error),
        },
        Method::DELETE if is_push_route(&path) => Value::Null,
        _ => return http_error(&A2aError::MethodNotFound(head.method.to_string())),
    };
    if is_rpc {
        return rpc(tasks, version, &head.method, &body).await;
    }
    match handle_rest_request(tasks, version, &head.method, &path, &query, &body).await {
        Ok(response) => response,
        Err(error) => http_error(&error),
    }
}

/// Whether a path is one of the configurations for push notifications of a task.
fn is_push_route(path: &str) -> bool {
    let rest = path.strip_prefix("/tasks/").and_then(|rest| rest.split_once('/'));
    let section = rest.and_then(|(_, rest)| rest.split('/').next());
    section.is_some_and(|section| section == "pushNotificationConfigs")
}

/// Reads a body; an empty one is `null`.
async fn read(body: Incoming) -> Result<Value, (StatusCode, Value)> {
    let read = tokio::time::timeout(BODY_LIMIT, Limited::new(body, MAX_BODY).collect()).await;
    let failed = |status: StatusCode, message: &str| {
        (status, json!({"error": {"code": status.as_u16(), "message": message}}))
    };
    let bytes = match read {
        Ok(Ok(bytes)) => bytes.to_bytes(),
        Ok(Err(_)) => {
            let text = "the body is larger than 16 MiB, or incomplete";
            return Err(failed(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        Err(_) => {
            let text = "the body did not arrive within 30 seconds";
            return Err(failed(StatusCode::REQUEST_TIMEOUT, text));
        }
    };
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|_| {
        let error = json!({"jsonrpc": "2.0", "id": null, "error": A2aError::Parse.rpc()});
        (StatusCode::BAD_REQUEST, error)
    })
}

fn http_error(error: &A2aError) -> Response<ReplyBody> {
    let (status, body) = error.http();
    json_reply(status, &body)
}

fn rpc_reply(id: &Value, result: Result<Value, A2aError>) -> Response<ReplyBody> {
    let body = match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.rpc()}),
    };
    json_reply(StatusCode::OK, &body)
}

fn http_reply(version: A2aVersion, body: &Value) -> Response<ReplyBody> {
    let mut response = json_reply(StatusCode::OK, body);
    if version == A2aVersion::V10 {
        let media = HeaderValue::from_static("application/a2a+json");
        response.headers_mut().insert(CONTENT_TYPE, media);
    }
    response
}

/// Methods of both versions.
enum TaskMethod {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    PushNotifications,
}

fn method(name: &str) -> Result<TaskMethod, A2aError> {
    Ok(match name {
        "SendMessage" | "message/send" => TaskMethod::Send,
        "SendStreamingMessage" | "message/stream" => TaskMethod::Stream,
        "GetTask" | "tasks/get" => TaskMethod::Get,
        "ListTasks" | "tasks/list" => TaskMethod::List,
        "CancelTask" | "tasks/cancel" => TaskMethod::Cancel,
        "SubscribeToTask" | "tasks/resubscribe" => TaskMethod::Subscribe,
        name if name.contains("ushNotification") => TaskMethod::PushNotifications,
        name => return Err(A2aError::MethodNotFound(name.to_owned())),
    })
}

async fn rpc(
    tasks: &Arc<A2aTasks>,
    version: A2aVersion,
    verb: &Method,
    body: &Value,
) -> Response<ReplyBody> {
    if *verb != Method::POST {
        return http_error(&A2aError::MethodNotFound(format!("{verb} /")));
    }
    let id = body.get("id").cloned().unwrap_or(Value::Null);
    let name = body.get("method").and_then(Value::as_str);
    let is_valid = body.get("jsonrpc").and_then(Value::as_str) == Some("2.0")
        && matches!(id, Value::String(_) | Value::Number(_));
    let (Some(name), true) = (name, is_valid) else {
        let text = "send `jsonrpc` 2.0 with an id and a method".to_owned();
        return rpc_reply(&Value::Null, Err(A2aError::InvalidRequest(text)));
    };
    let method = match method(name) {
        Ok(method) => method,
        Err(error) => return rpc_reply(&id, Err(error)),
    };
    let empty = json!({});
    let params = body.get("params").unwrap_or(&empty);
    match run(tasks, version, method, params, Some(&id)).await {
        Ok(TaskReply::Value(value)) => rpc_reply(&id, Ok(value)),
        Ok(TaskReply::Stream(response)) => response,
        Err(error) => rpc_reply(&id, Err(error)),
    }
}

/// The reply to a method.
enum TaskReply {
    Value(Value),
    Stream(Response<ReplyBody>),
}

async fn run(
    tasks: &Arc<A2aTasks>,
    version: A2aVersion,
    method: TaskMethod,
    params: &Value,
    rpc: Option<&Value>,
) -> Result<TaskReply, A2aError> {
    let id = || {
        let id = params.get("id").and_then(Value::as_str);
        id.ok_or_else(|| A2aError::InvalidParams("`id` is missing".to_owned()))
    };
    let number = |name: &str| {
        let number = params.get(name).and_then(Value::as_u64);
        number.map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let value = match method {
        TaskMethod::Send => {
            let message = messages::client_message(params)?;
            let task = tasks.send(&message).await?;
            if message.is_blocking {
                wait_until_over(&task).await;
            }
            messages::task_result(&task.snapshot(), version)
        }
        TaskMethod::Stream => {
            let message = messages::client_message(params)?;
            let task = tasks.send(&message).await?;
            // The task is sent first and contains everything that happened before.
            let from = task.follow();
            return Ok(TaskReply::Stream(stream::response(task, from, version, rpc.cloned())));
        }
        TaskMethod::Get => {
            let task = tasks.find(id()?).await?;
            messages::task(&task.snapshot(), number("historyLength"), version)
        }
        TaskMethod::List => list(tasks, version, params).await?,
        TaskMethod::Cancel => {
            let task = tasks.cancel(id()?).await?;
            messages::task(&task.snapshot(), None, version)
        }
        TaskMethod::Subscribe => {
            let task = tasks.find(id()?).await?;
            let from = task.follow();
            if from.0.state.is_over() && from.0.state != TaskState::InputRequired {
                let text = "the task is not running".to_owned();
                return Err(A2aError::UnsupportedOperation(text));
            }
            return Ok(TaskReply::Stream(stream::response(task, from, version, rpc.cloned())));
        }
        TaskMethod::PushNotifications => return Err(A2aError::PushNotificationNotSupported),
    };
    Ok(TaskReply::Value(value))
}

/// Waits until the turn ends or needs input.
async fn wait_until_over(task: &Arc<Task>) {
    let (first, mut events) = task.follow();
    if first.state.is_over() {
        return;
    }
    while !task.state().is_over() {
        if let Err(tokio::sync::broadcast::error::RecvError::Closed) = events.recv().await {
            return;
        }
    }
}

async fn list(
    tasks: &Arc<A2aTasks>,
    version: A2aVersion,
    params: &Value,
) -> Result<Value, A2aError> {
    let query = TaskQuery::read(params)?;
    let mut ids = tasks.list().await?;
    ids.retain(|id| query.context.as_ref().is_none_or(|context| context == id));
    // Only what is shown is read, unless a filter needs all.
    let (first, end) = match query.has_filters() {
        true => (0, ids.len()),
        false => {
            let end = ids.len().min(query.start.saturating_add(query.size));
            (query.start.min(end), end)
        }
    };
    let closed = |id: &&String| tasks.loaded_task(id).is_none();
    let read: Vec<&str> =
        ids.get(first..end).unwrap_or_default().iter().filter(closed).map(String::as_str).collect();
    let ended = tasks.ended_turns(&read).await;
    let snapshot_of = |id: &String| {
        let task = tasks.loaded_task(id).unwrap_or_else(|| {
            let task = Task::new(id, TaskState::Completed);
            task.restore(&ended.get(id).cloned().unwrap_or_default());
            Arc::new(task)
        });
        task.snapshot()
    };
    if query.has_filters() {
        ids.retain(|id| query.matches(&snapshot_of(id)));
    }
    let total = ids.len();
    let mut page = Vec::new();
    for id in ids.iter().skip(query.start).take(query.size) {
        // Those of earlier processes are loaded only if more than their state is asked for.
        if query.history > 0 || query.has_artifacts {
            // One that cannot be loaded is shown without its messages.
            let _ = tasks.find(id).await;
        }
        let mut task = messages::task(&snapshot_of(id), Some(query.history), version);
        if !query.has_artifacts
            && let Some(fields) = task.as_object_mut()
        {
            fields.shift_remove("artifacts");
        }
        page.push(task);
    }
    let next = query.start + page.len();
    let token = if next < total { next.to_string() } else { String::new() };
    Ok(json!({"tasks": page, "nextPageToken": token, "pageSize": query.size, "totalSize": total}))
}

async fn handle_rest_request(
    tasks: &Arc<A2aTasks>,
    version: A2aVersion,
    verb: &Method,
    path: &str,
    query: &str,
    body: &Value,
) -> Result<Response<ReplyBody>, A2aError> {
    let is_get = *verb == Method::GET;
    let unknown = || A2aError::MethodNotFound(format!("{verb} {path}"));
    let empty = json!({});
    let body = if body.is_null() { &empty } else { body };
    let (method, params) = match (path, is_get) {
        ("/message:send", false) => (TaskMethod::Send, body.clone()),
        ("/message:stream", false) => (TaskMethod::Stream, body.clone()),
        ("/tasks", true) => (TaskMethod::List, parse_query(query)),
        ("/tasks", false) => return create(tasks, body).await,
        ("/tasks/metadata", true) => return Ok(json_reply(StatusCode::OK, &all(tasks).await?)),
        ("/listCommands", true) => return Ok(commands(tasks)),
        ("/executeCommand", false) => return execute(tasks, body).await,
        _ => {
            if is_push_route(path) {
                return Err(A2aError::PushNotificationNotSupported);
            }
            let rest = path.strip_prefix("/tasks/").ok_or_else(unknown)?;
            if let Some(id) = rest.strip_suffix("/metadata").filter(|_| is_get) {
                let task = tasks.find(id).await?;
                let found = json!({"metadata": metadata(&task)});
                return Ok(json_reply(StatusCode::OK, &found));
            }
            match (rest.split_once(':'), is_get) {
                (None, true) => {
                    let mut params = parse_query(query);
                    params["id"] = json!(rest);
                    if let Some(length) = params.get("historyLength").and_then(Value::as_str) {
                        params["historyLength"] = json!(length.parse::<u64>().unwrap_or(u64::MAX));
                    }
                    (TaskMethod::Get, params)
                }
                (Some((id, "cancel")), false) => (TaskMethod::Cancel, json!({"id": id})),
                (Some((id, "subscribe")), _) => (TaskMethod::Subscribe, json!({"id": id})),
                _ => return Err(unknown()),
            }
        }
    };
    match run(tasks, version, method, &params, None).await? {
        TaskReply::Value(value) => Ok(http_reply(version, &value)),
        TaskReply::Stream(response) => Ok(response),
    }
}

fn parse_query(query: &str) -> Value {
    let mut params = json!({});
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        params[name.as_ref()] = json!(value);
    }
    params
}

/// `POST /tasks`: a task without a message; the answer is its id.
async fn create(tasks: &Arc<A2aTasks>, body: &Value) -> Result<Response<ReplyBody>, A2aError> {
    let settings = AgentSettings::read(body.get("agentSettings"))?;
    let task = tasks.create(settings).await?;
    Ok(json_reply(StatusCode::CREATED, &json!(task.snapshot().id)))
}

fn metadata(task: &Arc<Task>) -> Value {
    let snapshot = task.snapshot();
    json!({
        "id": snapshot.id, "contextId": snapshot.id,
        "taskState": messages::task(&snapshot, Some(0), A2aVersion::V03)["status"]["state"],
        "lastUpdated": snapshot.time,
        "mcpServers": [], "availableTools": [],
    })
}

/// `GET /tasks/metadata`: those in memory.
async fn all(tasks: &Arc<A2aTasks>) -> Result<Value, A2aError> {
    let ids = tasks.list().await?;
    let held = ids.iter().filter_map(|id| tasks.loaded_task(id));
    Ok(Value::Array(held.map(|task| metadata(&task)).collect()))
}

/// `GET /listCommands`: the built-in commands; those of a project are known once a session is open.
fn commands(tasks: &Arc<A2aTasks>) -> Response<ReplyBody> {
    let commands = tasks.known_commands().into_iter().map(|command| {
        json!({
            "name": command.get("name"), "description": command.get("description"),
            "arguments": [], "subCommands": [],
        })
    });
    let commands: Vec<Value> = commands.collect();
    json_reply(StatusCode::OK, &json!({"commands": commands}))
}

/// `POST /executeCommand`: a slash command in its own session.
async fn execute(tasks: &Arc<A2aTasks>, body: &Value) -> Result<Response<ReplyBody>, A2aError> {
    let name = body.get("command").and_then(Value::as_str).unwrap_or_default();
    let name = name.trim_start_matches('/').trim();
    if name.is_empty() {
        return Err(A2aError::InvalidParams("`command` is missing".to_owned()));
    }
    let arguments = body.get("args").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten().filter_map(Value::as_str);
    let line = std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ");
    let task = tasks.create(AgentSettings::default()).await?;
    // Names of subcommands contain a space.
    let is_known = |command: &Value| {
        let known = command.get("name").and_then(Value::as_str);
        known
            .and_then(|known| line.strip_prefix(known))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    // The commands come right after the session.
    for _ in 0..40 {
        if !tasks.commands().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if !tasks.commands().iter().any(is_known) {
        let error = json!({"error": format!("Command not found: {name}")});
        return Ok(json_reply(StatusCode::NOT_FOUND, &error));
    }
    let message = messages::ClientMessage {
        task: Some(task.snapshot().id),
        text: format!("/{line}"),
        ..messages::ClientMessage::default()
    };
    tasks.send(&message).await?;
    wait_until_over(&task).await;
    let snapshot = task.snapshot();
    if snapshot.state == TaskState::InputRequired {
        tasks.cancel(&snapshot.id).await?;
        let reason = format!(
            "`/{line}` needs the user's consent, which this route cannot request: send the command \
             as a message of a task and answer there"
        );
        return Ok(json_reply(StatusCode::CONFLICT, &json!({"error": reason})));
    }
    let output = snapshot.message.map_or(Value::Null, |output| match output.parts.first() {
        Some(super::task::TaskPart::Text(text)) => json!(text),
        _ => Value::Null,
    });
    Ok(json_reply(StatusCode::OK, &json!({"name": name, "data": output})))
}
