//! The checks of a case, as `case.toml` lists them.

use std::path::{Component, Path, PathBuf};

use jsonschema::Validator;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// An entry of `[[checks]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// A file of the project has exactly this content.
    FileEquals {
        /// The file, relative to the project.
        path: PathBuf,
        /// The content.
        content: String,
    },
    /// A file matches a regular expression, in which `^` and `$` match at line boundaries.
    FileMatches {
        /// The file, relative to the project.
        path: PathBuf,
        /// The expression.
        pattern: String,
    },
    /// A shell command in the project exits with 0.
    Command {
        /// The command.
        run: String,
    },
    /// A tool was called.
    ToolCalled {
        /// The name.
        tool: String,
    },
    /// A tool was not called.
    ToolNotCalled {
        /// The name.
        tool: String,
    },
    /// Tools were called in this order, possibly with others in between.
    ToolOrder {
        /// Their names.
        tools: Vec<String>,
    },
    /// A tool was called at most this many times.
    ToolAtMost {
        /// The name.
        tool: String,
        /// The maximum number of calls.
        n: usize,
    },
    /// The last answer matches a regular expression.
    AnswerMatches {
        /// The expression.
        pattern: String,
    },
    /// The last answer is JSON that matches a schema.
    AnswerSchema {
        /// The schema: a file of the case.
        schema: PathBuf,
    },
    /// The run used at most this many tokens.
    TokensAtMost {
        /// The maximum number of tokens.
        n: u64,
    },
    /// The run cost at most this much.
    CostAtMost {
        /// The maximum cost in US dollars.
        usd: f64,
    },
}

impl Check {
    /// Returns its name in `case.toml`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::FileEquals { .. } => "file_equals",
            Self::FileMatches { .. } => "file_matches",
            Self::Command { .. } => "command",
            Self::ToolCalled { .. } => "tool_called",
            Self::ToolNotCalled { .. } => "tool_not_called",
            Self::ToolOrder { .. } => "tool_order",
            Self::ToolAtMost { .. } => "tool_at_most",
            Self::AnswerMatches { .. } => "answer_matches",
            Self::AnswerSchema { .. } => "answer_schema",
            Self::TokensAtMost { .. } => "tokens_at_most",
            Self::CostAtMost { .. } => "cost_at_most",
        }
    }

    /// Returns what is invalid in it.
    pub(crate) fn problem(&self, directory: &Path) -> Option<String> {
        match self {
            Self::FileEquals { path, .. } | Self::FileMatches { path, .. } if !is_inside(path) => {
                Some(format!("`{}` must be a path inside the project", path.display()))
            }
            Self::FileMatches { pattern, .. } | Self::AnswerMatches { pattern } => {
                expression(pattern).err().map(|error| error.to_string())
            }
            Self::AnswerSchema { schema } if !is_inside(schema) => {
                Some(format!("`{}` must be a file of the case", schema.display()))
            }
            Self::AnswerSchema { schema: file } => schema(&directory.join(file)).err(),
            _ => None,
        }
    }
}

/// Compiles a multi-line regular expression.
pub(crate) fn expression(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).multi_line(true).build()
}

/// Whether a relative path stays below its base.
fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Compiles the schema in a file.
pub(crate) fn schema(path: &Path) -> Result<Validator, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let schema: Value = serde_json::from_str(&text)
        .map_err(|error| format!("`{}` is not JSON: {error}", path.display()))?;
    jsonschema::validator_for(&schema)
        .map_err(|error| format!("`{}` is not a JSON Schema: {error}", path.display()))
}
