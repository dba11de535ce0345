//! The running turn: what the agent is doing, and what the last turn took.

use parallax_protocol::event::{CallPhase, EventBody, ItemDone, ItemStart};
use parallax_protocol::ids::ItemId;
use parallax_protocol::routing::{Fallback, Route};
use parallax_protocol::tool::ToolKind;

use crate::sanitize;
use crate::status::{AgentActivity, time};
use crate::transcript::title_in_words;

/// The running turn or compaction, and the end of the last turn.
#[derive(Debug, Default)]
pub(crate) struct TurnView {
    working: Option<AgentActivity>,
    /// The item whose text the model is streaming.
    streams: Option<ItemId>,
    /// The names of the hooks that are running.
    hooks: Vec<String>,
    /// The cost of the session when the turn began, in US dollars.
    cost_before: f64,
    /// Whether a turn began that was not announced.
    has_begun: bool,
    last_answer: String,
    /// Whether a compaction was requested and has not finished.
    compacting: bool,
    /// Whether the current work is a compaction and not a turn.
    is_compaction: bool,
    /// How the model of the newest prompt was chosen.
    route: Option<Route>,
    /// The model fallbacks of the session.
    fallbacks: Vec<Fallback>,
    /// How long the next turn has been running when it begins here, in milliseconds.
    age_ms: u64,
}

impl TurnView {
    /// Follows an event within the turn.
    pub(crate) fn handle_event(&mut self, body: &EventBody, now_ms: u64) {
        match body {
            EventBody::SessionReady(_) => self.hooks.clear(),
            EventBody::ItemStarted {
                item,
                start: start @ (ItemStart::Text | ItemStart::Thought),
            } => {
                if let Some(working) = &mut self.working {
                    working.start_text(matches!(start, ItemStart::Text));
                }
                self.streams = Some(item.clone());
            }
            EventBody::ItemDelta { item, text } if self.streams.as_ref() == Some(item) => {
                if let Some(working) = &mut self.working {
                    working.streamed_bytes += u64::try_from(text.len()).unwrap_or(0);
                }
            }
            EventBody::ItemDone { item, done } => self.item_done(item, done),
            EventBody::CallState(state) if state.phase == CallPhase::Executing => {
                if let (Some(title), Some(working)) = (&state.title, &mut self.working) {
                    let title = title_in_words(title);
                    working.runs(&state.item, &title, state.kind == Some(ToolKind::Execute));
                }
            }
            EventBody::ModelCall(call) => {
                if let Some(working) = &mut self.working {
                    working.record_request_end(call.usage.output + call.usage.thought);
                }
            }
            EventBody::Retry(retry) => {
                if let Some(working) = &mut self.working {
                    // A row of the transcript shows the failure.
                    working.retry = Some((now_ms + retry.delay_ms, "Retrying".to_owned()));
                }
            }
            EventBody::HooksRun { names } => {
                self.hooks.clone_from(names);
                if let Some(working) = &mut self.working {
                    working.hooks.clone_from(names);
                }
            }
            EventBody::Routed(route) => self.route = Some(route.as_ref().clone()),
            EventBody::FellBack(fallback) => self.fallbacks.push(fallback.as_ref().clone()),
            _ => {}
        }
    }

    fn item_done(&mut self, item: &ItemId, done: &ItemDone) {
        match (done, &mut self.working) {
            (ItemDone::Text { text, is_dropped: false }, _) => {
                text.as_str().clone_into(&mut self.last_answer);
            }
            (ItemDone::Thought { text }, Some(working)) => {
                if let Some(subject) = subject(text) {
                    working.thought = subject;
                }
            }
            (ItemDone::Tool(_), Some(working)) => working.record_tool_end(item),
            _ => {}
        }
    }

    /// Takes the subject of the thought that is being streamed.
    pub(crate) fn set_thought(&mut self, subject: Option<&str>) {
        if let (Some(working), Some(subject)) = (&mut self.working, subject)
            && working.thought != subject
        {
            working.thought = sanitize::one_row(subject).into_owned();
        }
    }

    /// Records how long the turn that begins next has been running.
    pub(crate) fn set_age(&mut self, age_ms: u64) {
        self.age_ms = age_ms;
    }

    /// Begins a turn. `cost` is that of the session so far.
    pub(crate) fn begin(&mut self, cost: f64, now_ms: u64) {
        (self.cost_before, self.has_begun) = (cost, true);
        self.is_compaction = false;
        // Startup hooks may still be running.
        let hooks = self.hooks.clone();
        let earlier_ms = std::mem::take(&mut self.age_ms);
        self.working =
            Some(AgentActivity { since_ms: now_ms, earlier_ms, hooks, ..AgentActivity::default() });
    }

