//! The rules of a policy for lists.

use parallax_policy::{Policy, Rule};
use parallax_protocol::policy::{ApprovalMode, Decision};

/// A policy rule in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRow {
    /// The priority, for display.
    pub priority: String,
    /// The decision.
    pub decision: Decision,
    /// The rule with its source and location.
    pub rule: String,
}

/// Returns the policy rules by mode, highest priority first: those for all modes under `None`,
/// then those for single modes.
pub fn rule_rows(policy: &Policy) -> Vec<(Option<ApprovalMode>, Vec<RuleRow>)> {
    use ApprovalMode::{AutoEdit, Default, Plan, Yolo};
    let rows = |mode: Option<ApprovalMode>| -> Vec<RuleRow> {
        let fits = |rule: &&Rule| match mode {
            None => rule.conditions.modes.is_empty(),
            Some(mode) => rule.conditions.modes.contains(&mode),
        };
        let row = |rule: &Rule| RuleRow {
            priority: rule.priority.to_string(),
            decision: rule.decision,
            rule: rule.label(),
        };
        policy.rules().filter(fits).map(row).collect()
    };
    let groups = [None, Some(Default), Some(AutoEdit), Some(Plan), Some(Yolo)];
    let groups = groups.into_iter().map(|mode| (mode, rows(mode)));
    groups.filter(|(_, rows)| !rows.is_empty()).collect()
}
