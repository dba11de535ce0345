//! Observers of a session: telemetry and inspection. They receive the events of the session and its
//! subagents, and details that events omit: the contents of requests, final arguments, and hook
//! runs. This data is collected only while an observer is active.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use crate::Object;
use crate::content::Part;
use crate::event::{EventBody, ModelCall, ToolDone};
use crate::hooks::HookEvent;
use crate::ids::ItemId;
use crate::model::{Request, ServerAddress};
use crate::trace_headers::TraceHeaders;

/// The turn and subagent in which something happened.
#[derive(Debug, Clone, Default)]
pub struct EventScope {
    /// The turn of the session or subagent; see [`crate::event::Event::turn`].
    pub turn: u64,
    /// The enclosing subagents, outermost first; empty: the session itself.
    pub subagents: Arc<[SubagentScope]>,
}

/// A subagent in an [`EventScope`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubagentScope {
    /// The item of the call that started it.
    pub item: ItemId,
    /// The name.
    pub name: String,
}

/// What an observer receives.
#[derive(Debug)]
pub enum Observation<'a> {
    /// An event, as front ends receive it.
    Event(&'a EventBody),
    /// A request was sent to the model.
    RequestStarted {
        /// The request number in the session.
        id: u64,
        /// When it was sent.
        time: SystemTime,
        /// The request.
        request: &'a Request,
    },
    /// A request ended.
    RequestEnded(RequestEnd<'a>),
    /// A tool call ended; see [`crate::event::ItemDone::Tool`].
    CallEnded(CallEnd<'a>),
    /// A hook ran.
    HookEnded(&'a HookRun),
    /// A message to or from an MCP server.
    McpMessage(McpMessage<'a>),
    /// A front end runs a slash command.
    CommandRun {
        /// The name without the slash, such as `compress`.
        name: &'a str,
    },
}

/// The end of a model request.
#[derive(Debug)]
pub struct RequestEnd<'a> {
    /// The number from [`Observation::RequestStarted`].
    pub id: u64,
    /// Usage, cost, duration, and error class.
    pub call: &'a ModelCall,
    /// The response; `None` for a failed attempt.
    pub response: Option<ResponseInfo<'a>>,
    /// The HTTP status of a failure, if there was one.
    pub status: Option<u16>,
    /// The address of the service, if it is known.
    pub server: Option<ServerAddress>,
}

/// A model response.
#[derive(Debug, Default)]
pub struct ResponseInfo<'a> {
    /// The parts, merged as in the history.
    pub parts: &'a [Part],
    /// The finish reason, as the provider names it.
    pub finish: Option<String>,
    /// The response id of the service.
    pub id: Option<&'a str>,
    /// The model that answered, as the service names it.
    pub model: Option<&'a str>,
    /// Milliseconds from sending the request to the first chunk.
    pub first_chunk_ms: Option<u64>,
}

/// The end of a tool call.
#[derive(Debug)]
pub struct CallEnd<'a> {
    /// The item of the call.
    pub item: &'a ItemId,
    /// The result, as front ends receive it.
    pub done: &'a ToolDone,
    /// The tool that ran. It differs from the requested tool if a hook replaced the call.
    pub tool: &'a str,
    /// The final arguments, including changes by hooks or the user.
    pub arguments: Option<&'a Object>,
    /// The MCP server, if it provides the tool.
    pub server: Option<&'a str>,
}

/// A message to or from an MCP server.
#[derive(Debug, Clone, Copy)]
pub struct McpMessage<'a> {
    /// The server.
    pub server: &'a str,
    /// Whether it was sent to the server; otherwise the server sent it.
    pub is_sent: bool,
    /// The method of a request or notification, or of the request that a response answers.
    pub method: &'a str,
    /// The message as JSON, without secrets.
    pub message: &'a Value,
}

/// Whether messages of a method belong to the start of an MCP server.
pub fn is_mcp_startup(method: &str) -> bool {
    matches!(method, "initialize" | "notifications/initialized") || method.ends_with("/list")
}

/// One run of a hook.
#[derive(Debug, Clone)]
pub struct HookRun {
    /// The event that triggered it.
    pub event: HookEvent,
    /// The kind in settings: `command`, `process`, `log`, or `notify`.
    pub kind: &'static str,
    /// The command, or the name for other kinds.
    pub name: String,
    /// When it started.
    pub started: SystemTime,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Whether it finished successfully.
    pub success: bool,
    /// The exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The beginning of its standard output.
    pub stdout: String,
    /// The beginning of its standard error.
    pub stderr: String,
    /// The input of the hook.
    pub input: Object,
    /// The JSON output of the hook.
    pub output: Option<Value>,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Observes a session.
pub trait Observer: Send + Sync {
    /// Whether the observer is active at present. Called often, so it must be cheap.
    fn is_active(&self) -> bool {
        true
    }
    /// Whether messages with which MCP servers start and list what they offer are observed even while
    /// the observer is inactive, because they are sent once.
    fn observes_mcp_startup(&self) -> bool {
        false
    }
    /// Observes something. Called on the task of the session, so it must return immediately.
    fn observe(&self, scope: &EventScope, observation: &Observation<'_>);
    /// Returns the trace context of a span, for a process or server that works on its behalf; `None`
    /// if the session is part of no trace.
    fn trace_headers(&self, _scope: &EventScope, _span: SpanSubject<'_>) -> Option<TraceHeaders> {
        None
    }
}

/// The subject of a span.
#[derive(Debug, Clone, Copy)]
pub enum SpanSubject<'a> {
    /// The turn.
    Turn,
    /// The tool call of this item.
    Call(&'a ItemId),
    /// The request to an MCP server that the tool call of this item sends.
    McpRequest(&'a ItemId),
}
