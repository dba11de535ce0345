//! The findings of a review.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diff::Diff;

/// The severity of a finding, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Data loss, a security hole, or a crash in normal use.
    Critical,
    /// Incorrect behavior that users will encounter.
    High,
    /// Incorrect behavior in rare cases, or a risk.
    Medium,
    /// Minor harm.
    Low,
    /// A remark.
    Info,
}

impl Severity {
    /// All severities, in descending order.
    pub const ALL: [Self; 5] = [Self::Critical, Self::High, Self::Medium, Self::Low, Self::Info];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Info => "info",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file, relative to the repository.
    pub file: String,
    /// The line after the change, from 1.
    pub line: u64,
    /// The severity.
    pub severity: Severity,
    /// The category, such as `bug` or `security`.
    pub category: String,
    /// The problem in one line.
    pub title: String,
    /// Why it is a problem.
    pub explanation: String,
    /// A patch that fixes it; empty if there is none.
    #[serde(default)]
    pub suggestion: String,
}

/// Returns the findings in a model's answer, most severe first, and the number of findings that
/// were dropped because the diff does not change their files.
///
/// # Errors
/// Returns an error if the answer does not match the schema.
pub fn findings_of(answer: &Value, diff: &Diff) -> Result<(Vec<Finding>, usize), String> {
    let list = answer.get("findings").cloned().unwrap_or_default();
    let all: Vec<Finding> = serde_json::from_value(list).map_err(|error| error.to_string())?;
    let count = all.len();
    let mut findings: Vec<Finding> =
        all.into_iter().filter(|finding| diff.has(&finding.file)).collect();
    for finding in &mut findings {
        finding.line = finding.line.max(1);
    }
    findings.sort_by(|one, other| {
        (one.severity, &one.file, one.line).cmp(&(other.severity, &other.file, other.line))
    });
    let left_out = count - findings.len();
    Ok((findings, left_out))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn findings_are_sorted_and_limited_to_the_diff() {
        let diff = Diff::parse("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n");
        let finding = |file: &str, line: u64, severity: &str| {
            json!({"file": file, "line": line, "severity": severity, "category": "bug",
                "title": "t", "explanation": "e"})
        };
        let answer = json!({"findings": [finding("x", 0, "low"), finding("y", 1, "high"),
            finding("x", 2, "critical")]});
        let (findings, left_out) = findings_of(&answer, &diff).expect("findings");
        let seen: Vec<_> = findings.iter().map(|it| (it.severity, it.line)).collect();
        assert_eq!(seen, [(Severity::Critical, 2), (Severity::Low, 1)]);
        assert_eq!(left_out, 1);
        assert!(findings_of(&json!({"findings": [{"file": 1}]}), &diff).is_err());
    }
}
