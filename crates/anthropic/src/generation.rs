//! Converts generation settings, which requests have with the names of the Gemini API.

use parallax_protocol::Object;
use parallax_protocol::generation::ThinkingSettings;
use serde_json::{Value, json};

/// The output limit if nothing else is known.
const MAX_TOKENS: u64 = 16_000;
/// The smallest thinking budget that the API accepts.
const MIN_BUDGET: u64 = 1_024;
/// Maximum size of a thinking budget.
const MAX_BUDGET: u64 = 32 * MIN_BUDGET;
/// The effort levels of the API.
const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];

/// How the thinking of a model is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThinkingKind {
    /// The model decides how much to think; an effort guides it.
    Adaptive,
    /// A fixed token budget.
    Budget,
    /// Thinking is not supported.
    None,
}

/// Returns the fields of a request: `max_tokens`, `stop_sequences`, `thinking`, `output_config`.
pub(crate) fn fields(model: &str, settings: &Object, output_limit: u64) -> Object {
    let mut fields = Object::new();
    let set = settings.get("maxOutputTokens").and_then(Value::as_u64).filter(|count| *count > 0);
    let mut max_tokens = set.unwrap_or_else(|| output_limit.clamp(1, MAX_TOKENS));
    let mut output = Object::new();
    let thinking = ThinkingSettings::read(settings);
    match (kind(model), thinking_level(thinking)) {
        (ThinkingKind::None, _) | (ThinkingKind::Budget, None) => {}
        (_, Some(ThinkingLevel::Off)) => {
            fields.insert("thinking".to_owned(), json!({"type": "disabled"}));
        }
        (ThinkingKind::Adaptive, level) => {
            // Newer models omit the text of thoughts unless it is requested.
            let has_summary = thinking.has_summary.unwrap_or(true);
            let display = if has_summary { "summarized" } else { "omitted" };
            fields.insert("thinking".to_owned(), json!({"type": "adaptive", "display": display}));
            if let Some(level) = level {
                output.insert("effort".to_owned(), json!(level.effort()));
            }
        }
        (ThinkingKind::Budget, Some(level)) => {
            let max_budget = (output_limit / 2).clamp(MIN_BUDGET, MAX_BUDGET);
            let mut budget = level.budget().clamp(MIN_BUDGET, max_budget);
            // The thinking budget is part of the output limit.
            if max_tokens <= budget {
                match set {
                    None => max_tokens = budget.saturating_add(max_tokens),
                    // What is set may be all that a cost budget pays for.
                    Some(limit) => budget = limit / 2,
                }
            }
            let thinking = match budget < MIN_BUDGET {
                true => json!({"type": "disabled"}),
                false => json!({"type": "enabled", "budget_tokens": budget}),
            };
            fields.insert("thinking".to_owned(), thinking);
        }
    }
    let schema = settings.get("responseJsonSchema").or_else(|| settings.get("responseSchema"));
    if let Some(schema) = schema.filter(|schema| schema.is_object()) {
        output.insert(
            "format".to_owned(),
            json!({"type": "json_schema", "schema": forbid_additional_properties(schema)}),
        );
    }
    if !output.is_empty() {
        fields.insert("output_config".to_owned(), Value::Object(output));
    }
    if let Some(stop) = settings.get("stopSequences").filter(|stop| stop.is_array()) {
        fields.insert("stop_sequences".to_owned(), stop.clone());
    }
    fields.insert("max_tokens".to_owned(), json!(max_tokens));
    fields
}

/// Whether the settings contain sampling parameters, which are not sent.
pub(crate) fn has_sampling(settings: &Object) -> bool {
    ["temperature", "topP", "topK"]
        .iter()
        .any(|key| settings.get(*key).is_some_and(|it| !it.is_null()))
}

enum ThinkingLevel {
    Off,
    Effort(&'static str),
    Budget(u64),
}

impl ThinkingLevel {
    fn effort(&self) -> &'static str {
        match self {
            Self::Effort(effort) => effort,
            Self::Off | Self::Budget(0..=2_048) => "low",
            Self::Budget(2_049..=16_384) => "medium",
            Self::Budget(_) => "high",
        }
    }

    fn budget(&self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Budget(budget) => *budget,
            Self::Effort("low") => MIN_BUDGET,
            Self::Effort("medium") => 4 * MIN_BUDGET,
            Self::Effort("high") => 8 * MIN_BUDGET,
            Self::Effort(_) => 16 * MIN_BUDGET,
        }
    }
}

fn thinking_level(thinking: ThinkingSettings<'_>) -> Option<ThinkingLevel> {
    if let Some(level) = thinking.level {
        let level = level.to_ascii_lowercase();
        return match level.as_str() {
            "none" | "off" => Some(ThinkingLevel::Off),
            "minimal" => Some(ThinkingLevel::Effort("low")),
            _ => {
                EFFORTS.iter().find(|effort| **effort == level).map(|it| ThinkingLevel::Effort(it))
            }
        };
    }
    match thinking.budget? {
        0 => Some(ThinkingLevel::Off),
        budget => u64::try_from(budget).ok().map(ThinkingLevel::Budget),
    }
}

