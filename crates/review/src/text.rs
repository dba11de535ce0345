//! Formats findings as a list for the terminal.

use std::fmt::Write as _;

use parallax_protocol::code_text::{code_text, prose_text};
use parallax_protocol::excerpt;

use crate::diff::Diff;
use crate::finding::{Finding, Severity};

/// Number of context lines around the line of a finding.
const CONTEXT: u64 = 3;

/// Returns text from the model on one line, with characters that hide or reorder it made visible.
fn one_line(text: &str) -> String {
    prose_text(&excerpt::one_line(text)).into_owned()
}

/// Returns the list with the hunk of each finding. Characters that hide or reorder text are visible,
/// and code keeps its indentation.
pub fn findings_text(findings: &[Finding], diff: &Diff) -> String {
    let mut text = String::new();
    for finding in findings {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} {}:{} {} ({})",
            finding.severity.as_str(),
            one_line(&finding.file),
            finding.line,
            one_line(&finding.title),
            one_line(&finding.category),
        );
        for line in finding.explanation.lines() {
            let _ = writeln!(text, "  {}", one_line(line));
        }
        let excerpt = diff.excerpt(&finding.file, finding.line, CONTEXT);
        for line in excerpt {
            let _ = writeln!(text, "    {}", code_text(line));
        }
        if !finding.suggestion.trim().is_empty() {
            let _ = writeln!(text, "  Suggested change:");
            for line in finding.suggestion.lines() {
                let _ = writeln!(text, "    {}", code_text(line));
            }
        }
        text.push('\n');
    }
    let counts: Vec<String> = Severity::ALL
        .iter()
        .filter_map(|severity| {
            let count = findings.iter().filter(|finding| finding.severity == *severity).count();
            (count > 0).then(|| format!("{count} {}", severity.as_str()))
        })
        .collect();
    match counts.is_empty() {
        true => text.push_str("No findings\n"),
        false => {
            let _ = writeln!(text, "Findings: {}", counts.join(", "));
        }
    }
    text
}
