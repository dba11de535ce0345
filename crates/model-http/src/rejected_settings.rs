//! Remembers the generation settings that a service rejected, so that an unsupported setting costs
//! one request and a warning instead of the session.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use parallax_protocol::Object;
use parallax_protocol::generation::{THINKING, THOUGHT_SUMMARY};
use serde_json::Value;

use crate::error_class::ErrorResponse;
use crate::wire::ImmediateRetry;

/// Settings for the sampling of tokens.
const SAMPLING: [&str; 3] = ["temperature", "topP", "topK"];
/// Settings that are part of what the user or the program requested, and the output limit, which
/// errors about a full context window also name. They are never omitted.
const REQUIRED: [&str; 5] = [
    "maxOutputTokens",
    "responseJsonSchema",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
];

/// The generation settings that models rejected, by their names in the Gemini API.
#[derive(Debug, Default)]
pub struct RejectedSettings(Mutex<BTreeSet<(String, String)>>);

impl RejectedSettings {
    /// Removes the settings that the model does not accept.
    pub fn filter(&self, model: &str, settings: &mut Object) {
        for (_, key) in self.lock().iter().filter(|(of, _)| of == model) {
            let Some((outer, inner)) = key.split_once('.') else {
                settings.shift_remove(key);
                continue;
            };
            if let Some(Value::Object(fields)) = settings.get_mut(outer) {
                fields.shift_remove(inner);
                if fields.is_empty() {
                    settings.shift_remove(outer);
                }
            }
        }
    }

