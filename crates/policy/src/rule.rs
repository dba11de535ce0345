//! What a rule is. Built-in rules, settings, rule files and a person's answers
//! all become this type.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::Decision;

use crate::conditions::{Commands, Conditions};
use crate::rule_file::Tier;
use crate::settings::ALLOWED;

/// The final priority in thousandths: tier × 1000 + the rule's own 0–999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub u32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Who made a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The program.
    BuiltIn,
    /// A setting or the flag that stands for it; the text names it.
    Setting(&'static str),
    /// A rule file.
    File {
        /// Whose it is.
        tier: Tier,
        /// Where it stands.
        path: Arc<PathBuf>,
        /// The line where the rule begins, from 1.
        line: usize,
    },
    /// An answer that a person gave in this session.
    Session,
}

impl Source {
    /// Whose it is.
    pub fn tier(&self) -> Tier {
        match self {
            Self::BuiltIn => Tier::BuiltIn,
            Self::Setting(_) => Tier::User,
            Self::File { tier, .. } => *tier,
            Self::Session => Tier::Workspace,
        }
    }
}

/// One rule. All conditions must hold; the first rule by priority decides.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What it is called in verdicts.
    pub name: String,
    /// Who made it.
    pub source: Source,
    /// Its rank.
    pub priority: Priority,
    /// When it matches.
    pub conditions: Conditions,
    /// What it decides.
    pub decision: Decision,
    /// With [`Decision::Allow`]: it only exempts a call from the denial of the setting
    /// that it comes from; the rules behind decide.
    pub only_exempts: bool,
    /// An allowed command may redirect to and from files.
    pub allow_redirection: bool,
    /// What the model reads on a denial.
    pub deny_message: Option<String>,
    /// What an allowed call may do beyond the sandbox.
    pub grants: Permissions,
}

impl Rule {
    /// A rule without conditions, which matches no tool yet.
    pub fn new(name: impl Into<String>, priority: u32, decision: Decision) -> Self {
        Self {
            name: name.into(),
            source: Source::BuiltIn,
            priority: Priority(priority),
            conditions: Conditions::default(),
            decision,
            only_exempts: false,
            allow_redirection: false,
            deny_message: None,
            grants: Permissions::default(),
        }
    }

    /// The name as verdicts give it: what, who, where and rank.
    pub fn label(&self) -> String {
        let (name, rank) = (&self.name, self.priority);
        match &self.source {
            Source::BuiltIn => format!("{name} (built in, {rank})"),
            Source::Setting(key) => format!("{name} (`{key}`, {rank})"),
            Source::File { tier, path, line } => {
                format!("{name} ({}, `{}:{line}`, {rank})", tier.as_str(), path.display())
            }
            Source::Session => format!("{name} (this session, {rank})"),
        }
    }

    /// Whether it may only make things stricter: a denial of a rule behind it counts.
    pub(crate) fn only_tightens(&self) -> bool {
        let is_restricted =
            matches!(&self.source, Source::File { tier: Tier::Extension | Tier::Workspace, .. });
        self.decision == Decision::Ask && (is_restricted || self.source == Source::Setting(ALLOWED))
    }

    /// Whether it names the only shell commands that need no approval.
    pub(crate) fn is_allowed_command(&self) -> bool {
        self.decision == Decision::Allow
            && self.source == Source::Setting(ALLOWED)
            && !matches!(self.conditions.commands, Commands::Any)
    }

    /// Whether it is about the shell commands that the list of allowed ones does not name.
    pub(crate) fn is_beside_allowed_commands(&self) -> bool {
        self.decision == Decision::Ask && self.source == Source::Setting(ALLOWED)
    }

    /// Whether it is an answer "always" of a person, kept or not.
    pub(crate) fn is_always_answer(&self) -> bool {
        const ALWAYS: u32 = 950;
        let kept = matches!(&self.source, Source::File { tier: Tier::Workspace | Tier::User, .. });
        self.decision == Decision::Allow
            && (self.source == Source::Session || (kept && self.priority.0 % 1000 == ALWAYS))
    }
}
