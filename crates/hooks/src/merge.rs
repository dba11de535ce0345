//! Merges the results of several hooks.

use std::collections::BTreeSet;

use parallax_protocol::Object;
use parallax_protocol::hooks::{HookEvent, HookMessage, HookOutcome};
use parallax_protocol::similar_texts::merge_similar_by;
use serde_json::{Value, json};

use crate::result::{HookResult, sanitize};

/// Maximum length in bytes of the name of the hook that decided; a hook without a name is
/// identified by its command.
const DECIDER: usize = 60;

/// Merges results: the strictest decision wins, a stop overrides all decisions, and later changes
/// replace earlier ones.
pub(crate) fn merge(singles: Vec<HookResult>) -> HookOutcome {
    let mut outcome = HookOutcome::default();
    let strictest = singles.iter().filter_map(|single| single.decision).max();
    let stops = singles.iter().any(|single| single.stop.is_some());
    let mut contexts = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    for single in singles {
        let decides = match stops {
            true => single.stop.is_some(),
            false => single.decision == strictest && strictest.is_some(),
        };
        let hook = sanitize(&single.title, DECIDER);
        if decides && !hook.is_empty() {
            outcome.deciding_hooks.push(hook.clone());
        }
        if single.decision == strictest && !single.reason.is_empty() {
            reasons.push(single.reason);
        }
        outcome.stop = outcome.stop.or(single.stop);
        let message = |(level, text)| HookMessage { hook: hook.clone(), level, text };
        outcome.messages.extend(single.messages.into_iter().map(message));
        contexts.extend(single.context);
        for (name, value) in single.output {
            let value = match (name.as_str(), outcome.output.remove(&name), value) {
                ("tool_input", Some(Value::Object(mut fields)), Value::Object(more)) => {
                    fields.extend(more);
                    Value::Object(fields)
                }
                ("toolConfig", Some(before), value) => tool_config(&before, &value),
                (_, _, value) => value,
            };
            outcome.output.insert(name, value);
        }
    }
    outcome.messages = merge_similar_by(outcome.messages, |message| &mut message.text);
    outcome.decision = strictest;
    outcome.reason = reasons.join("\n");
    if !contexts.is_empty() {
        let text = contexts.join("\n").replace('<', "&lt;").replace('>', "&gt;");
        outcome.context = Some(format!("<hook_context>{text}</hook_context>"));
    }
    outcome
}

/// Merges two tool configurations: the union of the names, and the stricter mode (none, any, auto).
fn tool_config(one: &Value, other: &Value) -> Value {
    let rank = |config: &Value| match config.get("mode").and_then(Value::as_str) {
        Some("NONE") => 2,
        Some("ANY") => 1,
        _ => 0,
    };
    let mode = ["AUTO", "ANY", "NONE"].get(rank(one).max(rank(other))).copied().unwrap_or("AUTO");
    let names = |config: &Value| -> Vec<String> {
        let names = config.get("allowedFunctionNames").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let all: BTreeSet<String> = names(one).into_iter().chain(names(other)).collect();
    let mut config = json!({"mode": mode});
    if let (Value::Object(fields), false) = (&mut config, all.is_empty()) {
        fields.insert("allowedFunctionNames".to_owned(), all.into_iter().collect());
    }
    config
}

/// Applies the changes of one hook to the input of the next sequential hook.
pub(crate) fn into_input(input: &mut Object, event: HookEvent, single: &HookResult) {
    for name in ["tool_input", "llm_request", "llm_response"] {
        match (input.get_mut(name), single.output.get(name)) {
            (Some(Value::Object(fields)), Some(Value::Object(more))) => {
                fields.extend(more.clone());
            }
            (_, Some(value)) => drop(input.insert(name.to_owned(), value.clone())),
            _ => {}
        }
    }
    if let (HookEvent::BeforeAgent, Some(context), Some(Value::String(prompt))) =
        (event, &single.context, input.get_mut("prompt"))
    {
        prompt.push_str("\n\n");
        prompt.push_str(context);
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::hooks::HookDecision;

    use super::*;

    #[test]
    fn strictest_decision_wins_and_messages_are_joined() {
        let single = |decision, reason: &str, output: Value| HookResult {
            decision: Some(decision),
            title: format!("hook {reason}"),
            reason: reason.to_owned(),
            context: Some(format!("<{reason}>")),
            output: output.as_object().cloned().unwrap_or_default(),
            ..HookResult::default()
        };
        let outcome = merge(vec![
            single(HookDecision::Deny, "one", json!({"tool_input": {"a": 1, "b": 1}})),
            single(HookDecision::Allow, "two", json!({"tool_input": {"b": 2}})),
            single(HookDecision::Deny, "three", json!({})),
        ]);
        assert_eq!(outcome.denial(), Some("one\nthree"));
        assert_eq!(outcome.deciding_hooks, ["hook one", "hook three"]);
        assert_eq!(outcome.with_hook_names("no"), "no (hooks `hook one`, `hook three`)");
        assert_eq!(
            outcome.with_hook_names("hook one says no"),
            "hook one says no (hook `hook three`)"
        );
        assert_eq!(outcome.field("tool_input"), Some(&json!({"a": 1, "b": 2})));
        let context = "<hook_context>&lt;one&gt;\n&lt;two&gt;\n&lt;three&gt;</hook_context>";
        assert_eq!(outcome.context.as_deref(), Some(context));
    }

    #[test]
    fn hook_that_stops_the_agent_is_reported() {
        let single = |title: &str, stop: Option<&str>| HookResult {
            decision: Some(HookDecision::Deny),
            title: title.to_owned(),
            stop: stop.map(str::to_owned),
            ..HookResult::default()
        };
        let outcome = merge(vec![single("a", None), single("b", Some("enough"))]);
        assert_eq!(outcome.with_hook_names("enough"), "enough (hook `b`)");
    }

    #[test]
    fn tool_choices_are_joined() {
        let both = tool_config(
            &json!({"mode": "ANY", "allowedFunctionNames": ["b"]}),
            &json!({"allowedFunctionNames": ["a", "b"]}),
        );
        assert_eq!(both, json!({"mode": "ANY", "allowedFunctionNames": ["a", "b"]}));
        assert_eq!(tool_config(&both, &json!({"mode": "NONE"}))["mode"], "NONE");
    }
}
