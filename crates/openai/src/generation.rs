//! Converts generation settings, which requests have with the names of the Gemini API.

use parallax_protocol::Object;
use parallax_protocol::generation::ThinkingSettings;
use serde_json::Value;

/// The settings that the OpenAI APIs support.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Generation {
    pub(crate) temperature: Option<Value>,
    pub(crate) top_p: Option<Value>,
    pub(crate) seed: Option<Value>,
    pub(crate) stop: Option<Value>,
    pub(crate) max_tokens: Option<Value>,
    /// `minimal`, `low`, `medium`, `high`, …
    pub(crate) effort: Option<String>,
    /// The schema of a JSON response.
    pub(crate) schema: Option<Value>,
    /// Whether the response must be JSON without a schema.
    pub(crate) json: bool,
}

impl Generation {
    pub(crate) fn read(settings: &Object) -> Self {
        let get = |key: &str| settings.get(key).filter(|value| !value.is_null()).cloned();
        let thinking = ThinkingSettings::read(settings);
        let effort = thinking.level.map(str::to_ascii_lowercase);
        let effort = effort.or_else(|| thinking.budget.and_then(effort_of));
        Self {
            temperature: get("temperature"),
            top_p: get("topP"),
            seed: get("seed"),
            stop: get("stopSequences"),
            max_tokens: get("maxOutputTokens"),
            effort,
            schema: get("responseJsonSchema").or_else(|| get("responseSchema")),
            json: get("responseMimeType").is_some_and(|kind| kind == "application/json"),
        }
    }
}

/// Returns the effort for a thinking budget in tokens; `None`: the service decides.
fn effort_of(budget: i64) -> Option<String> {
    let word = match budget {
        0 => "minimal",
        1..=2_048 => "low",
        2_049..=16_384 => "medium",
        16_385.. => "high",
        _ => return None,
    };
    Some(word.to_owned())
}
