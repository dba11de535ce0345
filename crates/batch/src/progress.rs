//! The progress of a batch, for a terminal, a log, or a program.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parallax_protocol::excerpt::one_line;
use serde_json::{Value, json};

use crate::queue::QueueEvent;
use crate::result::{TaskResult, TaskState};

/// Maximum number of running tasks shown in a terminal.
const MAX_ROWS: usize = 16;
/// Width of the bar in cells.
const BAR: usize = 24;

/// The state of a batch, derived from its events.
#[derive(Debug)]
pub struct BatchProgress {
    total: usize,
    skipped: usize,
    ended_tasks: BTreeMap<TaskState, usize>,
    running: BTreeMap<String, RunningTask>,
    /// US dollars of tasks that ended, earlier runs included.
    cost: f64,
    started: Instant,
    rate_limited: u64,
}

#[derive(Debug)]
struct RunningTask {
    started: Instant,
    activity: String,
    cost: f64,
    rate_limited: u64,
}

impl BatchProgress {
    /// Creates the progress of this many tasks.
    pub fn new(total: usize) -> Self {
        Self {
            total,
            skipped: 0,
            ended_tasks: BTreeMap::new(),
            running: BTreeMap::new(),
            cost: 0.0,
            started: Instant::now(),
            rate_limited: 0,
        }
    }

    /// Counts an event.
    pub fn count_event(&mut self, event: &QueueEvent) {
        match event {
            QueueEvent::Skipped(result) => {
                self.skipped += 1;
                self.count(result);
            }
            QueueEvent::Started(id) => {
                let task = RunningTask {
                    started: Instant::now(),
                    activity: "starting".to_owned(),
                    cost: 0.0,
                    rate_limited: 0,
                };
                self.running.insert(id.clone(), task);
            }
            QueueEvent::Update(update) => {
                if let Some(task) = self.running.get_mut(&update.id) {
                    task.activity = one_line(&update.activity);
                    task.cost = update.cost;
                    self.rate_limited += update.rate_limited.saturating_sub(task.rate_limited);
                    task.rate_limited = update.rate_limited;
                }
            }
            QueueEvent::Ended(result) => {
                self.running.remove(&result.id);
                self.count(result);
            }
            QueueEvent::Notice(_) => {}
        }
    }

    fn count(&mut self, result: &TaskResult) {
        *self.ended_tasks.entry(result.state).or_default() += 1;
        self.cost += result.cost;
    }

    fn completed_tasks(&self) -> usize {
        self.ended_tasks.values().sum()
    }

    /// Returns the cost so far in US dollars.
    fn live_cost(&self) -> f64 {
        self.cost + self.running.values().map(|task| task.cost).sum::<f64>()
    }

    /// Returns the estimated time for the remaining tasks, based on those that ended in this run.
    fn estimated_remaining_time(&self) -> Option<Duration> {
        let done = self.completed_tasks().saturating_sub(self.skipped);
        let remaining = self.total.saturating_sub(self.completed_tasks());
        let each = self.started.elapsed().checked_div(u32::try_from(done).ok()?)?;
        each.checked_mul(u32::try_from(remaining).ok()?)
    }

    /// Returns the view of a terminal: the total first, then a row for each running task. Rows may
    /// be wider than the terminal.
    pub fn rows(&self) -> Vec<String> {
        let done = self.completed_tasks();
        let filled = (done * BAR).checked_div(self.total).unwrap_or(BAR).min(BAR);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
        let mut head = format!("{bar} {}", self.line());
        if let Some(time) = self.estimated_remaining_time().filter(|_| done < self.total) {
            head.push_str(&format!(" · {} left", format_duration(time)));
        }
        let mut rows = vec![head];
        let width = self.running.keys().take(MAX_ROWS).map(String::len).max().unwrap_or(0).min(40);
        for (id, task) in self.running.iter().take(MAX_ROWS) {
            let time = format_duration(task.started.elapsed());
            rows.push(format!("  {id:<width$}  {time:>6}  ${:.2}  {}", task.cost, task.activity));
        }
        if self.running.len() > MAX_ROWS {
            rows.push(format!("  and {} more", self.running.len() - MAX_ROWS));
        }
        rows
    }

    /// Returns the progress as one line.
    pub fn line(&self) -> String {
        let mut parts = vec![format!("{}/{}", self.completed_tasks(), self.total)];
        for state in TaskState::ALL {
            if let Some(count) =
                self.ended_tasks.get(&state).filter(|_| state != TaskState::Succeeded)
            {
                parts.push(format!("{count} {}", state.as_str().replace('_', " ")));
            }
        }
        if !self.running.is_empty() {
            parts.push(format!("{} running", self.running.len()));
        }
        if self.rate_limited > 0 {
            parts.push(format!("{} rate limited", self.rate_limited));
        }
        parts.push(format!("${:.2}", self.live_cost()));
        parts.join(" · ")
    }

    /// Returns a plain line about an event; `None` if it is not worth one.
    pub fn plain_line(&self, event: &QueueEvent) -> Option<String> {
        let (done, total) = (self.completed_tasks(), self.total);
        match event {
            QueueEvent::Started(_) | QueueEvent::Update(_) => None,
            QueueEvent::Notice(text) => Some(text.clone()),
            QueueEvent::Skipped(result) => Some(format!(
                "[{done}/{total}] {}: {} in an earlier run",
                result.id,
                result.state.as_str()
            )),
            QueueEvent::Ended(result) => {
                let mut line = format!("[{done}/{total}] {}: {}", result.id, result.state.as_str());
                match result.files_changed.len() {
                    0 => {}
                    1 => line.push_str(", 1 file changed"),
                    count => line.push_str(&format!(", {count} files changed")),
                }
                if result.deleted_ignored_files > 0 {
                    let count = result.deleted_ignored_files;
                    line.push_str(&format!(", ignored files deleted: {count}"));
                }
                line.push_str(&format!(", ${:.2}", result.cost));
                if !result.reason.is_empty() {
                    line.push_str(&format!(": {}", one_line(&result.reason)));
                }
                Some(line)
            }
        }
    }

    /// Returns the event as an object of stream-json.
    pub fn json(&self, event: &QueueEvent) -> Value {
        let timestamp = crate::run_task::now();
        let (done, total) = (self.completed_tasks(), self.total);
        match event {
            QueueEvent::Skipped(result) => json!({"type": "task_skipped", "timestamp": timestamp,
                "id": result.id, "state": result.state, "done": done, "total": total}),
            QueueEvent::Started(id) => {
                json!({"type": "task_started", "timestamp": timestamp, "id": id})
            }
            QueueEvent::Update(update) => json!({"type": "task_progress", "timestamp": timestamp,
                "id": update.id, "activity": update.activity, "cost": update.cost,
                "tokens": update.tokens, "rate_limited": update.rate_limited}),
            QueueEvent::Ended(result) => json!({"type": "task_result", "timestamp": timestamp,
                "done": done, "total": total, "result": result}),
            QueueEvent::Notice(text) => {
                json!({"type": "notice", "timestamp": timestamp, "message": text})
            }
        }
    }
}

fn format_duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}
