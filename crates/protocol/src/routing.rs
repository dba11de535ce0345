//! The choice of the model for a prompt, and of fallback models.

use serde::{Deserialize, Serialize};

/// The models that a name such as `auto` chooses from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// For difficult tasks, and the default.
    pub strong_model: String,
    /// For clear, limited tasks.
    pub fast: String,
    /// The model that classifies unclear prompts.
    pub classifier: String,
    /// The form of its answer.
    pub scale: ClassifierAnswerFormat,
}

/// The form of a classifier's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassifierAnswerFormat {
    /// One of two words.
    Choice,
    /// A number from 1 to 100.
    Score,
}

/// How the model is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RoutingMode {
    /// By rules, and by a classifier if they do not decide.
    #[default]
    On,
    /// By rules only, without a model request.
    Rules,
    /// Not at all: a name such as `auto` means its strong model.
    Off,
}

/// What happens when a model is unavailable and a fallback model exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// The user is asked if the fallback chain requires it and can answer; otherwise the run ends.
    #[default]
    Ask,
    /// The fallback model answers, and the user is notified.
    Auto,
    /// The run ends.
    Off,
}

/// How a model was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouteSource {
    /// As a fallback for an unavailable model.
    Fallback,
    /// The user named it.
    Override,
    /// By the approval mode, or an approved plan.
    ApprovalMode,
    /// By the form of the prompt.
    Rules,
    /// By the classifier.
    Classifier,
    /// By the number that the classifier returned.
    NumericalClassifier,
    /// The default, because no rule chose another model.
    Default,
}

/// A model that was chosen for a prompt, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The model.
    pub model: String,
    /// The requested name (possibly `auto`).
    #[serde(rename = "asked")]
    pub requested: String,
    /// How it was chosen.
    pub source: RouteSource,
    /// The reason in one sentence.
    pub reason: String,
    /// How long the choice took, in milliseconds.
    pub latency_ms: u64,
    /// Why a classifier request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A model that replaces an unavailable one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackModel {
    /// The model.
    pub model: String,
    /// The causes for which it may be used without approval.
    pub auto_fallback: AutoFallback,
    /// Whether it is tried even though it failed before, if no other model is known to be
    /// available.
    pub last_resort: bool,
    /// The only cause for which it is a fallback; `None`: any cause.
    pub only_for: Option<FallbackCause>,
}

/// The causes for which a fallback model may be used without approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AutoFallback {
    /// The service has no capacity at the moment.
    pub capacity: bool,
    /// A quota is exhausted.
    pub quota: bool,
    /// The model does not exist.
    pub not_found: bool,
}

impl AutoFallback {
    /// No cause.
    pub const NEVER: Self = Self { capacity: false, quota: false, not_found: false };
    /// Only the temporary cause.
    pub const PASSING: Self = Self { capacity: true, quota: false, not_found: false };
    /// All causes.
    pub const ALWAYS: Self = Self { capacity: true, quota: true, not_found: true };

    /// Whether the cause is included.
    pub fn covers(self, cause: FallbackCause) -> bool {
        match cause {
            FallbackCause::Capacity => self.capacity,
            FallbackCause::Quota => self.quota,
            FallbackCause::NotFound => self.not_found,
        }
    }
}

/// Why a model is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// The service has no capacity for it at the moment, after all retries.
    Capacity,
    /// A quota is exhausted.
    Quota,
    /// The provider does not offer the model for this API key.
    NotFound,
}

/// A fallback model that replaced another model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// The unavailable model.
    pub from: String,
    /// The fallback model.
    pub to: String,
    /// The cause.
    pub cause: FallbackCause,
    /// The message from the service.
    pub message: String,
    /// Whether it applies for the session; otherwise only for the prompt.
    #[serde(rename = "lasting")]
    pub is_for_session: bool,
    /// Whether the user approved it.
    #[serde(rename = "agreed")]
    pub is_approved: bool,
}
