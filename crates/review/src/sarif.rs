//! Formats findings as SARIF 2.1.0 for code hosts and editors.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::diff::Diff;
use crate::finding::{Finding, Severity};

/// Returns the document. `version` is the version of Parallax.
pub fn sarif(findings: &[Finding], diff: &Diff, version: &str) -> Value {
    let mut rules: BTreeMap<String, Value> = BTreeMap::new();
    for finding in findings {
        let id = rule_id(finding);
        let rule = json!({"id": id, "shortDescription": {"text": finding.category}});
        rules.entry(id).or_insert(rule);
    }
    let ids: Vec<String> = rules.keys().cloned().collect();
    let results: Vec<Value> = findings.iter().map(|finding| result(finding, diff, &ids)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "Parallax",
                "version": version,
                "rules": rules.into_values().collect::<Vec<Value>>(),
            }},
            "columnKind": "utf16CodeUnits",
            "results": results,
        }],
    })
}

fn result(finding: &Finding, diff: &Diff, rules: &[String]) -> Value {
    let id = rule_id(finding);
    let mut text = format!("{}\n\n{}", finding.title, finding.explanation);
    if !finding.suggestion.is_empty() {
        text.push_str("\n\nSuggested change:\n\n");
        text.push_str(&finding.suggestion);
    }
    // The line may change, but the same problem should be recognized in the next run.
    let input = format!("{}\0{}\0{}", finding.file, finding.category, finding.title);
    let hash: String =
        Sha256::digest(input).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut location = json!({
        "artifactLocation": {"uri": uri(diff.path_bytes(&finding.file)), "uriBaseId": "%SRCROOT%"},
    });
    // A deleted file has no lines.
    if !diff.deletes(&finding.file) {
        location["region"] = json!({"startLine": finding.line});
    }
    json!({
        "ruleId": id,
        "ruleIndex": rules.iter().position(|rule| *rule == id),
        "level": match finding.severity {
            Severity::Critical | Severity::High => "error",
            Severity::Medium => "warning",
            Severity::Low | Severity::Info => "note",
        },
        "message": {"text": text},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"parallaxFinding/v1": hash},
        "properties": {"severity": finding.severity, "category": finding.category},
    })
}

fn rule_id(finding: &Finding) -> String {
    let id: String = finding
        .category
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '-' })
        .collect();
    let id = id.trim_matches('-');
    if id.is_empty() { "review".to_owned() } else { id.to_owned() }
}

/// Converts a relative path to a URI reference.
fn uri(path: &[u8]) -> String {
    let mut uri = String::new();
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_become_sarif_results_with_rules() {
        let finding = Finding {
            file: "a b.rs".to_owned(),
            line: 7,
            severity: Severity::High,
            category: "Memory safety".to_owned(),
            title: "t".to_owned(),
            explanation: "e".to_owned(),
            suggestion: String::new(),
        };
        let changed = "--- a/a b.rs\n+++ b/a b.rs\n@@ -7 +7 @@\n-a\n+b\n";
        let document = sarif(std::slice::from_ref(&finding), &Diff::parse(changed), "1.0");
        let run = &document["runs"][0];
        assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "memory-safety");
        let result = &run["results"][0];
        assert_eq!((&result["level"], &result["ruleIndex"]), (&json!("error"), &json!(0)));
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "a%20b.rs");
        assert_eq!(location["region"]["startLine"], 7);
        assert_eq!(sarif(&[], &Diff::default(), "1.0")["runs"][0]["results"], json!([]));
        let deleted = Diff::parse("--- a/a b.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
        let document = sarif(&[finding], &deleted, "1.0");
        let location = &document["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "a%20b.rs");
        assert_eq!(location.get("region"), None);
    }

    #[test]
    fn uri_of_a_name_that_is_not_utf8_has_its_bytes() {
        let diff = Diff::parse(
            "diff --git \"a/lat\\351n\" \"b/lat\\351n\"\n--- \"a/lat\\351n\"\n\
             +++ \"b/lat\\351n\"\n@@ -1 +1 @@\n-a\n+b\n",
        );
        assert_eq!(uri(diff.path_bytes("lat\u{fffd}n")), "lat%E9n");
        assert_eq!(uri(diff.path_bytes("ü")), "%C3%BC");
    }
}
