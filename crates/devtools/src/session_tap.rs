//! The tap of a running session: what its journal leaves out, for viewers in other processes.
//!
//! Nothing is collected while no viewer is attached, except the few messages with which MCP servers
//! start. A viewer has a bounded queue; what a slow one does not read in time is dropped and
//! counted, and never delays the session.

mod answer_text;
mod body_delta;
mod client;
mod messages;
mod observers;
mod running;
mod socket;
mod viewer_queue;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_model_http::{WireObservation, WireTap};
use parallax_protocol::observer::{EventScope, Observation, Observer};
use serde_json::Value;

pub use client::{TapConnection, TapError};
pub use observers::Observers;
pub use running::{RunningSession, running_sessions};
pub use socket::TapSocket;

use answer_text::AnswerText;
use body_delta::BodyHistory;
use viewer_queue::ViewerQueue;

/// What is shown in place of a secret.
const REDACTED: &str = "[redacted]";
/// Shorter secrets are not redacted: they would occur in ordinary text.
const MIN_SECRET: usize = 8;

/// Maximum number of startup messages of MCP servers that are kept for later viewers.
const MAX_STARTUP: usize = 128;

/// Passes on what happens in a session to its viewers.
#[derive(Default)]
pub struct SessionTap {
    /// How many viewers are attached.
    viewers: AtomicUsize,
    state: Mutex<TapState>,
}

#[derive(Default)]
struct TapState {
    queues: Vec<Arc<ViewerQueue>>,
    bodies: BodyHistory,
    answer: AnswerText,
    /// Plain, and as JSON strings.
    secrets: Vec<String>,
    /// How the MCP servers started.
    startup: VecDeque<Arc<str>>,
}

impl std::fmt::Debug for SessionTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionTap").field("viewers", &self.viewers).finish_non_exhaustive()
    }
}

impl SessionTap {
    /// Redacts these strings in everything that is passed on.
    pub fn add_secrets(&self, secrets: impl IntoIterator<Item = String>) {
        let mut state = self.lock();
        for secret in secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET) {
            // In JSON, quotes and backslashes are escaped.
            let quoted = Value::String(secret.clone()).to_string();
            let quoted = quoted.trim_matches('"').to_owned();
            state.secrets.extend([secret, quoted]);
        }
        state.secrets.sort();
        state.secrets.dedup();
    }

    fn lock(&self) -> MutexGuard<'_, TapState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_viewers(&self) -> bool {
        self.viewers.load(Ordering::Relaxed) > 0
    }

    fn attach(&self) -> Arc<ViewerQueue> {
        let queue = Arc::new(ViewerQueue::default());
        let mut state = self.lock();
        // The new viewer does not know the bodies of earlier requests.
        state.bodies.clear();
        for line in &state.startup {
            queue.push(Arc::clone(line));
        }
        state.queues.push(Arc::clone(&queue));
        self.viewers.store(state.queues.len(), Ordering::Relaxed);
        queue
    }

    fn detach(&self, queue: &Arc<ViewerQueue>) {
        let mut state = self.lock();
        state.queues.retain(|other| !Arc::ptr_eq(other, queue));
        state.bodies.clear();
        self.viewers.store(state.queues.len(), Ordering::Relaxed);
    }

    fn send(&self, kind: &str, value: Value) {
        self.lock().send(kind, value);
    }
}

impl TapState {
    fn send(&mut self, kind: &str, value: Value) {
        let line = self.line(kind, value);
        self.push(&line);
    }

    /// Returns a message without secrets.
    fn line(&self, kind: &str, value: Value) -> Arc<str> {
        let mut line = Value::Object([(kind.to_owned(), value)].into_iter().collect()).to_string();
        for secret in &self.secrets {
            if line.contains(secret.as_str()) {
                line = line.replace(secret.as_str(), REDACTED);
            }
        }
        line.push('\n');
        line.into()
    }

    fn push(&mut self, line: &Arc<str>) {
        let mut has_dropped = false;
        for queue in &self.queues {
            has_dropped |= queue.push(Arc::clone(line));
        }
        if has_dropped {
            // A viewer may have lost the body that the next one would refer to.
            self.bodies.clear();
        }
    }
}

impl WireTap for SessionTap {
    fn is_active(&self) -> bool {
        self.has_viewers()
    }

    fn observe(&self, request: u64, observation: WireObservation<'_>) {
        match observation {
            WireObservation::Sent(sent) => {
                let mut state = self.lock();
                let body = state.bodies.add(&sent.request.role, sent.body);
                let body = messages::body(body, sent.body_bytes);
                let value = messages::request(
                    request,
                    sent.request,
                    sent.attempt,
                    (sent.url, sent.headers, body),
                );
                state.send("request", value);
            }
            other => {
                if let Some((kind, value)) = messages::wire(request, other) {
                    self.send(kind, value);
                }
            }
        }
    }
}

impl Observer for SessionTap {
    fn is_active(&self) -> bool {
        self.has_viewers()
    }

    fn observes_mcp_startup(&self) -> bool {
        true
    }

    fn observe(&self, scope: &EventScope, observation: &Observation<'_>) {
        if let Observation::McpMessage(message) = observation {
            let (value, is_startup) = messages::mcp(message);
            let mut state = self.lock();
            let line = state.line("mcp", value);
            state.push(&line);
            if is_startup {
                if state.startup.len() == MAX_STARTUP {
                    state.startup.pop_front();
                }
                state.startup.push_back(line);
            }
            return;
        }
        if let Observation::Event(event) = observation
            && scope.subagents.is_empty()
        {
            let mut state = self.lock();
            let TapState { answer, secrets, .. } = &mut *state;
            if let Some(messages) = answer.messages(event, secrets) {
                messages.into_iter().for_each(|(kind, value)| state.send(kind, value));
                return;
            }
        }
        if let Some((kind, value)) = messages::observation_message(scope, observation) {
            self.send(kind, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_redacted_even_when_json_escaped() {
        let tap = SessionTap::default();
        tap.add_secrets(["plain-secret-1".to_owned(), "quote\"and\\slash".to_owned()]);
        let queue = tap.attach();
        tap.send("log", json!({"text": "a plain-secret-1 and quote\"and\\slash"}));
        let (lines, dropped) = queue.take().expect("a line");
        assert_eq!(lines, "{\"log\":{\"text\":\"a [redacted] and [redacted]\"}}\n");
        assert_eq!(dropped, 0);
    }

    #[test]
    fn session_tap_is_active_only_while_a_viewer_is_attached() {
        let tap = SessionTap::default();
        assert!(!tap.has_viewers());
        let (one, other) = (tap.attach(), tap.attach());
        tap.detach(&one);
        assert!(tap.has_viewers());
        tap.detach(&other);
        assert!(!tap.has_viewers());
    }
}
