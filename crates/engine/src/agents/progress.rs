//! Aggregates the events of a subagent into the progress that front ends show.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parallax_protocol::agent::{AgentEnd, AgentProgress, AgentStep};
use parallax_protocol::event::{EventBody, ItemDone, ItemStart, ModelCall, ToolStatus};
use parallax_protocol::ids::ItemId;
use tokio::time::Instant;

/// Maximum number of tool calls shown.
const MAX_STEPS: usize = 40;
/// Maximum number of characters per line.
const LINE: usize = 200;
/// Maximum number of characters of the result.
const RESULT: usize = 2_000;

pub(super) struct ProgressTracker {
    progress: AgentProgress,
    /// Active time until the last pause.
    active_time: Duration,
    /// When the active time started; `None` while waiting for the user.
    working_since: Option<Instant>,
    /// The items of the steps, in order.
    items: Vec<ItemId>,
    /// The newest text of the model.
    pub(super) text: String,
}

impl ProgressTracker {
    pub(super) fn new(agent: &str) -> Self {
        let progress = AgentProgress { agent: agent.to_owned(), ..AgentProgress::default() };
        Self {
            progress,
            active_time: Duration::ZERO,
            working_since: Some(Instant::now()),
            items: Vec::new(),
            text: String::new(),
        }
    }

    /// Marks the run as resumed.
    pub(super) fn resume(&mut self) {
        self.progress.resumed = true;
    }

    /// Whether there is anything to resume.
    pub(super) fn has_started(&self) -> bool {
        self.progress.resumed || self.progress.turns > 0
    }

    /// Applies an event; returns whether the progress changed.
    pub(super) fn apply(&mut self, body: &EventBody) -> bool {
        match body {
            EventBody::ModelCall(call) => self.count(call),
            EventBody::ItemStarted { item, start: ItemStart::Tool(tool) } => {
                if self.items.len() == MAX_STEPS {
                    self.items.remove(0);
                    self.progress.steps.remove(0);
                }
                self.items.push(item.clone());
                self.progress.steps.push(AgentStep {
                    name: line(&tool.name),
                    title: String::new(),
                    status: None,
                    error: String::new(),
                    started: unix_millis(),
                    duration_ms: None,
                });
            }
            EventBody::CallState(state) => {
                let Some(title) = &state.title else { return false };
                let Some(step) = self.step(&state.item) else { return false };
                step.title = line(title);
            }
            EventBody::ItemDone { item, done: ItemDone::Tool(done) } => {
                self.progress.calls += 1;
                let Some(step) = self.step(item) else { return true };
                step.status = Some(done.status);
                step.duration_ms = Some(done.duration_ms);
                if !done.title.is_empty() {
                    step.title = line(&done.title);
                }
                step.error = done.error.as_ref().map(|(_, text)| line(text)).unwrap_or_default();
            }
            EventBody::ItemDone { done: ItemDone::Thought { text }, .. } => {
                let subject = subject(text);
                if subject == self.progress.thought {
                    return false;
                }
                self.progress.thought = subject;
            }
            EventBody::ItemDone { done: ItemDone::Text { text, is_dropped: false }, .. } => {
                text.as_str().clone_into(&mut self.text);
                return false;
            }
            _ => return false,
        }
        true
    }

    fn count(&mut self, call: &ModelCall) {
        if call.role == "main" && call.error.is_none() {
            self.progress.turns += 1;
        }
        self.progress.tokens += call.usage.total;
    }

    fn step(&mut self, item: &ItemId) -> Option<&mut AgentStep> {
        let index = self.items.iter().position(|known| known == item)?;
        self.progress.steps.get_mut(index)
    }

    /// Counts a task that was sent to a remote agent.
    pub(super) fn count_sent_task(&mut self) {
        self.progress.turns += 1;
    }

    /// Shows what a remote agent reports; returns whether that changed.
    pub(super) fn reports(&mut self, text: &str) -> bool {
        let text = line(text);
        let changed = !text.is_empty() && text != self.progress.thought;
        if changed {
            self.progress.thought = text;
        }
        changed
    }

    /// Sets whether the subagent waits for the user; returns whether that changed.
    pub(super) fn waits(&mut self, waiting: bool) -> bool {
        self.active_time = self.elapsed();
        self.working_since = (!waiting).then(Instant::now);
        std::mem::replace(&mut self.progress.is_waiting, waiting) != waiting
    }

    fn elapsed(&self) -> Duration {
        self.active_time + self.working_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the current progress.
    pub(super) fn current(&mut self) -> AgentProgress {
        self.progress.duration_ms = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress.clone()
    }

    /// Returns the final progress.
    pub(super) fn final_progress(&mut self, end: AgentEnd, result: &str) -> AgentProgress {
        self.progress.end = Some(end);
        self.progress.is_waiting = false;
        // Calls that were still running end with the subagent.
        for step in self.progress.steps.iter_mut().filter(|step| step.status.is_none()) {
            step.status = Some(ToolStatus::Cancelled);
        }
        self.progress.result = result.chars().take(RESULT).collect();
        self.current()
    }
}

/// Returns the milliseconds since 1970.
fn unix_millis() -> Option<u64> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(elapsed.as_millis()).ok()
}

/// Returns the first non-empty line of a string, truncated.
fn line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(LINE).collect()
}

/// Returns the subject of a thought: its first bold span, otherwise its first line.
fn subject(thought: &str) -> String {
    let bold = thought.split("**").nth(1).map(str::trim).filter(|text| !text.is_empty());
    line(bold.unwrap_or(thought))
}
