//! The event bus: sends events to every front end without waiting for any.
//!
//! Each reader has its own queue. Nothing is lost, except that for a slow reader text deltas of
//! one item are merged and only its newest screen is kept.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use parallax_protocol::event::{Event, EventBody, ModelCall};
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::model::{Request, ServerAddress};
use parallax_protocol::observer::{
    EventScope, Observation, Observer, RequestEnd, ResponseInfo, SpanSubject, SubagentScope,
};
use parallax_protocol::trace_headers::TraceHeaders;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Number of unread events above which deltas are merged.
const LAG: usize = 256;

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    is_closed: bool,
    /// Whether the reader is gone, so that nothing is queued for it.
    has_no_reader: bool,
}

#[derive(Default)]
struct Channel {
    queue: Mutex<Queue>,
    ready: Notify,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct BusState {
    next_seq: u64,
    turn: u64,
    readers: Vec<Arc<Channel>>,
    user_wait: UserWaitTimer,
}

/// Measures how long at least one request to the user was open. All requests pass through the
/// bus, including those of subagents.
#[derive(Default)]
struct UserWaitTimer {
    open: HashSet<ApprovalId>,
    started: Option<Instant>,
    total: Duration,
}

impl UserWaitTimer {
    fn event(&mut self, body: &EventBody) {
        match body {
            EventBody::ApprovalRequested(ask) => drop(self.open.insert(ask.id.clone())),
            EventBody::ApprovalClosed { ask, .. } => drop(self.open.remove(ask)),
            // Requests of a turn that is over can no longer be answered.
            EventBody::TurnEnded(_) => self.open.clear(),
            _ => return,
        }
        if self.open.is_empty() {
            self.total = self.now();
            self.started = None;
        } else {
            self.started.get_or_insert_with(Instant::now);
        }
    }

    fn now(&self) -> Duration {
        self.total + self.started.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// What observers receive of a request that ended, next to its event.
pub(crate) struct SentRequest<'a> {
    /// The number that [`EventBus::observe_request`] returned.
    pub(crate) id: u64,
    pub(crate) response: Option<ResponseInfo<'a>>,
    /// The HTTP status of a failure.
    pub(crate) status: Option<u16>,
    pub(crate) server: Option<ServerAddress>,
}

/// The sending side. Cheap to clone.
#[derive(Clone, Default)]
pub struct EventBus {
    state: Arc<Mutex<BusState>>,
    observers: Arc<[Arc<dyn Observer>]>,
    /// The subagents that its events come from, outermost first.
    subagents: Arc<[SubagentScope]>,
    /// Number of requests that were observed, in the session and its subagents.
    requests: Arc<AtomicU64>,
}

impl EventBus {
    /// Creates a bus without readers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a bus without readers, whose session is observed.
    pub fn with_observers(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { observers: observers.into(), ..Self::default() }
    }

    /// Creates the bus of a subagent: it has its own readers and the same observers.
    pub(crate) fn for_subagent(&self, subagent: SubagentScope) -> Self {
        Self {
            observers: Arc::clone(&self.observers),
            subagents: self.subagents.iter().cloned().chain([subagent]).collect(),
            requests: Arc::clone(&self.requests),
            ..Self::default()
        }
    }

    /// Whether anything observes the session now.
    pub(crate) fn has_observers(&self) -> bool {
        self.observers.iter().any(|observer| observer.is_active())
    }

    /// Reports an observation to the active observers.
    pub(crate) fn observe(&self, observation: &Observation<'_>) {
        let mut active = self.observers.iter().filter(|observer| observer.is_active()).peekable();
        if active.peek().is_none() {
            return;
        }
        let turn = self.lock().turn;
        let scope = EventScope { turn, subagents: Arc::clone(&self.subagents) };
        active.for_each(|observer| observer.observe(&scope, observation));
    }

    /// Returns the trace context that names a span, if the session is part of a trace.
    pub(crate) fn trace_headers(&self, span: SpanSubject<'_>) -> Option<TraceHeaders> {
        if self.observers.is_empty() {
            return None;
        }
        let turn = self.lock().turn;
        let scope = EventScope { turn, subagents: Arc::clone(&self.subagents) };
        self.observers.iter().find_map(|observer| observer.trace_headers(&scope, span))
    }

    /// Reports a request to the observers that was sent `ago` earlier. Returns its number.
    pub(crate) fn observe_request(&self, request: &Request, ago: Duration) -> u64 {
        if !self.has_observers() {
            return 0;
        }
        let id = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let now = SystemTime::now();
        let time = now.checked_sub(ago).unwrap_or(now);
        self.observe(&Observation::RequestStarted { id, time, request });
        id
    }

    /// Sends the event of a request that ended, and reports it to the observers.
    pub(crate) fn send_model_call(&self, call: ModelCall, request: SentRequest<'_>) {
        let SentRequest { id, response, status, server } = request;
        if id != 0 {
            let end = RequestEnd { id, call: &call, response, status, server };
            self.observe(&Observation::RequestEnded(end));
        }
        self.send(EventBody::ModelCall(call));
    }

    fn lock(&self) -> MutexGuard<'_, BusState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reader of all events from now on.
    pub fn subscribe(&self) -> EventReader {
        let channel = Arc::new(Channel::default());
        self.lock().readers.push(Arc::clone(&channel));
        EventReader { channel }
    }

