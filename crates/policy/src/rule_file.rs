//! Rule files as passed in by the caller: their tier, path, and text. The `config` crate finds and
//! reads them.

use std::path::PathBuf;

/// The precedence of rules: rules of a higher tier win, regardless of their priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Built-in rules.
    BuiltIn,
    /// Rules of an extension, which never allow.
    Extension,
    /// Rules of the project, which may tighten but not loosen.
    Workspace,
    /// Rules of the user.
    User,
    /// Rules of the administrator.
    Admin,
}

impl Tier {
    /// Returns the number before the decimal point of a final priority, 1 to 5.
    pub fn number(self) -> u32 {
        match self {
            Self::BuiltIn => 1,
            Self::Extension => 2,
            Self::Workspace => 3,
            Self::User => 4,
            Self::Admin => 5,
        }
    }

    /// Returns the display name.
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

/// A rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFile {
    /// The tier.
    pub tier: Tier,
    /// The path.
    pub path: PathBuf,
    /// The contents, or why the file could not be read.
    pub text: Result<String, String>,
}
