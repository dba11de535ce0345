//! Safety checkers: an additional check of calls that no rule denies.

use std::path::{Component, Path};

use parallax_protocol::policy::Decision;
use serde_json::Value;

use crate::call::CallQuery;
use crate::conditions::Conditions;
use crate::paths;
use crate::rule::{Priority, RuleSource};
use crate::subject::Subject;

/// Words in the names of arguments that hold paths.
const PATH_WORDS: &[&str] = &["path", "file", "dir", "source", "destination"];

/// A safety checker and the calls that it applies to.
#[derive(Debug, Clone)]
pub(crate) struct Checker {
    pub(crate) name: String,
    pub(crate) source: RuleSource,
    pub(crate) priority: Priority,
    pub(crate) conditions: Conditions,
    pub(crate) kind: CheckerKind,
}

/// What a safety checker does.
#[derive(Debug, Clone)]
pub(crate) enum CheckerKind {
    /// Requires that paths are in the workspace and not in version control data, secrets, or
    /// installed packages.
    AllowedPath {
        /// Arguments to check; empty means all.
        included: Vec<String>,
        /// Arguments not to check.
        excluded: Vec<String>,
    },
    /// A program of the user. External checkers are not supported yet; this counts as a failure of
    /// the checker, and a failure denies the call.
    External,
}

/// The reason a checker gives for rejecting a call.
pub(crate) struct CheckerRejection {
    pub(crate) decision: Decision,
    pub(crate) reason: String,
}

impl Checker {
    pub(crate) fn applies_to(&self, call: &CallQuery<'_>) -> bool {
        // In doubt, the checker applies.
        self.conditions.mismatch(call, Subject::Whole, Decision::Deny).is_none()
    }

    pub(crate) fn label(&self) -> String {
        let (name, rank) = (&self.name, self.priority);
        match &self.source {
            RuleSource::File { tier, path, line } => format!(
                "safety checker {name} ({}, `{}:{line}`, {rank})",
                tier.as_str(),
                path.display()
            ),
            _ => format!("safety checker {name} (built in, {rank})"),
        }
    }

    pub(crate) fn check(&self, call: &CallQuery<'_>) -> Option<CheckerRejection> {
        match &self.kind {
            CheckerKind::External => Some(CheckerRejection {
                decision: Decision::Deny,
                reason: format!(
                    "The external safety checker `{}` is not supported, and a checker that fails \
                     denies the call: remove it, or replace it with rules",
                    self.name
                ),
            }),
            CheckerKind::AllowedPath { included, excluded } => {
                let listed = |key: &str, list: &[String]| list.iter().any(|one| one == key);
                let from_arguments = call
                    .query
                    .args
                    .iter()
                    .filter(|(key, _)| {
                        let named = if included.is_empty() {
                            let key = key.to_lowercase();
                            PATH_WORDS.iter().any(|word| key.contains(word))
                        } else {
                            listed(key, included)
                        };
                        named && !listed(key, excluded)
                    })
                    .flat_map(|(_, value)| strings(value))
                    .map(|text| {
                        let base = call.query.workspace.first().map_or(Path::new("/"), |path| path);
                        paths::resolve(base, Path::new(text))
                    });
                let effects = call.query.effects;
                let from_effects = effects
                    .writes
                    .iter()
                    .chain(&effects.reads)
                    .filter(|_| included.is_empty() && excluded.is_empty());
                from_arguments
                    .chain(from_effects.cloned())
                    .filter_map(|path| object(&path, call))
                    .max_by_key(|objection| objection.decision)
            }
        }
    }
}

fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn object(path: &Path, call: &CallQuery<'_>) -> Option<CheckerRejection> {
    let roots = call.query.workspace;
    let deny = |reason: String| Some(CheckerRejection { decision: Decision::Deny, reason });
    let Some(root) = roots.iter().find(|root| path.starts_with(root)) else {
        return deny(format!("`{}` is outside the workspace", path.display()));
    };
    let relative = path.strip_prefix(root).unwrap_or(path);
    let names: Vec<String> = relative
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| part.as_os_str().to_string_lossy().to_lowercase())
        .collect();
    let closed = |name: &&String| {
        matches!(name.as_str(), ".git" | "node_modules") || name.starts_with(".env")
    };
    if let Some(name) = names.iter().find(closed) {
        return deny(format!("`{}` is protected because it contains `{name}`", path.display()));
    }
    names.iter().any(|name| name == ".vscode").then(|| CheckerRejection {
        decision: Decision::Ask,
        reason: format!("`{}` contains settings that can run programs", path.display()),
    })
}
