//! What is wrong with a rule file.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::rule_file::Tier;

/// The kind of a problem; the words are matched by scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The file cannot be read.
    FileRead,
    /// It is no TOML.
    TomlParse,
    /// A key is missing, unknown, or of the wrong type.
    SchemaValidation,
    /// A value makes no sense, or not here.
    RuleValidation,
    /// A pattern or glob cannot be used.
    RegexCompilation,
    /// A tool's name is perhaps misspelt.
    ToolNameWarning,
}

impl ProblemKind {
    /// The word for scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileRead => "file_read",
            Self::TomlParse => "toml_parse",
            Self::SchemaValidation => "schema_validation",
            Self::RuleValidation => "rule_validation",
            Self::RegexCompilation => "regex_compilation",
            Self::ToolNameWarning => "tool_name_warning",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The rules hold as far as they were understood.
    Warning,
    /// A rule or a file does not hold.
    Error,
}

/// Something wrong with a rule file. It never keeps the program from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What kind.
    pub kind: ProblemKind,
    /// How bad.
    pub severity: Severity,
    /// The file.
    #[serde(serialize_with = "parallax_protocol::path_text::one::serialize")]
    pub path: PathBuf,
    /// Whose file.
    pub tier: Tier,
    /// The rule in it, from 1; safety checkers are counted for themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<usize>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong and what follows from it.
    pub message: String,
    /// What was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Problem {
    /// What is wrong and what was probably meant, without the place.
    pub fn said(&self) -> String {
        match &self.suggestion {
            Some(suggestion) => format!("{}; did you mean `{suggestion}`?", self.message),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, " ({} policy", self.tier.as_str())?;
        if let Some(rule) = self.rule {
            write!(f, ", rule {rule}")?;
        }
        write!(f, "): {}", self.said())
    }
}
