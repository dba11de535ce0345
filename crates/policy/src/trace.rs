//! Records the rules and checks that led to a decision.

use std::path::PathBuf;

use parallax_protocol::policy::{Decision, PolicyDecision};
use serde::Serialize;

use crate::conditions::Mismatch;
use crate::rule::{Rule, RuleSource};

/// A decision with its explanation.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The decision.
    #[serde(rename = "verdict")]
    pub policy_decision: PolicyDecision,
    /// The rules evaluated for the call as a whole, up to the one that matched.
    pub rules: Vec<EvaluatedRule>,
    /// The commands of a shell line, each evaluated separately.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<ExplainedCommand>,
    /// Why the line could not be analyzed.
    #[serde(rename = "trouble", skip_serializing_if = "Option::is_none")]
    pub unanalyzable_reason: Option<String>,
    /// Additional checks that matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<MatchedCheck>,
}

/// A rule that was evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatedRule {
    /// The label: name, origin, location, and priority.
    pub rule: String,
    /// The decision of the rule.
    pub decision: Decision,
    /// The final priority.
    pub priority: String,
    /// The file of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "parallax_protocol::path_text::option::serialize")]
    pub file: Option<PathBuf>,
    /// The line in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Why the rule did not match; `None` if it matched.
    #[serde(rename = "whyNot", skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<&'static str>,
}

/// A command of a shell line.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCommand {
    /// The command as written.
    pub command: String,
    /// The decision.
    pub decision: Decision,
    /// The rule or check that decided.
    pub rule: String,
    /// The rules evaluated, up to the one that matched.
    pub rules: Vec<EvaluatedRule>,
}

/// A check that matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MatchedCheck {
    /// The name of the check.
    pub check: String,
    /// The reason.
    #[serde(rename = "why")]
    pub reason: String,
}

/// Collects an explanation if one is requested.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    is_enabled: bool,
    considered: Vec<EvaluatedRule>,
    pub(crate) rules: Vec<EvaluatedRule>,
    pub(crate) commands: Vec<ExplainedCommand>,
    pub(crate) checks: Vec<MatchedCheck>,
}

impl Trace {
    pub(crate) fn enabled() -> Self {
        Self { is_enabled: true, ..Self::default() }
    }

    pub(crate) fn record_rule(&mut self, rule: &Rule, mismatch: Option<Mismatch>) {
        if !self.is_enabled {
            return;
        }
        self.considered.push(evaluated_rule(rule, mismatch.map(Mismatch::as_str)));
    }

    /// Assigns the rules recorded so far to the whole call.
    pub(crate) fn assign_to_call(&mut self) {
        self.rules = std::mem::take(&mut self.considered);
    }

    /// Assigns the rules recorded so far to a command.
    pub(crate) fn record_command(&mut self, command: &str, decision: Decision, rule: &str) {
        if !self.is_enabled {
            return;
        }
        self.commands.push(ExplainedCommand {
            command: command.to_owned(),
            decision,
            rule: rule.to_owned(),
            rules: std::mem::take(&mut self.considered),
        });
    }

    pub(crate) fn check(&mut self, check: &str, reason: &str) {
        if self.is_enabled {
            self.checks.push(MatchedCheck { check: check.to_owned(), reason: reason.to_owned() });
        }
    }
}

pub(crate) fn evaluated_rule(rule: &Rule, mismatch: Option<&'static str>) -> EvaluatedRule {
    let (file, line) = match &rule.source {
        RuleSource::File { path, line, .. } => (Some(path.as_ref().clone()), Some(*line)),
        _ => (None, None),
    };
    EvaluatedRule {
        rule: rule.label(),
        decision: rule.decision,
        priority: rule.priority.to_string(),
        file,
        line,
        mismatch,
    }
}
