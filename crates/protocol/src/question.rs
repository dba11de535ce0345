//! Questions of the model's to the person.

use serde::{Deserialize, Serialize};

/// One question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserQuestion {
    /// What is asked.
    pub question: String,
    /// A word or two for it.
    pub header: String,
    /// What is an answer.
    #[serde(rename = "type", default)]
    pub kind: QuestionKind,
    /// What can be chosen; only for [`QuestionKind::Choice`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// Whether more than one can be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multi_select: bool,
    /// What stands in an empty field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
}

/// What is an answer to a question.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// One of the options, some of them, or other words.
    #[default]
    Choice,
    /// Words.
    Text,
    /// Yes, no, or other words.
    YesNo,
}

/// Something that can be chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QuestionOption {
    /// What it is called, and what the model reads when it is chosen.
    pub label: String,
    /// What it means.
    #[serde(default)]
    pub description: String,
}
