//! Reads the list of models of the Gemini API.

use parallax_model_http::ListedModel;
use serde_json::Value;

/// Returns the models that can answer a prompt.
pub(crate) fn read(response: &Value) -> Vec<ListedModel> {
    let items = response.get("models").and_then(Value::as_array);
    let generates = |item: &&Value| {
        let methods = item.get("supportedGenerationMethods").and_then(Value::as_array);
        methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
    };
    let model = |item: &Value| {
        let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
        let count = |key: &str| item.get(key).and_then(Value::as_u64).filter(|count| *count > 0);
        let name = text("name").unwrap_or_default();
        ListedModel {
            id: name.strip_prefix("models/").unwrap_or(&name).to_owned(),
            name: text("displayName"),
            context_window: count("inputTokenLimit"),
            max_output: count("outputTokenLimit"),
            input: Vec::new(),
        }
    };
    items.into_iter().flatten().filter(generates).map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;

    #[test]
    fn models_that_generate_text_are_listed_with_their_limits() {
        let listed = read(&json!({"models": [
            {"name": "models/gemini-9", "displayName": "Gemini 9", "inputTokenLimit": 1000,
                "outputTokenLimit": 10, "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embed-1", "supportedGenerationMethods": ["embedContent"]},
            {"name": "models/of-a-gateway"},
        ]}));
        let found: Vec<_> = listed.iter().map(|it| (it.id.as_str(), it.context_window)).collect();
        assert_eq!(found, [("gemini-9", Some(1000)), ("of-a-gateway", None)]);
        assert_eq!((listed[0].name.as_deref(), listed[0].max_output), (Some("Gemini 9"), Some(10)));
        assert!(read(&json!({"data": []})).is_empty());
    }
}
