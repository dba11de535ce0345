//! Parses lists of models: `/models`, including fields that OpenRouter, vLLM, llama.cpp, and others
//! add, and Ollama's `/api/tags`.

use parallax_model_http::ListedModel;
use serde_json::Value;

pub(crate) fn read(response: &Value) -> Vec<ListedModel> {
    let items = ["data", "models"].iter().find_map(|key| response.get(key)?.as_array());
    items.or(response.as_array()).into_iter().flatten().map(model).collect()
}

fn model(item: &Value) -> ListedModel {
    let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
    let count = |pointer: &str| item.pointer(pointer).and_then(Value::as_u64);
    let window = ["/max_model_len", "/context_length", "/context_window", "/meta/n_ctx"];
    let input = item.pointer("/architecture/input_modalities").and_then(Value::as_array);
    let id = text("id").or_else(|| text("model")).or_else(|| text("name")).unwrap_or_default();
    ListedModel {
        name: text("name").filter(|name| *name != id),
        context_window: window.iter().find_map(|pointer| count(pointer)),
        max_output: count("/top_provider/max_completion_tokens"),
        input: input
            .into_iter()
            .flatten()
            .filter_map(|kind| kind.as_str())
            .map(|kind| if kind == "file" { "pdf" } else { kind }.to_owned())
            .collect(),
        id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn model_lists_of_all_servers_are_parsed() {
        let router = json!({"data": [{"id": "a/b", "name": "A: B", "context_length": 1000,
            "architecture": {"input_modalities": ["text", "image", "file"]},
            "top_provider": {"max_completion_tokens": 500}}]});
        let expected = ListedModel {
            id: "a/b".into(),
            name: Some("A: B".into()),
            context_window: Some(1000),
            max_output: Some(500),
            input: vec!["text".into(), "image".into(), "pdf".into()],
        };
        assert_eq!(read(&router), [expected]);
        let ids = |value: Value| -> Vec<(String, Option<u64>)> {
            read(&value).into_iter().map(|it| (it.id, it.context_window)).collect()
        };
        let vllm = json!({"object": "list", "data": [{"id": "m", "max_model_len": 8192}]});
        assert_eq!(ids(vllm), [("m".to_owned(), Some(8192))]);
        let ollama = json!({"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "size": 1}]});
        assert_eq!(ids(ollama), [("qwen3:8b".to_owned(), None)]);
        assert_eq!(ids(json!({"data": [7, {}, null]})).len(), 3);
        assert_eq!(ids(json!("x")), []);
    }
}
