//! Log records.

use std::time::SystemTime;

use parallax_protocol::Object;
use serde_json::Value;

use crate::trace_context::TraceContext;

/// A log record: something that happened.
#[derive(Debug, Clone)]
pub(crate) struct LogRecord {
    pub(crate) time: SystemTime,
    /// `event.name`.
    pub(crate) name: &'static str,
    /// One sentence for readers.
    pub(crate) body: String,
    pub(crate) attributes: Object,
    /// The span that it belongs to.
    pub(crate) context: Option<TraceContext>,
}

/// Builders for an attribute set; absent values are omitted.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeSet(Object);

impl AttributeSet {
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    pub(crate) fn with_optional(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a count unless it is zero.
    pub(crate) fn with_count(self, name: &str, count: u64) -> Self {
        if count == 0 { self } else { self.with(name, count) }
    }

    pub(crate) fn extended(mut self, more: &Object) -> Self {
        for (name, value) in more {
            self.0.insert(name.clone(), value.clone());
        }
        self
    }

    pub(crate) fn into_object(self) -> Object {
        self.0
    }
}
