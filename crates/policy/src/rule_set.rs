//! The rules of a session in evaluation order, with the problems found in them.

use std::sync::Arc;

use parallax_protocol::policy::Decision;

use crate::checker::Checker;
use crate::problem::Problem;
use crate::rule::Rule;
use crate::rule_toml::{ParseOptions, read};
use crate::settings::PolicyOptions;
use crate::{defaults, settings};

/// The rules of a session. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RuleSet {
    rules: Arc<[Arc<Rule>]>,
    checkers: Arc<[Arc<Checker>]>,
    notices: Arc<[String]>,
    problems: Arc<[Problem]>,
}

impl RuleSet {
    pub(crate) fn new(options: &PolicyOptions) -> Self {
        let (mut rules, mut notices) = settings::rules(options);
        let mut checkers = Vec::new();
        let mut problems = Vec::new();
        let reading = ParseOptions {
            home: options.home.as_deref(),
            workspace_may_allow: options.workspace_may_allow,
        };
        for file in &options.files {
            let loaded = read(file, reading);
            rules.extend(loaded.rules);
            checkers.extend(loaded.checkers);
            problems.extend(loaded.problems);
        }
        notices.extend(problems.iter().map(ToString::to_string));
        rules.extend(defaults::rules(options.plans_directory.as_deref()));
        if options.disable_always_allow {
            rules.retain(|rule| !rule.is_saved_answer());
        }
        checkers.sort_by_key(|checker: &Checker| std::cmp::Reverse(checker.priority));
        Self {
            rules: sort_rules(rules.into_iter().map(Arc::new).collect()),
            checkers: checkers.into_iter().map(Arc::new).collect(),
            notices: notices.into(),
            problems: problems.into(),
        }
    }

    pub(crate) fn with(&self, rule: Rule) -> Self {
        let mut rules = vec![Arc::new(rule)];
        rules.extend(self.rules.iter().cloned());
        Self { rules: sort_rules(rules), ..self.clone() }
    }

    pub(crate) fn all(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    pub(crate) fn checkers(&self) -> &[Arc<Checker>] {
        &self.checkers
    }

    pub(crate) fn notices(&self) -> &[String] {
        &self.notices
    }

    pub(crate) fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

fn sort_rules(mut rules: Vec<Arc<Rule>>) -> Arc<[Arc<Rule>]> {
    // For equal priorities, denials come first. The sort is stable, so other rules keep their
    // order.
    rules.sort_by_key(|rule| (std::cmp::Reverse(rule.priority), rule.decision != Decision::Deny));
    rules.into()
}
