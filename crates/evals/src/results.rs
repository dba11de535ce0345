//! Results of runs, one JSON object per line.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::EvalError;

/// Maximum size of a line in bytes.
const MAX_LINE: usize = 16 << 20;

/// The result of one run of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The name of the case.
    pub case: String,
    /// The model.
    pub model: String,
    /// The number of the run, from 1.
    pub run: u32,
    /// Whether every check passed.
    pub pass: bool,
    /// Tokens of all requests of the run together, without those of the judge.
    pub tokens: u64,
    /// The cost of the run in US dollars; `None` if a price is unknown.
    pub cost: Option<f64>,
    /// How long the agent worked, in milliseconds.
    pub duration_ms: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The checks, in the order of the case.
    pub checks: Vec<CheckResult>,
    /// What the judge used, if the case has one and it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeUse>,
    /// The session ID, which DevTools can open; `None` if no session started.
    pub session_id: Option<String>,
    /// The tags of the case.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The first step that went wrong; `None` if the run passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_step: Option<FailedStep>,
    /// The command that opens a failed run in DevTools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devtools: Option<String>,
    /// Why the run did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a judge used to judge a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JudgeUse {
    /// Tokens of all its requests together.
    pub tokens: u64,
    /// Their cost in US dollars; `None` if the price is unknown.
    pub cost: Option<f64>,
}

/// The first step of a run that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStep {
    /// The step, from 1: a model request and its tool calls.
    pub step: u64,
    /// The number of the tool call in the session, from 1; `None` if the answer is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// The called tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What went wrong.
    pub problem: String,
}

impl FailedStep {
    /// Returns the part of a DevTools address that opens this step.
    pub fn fragment(&self) -> String {
        match self.call {
            Some(call) => format!("#call={call}"),
            None => format!("#request={}", self.step),
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Its kind in `case.toml`, or `judge`.
    pub kind: String,
    /// Whether it passed.
    pub pass: bool,
    /// What was found instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Reads a result file. Blocking.
///
/// # Errors
/// Returns an error if it cannot be read or a line is not a result.
pub fn read_results(path: &Path) -> Result<Vec<RunResult>, EvalError> {
    let file = std::fs::File::open(path).map_err(|error| EvalError::path(path, error))?;
    let mut results = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| EvalError::path(path, error))?;
        if line.trim().is_empty() {
            continue;
        }
        if line.len() > MAX_LINE {
            return Err(EvalError::path(path, format!("line {} is too long", number + 1)));
        }
        let result = serde_json::from_str(&line).map_err(|error| {
            EvalError::path(path, format!("line {} is not a result of a run: {error}", number + 1))
        })?;
        results.push(result);
    }
    if results.is_empty() {
        return Err(EvalError::path(path, "the file has no results"));
    }
    Ok(results)
}
