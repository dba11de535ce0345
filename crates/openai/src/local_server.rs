//! Queries a local server for the context window and the abilities of its models. Local servers
//! truncate prompts or drop tools without an error, so they are queried before the first request to
//! a model. The window that Ollama actually uses is known only once a model is loaded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parallax_http::reqwest::{Client, RequestBuilder};
use parallax_http::url::Url;
use parallax_http::{ClientOptions, Redirects};
use parallax_model_http::url_with_path;
use serde_json::{Value, json};

/// Timeout of each query.
const LIMIT: Duration = Duration::from_secs(1);
/// Maximum bytes of a response.
const MAX_BYTES: usize = 4 << 20;
/// Smaller windows, in tokens, cause a warning: the instructions and tools alone use a third.
const SMALL_WINDOW: u64 = 16_384;

/// Information about a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LocalModelInfo {
    /// The context window in tokens.
    pub(crate) context: Option<u64>,
    /// Whether tools would be dropped without an error, or rejected.
    pub(crate) lacks_tools: bool,
    pub(crate) lacks_thinking: bool,
    pub(crate) lacks_vision: bool,
    /// Whether a router of llama.cpp has not loaded it yet, so that nothing else is known.
    pub(crate) is_loading: bool,
}

/// The queries that a server supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Ollama,
    LmStudio,
    /// llama.cpp, vLLM, and similar servers.
    OpenAi,
}

#[derive(Default)]
struct QueriedModel {
    info: LocalModelInfo,
    /// Whether the server answered.
    is_found: bool,
    /// Whether it was queried again after the first response.
    is_loaded: bool,
    is_warned: bool,
}

/// A local server and its information, by model.
pub(crate) struct LocalServer {
    name: String,
    kind: ServerKind,
    base: Url,
    models: Mutex<BTreeMap<String, QueriedModel>>,
    /// Whether the server answered a query, if only with an error.
    has_answered: AtomicBool,
}

