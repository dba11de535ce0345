//! Parses token counts.

use parallax_protocol::model::Usage;
use serde_json::Value;

/// Parses the counts of either API: `prompt_tokens` and `completion_tokens`, or `input_tokens` and
/// `output_tokens`. Those APIs include reasoning in the output; here it is separate.
pub(crate) fn usage(value: &Value) -> Option<Usage> {
    let fields = value.as_object()?;
    let count = |value: Option<&Value>| {
        let value = value?;
        let float = || value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64);
        value.as_u64().or_else(float)
    };
    let either = |chat: &str, responses: &str| count(fields.get(chat).or(fields.get(responses)));
    let detail = |of: [&str; 2], key: &str| {
        let details = of.iter().find_map(|name| fields.get(*name));
        count(details.and_then(|details| details.get(key))).unwrap_or(0)
    };
    let prompt_details = ["prompt_tokens_details", "input_tokens_details"];
    let prompt = either("prompt_tokens", "input_tokens").unwrap_or(0);
    let whole = either("completion_tokens", "output_tokens").unwrap_or(0);
    let thought =
        detail(["completion_tokens_details", "output_tokens_details"], "reasoning_tokens");
    // DeepSeek uses its own name.
    let cached = detail(prompt_details, "cached_tokens")
        .max(count(fields.get("prompt_cache_hit_tokens")).unwrap_or(0));
    Some(Usage {
        prompt,
        output: whole.saturating_sub(thought),
        cached,
        thought: thought.min(whole),
        tool_prompt: 0,
        cache_write: detail(prompt_details, "cache_write_tokens"),
        // OpenRouter reports costs in US dollars.
        charged_cost: fields.get("cost").and_then(Value::as_f64).and_then(to_nanodollars),
        total: count(fields.get("total_tokens")).unwrap_or_else(|| prompt.saturating_add(whole)),
    })
}

fn to_nanodollars(dollars: f64) -> Option<u64> {
    (0.0..1e6).contains(&dollars).then(|| (dollars * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasoning_is_not_counted_as_output() {
        let counts =
            usage(&json!({"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 5}}));
        let expected =
            Usage { prompt: 10, output: 2, thought: 5, cached: 4, total: 17, ..Usage::default() };
        assert_eq!(counts, Some(expected));
        let counts = usage(&json!({"input_tokens": 1, "output_tokens": 2})).expect("counts");
        assert_eq!((counts.prompt, counts.output, counts.total), (1, 2, 3));
        assert_eq!(counts.charged_cost, None);
        let counts = usage(&json!({"prompt_tokens": 1, "cost": 0.0025})).expect("counts");
        assert_eq!(counts.charged_cost, Some(2_500_000));
        assert_eq!(usage(&json!(null)), None);
    }
}
