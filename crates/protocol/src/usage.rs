//! Token counts of model requests.

use serde::{Deserialize, Serialize};

/// Token counts of one response, for every provider. The last value in a stream wins. Journals
/// and output formats use the names of the Gemini API.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompt, including cached ones.
    #[serde(rename = "promptTokenCount")]
    pub prompt: u64,
    /// Tokens of the response, excluding thinking.
    #[serde(rename = "candidatesTokenCount")]
    pub output: u64,
    /// Tokens of the prompt that were read from the provider's cache.
    #[serde(rename = "cachedContentTokenCount")]
    pub cached: u64,
    /// Tokens of thinking.
    #[serde(rename = "thoughtsTokenCount")]
    pub thought: u64,
    /// Prompt tokens of hosted tools.
    #[serde(rename = "toolUsePromptTokenCount")]
    pub tool_prompt: u64,
    /// Tokens of the prompt that were written to the provider's cache.
    #[serde(rename = "cacheWriteTokenCount", skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// All tokens.
    #[serde(rename = "totalTokenCount")]
    pub total: u64,
    /// What the service charged, in billionths of a US dollar, where it states it.
    #[serde(rename = "charged", skip_serializing_if = "Option::is_none")]
    pub charged_cost: Option<u64>,
}

impl Usage {
    /// Returns the counts of an answer and the request that continued it: the prompt of the first,
    /// and the sums of everything else.
    #[must_use]
    pub fn with_continuation(self, next: &Self) -> Self {
        let mut sum = self;
        sum.add(next);
        sum.total = sum.total.saturating_sub(next.prompt);
        Self { prompt: self.prompt, ..sum }
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        for (sum, tokens) in [
            (&mut self.prompt, other.prompt),
            (&mut self.output, other.output),
            (&mut self.cached, other.cached),
            (&mut self.thought, other.thought),
            (&mut self.tool_prompt, other.tool_prompt),
            (&mut self.cache_write, other.cache_write),
            (&mut self.total, other.total),
        ] {
            *sum = sum.saturating_add(tokens);
        }
        if let Some(charged) = other.charged_cost {
            self.charged_cost = Some(self.charged_cost.unwrap_or(0).saturating_add(charged));
        }
    }
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}
