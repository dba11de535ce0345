//! The events that a front end needs to show the running turn: what the journal does not contain
//! yet, in the shortest form.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use parallax_protocol::event::{Event, EventBody, ItemDone, SessionReady};
use parallax_protocol::ids::{ApprovalId, ItemId};
use parallax_protocol::session_view::{JournalPosition, SessionView};

use serde::Serialize;

use crate::view_protocol::FeedLine;

/// Maximum size of the retained events in bytes. Older ones are dropped.
const MAX_BYTES: usize = 8 << 20;

/// Returns the line of a message, with its line ending.
pub(crate) fn to_line(message: &impl Serialize) -> Arc<str> {
    let mut line = serde_json::to_string(message).unwrap_or_else(|error| {
        tracing::warn!(%error, "a message for front ends cannot be written");
        String::from("{}")
    });
    line.push('\n');
    line.into()
}

/// [`FeedLine::Event`] without a copy of the event.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum EventLine<'a> {
    Event(&'a Event),
}

/// Returns the line of an event, with its line ending.
pub(crate) fn event_line(event: &Event) -> Arc<str> {
    to_line(&EventLine::Event(event))
}

/// What the process of the session knows when it starts.
#[derive(Debug, Clone)]
pub struct InitialState {
    /// The session, its model, and its mode.
    pub ready: SessionReady,
    /// The number of records in its journal.
    pub initial_records: usize,
    /// The turn of the last prompt in its journal; 0 without one.
    pub last_turn: u64,
    /// Whether its directory is trusted.
    pub is_trusted: bool,
}

/// Events of one item, in the order in which they are repeated.
#[derive(Debug, Default)]
struct RetainedItem {
    started: Option<Arc<str>>,
    /// All text so far, as one event.
    delta: Option<Event>,
    call_state: Option<Arc<str>>,
    screen: Option<Arc<str>>,
    advance: Option<Arc<str>>,
    agent: Option<Arc<str>>,
    done: Option<Arc<str>>,
}

impl RetainedItem {
    fn lines(&self) -> impl Iterator<Item = Arc<str>> {
        let delta = self.delta.as_ref().map(event_line);
        let Self { started, call_state, screen, advance, agent, done, .. } = self;
        let lines = [started, call_state, screen, advance, agent].map(Clone::clone);
        lines.into_iter().chain([delta, done.clone()]).flatten()
    }

    fn size(&self) -> usize {
        let text = match self.delta.as_ref().map(|event| &event.body) {
            Some(EventBody::ItemDelta { text, .. }) => text.len(),
            _ => 0,
        };
        let Self { started, call_state, screen, advance, agent, done, .. } = self;
        let lines = [started, call_state, screen, advance, agent, done];
        lines.into_iter().flatten().map(|line| line.len()).sum::<usize>() + text
    }
}

#[derive(Debug)]
enum Entry {
    Item(Box<RetainedItem>),
    Line(Arc<str>),
}

/// The retained events.
#[derive(Debug)]
pub(crate) struct RetainedEvents {
    ready: SessionReady,
    is_trusted: bool,
    context: Option<Arc<str>>,
    journal: JournalPosition,
    ended_turns: usize,
    turn: Option<RunningTurn>,
    entries: VecDeque<Entry>,
    /// The number of entries that were removed from the front.
    removed: usize,
    /// Positions of items that are not done, counted with the removed entries.
    open_items: HashMap<ItemId, usize>,
    approvals: Vec<(ApprovalId, Arc<str>)>,
    bytes: usize,
    is_truncated: bool,
}

#[derive(Debug)]
struct RunningTurn {
    line: Arc<str>,
    started: Instant,
}

impl RetainedEvents {
    pub(crate) fn new(initial: InitialState) -> Self {
        Self {
            ready: initial.ready,
            is_trusted: initial.is_trusted,
            context: None,
            journal: JournalPosition {
                initial_records: initial.initial_records,
                prompt_turn: initial.last_turn + 1,
                ended_turns: None,
            },
            ended_turns: 0,
            turn: None,
            entries: VecDeque::new(),
            removed: 0,
            open_items: HashMap::new(),
            approvals: Vec::new(),
            bytes: 0,
            is_truncated: false,
        }
    }

    /// Whether a turn is running.
    pub(crate) fn is_turn_running(&self) -> bool {
        self.turn.is_some()
    }

    /// Returns everything that a front end needs, as lines.
    pub(crate) fn snapshot(&self) -> Vec<Arc<str>> {
        let turn_ms = self.turn.as_ref().map(|turn| turn.started.elapsed().as_millis());
        let view = SessionView {
            scripted: self.ready.scripted,
            is_trusted: self.is_trusted,
            journal: self.journal,
            turn_ms: turn_ms.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
            is_truncated: self.is_truncated,
        };
        let ready = Event { seq: 0, turn: 0, body: EventBody::SessionReady(self.ready.clone()) };
        let mut lines = vec![to_line(&FeedLine::State(Box::new(view))), event_line(&ready)];
        lines.extend(self.context.clone());
        lines.extend(self.turn.as_ref().map(|turn| Arc::clone(&turn.line)));
        for entry in &self.entries {
            match entry {
                Entry::Item(item) => lines.extend(item.lines()),
                Entry::Line(line) => lines.push(Arc::clone(line)),
            }
        }
        lines.extend(self.approvals.iter().map(|(_, line)| Arc::clone(line)));
        lines
    }

