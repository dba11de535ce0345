//! Spans.

use std::time::SystemTime;

use parallax_protocol::Object;

use crate::trace_context::TraceContext;

/// A span: something with a duration.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) context: TraceContext,
    /// The span that it is part of.
    pub(crate) parent: Option<[u8; 8]>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
    pub(crate) attributes: Object,
    /// The message of its failure, if it failed.
    pub(crate) error: Option<String>,
}

/// The role of a span in relation to other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// Work in this process.
    Internal,
    /// A request to another one.
    Client,
}
