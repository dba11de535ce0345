//! Remembers the fields of the default request that a service rejected, so that a model without a
//! feature, or an account without access to it, costs one request and a notice instead of the
//! session.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use parallax_model_http::{ErrorResponse, ImmediateRetry};
use parallax_protocol::Object;
use serde_json::Value;

/// A field that requests contain without a setting of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DefaultField {
    Include,
    Summary,
    CacheKey,
    ParallelToolCalls,
}

impl DefaultField {
    const ALL: [Self; 4] = [Self::Include, Self::Summary, Self::CacheKey, Self::ParallelToolCalls];

    fn name(self) -> &'static str {
        match self {
            Self::Include => "include",
            Self::Summary => "reasoning.summary",
            Self::CacheKey => "prompt_cache_key",
            Self::ParallelToolCalls => "parallel_tool_calls",
        }
    }

    /// Returns what error messages in lower case contain, besides the parameter that they name.
    fn error_words(self) -> &'static [&'static str] {
        match self {
            Self::Include => &["'include'", "`include`", "encrypted content is not supported"],
            Self::Summary => &["reasoning.summary", "reasoning summar"],
            Self::CacheKey => &["prompt_cache_key"],
            Self::ParallelToolCalls => &["parallel_tool_calls"],
        }
    }

    fn is_named(self, response: &ErrorResponse) -> bool {
        let message = response.payload.message.to_lowercase();
        response.payload.param.as_deref() == Some(self.name())
            || self.error_words().iter().any(|word| message.contains(word))
    }
}

/// The fields that models rejected.
#[derive(Debug, Default)]
pub(crate) struct RejectedFields(Mutex<BTreeSet<(String, DefaultField)>>);

impl RejectedFields {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(String, DefaultField)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the fields that the model does not accept.
    pub(crate) fn filter(&self, model: &str, body: &mut Object) {
        for (_, field) in self.lock().iter().filter(|(of, _)| of == model) {
            let Some((outer, inner)) = field.name().split_once('.') else {
                body.shift_remove(field.name());
                continue;
            };
            if let Some(Value::Object(fields)) = body.get_mut(outer) {
                fields.shift_remove(inner);
                if fields.is_empty() {
                    body.shift_remove(outer);
                }
            }
        }
    }

    /// Learns from an error response. Returns `None` if the same request would be sent again.
    pub(crate) fn learn(&self, response: &ErrorResponse, model: &str) -> Option<ImmediateRetry> {
        let named = DefaultField::ALL.into_iter().filter(|field| field.is_named(response));
        let mut rejected = self.lock();
        let new: Vec<&str> = named
            .filter(|field| rejected.insert((model.to_owned(), *field)))
            .map(DefaultField::name)
            .collect();
        let names: Vec<String> = new.iter().map(|name| format!("`{name}`")).collect();
        (!names.is_empty()).then(|| ImmediateRetry {
            notice: Some(format!(
                "`{model}` does not accept {} ({}), so it is not sent",
                names.join(", "),
                response.payload.message
            )),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_model_http::ErrorPayload;
    use serde_json::json;

    #[test]
    fn fields_that_an_error_names_are_omitted_for_that_model() {
        let default = || {
            let body = json!({"include": ["reasoning.encrypted_content"], "store": false,
                "reasoning": {"summary": "auto"}, "prompt_cache_key": "k",
                "parallel_tool_calls": true});
            let Value::Object(body) = body else { unreachable!("an object") };
            body
        };
        for (message, param, key) in [
            ("Encrypted content is not supported with this model.", "include", "include"),
            ("Encrypted content is not supported with this model.", "", "include"),
            ("Your organization must be verified", "reasoning.summary", "reasoning"),
            (
                "Your organization must be verified to generate reasoning summaries.",
                "",
                "reasoning",
            ),
            ("Unsupported parameter: 'reasoning.summary'", "", "reasoning"),
            ("Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key", "prompt_cache_key"),
            ("parallel_tool_calls: Extra inputs are not permitted", "", "parallel_tool_calls"),
        ] {
            let payload = ErrorPayload {
                message: message.to_owned(),
                param: Some(param.to_owned()),
                ..ErrorPayload::default()
            };
            let response = ErrorResponse { status: 400, payload, ..ErrorResponse::default() };
            let rejected = RejectedFields::default();
            assert!(rejected.learn(&response, "p:m").is_some(), "{message}");
            assert!(rejected.learn(&response, "p:m").is_none(), "another cause: {message}");
            let mut body = default();
            rejected.filter("p:m", &mut body);
            assert!(!body.contains_key(key) && body.len() == 4, "{message}: {body:?}");
            let mut other = default();
            rejected.filter("p:other", &mut other);
            assert_eq!(other, default());
        }
        let payload = ErrorPayload {
            message: "The encrypted content of item rs_1 could not be verified".into(),
            ..ErrorPayload::default()
        };
        let response = ErrorResponse { status: 400, payload, ..ErrorResponse::default() };
        assert!(RejectedFields::default().learn(&response, "p:m").is_none());
    }
}