    /// Retains an event. `line` returns its line.
    pub(crate) fn add(&mut self, event: &Event, line: impl FnOnce() -> Arc<str>) {
        match &event.body {
            EventBody::SessionReady(ready) => self.ready = ready.clone(),
            EventBody::StateChanged { model, mode } => {
                self.ready.model.clone_from(model);
                self.ready.mode = *mode;
            }
            EventBody::ContextUsed(_) => self.context = Some(line()),
            EventBody::TurnStarted { prompt } => self.start_turn(prompt, line()),
            EventBody::TurnEnded(_) => self.end_turn(),
            EventBody::ItemStarted { item, .. } => {
                let started = Some(line());
                self.update(item, true, |entry| entry.started = started);
            }
            EventBody::ItemDelta { item, text } => self.update(item, false, |entry| {
                match entry.delta.as_mut().map(|event| &mut event.body) {
                    Some(EventBody::ItemDelta { text: earlier, .. }) => earlier.push_str(text),
                    _ => entry.delta = Some(event.clone()),
                }
            }),
            EventBody::ItemScreen { item, .. } => {
                let screen = Some(line());
                self.update(item, false, |entry| entry.screen = screen);
            }
            EventBody::ItemAdvanced { item, .. } => {
                let advance = Some(line());
                self.update(item, false, |entry| entry.advance = advance);
            }
            EventBody::Agent { item, .. } => {
                let agent = Some(line());
                self.update(item, false, |entry| entry.agent = agent);
            }
            EventBody::CallState(state) => {
                let call_state = Some(line());
                self.update(&state.item, false, |entry| entry.call_state = call_state);
            }
            EventBody::ItemDone { item, done } => self.finish(item, done, line),
            EventBody::ApprovalRequested(ask) => self.approvals.push((ask.id.clone(), line())),
            EventBody::ApprovalClosed { ask, .. } => self.approvals.retain(|(id, _)| id != ask),
            EventBody::ModelCall(_)
            | EventBody::Sources(_)
            | EventBody::Image(_)
            | EventBody::Compaction(_)
            | EventBody::Routed(_)
            | EventBody::FellBack(_)
                if self.turn.is_some() =>
            {
                self.push(Entry::Line(line()));
            }
            // The others answer a request of one front end, or describe a moment.
            _ => {}
        }
        self.trim();
    }

    fn start_turn(&mut self, prompt: &str, line: Arc<str>) {
        if prompt.is_empty() {
            self.journal.ended_turns = Some(self.ended_turns);
        } else {
            self.journal.ended_turns = None;
        }
        self.turn = Some(RunningTurn { line, started: Instant::now() });
        self.is_truncated = false;
    }

    /// Keeps only items that are not done: shell commands of the user outlive a turn.
    fn end_turn(&mut self) {
        // The prompt of the turn is in the journal now.
        if self.journal.ended_turns.take().is_none() {
            self.journal.prompt_turn += 1;
        }
        self.ended_turns += 1;
        self.turn = None;
        self.is_truncated = false;
        self.approvals.clear();
        let entries = std::mem::take(&mut self.entries);
        let mut open: Vec<(usize, ItemId)> =
            self.open_items.drain().map(|(item, position)| (position, item)).collect();
        open.sort_by_key(|(position, _)| *position);
        let mut open = open.into_iter().peekable();
        let first = std::mem::take(&mut self.removed);
        self.bytes = 0;
        for (index, entry) in entries.into_iter().enumerate() {
            if let Some((_, item)) = open.next_if(|(position, _)| *position == first + index) {
                self.open_items.insert(item, self.entries.len());
                self.push(entry);
            }
        }
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += match &entry {
            Entry::Item(item) => item.size(),
            Entry::Line(line) => line.len(),
        };
        self.entries.push_back(entry);
    }

    /// Changes the entry of an item, if it is retained or is to be created.
    fn update(&mut self, item: &ItemId, creates: bool, change: impl FnOnce(&mut RetainedItem)) {
        if creates && !self.open_items.contains_key(item) {
            self.open_items.insert(item.clone(), self.removed + self.entries.len());
            self.push(Entry::Item(Box::default()));
        }
        let Some(place) = self.open_items.get(item).copied() else { return };
        let index = place.checked_sub(self.removed);
        if let Some(Entry::Item(entry)) = index.and_then(|index| self.entries.get_mut(index)) {
            let before = entry.size();
            change(entry);
            self.bytes = (self.bytes + entry.size()).saturating_sub(before);
        }
    }

