//! Questions that the model asks the user.

use serde::{Deserialize, Serialize};

/// One question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserQuestion {
    /// The text of the question.
    pub question: String,
    /// A short title of one or two words.
    pub header: String,
    /// The kind of answer.
    #[serde(rename = "type", default)]
    pub kind: QuestionKind,
    /// The options; only for [`QuestionKind::Choice`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// Whether several options can be selected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multi_select: bool,
    /// The placeholder of an empty input field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
}

/// The kind of answer that a question expects.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// One or more of the options, or free text.
    #[default]
    Choice,
    /// Free text.
    Text,
    /// Yes, no, or free text.
    YesNo,
}

/// An option of a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QuestionOption {
    /// The label, which the model receives when the option is selected.
    pub label: String,
    /// A description of the option.
    #[serde(default)]
    pub description: String,
}
