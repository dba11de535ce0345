//! The trace context that is passed on: <https://www.w3.org/TR/trace-context/>.

use std::ffi::OsString;

/// A trace context as it is passed on to a process or server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeaders {
    /// The trace and the span: `00-<trace>-<span>-<flags>`.
    pub traceparent: String,
    /// What the systems that the trace came through have added.
    pub tracestate: Option<String>,
}

impl TraceHeaders {
    /// Returns the names of HTTP headers and fields with their values.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.tracestate.as_deref().map(|state| ("tracestate", state));
        [("traceparent", self.traceparent.as_str())].into_iter().chain(state)
    }

    /// Sets the environment variables of a process that works on behalf of the span.
    pub fn set_variables(&self, variables: &mut Vec<(OsString, OsString)>) {
        // An inherited state belongs to another trace than the new one.
        variables.retain(|(name, _)| name != "TRACEPARENT" && name != "TRACESTATE");
        let fields = self.fields().map(|(name, value)| (name.to_uppercase().into(), value.into()));
        variables.extend(fields);
    }
}
