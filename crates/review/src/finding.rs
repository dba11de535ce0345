//! The findings of a review.

use std::path::Path;

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

/// Returns the findings in a model's answer about files that the diff changes, and those about other
/// files, most severe first. `top`: the top directory of the repository, for absolute paths.
///
/// # Errors
/// Returns an error if the answer does not match the schema.
pub fn findings_of(
    answer: &Value,
    diff: &Diff,
    top: Option<&Path>,
) -> Result<(Vec<Finding>, Vec<Finding>), String> {
    let list = answer.get("findings").cloned().unwrap_or_default();
    let all: Vec<Finding> = serde_json::from_value(list).map_err(|error| error.to_string())?;
    let (mut findings, mut others) = (Vec::new(), Vec::new());
    for mut finding in all {
        finding.line = finding.line.max(1);
        match changed_file(&finding.file, diff, top) {
            Some(file) => {
                finding.file = file;
                findings.push(finding);
            }
            None => others.push(finding),
        }
    }
    for list in [&mut findings, &mut others] {
        list.sort_by(|one, other| {
            (one.severity, &one.file, one.line).cmp(&(other.severity, &other.file, other.line))
        });
    }
    Ok((findings, others))
}

/// Returns the changed file that a model means by a path: as in the diff, below the repository, or
/// with the prefixes of a diff's header.
fn changed_file(path: &str, diff: &Diff, top: Option<&Path>) -> Option<String> {
    let path = path.trim();
    let inside = top.and_then(|top| Path::new(path).strip_prefix(top).ok()?.to_str());
    let mut candidates: Vec<&str> = inside.into_iter().chain([path]).collect();
    let plain = path.trim_start_matches("./");
    candidates.push(plain);
    candidates.extend(["a/", "b/"].iter().filter_map(|prefix| plain.strip_prefix(prefix)));
    candidates.into_iter().find(|path| diff.has(path)).map(str::to_owned)
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
        let (findings, others) = findings_of(&answer, &diff, None).expect("findings");
        let seen: Vec<_> = findings.iter().map(|it| (it.severity, it.line)).collect();
        assert_eq!(seen, [(Severity::Critical, 2), (Severity::Low, 1)]);
        assert_eq!(others.len(), 1);
        assert!(findings_of(&json!({"findings": [{"file": 1}]}), &diff, None).is_err());
    }

    #[test]
    fn paths_of_findings_are_those_of_the_diff() {
        let diff = Diff::parse("--- a/s/x\n+++ b/s/x\n@@ -1 +1 @@\n-a\n+b\n");
        let top = Some(Path::new("/repo"));
        for path in ["s/x", "./s/x", "a/s/x", "b/s/x", "./b/s/x", "/repo/s/x", " s/x "] {
            assert_eq!(changed_file(path, &diff, top).as_deref(), Some("s/x"), "{path}");
        }
        for path in ["x", "/other/s/x", "c/s/x", "../s/x", ""] {
            assert_eq!(changed_file(path, &diff, top), None, "{path}");
        }
    }
}
