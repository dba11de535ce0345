//! Observers of a session: telemetry and inspection. They see the events of the session and its
//! subagents, and beside them what events leave out: the contents of requests, arguments as they
//! ran, runs of hooks. These are only gathered while an observer is active.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use crate::Object;
use crate::content::Part;
use crate::event::{EventBody, ModelCall, ToolDone};
use crate::hooks::HookEvent;
use crate::ids::ItemId;
use crate::model::Request;

/// Where in a session something happened.
#[derive(Debug, Clone, Default)]
pub struct EventScope {
    /// The turn of the session or subagent; see [`crate::event::Event::turn`].
    pub turn: u64,
    /// The subagents that it happened in, outermost first; empty: the session itself.
    pub subagents: Arc<[SubagentScope]>,
}

/// A subagent in a [`EventScope`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubagentScope {
    /// The item of the call that started it.
    pub item: ItemId,
    /// Its name.
    pub name: String,
}

/// What an observer sees.
#[derive(Debug)]
pub enum Observation<'a> {
    /// An event, as front ends get it.
    Event(&'a EventBody),
    /// A request is sent to the model.
    RequestStarted {
        /// Its number in the session.
        id: u64,
        /// When it was sent.
        time: SystemTime,
        /// What was sent.
        request: &'a Request,
    },
    /// A request ended.
    RequestEnded(RequestEnd<'a>),
    /// A tool call ended; see [`crate::event::ItemDone::Tool`].
    CallEnded(CallEnd<'a>),
    /// A hook ran.
    HookEnded(&'a HookRun),
}

/// The end of a request.
#[derive(Debug)]
pub struct RequestEnd<'a> {
    /// The number of [`Observation::RequestStarted`].
    pub id: u64,
    /// Usage, cost, duration, error class.
    pub call: &'a ModelCall,
    /// What was received; of a failed attempt nothing.
    pub response: Option<ResponseFacts<'a>>,
    /// The HTTP status of a failure, if there was one.
    pub status: Option<u16>,
}

/// A response.
#[derive(Debug, Default)]
pub struct ResponseFacts<'a> {
    /// The parts, merged as in the history.
    pub parts: &'a [Part],
    /// Why it ended, in the provider's words.
    pub finish: Option<String>,
    /// The service's id of it.
    pub id: Option<&'a str>,
    /// Milliseconds from sending the request to the first chunk.
    pub first_chunk_ms: Option<u64>,
}

/// The end of a tool call.
#[derive(Debug)]
pub struct CallEnd<'a> {
    /// The item of the call.
    pub item: &'a ItemId,
    /// As front ends get it.
    pub done: &'a ToolDone,
    /// The tool that ran: another than the model called when a hook replaced the call.
    pub tool: &'a str,
    /// The arguments as they ran, changed by hooks or the user.
    pub arguments: Option<&'a Object>,
    /// The MCP server, if the tool is from one.
    pub server: Option<&'a str>,
}

/// A run of a hook.
#[derive(Debug, Clone)]
pub struct HookRun {
    /// The event it ran for.
    pub event: HookEvent,
    /// Its kind in settings: `command`, `process`, `log`, or `notify`.
    pub kind: &'static str,
    /// Its command; of other kinds its name.
    pub name: String,
    /// When it started.
    pub started: SystemTime,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Whether it ran to its end and did not fail.
    pub success: bool,
    /// Its exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The beginning of its standard output.
    pub stdout: String,
    /// The beginning of its standard error.
    pub stderr: String,
    /// What it read.
    pub input: Object,
    /// The JSON that it printed.
    pub output: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Sees what happens in a session.
pub trait Observer: Send + Sync {
    /// Whether it wants to see anything now. Cheap: asked often.
    fn is_active(&self) -> bool {
        true
    }
    /// Called on the session's own task: it must return at once.
    fn observe(&self, scope: &EventScope, observation: &Observation<'_>);
    /// The W3C `traceparent` that names a span, for a process or a server that works for it;
    /// `None` where nothing is traced.
    fn traceparent(&self, _scope: &EventScope, _span: SpanOf<'_>) -> Option<String> {
        None
    }
}

/// What a span describes.
#[derive(Debug, Clone, Copy)]
pub enum SpanOf<'a> {
    /// The turn.
    Turn,
    /// The call of this item.
    Call(&'a ItemId),
    /// The request to an MCP server that the call of this item sends.
    McpRequest(&'a ItemId),
}
