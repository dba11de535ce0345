//! `parallax batch compare`: several models on the same tasks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::directory::BatchDirectory;
use crate::error::BatchError;
use crate::result::{TaskResult, TaskState};
use crate::summary::checks;

/// The results of models on the same tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelComparison {
    /// Totals of each model over all tasks.
    pub models: Vec<ModelTotal>,
    /// Tasks that differ only in the model.
    pub tasks: Vec<ComparedTask>,
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelTotal {
    /// The name.
    pub model: String,
    /// Number of tasks.
    pub tasks: usize,
    /// The number of tasks that succeeded.
    pub succeeded: usize,
    /// US dollars.
    pub cost: f64,
    /// Number of tokens.
    pub tokens: u64,
    /// Total seconds of all tasks.
    pub seconds: f64,
}

/// One prompt in one repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedTask {
    /// The first line of the prompt.
    pub title: String,
    /// The repository.
    pub repo: String,
    /// The result of each model.
    pub results: Vec<ComparedResult>,
}

/// The result of one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedResult {
    /// Id of the task.
    pub id: String,
    /// The model.
    pub model: String,
    /// How it ended.
    pub state: TaskState,
    /// Checks that passed, and all that ran.
    pub checks: (usize, usize),
    /// Number of files that changed.
    pub files_changed: usize,
    /// US dollars.
    pub cost: f64,
    /// Tokens.
    pub tokens: u64,
    /// Seconds from the first start to the end.
    pub seconds: f64,
}

impl ModelComparison {
    /// Compares the results of a batch. Blocking.
    ///
    /// # Errors
    /// Returns an error if the list of tasks is damaged.
    pub fn read(directory: &BatchDirectory) -> Result<Self, BatchError> {
        let mut models: BTreeMap<String, ModelTotal> = BTreeMap::new();
        let mut tasks: BTreeMap<String, ComparedTask> = BTreeMap::new();
        let newest = directory.newest_tasks()?;
        for result in newest.iter().filter_map(|task| directory.newest_result(task)) {
            let compared = ComparedResult::from_result(&result);
            let total = models.entry(compared.model.clone()).or_default();
            total.model.clone_from(&compared.model);
            total.tasks += 1;
            total.succeeded += usize::from(result.state == TaskState::Succeeded);
            total.cost += result.cost;
            total.tokens += result.tokens.total;
            total.seconds += compared.seconds;
            let task = tasks.entry(result.question_hash).or_insert_with(|| ComparedTask {
                title: result.title,
                repo: result.repo,
                results: Vec::new(),
            });
            task.results.push(compared);
        }
        let mut tasks: Vec<ComparedTask> = tasks.into_values().collect();
        // Best first: success first, then low cost.
        for task in &mut tasks {
            task.results.sort_by(|one, other| {
                let failed = |result: &ComparedResult| result.state != TaskState::Succeeded;
                (failed(one).cmp(&failed(other))).then(one.cost.total_cmp(&other.cost))
            });
        }
        tasks.sort_by(|one, other| {
            let id = |task: &ComparedTask| task.results.iter().map(|it| it.id.clone()).min();
            id(one).cmp(&id(other))
        });
        Ok(Self { models: models.into_values().collect(), tasks })
    }

    /// Returns the comparison as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let width = self.models.iter().map(|total| total.model.chars().count()).max().unwrap_or(0);
        let shown = parallax_protocol::excerpt::one_line;
        // Writing to a string cannot fail.
        for task in &self.tasks {
            let _ = writeln!(text, "{}", shown(&task.title));
            for result in &task.results {
                let _ = writeln!(
                    text,
                    "  {:<width$}  {:<11}  {:>7} checks  {:>3} files  {:>9} tokens  ${:.4}  {:.1} s  {}",
                    shown(&result.model),
                    result.state.as_str(),
                    checks(result.checks),
                    result.files_changed,
                    result.tokens,
                    result.cost,
                    result.seconds,
                    result.id,
                );
            }
        }
        let _ = writeln!(text, "\nAll tasks");
        for total in &self.models {
            let _ = writeln!(
                text,
                "  {:<width$}  {}/{} succeeded  {:>9} tokens  ${:.4}  {:.1} s",
                shown(&total.model),
                total.succeeded,
                total.tasks,
                total.tokens,
                total.cost,
                total.seconds,
            );
        }
        text
    }
}

impl ComparedResult {
    fn from_result(result: &TaskResult) -> Self {
        let passed = result.checks.iter().filter(|check| check.passed).count();
        Self {
            id: result.id.clone(),
            // The model that the plan names; another one may have answered.
            model: (result.labels.get("model").cloned())
                .or_else(|| result.model.clone())
                .unwrap_or_else(|| "default model".to_owned()),
            state: result.state,
            checks: (passed, result.checks.len()),
            files_changed: result.files_changed.len(),
            cost: result.cost,
            tokens: result.tokens.total,
            seconds: result.seconds(),
        }
    }
}
