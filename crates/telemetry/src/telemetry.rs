//! The observer of a session that records telemetry.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use parallax_protocol::event::EventBody;
use parallax_protocol::ids::ItemId;
use parallax_protocol::observer::{EventScope, Observation, Observer, SpanSubject};
use parallax_protocol::trace_headers::TraceHeaders;
use tokio::sync::{mpsc, oneshot};

use crate::delivery::DeliveryState;
use crate::error::{Problems, TelemetryError};
use crate::inherited_trace::InheritedTrace;
use crate::input::{InputKind, TelemetryInput};
use crate::options::TelemetryOptions;
use crate::telemetry_state::CommonAttributes;
use crate::thread::{Sinks, TelemetryThread};
use crate::trace_context::TraceContext;

/// Maximum number of observations that wait for the thread; others are dropped and counted.
const QUEUE: usize = 8192;
/// How long the end of a session may wait until everything is written and sent.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Records what happens in a session.
pub struct Telemetry {
    sender: mpsc::Sender<TelemetryInput>,
    dropped_records: AtomicU64,
    problems: Problems,
    delivery: Arc<DeliveryState>,
    /// The session's running turn, or its last one.
    turn: AtomicU64,
    is_in_turn: AtomicBool,
    parent: Option<InheritedTrace>,
    seed: [u8; 16],
}

impl Telemetry {
    /// Starts the thread that records. `seed` is random; span ids are computed from it. Must run
    /// on a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or the export cannot be set up.
    pub fn start(options: TelemetryOptions, seed: [u8; 16]) -> Result<Arc<Self>, TelemetryError> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let problems: Problems = Arc::new(Mutex::new(Vec::new()));
        let (parent, attributes) = (options.parent.clone(), CommonAttributes::new(&options, seed));
        let delivery = Arc::new(DeliveryState::default());
        let (weak, kept) = (sender.downgrade(), Arc::clone(&delivery));
        let sinks = Sinks::open(options, weak, Arc::clone(&problems), kept)?;
        let worker = TelemetryThread::new(attributes, sinks);
        std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || worker.run(receiver))?;
        Ok(Arc::new(Self {
            sender,
            dropped_records: AtomicU64::new(0),
            problems,
            delivery,
            turn: AtomicU64::new(0),
            is_in_turn: AtomicBool::new(false),
            parent,
            seed,
        }))
    }

    /// Writes and sends everything, within two seconds. Returns what the user should know.
    pub async fn flush(&self) -> Vec<String> {
        let (done, flushed) = oneshot::channel();
        let (scope, time) = (EventScope::default(), SystemTime::now());
        let flush = TelemetryInput { scope, time, kind: InputKind::Flush(done) };
        let flush_future = async {
            if self.sender.send(flush).await.is_ok() {
                // Without an answer the thread is gone.
                let _ = flushed.await;
            }
        };
        let is_late = tokio::time::timeout(FLUSH_LIMIT, flush_future).await.is_err();
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = std::mem::take(&mut *problems);
        let dropped = self.dropped_records.swap(0, Ordering::Relaxed);
        notes.extend(self.delivery.notice(dropped, is_late));
        notes
    }
}

impl Observer for Telemetry {
    fn observe(&self, scope: &EventScope, observation: &Observation<'_>) {
        match observation {
            Observation::Event(EventBody::TurnStarted { .. }) if scope.subagents.is_empty() => {
                self.turn.store(scope.turn, Ordering::Relaxed);
                self.is_in_turn.store(true, Ordering::Relaxed);
            }
            Observation::Event(EventBody::TurnEnded(_)) if scope.subagents.is_empty() => {
                self.is_in_turn.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
        let Some(kind) = InputKind::from_observation(observation) else { return };
        let observed = TelemetryInput { scope: scope.clone(), time: SystemTime::now(), kind };
        if self.sender.try_send(observed).is_err() {
            self.dropped_records.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn trace_headers(&self, scope: &EventScope, span: SpanSubject<'_>) -> Option<TraceHeaders> {
        let traceparent = self.context(scope, span)?.traceparent();
        let tracestate = self.parent.as_ref().and_then(|parent| parent.state.clone());
        Some(TraceHeaders { traceparent, tracestate })
    }
}

impl Telemetry {
    /// Returns the span with the number that the recording thread will give it.
    fn context(&self, scope: &EventScope, span: SpanSubject<'_>) -> Option<TraceContext> {
        let parent = self.parent.as_ref().map(|parent| parent.context);
        if scope.subagents.is_empty() && !self.is_in_turn.load(Ordering::Relaxed) {
            let outside =
                |item: &ItemId| TraceContext::outside_turns(parent, &self.seed, item.as_str());
            let context = match span {
                SpanSubject::Turn => parent?,
                SpanSubject::Call(item) => outside(item),
                SpanSubject::McpRequest(item) => outside(item).mcp_request(),
            };
            return Some(context);
        }
        let turn = self.turn.load(Ordering::Relaxed);
        let mut context = TraceContext::for_turn(parent, &self.seed, turn);
        let mut subagents = scope.subagents.iter().peekable();
        while let Some(subagent) = subagents.next() {
            // A subagent that has its own subagents is in its first turn, because in its last turn
            // it can only finish.
            let turn = if subagents.peek().is_none() { scope.turn } else { 1 };
            context = context.child(subagent.item.as_str()).subagent_turn(turn);
        }
        let context = match span {
            SpanSubject::Turn => context,
            SpanSubject::Call(item) => context.child(item.as_str()),
            SpanSubject::McpRequest(item) => context.child(item.as_str()).mcp_request(),
        };
        Some(context)
    }
}
