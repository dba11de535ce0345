//! Several observers as one.

use std::sync::Arc;

use parallax_protocol::observer::{EventScope, Observation, Observer, SpanSubject};
use parallax_protocol::trace_headers::TraceHeaders;

/// Observers that see the same.
pub struct Observers(pub Vec<Arc<dyn Observer>>);

impl Observer for Observers {
    fn is_active(&self) -> bool {
        self.0.iter().any(|observer| observer.is_active())
    }

    fn observe(&self, scope: &EventScope, observation: &Observation<'_>) {
        for observer in self.0.iter().filter(|observer| observer.is_active()) {
            observer.observe(scope, observation);
        }
    }

    fn trace_headers(&self, scope: &EventScope, span: SpanSubject<'_>) -> Option<TraceHeaders> {
        self.0.iter().find_map(|observer| observer.trace_headers(scope, span))
    }
}
