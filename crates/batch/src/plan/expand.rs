//! Defaults and the matrix of a plan.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{MAX_ID_LENGTH, RawTask};

/// Maximum number of tasks in a plan.
const MAX_TASKS: usize = 100_000;

/// A plan as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPlan {
    #[serde(default)]
    defaults: RawTask,
    /// Values by key.
    #[serde(default)]
    matrix: Map<String, Value>,
    #[serde(default)]
    tasks: Vec<RawTask>,
}

/// A line of a plan in JSON Lines that is not a task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Preamble {
    Defaults(Box<RawTask>),
    Matrix(Map<String, Value>),
}

impl RawPlan {
    pub(super) fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    pub(super) fn from_json_lines(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let failed = |error: serde_json::Error| {
                // The position refers to the line, not to the file.
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default().to_owned();
                format!("line {}: {message}", number + 1)
            };
            let value: Value = serde_json::from_str(line).map_err(failed)?;
            let is_preamble = value.as_object().is_some_and(|object| {
                object.len() == 1 && object.keys().all(|key| key == "defaults" || key == "matrix")
            });
            if is_preamble {
                match serde_json::from_value(value).map_err(failed)? {
                    Preamble::Defaults(defaults) => plan.defaults = *defaults,
                    Preamble::Matrix(matrix) => plan.matrix = matrix,
                }
            } else {
                plan.tasks.push(serde_json::from_value(value).map_err(failed)?);
            }
        }
        Ok(plan)
    }

    /// Returns all tasks: each one with the defaults, once for every combination of the matrix.
    pub(super) fn expand(self) -> Result<Vec<RawTask>, String> {
        let combinations = combinations(&self.matrix)?;
        if self.tasks.len().saturating_mul(combinations.len()) > MAX_TASKS {
            return Err(format!("the plan has more than {MAX_TASKS} tasks"));
        }
        let mut tasks = Vec::new();
        for task in self.tasks {
            let task = task.with_defaults(&self.defaults);
            for combination in &combinations {
                tasks.push(apply(&task, combination)?);
            }
        }
        Ok(tasks)
    }
}

/// Returns every choice of one value for each key; without keys, one empty choice.
fn combinations(matrix: &Map<String, Value>) -> Result<Vec<Map<String, Value>>, String> {
    let mut all = vec![Map::new()];
    for (key, values) in matrix {
        let values = values.as_array().filter(|values| !values.is_empty());
        let values = values.ok_or_else(|| format!("matrix `{key}`: expected a list of values"))?;
        if all.len().saturating_mul(values.len()) > MAX_TASKS {
            return Err(format!("the matrix has more than {MAX_TASKS} combinations"));
        }
        all = all
            .iter()
            .flat_map(|choice| {
                values.iter().map(move |value| {
                    let mut choice = choice.clone();
                    choice.insert(key.clone(), value.clone());
                    choice
                })
            })
            .collect();
    }
    Ok(all)
}

/// Returns a task with one value for each key of the matrix.
fn apply(task: &RawTask, choice: &Map<String, Value>) -> Result<RawTask, String> {
    if choice.is_empty() {
        return Ok(task.clone());
    }
    let name = task.id.clone().unwrap_or_default();
    let invalid = |error: serde_json::Error| format!("matrix of task `{name}`: {error}");
    let Value::Object(mut fields) = serde_json::to_value(task).map_err(invalid)? else {
        return Ok(task.clone());
    };
    let mut labels = task.labels.clone().unwrap_or_default();
    for (key, value) in choice {
        if FIELDS.contains(&key.as_str()) {
            fields.insert(key.clone(), value.clone());
        } else if key == "id" {
            return Err("the matrix cannot set `id`; use `{key}` in it".to_owned());
        }
        labels.insert(key.clone(), text_of(value));
    }
    let mut expanded: RawTask = serde_json::from_value(Value::Object(fields)).map_err(invalid)?;
    if let Some(id) = &mut expanded.id {
        let mut has_key = false;
        for (key, value) in choice {
            let placeholder = format!("{{{key}}}");
            has_key |= id.contains(&placeholder);
            *id = id.replace(&placeholder, &slug(&text_of(value)));
        }
        if !has_key {
            // Otherwise all combinations would have the same id.
            for value in choice.values() {
                id.push('-');
                id.push_str(&slug(&text_of(value)));
            }
        }
        id.truncate(MAX_ID_LENGTH);
    }
    if let Some(prompt) = &mut expanded.prompt {
        for (key, value) in choice {
            *prompt = prompt.replace(&format!("{{{key}}}"), &text_of(value));
        }
    }
    expanded.labels = Some(labels);
    Ok(expanded)
}

/// The fields of a task that a matrix may set.
const FIELDS: [&str; 11] = [
    "repo",
    "ref",
    "prompt",
    "prompt_file",
    "model",
    "approval_mode",
    "max_cost",
    "timeout",
    "setup",
    "check",
    "env",
];

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Converts a string to a part of an id.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for char in text.chars() {
        if char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.') {
            slug.push(char);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_matches(['-', '.']).to_owned()
}
