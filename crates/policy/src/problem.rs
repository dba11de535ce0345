//! Problems in rule files.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::rule_file::Tier;

/// The kind of a problem. Scripts rely on these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The file cannot be read.
    FileRead,
    /// The file is not valid TOML.
    TomlParse,
    /// A key is missing, unknown, or of the wrong type.
    SchemaValidation,
    /// A value is invalid or not allowed here.
    RuleValidation,
    /// A pattern or glob is invalid.
    RegexCompilation,
    /// A tool name may be misspelled.
    ToolNameWarning,
}

impl ProblemKind {
    /// Returns the machine-readable name.
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

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The rules that were understood apply.
    Warning,
    /// A rule or a file is ignored.
    Error,
}

/// A problem in a rule file. Problems never prevent the program from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The kind.
    pub kind: ProblemKind,
    /// The severity.
    pub severity: Severity,
    /// The file.
    #[serde(serialize_with = "parallax_protocol::path_text::one::serialize")]
    pub path: PathBuf,
    /// The tier of the file.
    pub tier: Tier,
    /// The number of the rule in the file, from 1; safety checkers are counted separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<usize>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong, and the consequence.
    pub message: String,
    /// What was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Problem {
    /// Returns the message and the suggestion, without the location.
    pub fn message(&self) -> String {
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
        write!(f, "): {}", self.message())
    }
}