    /// Learns from an error response to a request with these settings. Returns `None` if the same
    /// request would be sent again.
    pub fn learn(
        &self,
        response: &ErrorResponse,
        model: &str,
        settings: &Object,
    ) -> Option<ImmediateRetry> {
        if !matches!(response.status, 400 | 422) {
            return None;
        }
        let message = &response.payload.message;
        let mut sent = settings.clone();
        self.filter(model, &mut sent);
        // The message may only contain the value. A parameter with an index is one of the
        // conversation.
        let param = response.payload.param.as_deref().filter(|param| !param.contains('['));
        let named = match param {
            Some(param) => named_settings(&format!("{message} {param}"), &sent),
            None => named_settings(message, &sent),
        };
        let mut rejected = self.lock();
        let new: Vec<String> = named
            .into_iter()
            .filter(|key| rejected.insert((model.to_owned(), key.clone())))
            .collect();
        let names: Vec<String> = new.iter().map(|key| format!("`{key}`")).collect();
        (!names.is_empty()).then(|| ImmediateRetry {
            notice: Some(format!(
                "`{model}` does not accept {} ({message}), so the setting is not sent",
                names.join(", ")
            )),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the settings that an error message names, in any spelling.
fn named_settings(message: &str, settings: &Object) -> Vec<String> {
    let lower = message.to_lowercase();
    let words: BTreeSet<String> = message
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
        .map(|word| word.replace('_', "").to_lowercase())
        .collect();
    let has = |name: &str| words.contains(&name.to_lowercase());
    let mut named: Vec<String> = settings
        .keys()
        .filter(|key| !REQUIRED.contains(&key.as_str()) && has(key))
        .cloned()
        .collect();
    if named.is_empty() && lower.contains("sampling") {
        named.extend(
            SAMPLING.iter().filter(|key| settings.contains_key(**key)).map(|key| (*key).to_owned()),
        );
    }
    if has("stop") && settings.contains_key("stopSequences") {
        named.push("stopSequences".to_owned());
    }
    if !named.is_empty() {
        return named;
    }
    // A missing or invalid signature of a thought is not about the settings.
    let is_about_thinking = ["think", "thought", "reasoning"].iter().any(|it| lower.contains(it))
        && !lower.contains("signature");
    let Some(Value::Object(thinking)) = settings.get(THINKING).filter(|_| is_about_thinking) else {
        return Vec::new();
    };
    let fields = |which: &dyn Fn(&str) -> bool| -> Vec<String> {
        let keys = thinking.keys().filter(|key| which(key));
        keys.map(|key| format!("{THINKING}.{key}")).collect()
    };
    // Rather than a summary of the thoughts, omit how much to think.
    let candidates = [fields(&|key| has(key)), fields(&|key| key != THOUGHT_SUMMARY)];
    let found = candidates.into_iter().find(|fields| !fields.is_empty());
    found.unwrap_or_else(|| vec![THINKING.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_payload::ErrorPayload;
    use serde_json::json;

    fn response(status: u16, message: &str) -> ErrorResponse {
        let payload = ErrorPayload { message: message.to_owned(), ..ErrorPayload::default() };
        ErrorResponse { status, payload, ..ErrorResponse::default() }
    }

    /// Returns the remaining settings after an error.
    fn remaining(message: &str, settings: Value) -> Value {
        let Value::Object(mut settings) = settings else { return Value::Null };
        let rejected = RejectedSettings::default();
        let learned = rejected.learn(&response(400, message), "m", &settings).is_some();
        let before = settings.clone();
        rejected.filter("m", &mut settings);
        assert_eq!(learned, before != settings, "{message}");
        Value::Object(settings)
    }

    #[test]
    fn settings_that_an_error_names_are_omitted() {
        for message in [
            "temperature is not supported for this model",
            "The parameter `temperature` is not supported by gemini-4-argon.",
            "Unsupported parameter: 'temperature'",
            "Invalid value at generation_config.temperature",
            "Invalid JSON payload received. Unknown name \"temperature\" at 'generation_config'",
            "Temperature must be between 0 and 2",
            "Sampling parameters are not supported for this model.",
        ] {
            assert_eq!(
                remaining(message, json!({"temperature": 0.3, "seed": 1})),
                json!({"seed": 1})
            );
        }
        let table = [
            (
                "temperature and top_p",
                json!({"temperature": 1, "topP": 1, "topK": 1}),
                json!({"topK": 1}),
            ),
            ("unknown field topK", json!({"topK": 4}), json!({})),
            ("`stop` is not supported with this model", json!({"stopSequences": ["a"]}), json!({})),
            ("presence_penalty is unsupported", json!({"presencePenalty": 1}), json!({})),
            (
                "Thinking is not supported",
                json!({"thinkingConfig": {"thinkingLevel": "LOW"}}),
                json!({}),
            ),
            (
                "thinking_level is not supported",
                json!({"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true}}),
                json!({"thinkingConfig": {"includeThoughts": true}}),
            ),
            (
                "Unsupported value: 'reasoning.effort'",
                json!({"thinkingConfig": {"thinkingLevel": "LOW"}}),
                json!({}),
            ),
        ];
        for (message, settings, expected) in table {
            assert_eq!(remaining(message, settings), expected, "{message}");
        }
    }

    #[test]
    fn setting_that_only_the_parameter_of_an_error_names_is_omitted() {
        let Value::Object(settings) = json!({"thinkingConfig": {"thinkingLevel": "HIGH"}}) else {
            return;
        };
        for (param, is_learned) in
            [("reasoning.effort", true), ("messages[1].reasoning", false), ("input", false)]
        {
            let mut response = response(400, "Unsupported value: 'high' is not supported");
            response.payload.param = Some(param.to_owned());
            let learned = RejectedSettings::default().learn(&response, "m", &settings);
            assert_eq!(learned.is_some(), is_learned, "{param}");
        }
    }

    #[test]
    fn unrelated_errors_do_not_omit_settings() {
        for message in [
            "the input exceeds max_output_tokens",
            "Function call is missing a thought_signature",
            "response_schema is invalid",
            "the model is overloaded",
        ] {
            let settings = json!({"temperature": 1, "maxOutputTokens": 5,
                "responseSchema": {}, "thinkingConfig": {"thinkingLevel": "LOW"}});
            assert_eq!(remaining(message, settings.clone()), settings, "{message}");
        }
        let Value::Object(settings) = json!({"temperature": 1}) else { return };
        let rejected = RejectedSettings::default();
        let learn = |status| rejected.learn(&response(status, "temperature"), "m", &settings);
        assert!(learn(500).is_none());
        assert!(
            learn(400).is_some_and(|it| it.notice.is_some_and(|it| it.contains("`temperature`")))
        );
        assert!(learn(400).is_none(), "the same error again has another cause");
    }
}