    /// Ends the turn. Returns a description of its duration and cost, unless its prompt was
    /// undone.
    pub(crate) fn end(
        &mut self,
        duration_ms: u64,
        cost: f64,
        was_removed: bool,
    ) -> Option<Vec<String>> {
        (self.working, self.has_begun) = (None, false);
        if was_removed {
            return None;
        }
        // A duration of zero would say nothing.
        let mut details = vec![time((duration_ms / 1000).max(1))];
        let cost = cost - self.cost_before;
        if cost > 0.0 {
            details.push(crate::status_line::dollars(cost));
        }
        Some(details)
    }

    /// Records that a compaction was requested.
    pub(crate) fn request_compaction(&mut self) {
        self.compacting = true;
    }

    /// Whether a compaction was requested and has not finished.
    pub(crate) fn is_compacting(&self) -> bool {
        self.compacting
    }

    /// Shows the compaction as work.
    pub(crate) fn begin_compaction(&mut self, now_ms: u64) {
        let subject = "Compacting the history".to_owned();
        self.working =
            Some(AgentActivity { since_ms: now_ms, subject, ..AgentActivity::default() });
        self.is_compaction = true;
    }

    /// Ends a compaction, successful or not. Returns whether it was shown as work.
    pub(crate) fn end_compaction(&mut self) -> bool {
        self.compacting = false;
        let was_shown = std::mem::take(&mut self.is_compaction);
        if was_shown {
            self.working = None;
        }
        was_shown
    }

    /// Whether the current work is a compaction and not a turn.
    pub(crate) fn is_compaction(&self) -> bool {
        self.is_compaction
    }

    /// Whether the agent is running.
    pub(crate) fn is_busy(&self) -> bool {
        self.working.is_some()
    }

    /// Returns what the agent is doing.
    pub(crate) fn activity(&self) -> Option<&AgentActivity> {
        self.working.as_ref()
    }

    /// Returns when the next attempt of a failed request begins, in milliseconds of the clock.
    pub(crate) fn retries_at(&self) -> Option<u64> {
        Some(self.working.as_ref()?.retry.as_ref()?.0)
    }

    /// Whether the row about the work moves by itself.
    pub(crate) fn is_animated(&self) -> bool {
        self.working.as_ref().is_some_and(|working| !working.is_waiting)
    }

    /// Records whether the agent waits for the user.
    pub(crate) fn wait(&mut self, waiting: bool, now_ms: u64) {
        if let Some(working) = &mut self.working {
            working.wait(waiting, now_ms);
        }
    }

    /// Records that the user stops the work.
    pub(crate) fn record_stop(&mut self) {
        if let Some(working) = &mut self.working {
            "Stopping…".clone_into(&mut working.subject);
        }
    }

    /// Updates the numbers that change with time.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        if let Some(working) = &mut self.working {
            working.count(now_ms);
        }
    }

    /// Returns whether a turn began, once.
    pub(crate) fn take_turn_started(&mut self) -> bool {
        std::mem::take(&mut self.has_begun)
    }

    /// Returns the last answer of the model.
    pub(crate) fn last_answer(&self) -> &str {
        &self.last_answer
    }

    /// Returns how the model of the newest prompt was chosen.
    pub(crate) fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }

    /// Returns the model fallbacks of the session.
    pub(crate) fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }

    /// Takes over the last route of a session that was opened.
    pub(crate) fn resume(&mut self, route: Option<Route>) {
        self.route = route;
    }

    /// Forgets the turn, because another session begins.
    pub(crate) fn clear(&mut self) {
        self.working = None;
        self.route = None;
        self.fallbacks.clear();
        (self.compacting, self.is_compaction) = (false, false);
    }
}

/// Returns the subject of a thought: its first bold span, otherwise its first line.
fn subject(thought: &str) -> Option<String> {
    let bold = thought.split("**").nth(1).map(str::trim).filter(|text| !text.is_empty());
    let line = thought.lines().map(str::trim).find(|line| !line.is_empty());
    bold.or(line).map(|text| sanitize::one_row(text).chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_waits_for_the_end_of_the_turn() {
        let mut turn = TurnView::default();
        turn.begin(0.5, 0);
        turn.request_compaction();
        assert!(turn.is_busy() && turn.is_compacting() && !turn.is_compaction());
        assert_eq!(turn.end(12_400, 0.5, false), Some(vec!["12s".to_owned()]));
        turn.begin_compaction(0);
        assert!(turn.is_busy() && turn.is_compaction());
        assert!(turn.end_compaction() && !turn.is_busy() && !turn.is_compacting());
        assert!(!turn.end_compaction());
    }

    #[test]
    fn withdrawn_prompt_shows_no_turn_summary() {
        let mut turn = TurnView::default();
        turn.begin(0.0, 0);
        assert_eq!(turn.end(1, 1.0, true), None);
    }

    #[test]
    fn subject_is_the_first_bold_span_or_line() {
        assert_eq!(subject("\n**Plan**\nmore").as_deref(), Some("Plan"));
        assert_eq!(subject("\n first \nmore").as_deref(), Some("first"));
        assert_eq!(subject(" \n"), None);
        assert_eq!(subject("\u{1b}[31ma\u{202e}b").as_deref(), Some("a<U+202E>b"));
    }
}
