//! The state of an Indexed Job.

use std::collections::BTreeSet;

use parallax_protocol::excerpt::one_line;
use serde_json::Value;

/// Maximum number of indexes of a Job.
pub(crate) const MAX_INDEXES: usize = 100_000;

/// What the cluster reports about a Job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobStatus {
    /// Indexes that succeeded.
    pub(crate) completed: BTreeSet<usize>,
    /// Indexes that failed for good.
    pub(crate) failed: BTreeSet<usize>,
    /// Number of pods that are running or pending.
    pub(crate) active: u64,
    /// Whether it is suspended.
    pub(crate) is_suspended: bool,
    /// Whether it has ended.
    pub(crate) has_ended: bool,
    /// Why it failed as a whole; safe to print.
    pub(crate) failure: Option<String>,
}

impl JobStatus {
    pub(crate) fn from_job(job: &Value) -> Self {
        let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let mut status = Self {
            completed: indexes(text("/status/completedIndexes")),
            failed: indexes(text("/status/failedIndexes")),
            active: job.pointer("/status/active").and_then(Value::as_u64).unwrap_or(0),
            ..Self::default()
        };
        let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
        for condition in conditions.into_iter().flatten() {
            let field =
                |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
            if field("status") != "True" {
                continue;
            }
            match field("type") {
                "Complete" => status.has_ended = true,
                "Failed" => {
                    status.has_ended = true;
                    let (reason, message) = (field("reason"), field("message"));
                    status.failure = Some(one_line(&format!("{reason}: {message}")));
                }
                "Suspended" => status.is_suspended = true,
                _ => {}
            }
        }
        status
    }

    /// Indexes whose status is final.
    pub(crate) fn finished_indexes(&self) -> BTreeSet<usize> {
        self.completed.union(&self.failed).copied().collect()
    }
}

/// Parses numbers as Kubernetes writes them: `0-3,7`.
fn indexes(text: &str) -> BTreeSet<usize> {
    let mut indexes = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
        {
            indexes.extend(first..=last.min(MAX_INDEXES));
        }
    }
    indexes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn job_status_is_parsed() {
        let status = JobStatus::from_job(&json!({"status": {
            "active": 2, "completedIndexes": "0-2,5", "failedIndexes": "3",
            "conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy",
                "message": "exit code 42\u{1b}"}],
        }}));
        assert_eq!(status.finished_indexes().into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 5]);
        assert!(status.has_ended && status.active == 2);
        let failure = status.failure.expect("a failure");
        assert!(failure.starts_with("PodFailurePolicy: exit code 42"), "{failure}");
        assert!(!failure.contains('\u{1b}'));
        assert_eq!(JobStatus::from_job(&json!({})), JobStatus::default());
    }

    #[test]
    fn oversized_indexes_use_bounded_memory() {
        assert_eq!(indexes("7-99999999999").len(), MAX_INDEXES - 6);
        assert!(indexes("x,-,5-1").is_empty());
    }
}
