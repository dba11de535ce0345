//! Utility requests: their names in settings, and their built-in settings.

use parallax_protocol::Object;
use parallax_protocol::model::Request;
use serde_json::Value;

/// Names in requests use `_`, names in settings `-`.
pub(crate) fn utility_name(role: &str) -> String {
    match role.replace('_', "-") {
        // The name used in statistics.
        name if name == "utility-router" => "classifier".to_owned(),
        name => name,
    }
}

/// Returns the built-in settings of a utility request; `None` = not a utility request.
pub(crate) fn builtin_generation(name: &str) -> Option<Object> {
    let pairs: &[(&str, f64)] = match name {
        "classifier" => &[("maxOutputTokens", 1024.0)],
        "prompt-completion" => &[("temperature", 0.3), ("maxOutputTokens", 16000.0)],
        "fast-ack-helper" => &[("temperature", 0.2), ("maxOutputTokens", 120.0)],
        "summarizer-default" | "summarizer-shell" => &[("maxOutputTokens", 2000.0)],
        "web-search"
        | "web-fetch"
        | "web-fetch-fallback"
        | "edit-corrector"
        | "loop-detection"
        | "loop-detection-double-check"
        | "llm-edit-fixer"
        | "next-speaker-checker"
        | "mcp-sampling"
        | "context-snapshotter"
        | "agent-history-provider-summarizer" => &[],
        _ if name.starts_with("chat-compression") => &[],
        _ => return None,
    };
    Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), plain_number(*value))).collect())
}

fn plain_number(value: f64) -> Value {
    if value.fract() == 0.0 { Value::from(value as i64) } else { Value::from(value) }
}

/// Returns the name that settings use for a request.
pub(crate) fn settings_name(request: &Request) -> String {
    match request.alias.as_str() {
        "" => utility_name(&request.role),
        alias if builtin_generation(&utility_name(alias)).is_some() => utility_name(alias),
        alias => alias.to_owned(),
    }
}

/// Whether it is a utility request, which is sampled at temperature 0.
pub fn is_utility(request: &Request) -> bool {
    builtin_generation(&settings_name(request)).is_some()
}
