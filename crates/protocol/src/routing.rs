//! Which model answers a prompt, and which one stands in when it cannot.

use serde::{Deserialize, Serialize};

/// The models among which a name like `auto` chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// For hard work; also when nothing is known.
    pub strong: String,
    /// For work that is clear and bounded.
    pub fast: String,
    /// Who is asked in doubt.
    pub classifier: String,
    /// What it is asked.
    pub scale: Scale,
}

/// What a classifier answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// One of two words.
    Choice,
    /// A number from 1 to 100.
    Score,
}

/// How much is done to choose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Router {
    /// Rules, and in doubt a classifier.
    #[default]
    On,
    /// Rules only: no request is made to choose.
    Rules,
    /// Nothing: a name like `auto` means its strong model.
    Off,
}

/// What is done when a model cannot answer and another could.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// A person is asked where the chain wants that; else the run ends.
    #[default]
    Ask,
    /// The other one answers, and that is told.
    Auto,
    /// The run ends.
    Off,
}

/// How a model was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouteSource {
    /// It stands in for one that cannot answer.
    Fallback,
    /// A person named it.
    Override,
    /// By the approval mode, or the plan that was agreed to.
    ApprovalMode,
    /// By what the prompt looks like.
    Rules,
    /// The classifier chose.
    Classifier,
    /// The classifier's number decided.
    NumericalClassifier,
    /// Nothing spoke for another.
    Default,
}

/// A model that was chosen for a prompt, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The model.
    pub model: String,
    /// What was asked for (`auto`, perhaps).
    pub asked: String,
    /// How it was chosen.
    pub source: RouteSource,
    /// Why, in a sentence.
    pub reason: String,
    /// How long the choice took, in milliseconds.
    pub latency_ms: u64,
    /// Why a classifier that was asked said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A model that stands in for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackModel {
    /// The model.
    pub model: String,
    /// When nobody needs to agree.
    pub auto_fallback: AutoFallback,
    /// It is asked though it failed before, when no other is known to answer.
    pub last_resort: bool,
    /// The one cause that it stands in for; `None`: whatever it is.
    pub only: Option<FallbackCause>,
}

/// For which causes a model may stand in without a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AutoFallback {
    /// The service has no capacity now.
    pub capacity: bool,
    /// A quota is spent.
    pub quota: bool,
    /// The model is not there.
    pub not_found: bool,
}

impl AutoFallback {
    /// For none.
    pub const NEVER: Self = Self { capacity: false, quota: false, not_found: false };
    /// For the one that passes.
    pub const PASSING: Self = Self { capacity: true, quota: false, not_found: false };
    /// For each.
    pub const ALWAYS: Self = Self { capacity: true, quota: true, not_found: true };

    /// Whether it may for this one.
    pub fn covers(self, cause: FallbackCause) -> bool {
        match cause {
            FallbackCause::Capacity => self.capacity,
            FallbackCause::Quota => self.quota,
            FallbackCause::NotFound => self.not_found,
        }
    }
}

/// Why a model cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// The service has no capacity for it now, after all retries.
    Capacity,
    /// A quota is spent.
    Quota,
    /// The service does not have it, for this key.
    NotFound,
}

/// A model that took another's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// The one that cannot answer.
    pub from: String,
    /// The one that does.
    pub to: String,
    /// Why.
    pub cause: FallbackCause,
    /// What the service said.
    pub message: String,
    /// Whether it holds for the session; otherwise for the prompt.
    pub lasting: bool,
    /// Whether a person agreed.
    pub agreed: bool,
}
