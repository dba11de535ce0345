//! The data passed from the session to the telemetry thread: observations as owned values. Copying
//! is cheap: contents of requests are shared.

use std::time::{Duration, SystemTime};

use parallax_protocol::Object;
use parallax_protocol::content::Part;
use parallax_protocol::event::{
    CallPhase, Compaction, EndReason, EventBody, ItemStart, ModelCall, SessionReady, ToolDone,
};
use parallax_protocol::ids::ItemId;
use parallax_protocol::model::{Request, ServerAddress};
use parallax_protocol::observer::{EventScope, HookRun, Observation};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::Route;
use tokio::sync::oneshot;

/// An observation with its scope and time.
pub(crate) struct TelemetryInput {
    pub(crate) scope: EventScope,
    pub(crate) time: SystemTime,
    pub(crate) kind: InputKind,
}

/// What was observed.
pub(crate) enum InputKind {
    Ready(SessionReady),
    TurnStarted {
        prompt: String,
    },
    TurnEnded(EndReason),
    Mode(ApprovalMode),
    CallStarted(ItemId),
    CallExecuting(ItemId),
    CallEnded(Box<EndedCall>),
    RequestStarted {
        id: u64,
        time: SystemTime,
        request: Box<Request>,
    },
    RequestEnded(Box<EndedRequest>),
    Hook(Box<HookRun>),
    /// The name of a slash command.
    Command(String),
    Compacted(Compaction),
    Routed(Box<Route>),
    Retried {
        model: String,
        class: String,
        attempt: u64,
    },
    /// Send what has waited.
    Tick,
    /// Write everything, then answer.
    Flush(oneshot::Sender<()>),
}

/// A request that ended.
pub(crate) struct EndedRequest {
    pub(crate) id: u64,
    pub(crate) call: ModelCall,
    pub(crate) parts: Vec<Part>,
    pub(crate) finish: Option<String>,
    pub(crate) response_id: Option<String>,
    /// The model that answered, as the service names it.
    pub(crate) answered_by: Option<String>,
    pub(crate) first_chunk: Option<Duration>,
    pub(crate) status: Option<u16>,
    pub(crate) server: Option<ServerAddress>,
}

/// A tool call that ended.
pub(crate) struct EndedCall {
    pub(crate) item: ItemId,
    pub(crate) result: ToolDone,
    pub(crate) tool: String,
    pub(crate) arguments: Option<Object>,
    pub(crate) server: Option<String>,
}

impl InputKind {
    /// Returns the part of an observation that is recorded, if any.
    pub(crate) fn from_observation(observation: &Observation<'_>) -> Option<Self> {
        Some(match observation {
            Observation::Event(body) => return Self::from_event(body),
            Observation::RequestStarted { id, time, request } => {
                Self::RequestStarted { id: *id, time: *time, request: Box::new((*request).clone()) }
            }
            Observation::RequestEnded(end) => {
                let response = end.response.as_ref();
                Self::RequestEnded(Box::new(EndedRequest {
                    id: end.id,
                    call: end.call.clone(),
                    parts: response.map_or_else(Vec::new, |response| response.parts.to_vec()),
                    finish: response.and_then(|response| response.finish.clone()),
                    response_id: response.and_then(|response| response.id.map(str::to_owned)),
                    answered_by: response.and_then(|response| response.model.map(str::to_owned)),
                    first_chunk: response
                        .and_then(|response| response.first_chunk_ms)
                        .map(Duration::from_millis),
                    status: end.status,
                    server: end.server.clone(),
                }))
            }
            Observation::CallEnded(end) => Self::CallEnded(Box::new(EndedCall {
                item: end.item.clone(),
                result: end.done.clone(),
                tool: end.tool.to_owned(),
                arguments: end.arguments.cloned(),
                server: end.server.map(str::to_owned),
            })),
            Observation::HookEnded(run) => Self::Hook(Box::new((*run).clone())),
            Observation::CommandRun { name } => Self::Command((*name).to_owned()),
            Observation::McpMessage(_) => return None,
        })
    }

    fn from_event(body: &EventBody) -> Option<Self> {
        Some(match body {
            EventBody::SessionReady(ready) => Self::Ready(ready.clone()),
            EventBody::TurnStarted { prompt } => Self::TurnStarted { prompt: prompt.clone() },
            EventBody::TurnEnded(ended) => Self::TurnEnded(ended.reason.clone()),
            EventBody::StateChanged { mode, .. } => Self::Mode(*mode),
            EventBody::ItemStarted { item, start: ItemStart::Tool(_) } => {
                Self::CallStarted(item.clone())
            }
            EventBody::CallState(state) if state.phase == CallPhase::Executing => {
                Self::CallExecuting(state.item.clone())
            }
            EventBody::Compaction(compaction) => Self::Compacted(compaction.clone()),
            EventBody::Routed(route) => Self::Routed(route.clone()),
            EventBody::Retry(retry) => Self::Retried {
                model: retry.model.clone(),
                class: retry.class.clone(),
                attempt: retry.attempt.into(),
            },
            _ => return None,
        })
    }
}
