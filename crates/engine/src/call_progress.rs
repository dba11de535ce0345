//! Sends live output of a call to the front ends.

use std::sync::Arc;

use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::ids::ItemId;
use parallax_protocol::observer::SpanSubject;
use parallax_protocol::shell::{ProcessControl, Screen};
use parallax_protocol::tool::{Progress, ProgressUpdate};
use parallax_protocol::trace_headers::TraceHeaders;

use crate::event_bus::EventBus;
use crate::running_processes::RunningProcesses;

/// Sends live output of a call to the front ends.
pub(crate) struct CallProgress {
    pub(crate) bus: EventBus,
    pub(crate) item: ItemId,
    pub(crate) processes: RunningProcesses,
}

impl Progress for CallProgress {
    fn output(&self, text: &str) {
        self.bus.send(EventBody::ItemDelta { item: self.item.clone(), text: text.to_owned() });
    }

    fn advance(&self, advance: &ProgressUpdate) {
        let (item, advance) = (self.item.clone(), advance.clone());
        self.bus.send(EventBody::ItemAdvanced { item, advance });
    }

    fn emit_aside(&self, text: &str) {
        self.bus.send(EventBody::Aside { text: text.to_owned() });
    }

    fn trace_headers(&self) -> Option<TraceHeaders> {
        self.bus.trace_headers(SpanSubject::Call(&self.item))
    }

    fn trace_headers_of_mcp_request(&self) -> Option<TraceHeaders> {
        self.bus.trace_headers(SpanSubject::McpRequest(&self.item))
    }

    fn screen(&self, screen: Screen) {
        let screen = Arc::new(screen);
        self.bus.send(EventBody::ItemScreen { item: self.item.clone(), screen });
    }

    fn control(&self, control: Arc<dyn ProcessControl>) {
        self.processes.set_control(&self.item, control);
    }

    fn notice(&self, level: Level, text: &str) {
        let item = ItemId::new(format!("{}-notice", self.item.as_str()));
        self.bus.send(EventBody::ItemDone { item, done: ItemDone::notice(level, text) });
    }
}
