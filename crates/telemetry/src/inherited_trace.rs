//! The trace that a session is part of, from the environment.

use parallax_config::Environment;
use parallax_protocol::observer::{EventScope, Observation, Observer, SpanSubject};
use parallax_protocol::trace_headers::TraceHeaders;

use crate::trace_context::TraceContext;

/// Longest accepted state. Systems must pass on at least this much.
const MAX_STATE: usize = 512;

/// The trace that the process was started in. As an observer, it passes the trace on unchanged, for
/// sessions without telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritedTrace {
    /// The trace, and the span that started the process (`TRACEPARENT`).
    pub context: TraceContext,
    /// What the systems that the trace came through have added (`TRACESTATE`).
    pub state: Option<String>,
}

impl InheritedTrace {
    /// Reads the trace from the environment. A state without a valid trace is ignored.
    pub fn from_environment(environment: &Environment) -> Option<Self> {
        let variable = |name| environment.process_variable(name);
        let context = variable("TRACEPARENT").and_then(TraceContext::parse)?;
        let is_valid = |state: &&str| {
            let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
            !state.is_empty() && state.len() <= MAX_STATE && state.bytes().all(is_printable)
        };
        let state = variable("TRACESTATE").map(str::trim).filter(is_valid).map(str::to_owned);
        Some(Self { context, state })
    }
}

impl Observer for InheritedTrace {
    fn is_active(&self) -> bool {
        false
    }

    fn observe(&self, _: &EventScope, _: &Observation<'_>) {}

    fn trace_headers(&self, _: &EventScope, _: SpanSubject<'_>) -> Option<TraceHeaders> {
        Some(TraceHeaders {
            traceparent: self.context.traceparent(),
            tracestate: self.state.clone(),
        })
    }
}
