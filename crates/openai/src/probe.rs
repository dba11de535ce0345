//! What a local server says of itself before the first request: the size of its context window, and
//! whether its chat template has tools.

use std::time::Duration;

use parallax_http::reqwest::Client;
use parallax_http::url::Url;
use parallax_http::{ClientOptions, Redirects};
use parallax_model_http::url_with_path;
use serde_json::Value;

/// How long each question may take.
const LIMIT: Duration = Duration::from_secs(1);
/// Maximum bytes of an answer.
const MAX_BYTES: usize = 4 << 20;

/// What is known of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    /// The context window in tokens.
    pub(crate) context: Option<u64>,
    /// The chat template drops tools without an error.
    pub(crate) lacks_tools: bool,
}

/// Asks a server. One that does not answer has no facts.
pub(crate) async fn probe(base: &Url) -> ServerFacts {
    let options = ClientOptions {
        redirects: Redirects::None,
        plain_http: base.scheme() == "http",
        system_proxy: false,
        ..ClientOptions::default()
    };
    let Ok(client) = parallax_http::client(&options) else { return ServerFacts::default() };
    let mut root = base.clone();
    if let Ok(mut path) = root.path_segments_mut() {
        path.pop_if_empty();
        // The properties of llama.cpp are beside the versioned API.
        path.pop();
    }
    if let Some(properties) = get(&client, url_with_path(&root, "props")).await {
        return of_properties(&properties);
    }
    match get(&client, url_with_path(base, "models")).await {
        Some(models) => of_models(&models),
        None => ServerFacts::default(),
    }
}

async fn get(client: &Client, url: Url) -> Option<Value> {
    let read = async {
        let mut response = client.get(url).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.ok()? {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_BYTES {
                return None;
            }
        }
        serde_json::from_slice(&body).ok()
    };
    tokio::time::timeout(LIMIT, read).await.ok()?
}

/// `/props` of llama.cpp.
fn of_properties(properties: &Value) -> ServerFacts {
    let context = properties.pointer("/default_generation_settings/n_ctx");
    let tools = properties.pointer("/chat_template_caps/supports_tools");
    ServerFacts {
        context: context.and_then(Value::as_u64),
        lacks_tools: tools.and_then(Value::as_bool) == Some(false),
    }
}

/// `/models` of vLLM. With several models, the window of the requested one is not known here.
fn of_models(models: &Value) -> ServerFacts {
    let list = models.get("data").and_then(Value::as_array).map(Vec::as_slice);
    let context = match list {
        Some([only]) => only.get("max_model_len").and_then(Value::as_u64),
        _ => None,
    };
    ServerFacts { context, lacks_tools: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn facts_are_read() {
        let llama = json!({"default_generation_settings": {"n_ctx": 8192},
            "chat_template_caps": {"supports_tools": false}});
        assert_eq!(of_properties(&llama), ServerFacts { context: Some(8192), lacks_tools: true });
        assert_eq!(of_properties(&json!({"x": 1})), ServerFacts::default());
        let vllm = json!({"data": [{"id": "m", "max_model_len": 4096}]});
        assert_eq!(of_models(&vllm).context, Some(4096));
        assert_eq!(of_models(&json!({"data": [{}, {}]})), ServerFacts::default());
    }
}
