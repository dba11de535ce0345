//! What was looked at on the way to a verdict.

use std::path::PathBuf;

use parallax_protocol::policy::{Decision, Verdict};
use serde::Serialize;

use crate::conditions::Mismatch;
use crate::rule::{Rule, Source};

/// A verdict with the way to it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What is decided.
    pub verdict: Verdict,
    /// The rules that were tried on the call as a whole, up to the one that
    /// matched.
    pub rules: Vec<Considered>,
    /// The commands of a shell line, each judged for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<ExplainedCommand>,
    /// Why the line could not be taken apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Checks beside the rules that had something to say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Fired>,
}

/// A rule that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Considered {
    /// What it is called, with whose it is, where it stands and its rank.
    pub rule: String,
    /// What it would decide.
    pub decision: Decision,
    /// Its final priority.
    pub priority: String,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "parallax_protocol::path_text::option::serialize")]
    pub file: Option<PathBuf>,
    /// Its line in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Why it did not match; nothing when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<&'static str>,
}

/// A command of a shell line.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCommand {
    /// As written.
    pub command: String,
    /// What is decided about it.
    pub decision: Decision,
    /// By which rule or check.
    pub rule: String,
    /// The rules that were tried, up to the one that matched.
    pub rules: Vec<Considered>,
}

/// A check that had something to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fired {
    /// What it is called.
    pub check: String,
    /// What it says.
    pub why: String,
}

/// Collects, when somebody wants to know.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    on: bool,
    considered: Vec<Considered>,
    pub(crate) rules: Vec<Considered>,
    pub(crate) commands: Vec<ExplainedCommand>,
    pub(crate) checks: Vec<Fired>,
}

impl Trace {
    pub(crate) fn on() -> Self {
        Self { on: true, ..Self::default() }
    }

    pub(crate) fn rule(&mut self, rule: &Rule, mismatch: Option<Mismatch>) {
        if !self.on {
            return;
        }
        self.considered.push(considered(rule, mismatch.map(Mismatch::as_str)));
    }

    /// The rules so far were tried on the whole call.
    pub(crate) fn whole(&mut self) {
        self.rules = std::mem::take(&mut self.considered);
    }

    /// The rules so far were tried on a command.
    pub(crate) fn command(&mut self, command: &str, decision: Decision, rule: &str) {
        if !self.on {
            return;
        }
        self.commands.push(ExplainedCommand {
            command: command.to_owned(),
            decision,
            rule: rule.to_owned(),
            rules: std::mem::take(&mut self.considered),
        });
    }

    pub(crate) fn check(&mut self, check: &str, why: &str) {
        if self.on {
            self.checks.push(Fired { check: check.to_owned(), why: why.to_owned() });
        }
    }
}

pub(crate) fn considered(rule: &Rule, why_not: Option<&'static str>) -> Considered {
    let (file, line) = match &rule.source {
        Source::File { path, line, .. } => (Some(path.as_ref().clone()), Some(*line)),
        _ => (None, None),
    };
    Considered {
        rule: rule.label(),
        decision: rule.decision,
        priority: rule.priority.to_string(),
        file,
        line,
        why_not,
    }
}
