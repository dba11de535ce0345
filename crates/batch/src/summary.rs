//! `summary.json`, `summary.md`, and `report.html`: the combined results of a batch.

mod html;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::directory::{BatchDirectory, write_atomically, write_json};
use crate::error::BatchError;
use crate::result::{TaskResult, TaskState, TokenCounts};

/// `summary.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Tasks with a result.
    pub tasks: usize,
    /// The number of tasks in each state.
    pub states: BTreeMap<&'static str, usize>,
    /// US dollars.
    pub cost: f64,
    /// Tokens.
    pub tokens: TokenCounts,
    /// When the first one started.
    pub started: Option<String>,
    /// When the last one ended.
    pub ended: Option<String>,
    /// The tasks.
    pub results: Vec<SummaryRow>,
}

/// A task of the summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SummaryRow {
    /// The task.
    pub id: String,
    /// How it ended.
    pub state: TaskState,
    /// Why it did not succeed.
    pub reason: String,
    /// The first line of its prompt.
    pub title: String,
    /// The model.
    pub model: Option<String>,
    /// The branch with the changes.
    pub branch: Option<String>,
    /// Number of files that changed.
    pub files_changed: usize,
    /// US dollars.
    pub cost: f64,
    /// Tokens.
    pub tokens: u64,
    /// From the first start to the end.
    pub seconds: f64,
    /// Checks that passed, and all that ran.
    pub checks: (usize, usize),
}

impl SummaryRow {
    fn from_result(result: &TaskResult) -> Self {
        let passed = result.checks.iter().filter(|check| check.passed).count();
        Self {
            id: result.id.clone(),
            state: result.state,
            reason: result.reason.clone(),
            title: result.title.clone(),
            model: result.model.clone(),
            branch: result.branch.clone(),
            files_changed: result.files_changed.len(),
            cost: result.cost,
            tokens: result.tokens.total,
            seconds: result.seconds(),
            checks: (passed, result.checks.len()),
        }
    }
}

impl TaskResult {
    /// Returns the seconds from the first start to the end.
    pub fn seconds(&self) -> f64 {
        let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let (Some(started), Some(ended)) = (time(&self.started), time(&self.ended)) else {
            return 0.0;
        };
        ended.duration_since(started).as_secs_f64().max(0.0)
    }
}

impl Summary {
    /// Reads the results of the plan's tasks, one at a time. Blocking.
    ///
    /// # Errors
    /// Returns an error if the list of tasks is damaged.
    pub fn read(directory: &BatchDirectory) -> Result<Self, BatchError> {
        let mut summary = Self::default();
        for task in directory.newest_tasks()? {
            if let Some(result) = directory.newest_result(&task) {
                summary.add(&result);
            }
        }
        summary.cost = (summary.cost * 1e9).round() / 1e9;
        Ok(summary)
    }

    fn add(&mut self, result: &TaskResult) {
        self.tasks += 1;
        *self.states.entry(result.state.as_str()).or_default() += 1;
        self.cost += result.cost;
        self.tokens += result.tokens;
        if self.started.as_ref().is_none_or(|started| *started > result.started) {
            self.started = Some(result.started.clone());
        }
        if self.ended.as_ref().is_none_or(|ended| *ended < result.ended) {
            self.ended = Some(result.ended.clone());
        }
        self.results.push(SummaryRow::from_result(result));
    }

    /// Writes the three files. Blocking.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(&self, directory: &BatchDirectory) -> Result<(), BatchError> {
        write_json(&directory.file("summary.json"), self)?;
        write_atomically(&directory.file("summary.md"), self.markdown().as_bytes())?;
        html::write(self, directory)
    }

    /// Returns the states and the cost in one line.
    pub fn line(&self) -> String {
        let states: Vec<String> = TaskState::ALL
            .iter()
            .filter_map(|state| {
                let count = self.states.get(state.as_str())?;
                Some(format!("{count} {}", state.as_str().replace('_', " ")))
            })
            .collect();
        format!("{} tasks: {}; ${:.2}", self.tasks, states.join(", "), self.cost)
    }

    fn markdown(&self) -> String {
        let mut text = format!("# Batch\n\n{}\n\n", self.line());
        text.push_str(
            "| Task | State | Model | Files | Checks | Tokens | Cost | Time | Reason |\n",
        );
        text.push_str("| --- | --- | --- | ---: | --- | ---: | ---: | ---: | --- |\n");
        for row in &self.results {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | ${:.4} | {:.1} s | {} |",
                row.id,
                row.state.as_str(),
                cell(row.model.as_deref().unwrap_or_default()),
                row.files_changed,
                checks(row.checks),
                row.tokens,
                row.cost,
                row.seconds,
                cell(&row.reason)
            );
        }
        text
    }
}

/// Formats the passed checks of all, such as `2/3`.
pub(crate) fn checks((passed, all): (usize, usize)) -> String {
    if all == 0 { String::new() } else { format!("{passed}/{all}") }
}

/// Returns a string as a cell of a Markdown table.
fn cell(text: &str) -> String {
    let line = parallax_protocol::excerpt::one_line(text);
    let mut cell = String::with_capacity(line.len());
    for char in line.chars() {
        match char {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' => cell.extend(['\\', char]),
            '<' => cell.push_str("&lt;"),
            '&' => cell.push_str("&amp;"),
            char => cell.push(char),
        }
    }
    cell
}