/// Returns how the thinking of a model is configured, by its name: `claude-FAMILY-MAJOR-MINOR`, or
/// `claude-MAJOR-…` before 4. Unknown names of the family count as the newest; other models do not
/// think.
fn kind(model: &str) -> ThinkingKind {
    let Some((_, name)) = model.split_once("claude") else { return ThinkingKind::None };
    // A date is not a version.
    let numbers: Vec<u32> = name
        .split(['-', '.', '@'])
        .filter(|piece| piece.len() <= 2)
        .filter_map(|piece| piece.parse().ok())
        .collect();
    match numbers.as_slice() {
        [] => ThinkingKind::Adaptive,
        [major, minor, ..] if (*major, *minor) < (3, 7) => ThinkingKind::None,
        [3] => ThinkingKind::None,
        [major, minor, ..] if (*major, *minor) <= (4, 5) => ThinkingKind::Budget,
        [major] if *major <= 4 => ThinkingKind::Budget,
        _ => ThinkingKind::Adaptive,
    }
}

/// Disallows additional properties in every object, which the API requires of a response schema.
fn forbid_additional_properties(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut fields: Object = fields
                .iter()
                .map(|(key, value)| (key.clone(), forbid_additional_properties(value)))
                .collect();
            let is_object = fields.get("type").is_some_and(|kind| {
                kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("object"))
            });
            if is_object {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            if let Some(Value::String(kind)) = fields.get_mut("type") {
                kind.make_ascii_lowercase();
            }
            Value::Object(fields)
        }
        Value::Array(values) => {
            Value::Array(values.iter().map(forbid_additional_properties).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation_config(model: &str, settings: Value) -> Value {
        let Value::Object(settings) = settings else { unreachable!("an object") };
        Value::Object(fields(model, &settings, 64_000))
    }

    #[test]
    fn thinking_settings_follow_the_model_version() {
        for (model, expected) in [
            ("claude-sonnet-5", ThinkingKind::Adaptive),
            ("claude-opus-4-6", ThinkingKind::Adaptive),
            ("claude-opus-4-5-20251101", ThinkingKind::Budget),
            ("claude-sonnet-4-20250514", ThinkingKind::Budget),
            ("claude-3-7-sonnet-20250219", ThinkingKind::Budget),
            ("claude-3-5-haiku-20241022", ThinkingKind::None),
            ("claude-latest", ThinkingKind::Adaptive),
            ("anthropic/claude-haiku-5.5", ThinkingKind::Adaptive),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", ThinkingKind::Budget),
            ("qwen3", ThinkingKind::None),
        ] {
            assert_eq!(kind(model), expected, "{model}");
        }
    }

    #[test]
    fn settings_become_fields() {
        assert_eq!(
            generation_config(
                "claude-sonnet-5",
                json!({"thinkingConfig": {"thinkingLevel": "HIGH"}})
            ),
            json!({"thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "high"}, "max_tokens": 16000})
        );
        assert_eq!(
            generation_config(
                "claude-sonnet-5",
                json!({"thinkingConfig": {"includeThoughts": false,
                "thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}})
            ),
            json!({"thinking": {"type": "adaptive", "display": "omitted"}, "max_tokens": 16000})
        );
        assert_eq!(
            generation_config(
                "claude-opus-4-5",
                json!({"thinkingConfig": {"thinkingBudget": 9000}})
            ),
            json!({"thinking": {"type": "enabled", "budget_tokens": 9000}, "max_tokens": 16000})
        );
        assert_eq!(
            generation_config("claude-sonnet-5", json!({"thinkingConfig": {"thinkingBudget": 0}})),
            json!({"thinking": {"type": "disabled"}, "max_tokens": 16000})
        );
        assert_eq!(
            generation_config(
                "claude-sonnet-4",
                json!({"thinkingConfig": {"thinkingBudget": 1}, "maxOutputTokens": 500})
            ),
            json!({"thinking": {"type": "disabled"}, "max_tokens": 500})
        );
        assert_eq!(
            generation_config(
                "claude-sonnet-4",
                json!({"thinkingConfig": {"thinkingBudget": 9000}, "maxOutputTokens": 6000})
            ),
            json!({"thinking": {"type": "enabled", "budget_tokens": 3000}, "max_tokens": 6000})
        );
        assert_eq!(
            generation_config(
                "claude-sonnet-4",
                json!({"thinkingConfig": {"thinkingBudget": 20000}})
            ),
            json!({"thinking": {"type": "enabled", "budget_tokens": 20000}, "max_tokens": 36000})
        );
        assert_eq!(
            generation_config(
                "other",
                json!({"temperature": 1, "stopSequences": ["x"],
                    "responseJsonSchema": {"type": "OBJECT", "properties": {}}})
            ),
            json!({"output_config": {"format": {"type": "json_schema", "schema":
                {"type": "object", "properties": {}, "additionalProperties": false}}},
                "stop_sequences": ["x"], "max_tokens": 16000})
        );
    }
}
