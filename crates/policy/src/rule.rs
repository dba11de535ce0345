//! The rule type shared by built-in rules, settings, rule files, and "always" answers of the user.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::Decision;

use crate::conditions::{Commands, Conditions};
use crate::rule_file::Tier;

/// The setting that lists tools that need no approval.
pub(crate) const ALLOWED: &str = "tools.allowed";

/// The final priority in thousandths: tier × 1000 + the priority of the rule (0–999).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub u32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// The origin of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSource {
    /// A built-in rule.
    BuiltIn,
    /// A setting, or the flag that corresponds to it; the text is its name.
    Setting(&'static str),
    /// A rule file.
    File {
        /// The tier of the file.
        tier: Tier,
        /// The path of the file.
        path: Arc<PathBuf>,
        /// The line where the rule begins, from 1.
        line: usize,
    },
    /// An answer from the user in this session.
    Session,
}

impl RuleSource {
    /// Returns the tier.
    pub fn tier(&self) -> Tier {
        match self {
            Self::BuiltIn => Tier::BuiltIn,
            Self::Setting(_) => Tier::User,
            Self::File { tier, .. } => *tier,
            Self::Session => Tier::Workspace,
        }
    }
}

/// A rule. All conditions must hold; the matching rule with the highest priority decides.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The name shown in explanations of decisions.
    pub name: String,
    /// The origin.
    pub source: RuleSource,
    /// The priority.
    pub priority: Priority,
    /// The conditions.
    pub conditions: Conditions,
    /// The decision if the rule matches.
    pub decision: Decision,
    /// Whether the rule only exempts a call from a denial by the same setting; later rules decide.
    /// Used with [`Decision::Allow`].
    pub exempts_only: bool,
    /// Whether an allowed command may redirect to and from files.
    pub allow_redirection: bool,
    /// The message for the model if the call is denied.
    pub deny_message: Option<String>,
    /// What an allowed call may do beyond the sandbox.
    pub grants: Permissions,
}

impl Rule {
    /// Creates a rule without conditions, which does not match any tool yet.
    pub fn new(name: impl Into<String>, priority: u32, decision: Decision) -> Self {
        Self {
            name: name.into(),
            source: RuleSource::BuiltIn,
            priority: Priority(priority),
            conditions: Conditions::default(),
            decision,
            exempts_only: false,
            allow_redirection: false,
            deny_message: None,
            grants: Permissions::default(),
        }
    }

    /// Returns the label used in explanations: name, origin, location, and priority.
    pub fn label(&self) -> String {
        let (name, rank) = (&self.name, self.priority);
        match &self.source {
            RuleSource::BuiltIn => format!("{name} (built in, {rank})"),
            RuleSource::Setting(key) => format!("{name} (`{key}`, {rank})"),
            RuleSource::File { tier, path, line } => {
                format!("{name} ({}, `{}:{line}`, {rank})", tier.as_str(), path.display())
            }
            RuleSource::Session => format!("{name} (this session, {rank})"),
        }
    }

    /// Whether the rule may only make decisions stricter, so that a denial by a later rule counts.
    pub(crate) fn only_tightens(&self) -> bool {
        let is_restricted = matches!(
            &self.source,
            RuleSource::File { tier: Tier::Extension | Tier::Workspace, .. }
        );
        self.decision == Decision::Ask
            && (is_restricted || self.source == RuleSource::Setting(ALLOWED))
    }

    /// Whether the rule names shell commands of the list of commands that need no approval.
    pub(crate) fn is_allowed_command(&self) -> bool {
        self.decision == Decision::Allow
            && self.source == RuleSource::Setting(ALLOWED)
            && !matches!(self.conditions.commands, Commands::Any)
    }

    /// Whether the rule applies to the shell commands that are not on the list of allowed commands.
    pub(crate) fn is_for_unlisted_commands(&self) -> bool {
        self.decision == Decision::Ask && self.source == RuleSource::Setting(ALLOWED)
    }

    /// Whether the rule is an "always" answer from the user, saved or not.
    pub(crate) fn is_saved_answer(&self) -> bool {
        const ALWAYS: u32 = 950;
        let is_saved =
            matches!(&self.source, RuleSource::File { tier: Tier::Workspace | Tier::User, .. });
        self.decision == Decision::Allow
            && (self.source == RuleSource::Session
                || (is_saved && self.priority.0 % 1000 == ALWAYS))
    }
}
