//! Deviations of servers from the OpenAI Chat Completions API.

use serde::Deserialize;

/// The field in which a server sends reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// `delta.reasoning_content`.
    ReasoningContent,
    /// `delta.reasoning`.
    Reasoning,
    /// Between `<think>` tags in the content.
    Think,
}

/// The name of the field that limits the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// The deviations of one provider. `None`: as specified by the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Quirks {
    /// Whether the system prompt has the role `developer` instead of `system`.
    pub developer_role: Option<bool>,
    /// Whether `stream_options.include_usage` is supported.
    pub usage_in_stream: Option<bool>,
    /// The field that limits the output.
    pub max_tokens_field: Option<MaxTokensField>,
    /// Whether tool messages include the `name` of the tool.
    pub tool_result_name: Option<bool>,
    /// Whether an assistant message must separate tool messages from the next user message.
    pub assistant_after_tool_result: Option<bool>,
    /// Whether `content` of assistant messages must not be null.
    pub non_null_assistant_content: Option<bool>,
    /// Whether `tools` must be sent, possibly empty, if the history contains calls.
    pub empty_tools_with_history: Option<bool>,
    /// Whether reasoning is sent back with every message of the assistant.
    pub echo_reasoning: Option<bool>,
    /// The field in which reasoning is sent back. When receiving, all fields are recognized.
    pub reasoning_field: Option<ReasoningField>,
    /// Whether function schemas that fulfill the rules of strict mode are sent as strict.
    pub strict_schemas: Option<bool>,
    /// The value of `parallel_tool_calls`, if it is sent.
    pub parallel_tool_calls: Option<bool>,
    /// Whether `prompt_cache_key` is supported.
    pub cache_key: Option<bool>,
    /// Whether ids of calls must consist of exactly 9 letters and digits.
    pub short_call_ids: Option<bool>,
}

impl Quirks {
    /// Returns the defaults of a provider, by its name and base URL.
    pub fn for_provider(name: &str, base_url: &str) -> Self {
        let host = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
        let host = host.split(['/', ':']).next().unwrap_or_default();
        let of = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
        if of("openai.com") {
            return Self {
                max_tokens_field: Some(MaxTokensField::MaxCompletionTokens),
                cache_key: Some(true),
                ..Self::default()
            };
        }
        if of("deepseek.com") {
            return Self {
                echo_reasoning: Some(true),
                reasoning_field: Some(ReasoningField::ReasoningContent),
                ..Self::default()
            };
        }
        if of("mistral.ai") {
            return Self {
                tool_result_name: Some(true),
                assistant_after_tool_result: Some(true),
                usage_in_stream: Some(false),
                short_call_ids: Some(true),
                ..Self::default()
            };
        }
        match name {
            "vllm" | "openrouter" => {
                Self { reasoning_field: Some(ReasoningField::Reasoning), ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    /// Returns these values, overridden by those that `other` sets.
    #[must_use]
    pub fn overridden_by(self, other: &Self) -> Self {
        Self {
            developer_role: other.developer_role.or(self.developer_role),
            usage_in_stream: other.usage_in_stream.or(self.usage_in_stream),
            max_tokens_field: other.max_tokens_field.or(self.max_tokens_field),
            tool_result_name: other.tool_result_name.or(self.tool_result_name),
            assistant_after_tool_result: other
                .assistant_after_tool_result
                .or(self.assistant_after_tool_result),
            non_null_assistant_content: other
                .non_null_assistant_content
                .or(self.non_null_assistant_content),
            empty_tools_with_history: other
                .empty_tools_with_history
                .or(self.empty_tools_with_history),
            echo_reasoning: other.echo_reasoning.or(self.echo_reasoning),
            reasoning_field: other.reasoning_field.or(self.reasoning_field),
            strict_schemas: other.strict_schemas.or(self.strict_schemas),
            parallel_tool_calls: other.parallel_tool_calls.or(self.parallel_tool_calls),
            cache_key: other.cache_key.or(self.cache_key),
            short_call_ids: other.short_call_ids.or(self.short_call_ids),
        }
    }

    /// Whether reasoning is sent back.
    pub fn echo_reasoning(&self) -> bool {
        self.echo_reasoning == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_apply_only_to_the_exact_host() {
        let echo = |url: &str| Quirks::for_provider("gw", url).echo_reasoning();
        assert!(echo("https://api.deepseek.com/v1"));
        assert!(!echo("https://deepseek.com.evil.example/v1"));
        assert!(!echo("https://notdeepseek.com/v1"));
    }

    #[test]
    fn mistral_has_short_call_ids() {
        let quirks = Quirks::for_provider("gw", "https://api.mistral.ai/v1");
        assert_eq!(quirks.short_call_ids, Some(true));
    }

    #[test]
    fn configured_quirks_win() {
        let set = Quirks { echo_reasoning: Some(false), ..Quirks::default() };
        let quirks = Quirks::for_provider("gw", "https://api.deepseek.com").overridden_by(&set);
        assert!(!quirks.echo_reasoning());
        assert_eq!(quirks.reasoning_field, Some(ReasoningField::ReasoningContent));
    }
}
