//! Keeps `docs/reference/exit-codes.md` in agreement with the codes and the error types.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use parallax_protocol::event::{EndReason, Failure, FailureKind};

use crate::exit::{EXIT_CODES, ExitCode};
use crate::failure::RunOutcome;

/// Returns the kind after the given one, in the order of their declaration.
fn next(kind: Option<FailureKind>) -> Option<FailureKind> {
    let Some(kind) = kind else { return Some(FailureKind::Auth) };
    match kind {
        FailureKind::Auth => Some(FailureKind::Input),
        FailureKind::Input => Some(FailureKind::Config),
        FailureKind::Config => Some(FailureKind::Untrusted),
        FailureKind::Untrusted => Some(FailureKind::Sandbox),
        FailureKind::Sandbox => Some(FailureKind::Api),
        FailureKind::Api => Some(FailureKind::InvalidStream),
        FailureKind::InvalidStream => Some(FailureKind::Blocked),
        FailureKind::Blocked => Some(FailureKind::Quota),
        FailureKind::Quota => Some(FailureKind::Tool),
        FailureKind::Tool => Some(FailureKind::Continuations),
        FailureKind::Continuations => Some(FailureKind::Overflow),
        FailureKind::Overflow => Some(FailureKind::Internal),
        FailureKind::Internal => None,
    }
}

/// Returns the outcomes of all failures and other ends with an error.
fn outcomes() -> Vec<RunOutcome> {
    let kinds = std::iter::successors(next(None), |kind| next(Some(*kind)));
    let failure =
        |kind, status| RunOutcome::failure(&Failure { kind, message: String::new(), status });
    let mut outcomes: Vec<RunOutcome> = kinds.map(|kind| failure(kind, None)).collect();
    outcomes.push(failure(FailureKind::Api, Some(429)));
    outcomes.extend([
        RunOutcome::from(&EndReason::MaxTurns { limit: 1 }),
        RunOutcome::from(&EndReason::Loop { detail: String::new() }),
        RunOutcome::from(&EndReason::Stopped { reason: String::new(), blocked: true }),
        RunOutcome::from(&EndReason::Cancelled),
        RunOutcome::schema_mismatch(""),
    ]);
    outcomes
}

fn page() -> String {
    let mut types: BTreeMap<u8, Vec<&'static str>> = BTreeMap::new();
    for outcome in outcomes() {
        let Some(error) = outcome.error else { continue };
        let listed = types.entry(outcome.exit.0).or_default();
        if !listed.contains(&error.r#type) {
            listed.push(error.r#type);
        }
    }
    // The command line is checked before a run begins.
    types.entry(ExitCode::GENERAL.0).or_default().push("UsageError");
    let mut text = String::from(
        "# Exit codes reference\n\nFor scripts and CI jobs: the exit codes of `parallax`, and the \
         `error.type` of the [JSON formats](../output-formats.md#errors)\nwith each code. This page \
         is generated from `crates/headless/src/exit.rs`.\n\n| Code | Meaning | Error types |\n\
         | --- | --- | --- |\n",
    );
    for (code, doc) in EXIT_CODES {
        let types: Vec<String> = types
            .remove(&code.0)
            .unwrap_or_default()
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(text, "| {} | {} | {} |", code.0, doc.trim(), types.join(", "));
    }
    assert!(types.is_empty(), "codes without documentation: {types:?}");
    text.push_str(
        "| 128 + n | The run was terminated by signal n: 129 for SIGHUP, 143 for SIGTERM. | \
         `FatalCancellationError` |\n\n`ApiError` exits with 75 for status 429 and with 1 \
         otherwise. Some commands have further codes:\n\
         [batches](../batch-reference.md#exit-codes) and \
         [extensions](../extensions-reference.md#exit-codes).\n\nNext: \
         [Headless runs](../headless.md) and [Output formats](../output-formats.md).\n",
    );
    text
}

#[test]
fn reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/exit-codes.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/reference/exit-codes.md is out of date: run with UPDATE_DOCS=1"
    );
}