impl LocalServer {
    /// Creates the server of the provider `name`.
    pub(crate) fn new(name: &str, kind: ServerKind, base: Url) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            base,
            models: Mutex::default(),
            has_answered: AtomicBool::new(false),
        }
    }

    fn models(&self) -> MutexGuard<'_, BTreeMap<String, QueriedModel>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns information about a model.
    pub(crate) fn model_info(&self, model: &str) -> LocalModelInfo {
        self.models().get(model).map(|entry| entry.info.clone()).unwrap_or_default()
    }

    /// Queries a model once. If the server does not answer, nothing is known. Returns whether it
    /// answered.
    pub(crate) async fn inspect(&self, model: &str) -> bool {
        if let Some(known) = self.models().get(model) {
            return known.is_found;
        }
        let answer = match client(&self.base) {
            Some(client) => self.ask(&client, model).await,
            None => None,
        };
        let is_found = answer.is_some() || self.has_answered.load(Ordering::Relaxed);
        let queried =
            QueriedModel { info: answer.unwrap_or_default(), is_found, ..Default::default() };
        self.models().insert(model.to_owned(), queried);
        is_found
    }

    /// Queries the window in use once the model is loaded. Returns it if it was unknown before.
    pub(crate) async fn inspect_loaded(&self, model: &str) -> Option<u64> {
        let is_loaded = |asked: &mut QueriedModel| {
            let is_complete = self.kind == ServerKind::OpenAi && !asked.info.is_loading;
            std::mem::replace(&mut asked.is_loaded, true) || is_complete
        };
        if self.models().get_mut(model).is_none_or(is_loaded) {
            return None;
        }
        let client = client(&self.base)?;
        let context = match self.kind {
            ServerKind::Ollama => {
                let loaded = self.get(&client, url_with_path(&self.base, "api/ps")).await?;
                loaded_window(&loaded, model)
            }
            _ => self.ask(&client, model).await?.context,
        }?;
        if let Some(entry) = self.models().get_mut(model) {
            entry.info.context = Some(context);
        }
        Some(context)
    }

    /// Queries a model; `None` if the server does not answer.
    async fn ask(&self, client: &Client, model: &str) -> Option<LocalModelInfo> {
        let sibling_url = |path: &str| {
            let mut root = self.base.clone();
            if let Ok(mut segments) = root.path_segments_mut() {
                segments.pop_if_empty();
                // The paths of the server are outside of the versioned API.
                segments.pop();
            }
            url_with_path(&root, path)
        };
        let answer = match self.kind {
            ServerKind::Ollama => {
                let question = client.post(url_with_path(&self.base, "api/show"));
                self.read(question.json(&json!({"model": model})))
                    .await
                    .map(|it| parse_ollama_show(&it))
            }
            ServerKind::LmStudio => self
                .get(client, sibling_url("api/v0/models"))
                .await
                .map(|it| parse_lm_studio(&it, model)),
            ServerKind::OpenAi => match self.get(client, sibling_url("props")).await {
                Some(properties) if properties["role"] == "router" => {
                    let mut url = sibling_url("props");
                    url.query_pairs_mut().append_pair("model", model);
                    // The router loads the model, which may take longer than a query.
                    let loaded = self.get(client, url).await.map(|it| parse_llama_properties(&it));
                    Some(loaded.unwrap_or(LocalModelInfo {
                        is_loading: true,
                        ..LocalModelInfo::default()
                    }))
                }
                properties => properties.map(|it| parse_llama_properties(&it)),
            },
        };
        let info = match answer {
            Some(info) => info,
            None if self.kind == ServerKind::Ollama => return None,
            None => {
                let models = self.get(client, url_with_path(&self.base, "models")).await;
                models.map(|it| parse_models(&it, model))?
            }
        };
        // Servers that do not know the window state 0.
        Some(LocalModelInfo { context: info.context.filter(|context| *context > 0), ..info })
    }

    async fn get(&self, client: &Client, url: Url) -> Option<Value> {
        self.read(client.get(url)).await
    }

    async fn read(&self, request: RequestBuilder) -> Option<Value> {
        let read = async {
            let mut response = request.send().await.ok()?;
            self.has_answered.store(true, Ordering::Relaxed);
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

    /// Returns the warning that a model has a small window, once. For Ollama, the warning waits
    /// until the model is loaded and the window is known.
    pub(crate) fn warning(&self, model: &str) -> Option<String> {
        let mut models = self.models();
        let entry = models.get_mut(model)?;
        let context = entry.info.context.filter(|context| *context < SMALL_WINDOW)?;
        if std::mem::replace(&mut entry.is_warned, true) {
            return None;
        }
        let remedy = match (self.kind, self.name.as_str()) {
            (ServerKind::Ollama, _) => {
                "set `OLLAMA_CONTEXT_LENGTH` for the server, or use a model with a larger window"
            }
            (ServerKind::LmStudio, _) => "load the model with a larger context length",
            (_, "llamacpp") => "start the server with a larger `--ctx-size`",
            (_, "vllm") => "start the server with a larger `--max-model-len`",
            _ => "configure a larger window in the server",
        };
        Some(format!(
            "`{}:{model}` has a context window of only {context} tokens, so long prompts may be \
                truncated and the history is compacted early: {remedy}",
            self.name
        ))
    }
}

fn client(base: &Url) -> Option<Client> {
    let options = ClientOptions {
        redirects: Redirects::None,
        plain_http: base.scheme() == "http",
        system_proxy: false,
        ..ClientOptions::default()
    };
    parallax_http::client(&options).ok()
}

/// Parses Ollama's `/api/show`. Older servers state no capabilities.
fn parse_ollama_show(response: &Value) -> LocalModelInfo {
    let capabilities = response.get("capabilities").and_then(Value::as_array);
    let lacks = |name: &str| {
        capabilities.is_some_and(|list| !list.iter().any(|it| it.as_str() == Some(name)))
    };
    let info = response.get("model_info").and_then(Value::as_object);
    let context = info.and_then(|info| {
        // The key starts with the architecture: `qwen3.context_length`.
        let mut lengths = info.iter().filter(|(key, _)| key.ends_with(".context_length"));
        lengths.next()?.1.as_u64()
    });
    LocalModelInfo {
        context,
        lacks_tools: lacks("tools"),
        lacks_thinking: lacks("thinking"),
        lacks_vision: lacks("vision"),
        ..LocalModelInfo::default()
    }
}

/// Parses Ollama's `/api/ps`: the window of a loaded model.
fn loaded_window(loaded: &Value, model: &str) -> Option<u64> {
    let models = loaded.get("models")?.as_array()?;
    let tagged = format!("{model}:latest");
    let is_it = |entry: &&Value| {
        ["name", "model"].iter().any(|key| {
            entry.get(*key).and_then(Value::as_str).is_some_and(|it| it == model || it == tagged)
        })
    };
    models.iter().find(is_it)?.get("context_length")?.as_u64()
}

/// Parses `/api/v0/models` of LM Studio. The window of a model that is not loaded is unknown.
fn parse_lm_studio(models: &Value, model: &str) -> LocalModelInfo {
    let list = models.get("data").and_then(Value::as_array);
    let entry = list.and_then(|list| list.iter().find(|entry| entry["id"] == model));
    let kind = entry.and_then(|entry| entry.get("type")).and_then(Value::as_str);
    LocalModelInfo {
        context: entry.and_then(|entry| entry.get("loaded_context_length")?.as_u64()),
        lacks_vision: kind == Some("llm"),
        ..LocalModelInfo::default()
    }
}

/// Parses `/props` of llama.cpp.
fn parse_llama_properties(properties: &Value) -> LocalModelInfo {
    let context = properties.pointer("/default_generation_settings/n_ctx");
    let flag = |pointer: &str| properties.pointer(pointer).and_then(Value::as_bool);
    LocalModelInfo {
        context: context.and_then(Value::as_u64),
        lacks_tools: flag("/chat_template_caps/supports_tools") == Some(false),
        lacks_vision: flag("/modalities/vision") == Some(false),
        ..LocalModelInfo::default()
    }
}

/// Parses `/models` of vLLM.
fn parse_models(models: &Value, model: &str) -> LocalModelInfo {
    let list = models.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let entry = list.iter().find(|entry| entry["id"] == model).or(match list {
        // A server with one model accepts every name.
        [only] => Some(only),
        _ => None,
    });
    let context = entry.and_then(|entry| entry.get("max_model_len")?.as_u64());
    LocalModelInfo { context, ..LocalModelInfo::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_properties_are_parsed_for_every_server() {
        let llama = json!({"default_generation_settings": {"n_ctx": 8192},
            "chat_template_caps": {"supports_tools": false}});
        let info = parse_llama_properties(&llama);
        assert_eq!((info.context, info.lacks_tools), (Some(8192), true));
        assert_eq!(parse_llama_properties(&json!({"x": 1})), LocalModelInfo::default());

        let vllm = json!({"data": [{"id": "m", "max_model_len": 4096}]});
        assert_eq!(parse_models(&vllm, "other").context, Some(4096));
        let two =
            json!({"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]});
        assert_eq!(parse_models(&two, "b").context, Some(2));
        assert_eq!(parse_models(&two, "c").context, None);

        let response = json!({"capabilities": ["completion", "tools"],
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}});
        let info = parse_ollama_show(&response);
        assert_eq!((info.context, info.lacks_tools), (Some(40_960), false));
        assert!(info.lacks_thinking && info.lacks_vision);
        assert_eq!(parse_ollama_show(&json!({"license": "x"})), LocalModelInfo::default());

        let loaded = json!({"models": [{"name": "qwen3:latest", "context_length": 4096}, 7]});
        assert_eq!(loaded_window(&loaded, "qwen3"), Some(4096));
        assert_eq!(loaded_window(&loaded, "qwen3:8b"), None);

        let studio = json!({"data": [{"id": "m", "type": "vlm", "loaded_context_length": 4096},
            {"id": "n", "type": "llm", "max_context_length": 9}]});
        assert_eq!(parse_lm_studio(&studio, "m").context, Some(4096));
        assert!(
            parse_lm_studio(&studio, "n").lacks_vision
                && parse_lm_studio(&studio, "n").context.is_none()
        );
    }
}
