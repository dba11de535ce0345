//! Rule files as they are handed in: who they speak for, where they stand, and
//! their text. Finding and reading them is `config`'s.

use std::path::PathBuf;

/// Whose rules win: a higher tier before a lower one, whatever the priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The program's own.
    BuiltIn,
    /// An extension's: its rules never allow.
    Extension,
    /// The project's: it may tighten, not loosen.
    Workspace,
    /// The user's.
    User,
    /// The machine's administrator's.
    Admin,
}

impl Tier {
    /// The number before the point of a final priority, 1 to 5.
    pub fn number(self) -> u32 {
        match self {
            Self::BuiltIn => 1,
            Self::Extension => 2,
            Self::Workspace => 3,
            Self::User => 4,
            Self::Admin => 5,
        }
    }

    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::Extension => "extension",
            Self::Workspace => "workspace",
            Self::User => "user",
            Self::Admin => "admin",
        }
    }
}

/// A file of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFile {
    /// Whose it is.
    pub tier: Tier,
    /// Where it stands.
    pub path: PathBuf,
    /// What stands in it, or why it could not be read.
    pub text: Result<String, String>,
}