    /// Sets the turn that later events belong to.
    pub fn set_turn(&self, turn: u64) {
        self.lock().turn = turn;
    }

    /// Returns how long requests to the user were open so far.
    pub(crate) fn user_wait(&self) -> Duration {
        self.lock().user_wait.now()
    }

    /// Sends an event to all readers. Never waits.
    pub fn send(&self, body: EventBody) {
        self.observe(&Observation::Event(&body));
        let mut state = self.lock();
        state.user_wait.event(&body);
        let event = Event { seq: state.next_seq, turn: state.turn, body };
        state.next_seq += 1;
        state.readers.retain(|channel| !channel.lock().has_no_reader);
        if let Some((last, rest)) = state.readers.split_last() {
            for channel in rest {
                push(channel, event.clone());
            }
            push(last, event);
        }
    }

    /// Closes the bus: readers receive no more events.
    pub fn close(&self) {
        for channel in &self.lock().readers {
            channel.lock().is_closed = true;
            channel.ready.notify_one();
        }
    }
}

fn push(channel: &Channel, event: Event) {
    let mut queue = channel.lock();
    if queue.events.len() < LAG || !merge(&mut queue.events, &event) {
        queue.events.push_back(event);
    }
    drop(queue);
    channel.ready.notify_one();
}

/// Merges a delta into an unread delta of the same item, or replaces an unread screen, if only
/// such events lie between them, so that the order of all other events is kept.
fn merge(events: &mut VecDeque<Event>, event: &Event) -> bool {
    for earlier in events.iter_mut().rev() {
        match (&mut earlier.body, &event.body) {
            (
                EventBody::ItemDelta { item: other, text: unread },
                EventBody::ItemDelta { item, text },
            ) if other == item => {
                unread.push_str(text);
                return true;
            }
            (
                EventBody::ItemScreen { item: other, screen: unread },
                EventBody::ItemScreen { item, screen },
            ) if other == item => {
                *unread = Arc::clone(screen);
                return true;
            }
            (
                EventBody::ItemAdvanced { item: other, advance: unread },
                EventBody::ItemAdvanced { item, advance },
            ) if other == item => {
                unread.clone_from(advance);
                return true;
            }
            (
                EventBody::Agent { item: other, progress: unread },
                EventBody::Agent { item, progress },
            ) if other == item => {
                *unread = Arc::clone(progress);
                return true;
            }
            (
                EventBody::ItemDelta { .. }
                | EventBody::ItemScreen { .. }
                | EventBody::ItemAdvanced { .. }
                | EventBody::Agent { .. },
                EventBody::ItemDelta { .. }
                | EventBody::ItemScreen { .. }
                | EventBody::ItemAdvanced { .. }
                | EventBody::Agent { .. },
            ) => {}
            _ => return false,
        }
    }
    false
}

/// The receiving side; one per front end.
pub struct EventReader {
    channel: Arc<Channel>,
}

impl EventReader {
    /// Returns the next event, or `None` when the session is over and all events are read.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            {
                let mut queue = self.channel.lock();
                if let Some(event) = queue.events.pop_front() {
                    return Some(event);
                }
                if queue.is_closed {
                    return None;
                }
            }
            self.channel.ready.notified().await;
        }
    }

    /// Returns the next event, if one is queued.
    pub fn try_next(&mut self) -> Option<Event> {
        self.channel.lock().events.pop_front()
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut queue = self.channel.lock();
        queue.has_no_reader = true;
        queue.events.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::ids::ItemId;

    fn delta(item: &str, text: &str) -> EventBody {
        EventBody::ItemDelta { item: ItemId::from(item), text: text.into() }
    }

    #[test]
    fn lagging_reader_gets_merged_deltas_and_loses_nothing() {
        let bus = EventBus::new();
        let mut reader = bus.subscribe();
        for _ in 0..10_000 {
            bus.send(delta("a", "x"));
        }
        bus.close();
        let (mut events, mut text) = (0, String::new());
        while let Some(event) = reader.try_next() {
            events += 1;
            if let EventBody::ItemDelta { text: more, .. } = event.body {
                text.push_str(&more);
            }
        }
        assert_eq!(text.len(), 10_000);
        assert!(events <= LAG, "{events} events were kept");
    }

    #[test]
    fn lagging_reader_gets_the_newest_screen_only() {
        use parallax_protocol::shell::Screen;
        let bus = EventBus::new();
        let mut reader = bus.subscribe();
        for number in 0..10_000 {
            let rows = vec![number.to_string()];
            let screen = Arc::new(Screen { rows, ..Screen::default() });
            bus.send(EventBody::ItemScreen { item: ItemId::from("a"), screen });
            bus.send(delta("a", "x"));
        }
        let (mut events, mut newest) = (0, None);
        while let Some(event) = reader.try_next() {
            events += 1;
            if let EventBody::ItemScreen { screen, .. } = event.body {
                newest = screen.rows.first().cloned();
            }
        }
        assert_eq!(newest.as_deref(), Some("9999"));
        assert!(events <= LAG + 1, "{events} events were kept");
    }

    #[test]
    fn dropped_reader_releases_its_events() {
        let bus = EventBus::new();
        drop(bus.subscribe());
        bus.send(delta("a", "x"));
        assert!(bus.lock().readers.is_empty());
    }
}