    fn finish(&mut self, item: &ItemId, done: &ItemDone, line: impl FnOnce() -> Arc<str>) {
        if !self.open_items.contains_key(item) {
            // A notice, which does not start. Between turns, nothing is repeated.
            if self.turn.is_some() {
                self.push(Entry::Line(line()));
            }
            return;
        }
        let is_dropped = matches!(done, ItemDone::Text { is_dropped: true, .. });
        let done = line();
        self.update(item, false, |entry| {
            // The event is complete by itself.
            let started = entry.started.take();
            *entry = RetainedItem { started, done: Some(done), ..RetainedItem::default() };
            if is_dropped {
                *entry = RetainedItem::default();
            }
        });
        self.open_items.remove(item);
    }

    fn trim(&mut self) {
        while self.bytes > MAX_BYTES
            && let Some(entry) = self.entries.pop_front()
        {
            let position = self.removed;
            self.removed += 1;
            self.is_truncated = true;
            self.bytes = self.bytes.saturating_sub(match &entry {
                Entry::Item(item) => item.size(),
                Entry::Line(line) => line.len(),
            });
            self.open_items.retain(|_, other| *other != position);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use parallax_protocol::approval_mode::ApprovalMode;
    use parallax_protocol::event::{EndReason, ItemStart, TurnEnded};
    use parallax_protocol::ids::SessionId;

    use super::*;

    pub(crate) fn initial() -> InitialState {
        let ready = SessionReady {
            session: SessionId::from("s"),
            model: "m".to_owned(),
            mode: ApprovalMode::Default,
            resumed: false,
            scripted: true,
        };
        InitialState { ready, initial_records: 0, last_turn: 0, is_trusted: true }
    }

    fn add(events: &mut RetainedEvents, body: EventBody) {
        let event = Event { seq: 0, turn: 1, body };
        events.add(&event, || event_line(&event));
    }

    fn lines(events: &RetainedEvents) -> String {
        events.snapshot().iter().map(|line| &**line).collect()
    }

    fn started(item: &str) -> EventBody {
        EventBody::ItemStarted { item: item.into(), start: ItemStart::Text }
    }

    fn done(item: &str, text: &str, is_dropped: bool) -> EventBody {
        let done = ItemDone::Text { text: Arc::new(text.to_owned()), is_dropped };
        EventBody::ItemDone { item: item.into(), done }
    }

    fn ended() -> EventBody {
        let end = TurnEnded { reason: EndReason::Done, duration_ms: 1, is_removed: false };
        EventBody::TurnEnded(end)
    }

    #[test]
    fn deltas_are_merged_and_dropped_when_the_item_is_done() {
        let mut events = RetainedEvents::new(initial());
        add(&mut events, EventBody::TurnStarted { prompt: "p".to_owned() });
        add(&mut events, started("a"));
        for text in ["one ", "two"] {
            add(&mut events, EventBody::ItemDelta { item: "a".into(), text: text.to_owned() });
        }
        assert!(lines(&events).contains("one two"));
        add(&mut events, done("a", "whole", false));
        let all = lines(&events);
        assert!(all.contains("whole") && !all.contains("one two"), "{all}");
        add(&mut events, started("b"));
        add(&mut events, done("b", "failed attempt", true));
        assert!(!lines(&events).contains("failed attempt"));
        add(&mut events, ended());
        assert!(!lines(&events).contains("whole") && events.bytes == 0);
        assert_eq!(events.journal.prompt_turn, 2);
    }

    #[test]
    fn item_that_outlives_the_turn_is_kept() {
        let mut events = RetainedEvents::new(initial());
        add(&mut events, EventBody::TurnStarted { prompt: "p".to_owned() });
        add(&mut events, started("finished"));
        add(&mut events, started("open"));
        add(&mut events, done("finished", "text", false));
        add(&mut events, ended());
        add(&mut events, EventBody::ItemDelta { item: "open".into(), text: "more".to_owned() });
        let all = lines(&events);
        assert!(all.contains("\"open\"") && all.contains("more") && !all.contains("finished"));
    }

    #[test]
    fn long_turn_is_truncated_at_the_front() {
        let mut events = RetainedEvents::new(initial());
        add(&mut events, EventBody::TurnStarted { prompt: "p".to_owned() });
        let text = "x".repeat(MAX_BYTES / 8);
        for number in 0..20 {
            let item = format!("item-{number}");
            add(&mut events, started(&item));
            add(&mut events, done(&item, &text, false));
        }
        let all = lines(&events);
        assert!(all.len() < MAX_BYTES + 4096 && all.contains("\"is_truncated\":true"));
        assert!(!all.contains("item-1\"") && all.contains("item-19"));
    }

    #[test]
    fn continued_turn_begins_after_the_turns_that_ended() {
        let mut events = RetainedEvents::new(InitialState { last_turn: 4, ..initial() });
        assert_eq!(events.journal.prompt_turn, 5);
        add(&mut events, EventBody::TurnStarted { prompt: String::new() });
        assert_eq!(events.journal.ended_turns, Some(0));
        add(&mut events, ended());
        assert_eq!((events.journal.ended_turns, events.journal.prompt_turn), (None, 5));
    }
}
