//! The record of a submitted job, with which a later run follows it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::directory::{BatchDirectory, read_json, write_atomically, write_json};
use crate::error::BatchError;
use crate::plan::{Plan, PlannedTask};
use crate::result::TokenCounts;

/// `kubernetes/job.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// The name of the job, and of the directory with its plan.
    pub(crate) name: String,
    pub(crate) context: Option<String>,
    pub(crate) namespace: Option<String>,
    /// What stopped attempts of earlier jobs used, by task.
    #[serde(rename = "earlier")]
    pub(crate) previous_attempts: BTreeMap<String, AttemptUsage>,
}

/// What attempts used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttemptUsage {
    pub(crate) cost: f64,
    pub(crate) tokens: TokenCounts,
    pub(crate) attempts: u32,
}

/// A job, and its tasks by index.
#[derive(Debug)]
pub(crate) struct SubmittedJob {
    pub(crate) record: JobRecord,
    pub(crate) tasks: Vec<PlannedTask>,
}

impl SubmittedJob {
    /// Returns the newest job of a batch. Blocking.
    pub(crate) fn read(directory: &BatchDirectory) -> Result<Option<Self>, BatchError> {
        let Some(record) = read_json::<JobRecord>(&folder(directory).join("job.json")) else {
            return Ok(None);
        };
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-';
        if record.name.is_empty() || !record.name.chars().all(is_name) {
            return Err(BatchError::Input("`kubernetes/job.json` has no valid name".to_owned()));
        }
        let plan = Plan::load(&folder(directory).join(&record.name).join("plan.jsonl"))?;
        Ok(Some(Self { record, tasks: plan.tasks }))
    }

    /// Remembers it. Blocking.
    pub(crate) fn write(&self, directory: &BatchDirectory) -> Result<(), BatchError> {
        let folder = folder(directory);
        let own = folder.join(&self.record.name);
        std::fs::create_dir_all(&own)
            .map_err(|source| BatchError::Write { file: own.clone(), source })?;
        let mut plan = String::new();
        for task in &self.tasks {
            plan.push_str(&task.line());
            plan.push('\n');
        }
        write_atomically(&own.join("plan.jsonl"), plan.as_bytes())?;
        write_json(&folder.join("job.json"), &self.record)
    }
}

/// Returns the directory of the files of jobs.
pub(crate) fn folder(directory: &BatchDirectory) -> PathBuf {
    directory.file("kubernetes")
}
