//! Sends the events of a session to the front ends that are attached to it, without waiting for
//! any of them.
//!
//! A front end that does not read in time loses its queue, and gets the state of the session
//! again when it reads: that is never more than the retained events of one turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_protocol::event::{Event, EventBody, SteeringOutcome};
use tokio::sync::Notify;

use crate::retained_events::{InitialState, RetainedEvents, event_line};

/// Maximum size of the lines that wait for one front end, in bytes.
const MAX_WAITING: usize = 1 << 20;

#[derive(Debug, Default)]
struct QueueState {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    /// Whether lines were dropped, so that the front end needs the state of the session.
    is_behind: bool,
    is_closed: bool,
}

/// The lines that wait for one front end.
#[derive(Debug, Default)]
pub(crate) struct ViewerQueue {
    state: Mutex<QueueState>,
    ready: Notify,
}

/// What a front end gets next.
#[derive(Debug)]
pub(crate) enum NextLines {
    Lines(VecDeque<Arc<str>>),
    /// The state of the session, because lines were dropped.
    State,
    End,
}

impl ViewerQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line for this front end only.
    pub(crate) fn push(&self, line: Arc<str>) {
        let mut state = self.lock();
        if !state.is_behind {
            state.bytes += line.len();
            state.lines.push_back(line);
            if state.bytes > MAX_WAITING {
                state.lines = VecDeque::new();
                state.bytes = 0;
                state.is_behind = true;
            }
        }
        drop(state);
        self.ready.notify_one();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.ready.notify_one();
    }

    /// Waits for lines. Cancel-safe.
    pub(crate) async fn next(&self) -> NextLines {
        loop {
            {
                let mut state = self.lock();
                if state.is_behind {
                    return NextLines::State;
                }
                if !state.lines.is_empty() {
                    state.bytes = 0;
                    return NextLines::Lines(std::mem::take(&mut state.lines));
                }
                if state.is_closed {
                    return NextLines::End;
                }
            }
            self.ready.notified().await;
        }
    }
}

#[derive(Debug)]
struct FeedState {
    retained: RetainedEvents,
    viewers: Vec<Arc<ViewerQueue>>,
    /// Steering messages that became prompts since this was last asked.
    new_prompts: usize,
}

#[derive(Debug)]
struct Feed {
    state: Mutex<FeedState>,
    turn_ended: Notify,
}

/// The events of a session for its front ends. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LiveFeed(Arc<Feed>);

impl LiveFeed {
    /// Creates a feed without front ends.
    pub fn new(initial: InitialState) -> Self {
        let retained = RetainedEvents::new(initial);
        let state = Mutex::new(FeedState { retained, viewers: Vec::new(), new_prompts: 0 });
        Self(Arc::new(Feed { state, turn_ended: Notify::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event to all front ends. Never waits.
    pub fn send(&self, event: &Event) {
        self.add(event);
        if matches!(event.body, EventBody::TurnEnded(_)) {
            self.0.turn_ended.notify_one();
        }
    }

    /// Waits for the end of a turn.
    pub(crate) async fn turn_ended(&self) {
        self.0.turn_ended.notified().await;
    }

    fn add(&self, event: &Event) {
        let mut state = self.lock();
        if let EventBody::SteerEnded(ended) = &event.body
            && ended.outcome == SteeringOutcome::Prompted
        {
            state.new_prompts += 1;
        }
        let FeedState { retained, viewers, .. } = &mut *state;
        if viewers.is_empty() {
            return retained.add(event, || event_line(event));
        }
        let line = event_line(event);
        retained.add(event, || Arc::clone(&line));
        for viewer in viewers.iter() {
            viewer.push(Arc::clone(&line));
        }
    }

    /// Whether a turn is running.
    pub(crate) fn is_turn_running(&self) -> bool {
        self.lock().retained.is_turn_running()
    }

    /// Returns the number of steering messages that became prompts since the last call.
    pub(crate) fn take_new_prompts(&self) -> usize {
        std::mem::take(&mut self.lock().new_prompts)
    }

    /// Adds a front end, whose first lines are the state of the session.
    pub(crate) fn attach(&self) -> Arc<ViewerQueue> {
        let queue = Arc::new(ViewerQueue::default());
        queue.lock().is_behind = true;
        self.lock().viewers.push(Arc::clone(&queue));
        queue
    }

    /// Removes a front end.
    pub(crate) fn detach(&self, queue: &Arc<ViewerQueue>) {
        self.lock().viewers.retain(|other| !Arc::ptr_eq(other, queue));
    }

    /// Returns the state of the session for a front end that lost lines. Later events follow.
    pub(crate) fn resume(&self, queue: &ViewerQueue) -> Vec<Arc<str>> {
        // No event is sent in the meantime.
        let state = self.lock();
        queue.lock().is_behind = false;
        state.retained.snapshot()
    }

    /// Ends the feed: front ends get what waits for them, and nothing else.
    pub(crate) fn close(&self) {
        self.lock().viewers.iter().for_each(|viewer| viewer.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retained_events::tests::initial;

    fn feed() -> LiveFeed {
        LiveFeed::new(initial())
    }

    fn send(feed: &LiveFeed, body: EventBody) {
        feed.send(&Event { seq: 0, turn: 1, body });
    }

    #[tokio::test]
    async fn front_end_that_does_not_read_uses_bounded_memory_and_gets_the_state_later() {
        let feed = feed();
        let queue = feed.attach();
        assert!(matches!(queue.next().await, NextLines::State));
        assert_eq!(feed.resume(&queue).len(), 2);
        send(&feed, EventBody::TurnStarted { prompt: "p".to_owned() });
        let text = "x".repeat(1000);
        for _ in 0..10_000 {
            send(&feed, EventBody::Aside { text: text.clone() });
            assert!(queue.lock().bytes <= MAX_WAITING);
        }
        assert!(matches!(queue.next().await, NextLines::State));
        assert_eq!(feed.resume(&queue).len(), 3, "the turn is running");
        send(&feed, EventBody::Aside { text: "after".to_owned() });
        let NextLines::Lines(lines) = queue.next().await else { panic!("lines") };
        assert_eq!(lines.len(), 1);
        feed.close();
        assert!(matches!(queue.next().await, NextLines::End));
    }

    #[tokio::test]
    async fn detached_front_end_gets_nothing() {
        let feed = feed();
        let queue = feed.attach();
        feed.resume(&queue);
        feed.detach(&queue);
        send(&feed, EventBody::TurnStarted { prompt: "p".to_owned() });
        assert!(queue.lock().lines.is_empty() && feed.is_turn_running());
    }
}
