//! The providers of models: the built-in ones, and `providers` from the settings.

use std::collections::BTreeMap;

use parallax_protocol::Object;
use parallax_protocol::price::Price;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::prices::PriceSetting;
use crate::quirks::Quirks;

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum WireKind {
    /// The OpenAI Responses API.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// The OpenAI Chat Completions API.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// The Anthropic Messages API.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// The Gemini API.
    #[serde(rename = "gemini")]
    Gemini,
    /// Ollama's own API.
    #[serde(rename = "ollama")]
    Ollama,
}

impl WireKind {
    const NAMES: &[(&str, Self)] = &[
        ("openai-responses", Self::OpenAiResponses),
        ("openai-chat", Self::OpenAiChat),
        ("anthropic", Self::Anthropic),
        ("gemini", Self::Gemini),
        ("ollama", Self::Ollama),
    ];

    /// Returns the name in settings.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A provider of models.
#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    /// The name, which is the prefix of model names.
    pub name: String,
    /// The protocol.
    pub wire: WireKind,
    /// The base URL.
    pub base_url: String,
    /// The setting or variable that the base URL comes from, for messages.
    pub base_url_source: String,
    /// Environment variables that may hold the key, in order.
    pub key_variables: Vec<String>,
    /// Environment variables that may hold a token, sent as `Authorization: Bearer`.
    pub token_variables: Vec<String>,
    /// A command that prints the key.
    pub key_command: Option<String>,
    /// Whether requests without a key are pointless.
    pub needs_key: bool,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// The models from the settings.
    pub models: Vec<ProviderModel>,
    /// The deviations of its protocol from the standard.
    pub quirks: Quirks,
    /// `provider` of OpenRouter's requests, as in the settings.
    pub routing: Option<Object>,
}

/// A model of a provider, from the settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderModel {
    /// The id, without the provider's prefix.
    pub id: String,
    /// The context window in tokens.
    pub context_window: Option<u64>,
    /// The maximum output in tokens.
    pub max_output: Option<u64>,
    /// The kinds of input (`text`, `image`, `pdf`); empty: unknown.
    pub input: Vec<String>,
    /// The thinking levels; empty: unknown.
    pub thinking: Vec<String>,
    /// The price.
    pub price: Option<Price>,
}

/// An invalid entry of `providers` in the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid setting `providers.{entry}{}`: {problem}", field.as_ref().map(|name| format!(".{name}")).unwrap_or_default())]
pub struct ProviderError {
    /// The name of the entry.
    pub entry: String,
    /// The field, if one is wrong.
    pub field: Option<String>,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// All providers by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Providers {
    entries: BTreeMap<String, Provider>,
}

/// A built-in provider.
struct BuiltInProvider {
    name: &'static str,
    /// The name of the service, as its users write it.
    title: &'static str,
    wire: WireKind,
    base_url: &'static str,
    base_variable: &'static str,
    key_variables: &'static [&'static str],
    token_variables: &'static [&'static str],
    needs_key: bool,
}

const fn local(
    name: &'static str,
    base_url: &'static str,
    base_variable: &'static str,
) -> BuiltInProvider {
    BuiltInProvider {
        name,
        title: name,
        wire: WireKind::OpenAiChat,
        base_url,
        base_variable,
        key_variables: &[],
        token_variables: &[],
        needs_key: false,
    }
}

const BUILT_IN: &[BuiltInProvider] = &[
    BuiltInProvider {
        name: "openai",
        title: "OpenAI",
        wire: WireKind::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        base_variable: "OPENAI_BASE_URL",
        key_variables: &["OPENAI_API_KEY"],
        token_variables: &[],
        needs_key: true,
    },
    BuiltInProvider {
        name: "anthropic",
        title: "Anthropic",
        wire: WireKind::Anthropic,
        base_url: "https://api.anthropic.com",
        base_variable: "ANTHROPIC_BASE_URL",
        key_variables: &["ANTHROPIC_API_KEY"],
        token_variables: &["ANTHROPIC_AUTH_TOKEN"],
        needs_key: true,
    },
    BuiltInProvider {
        name: "openrouter",
        title: "OpenRouter",
        wire: WireKind::OpenAiChat,
        base_url: "https://openrouter.ai/api/v1",
        base_variable: "OPENROUTER_BASE_URL",
        key_variables: &["OPENROUTER_API_KEY"],
        token_variables: &[],
        needs_key: true,
    },
    BuiltInProvider {
        name: "ollama",
        title: "Ollama",
        wire: WireKind::Ollama,
        base_url: "http://127.0.0.1:11434",
        base_variable: "OLLAMA_HOST",
        key_variables: &[],
        token_variables: &[],
        needs_key: false,
    },
    local("lmstudio", "http://127.0.0.1:1234/v1", "LMSTUDIO_BASE_URL"),
    local("llamacpp", "http://127.0.0.1:8080/v1", "LLAMACPP_BASE_URL"),
    local("vllm", "http://127.0.0.1:8000/v1", "VLLM_BASE_URL"),
];

/// Returns the names and titles of the built-in services that need a key, besides Google's.
pub fn hosted_providers() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILT_IN.iter().filter(|row| row.needs_key).map(|row| (row.name, row.title))
}

/// The prefix of the source of a default base URL.
pub(crate) const DEFAULT_SOURCE: &str = "the default of";

/// Prefixes that are not entries of the table: the Gemini API, Vertex AI, and scripts.
const OTHER_PREFIXES: &[&str] = &["gemini", "vertex", "script"];

/// An entry of `providers`, as in the settings.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ProviderSetting {
    /// Read before the other fields.
    #[serde(rename = "wire")]
    _wire: IgnoredAny,
    base_url: Option<String>,
    api_key_env: Option<OneOrMany>,
    api_key_command: Option<String>,
    headers: BTreeMap<String, String>,
    models: Vec<Value>,
    quirks: Quirks,
    provider: Option<Object>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ModelSetting {
    id: String,
    context_window: Option<u64>,
    max_output: Option<u64>,
    #[serde(default)]
    input: Vec<String>,
    #[serde(default)]
    thinking: Vec<String>,
    price: Option<PriceSetting>,
}

/// Reads an entry of `models`: the id of a model, or an object.
fn read_model(value: &Value) -> Result<ProviderModel, String> {
    if let Value::String(id) = value {
        return Ok(ProviderModel { id: id.clone(), ..ProviderModel::default() });
    }
    if !value.is_object() {
        return Err("it must be the id of a model or an object with an `id`".to_owned());
    }
    let model = ModelSetting::deserialize(value).map_err(|error| error.to_string())?;
    Ok(ProviderModel {
        id: model.id,
        context_window: model.context_window,
        max_output: model.max_output,
        input: model.input,
        thinking: model.thinking,
        price: model.price.map(Price::from),
    })
}

impl Default for Providers {
    fn default() -> Self {
        Self::built_in(&|_| None)
    }
}

impl Providers {
    /// Returns the built-in providers. `env` returns the variables that override base URLs.
    pub fn built_in(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let entries = BUILT_IN.iter().map(|row| {
            let moved = env(row.base_variable).filter(|value| !value.trim().is_empty());
            let (base_url, source) = match moved {
                Some(url) if row.wire == WireKind::Ollama => {
                    (ollama_base(&url), format!("`{}`", row.base_variable))
                }
                Some(url) => (url.trim().to_owned(), format!("`{}`", row.base_variable)),
                None => (row.base_url.to_owned(), format!("{DEFAULT_SOURCE} `{}`", row.name)),
            };
            let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let provider = Provider {
                name: row.name.to_owned(),
                wire: row.wire,
                quirks: Quirks::for_provider(row.name, &base_url),
                base_url,
                base_url_source: source,
                key_variables: texts(row.key_variables),
                token_variables: texts(row.token_variables),
                key_command: None,
                needs_key: row.needs_key,
                headers: Vec::new(),
                models: Vec::new(),
                routing: None,
            };
            (row.name.to_owned(), provider)
        });
        Self { entries: entries.collect() }
    }

    /// Returns the built-in providers with the entries of the setting `providers`.
    ///
    /// # Errors
    /// Returns an error that names the entry and the field if an entry is invalid.
    pub fn from_settings(
        settings: Option<&Value>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderError> {
        let mut providers = Self::built_in(env);
        let entries = match settings {
            None | Some(Value::Null) => return Ok(providers),
            Some(Value::Object(entries)) => entries,
            Some(_) => {
                return Err(ProviderError {
                    entry: String::new(),
                    field: None,
                    problem: "it must be an object that maps names to entries".to_owned(),
                });
            }
        };
        for (name, value) in entries {
            let provider = read_entry(name, value, providers.entries.get(name))?;
            providers.entries.insert(name.clone(), provider);
        }
        Ok(providers)
    }

    /// Splits a model name into its provider and the model id. Returns `None` if the name has no
    /// provider prefix, so that it is a model of the Gemini API or a script.
    pub fn split<'a>(&self, model: &'a str) -> Option<(&Provider, &'a str)> {
        let (prefix, id) = model.split_once(':')?;
        self.entries.get(prefix).map(|provider| (provider, id))
    }

    /// Returns the provider of this name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.entries.get(name)
    }

    /// Returns these providers with other quirks for one of them.
    #[must_use]
    pub fn with_quirks(&self, name: &str, quirks: &Quirks) -> Self {
        let mut providers = self.clone();
        if let Some(provider) = providers.entries.get_mut(name) {
            provider.quirks = provider.quirks.clone().overridden_by(quirks);
        }
        providers
    }

    /// Returns all providers, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.entries.values()
    }

    /// Returns the prefix of a model name if no provider has it.
    pub fn unknown_prefix<'a>(&self, model: &'a str) -> Option<&'a str> {
        let (prefix, _) = model.split_once(':')?;
        let known = self.entries.contains_key(prefix) || OTHER_PREFIXES.contains(&prefix);
        (!known).then_some(prefix)
    }

    /// Returns all prefixes of model names, for messages.
    pub fn prefixes(&self) -> String {
        let names = OTHER_PREFIXES.iter().copied().chain(self.entries.keys().map(String::as_str));
        names.map(|name| format!("`{name}:`")).collect::<Vec<_>>().join(", ")
    }
}

/// Returns a description of the part of a URL that is or looks like a key.
fn key_in_url(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Some("the text before the `@`".to_owned());
    }
    let query = rest.split_once('?')?.1;
    let mut names = query.split(['&', '#']).filter_map(|pair| Some(pair.split_once('=')?.0));
    let is_key = |name: &&str| {
        let name = name.to_ascii_lowercase();
        ["key", "token", "secret", "password"].iter().any(|word| name.contains(word))
    };
    names.find(is_key).map(|name| format!("the parameter `{name}`"))
}

/// Returns the base URL for `OLLAMA_HOST`, which may be a host name, a port, or a listen address.
/// As for Ollama, the default port is that of the scheme if there is a scheme, else 11434.
fn ollama_base(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest, default_port) = match host.split_once("://") {
        Some((scheme, rest)) => (scheme, rest, ""),
        None => ("http", host, ":11434"),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, String::new()),
    };
    let (name, port) = match authority.rsplit_once(':') {
        // The last group of an IPv6 address is not a port.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
        _ => (authority, ""),
    };
    let name = if matches!(name, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { name };
    let port = match port {
        "" => default_port.to_owned(),
        port => format!(":{port}"),
    };
    format!("{scheme}://{name}{port}{path}")
}

fn read_entry(
    name: &str,
    value: &Value,
    built_in: Option<&Provider>,
) -> Result<Provider, ProviderError> {
    let to_error = |field: &str, problem: String| ProviderError {
        entry: name.to_owned(),
        field: (!field.is_empty()).then(|| field.to_owned()),
        problem,
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || !name.bytes().all(is_name) || OTHER_PREFIXES.contains(&name) {
        return Err(to_error(
            "",
            "the name of a provider consists of letters, digits, `-`, `_`, and `.`, and is not \
                `gemini`, `vertex`, or `script`"
                .to_owned(),
        ));
    }
    let Value::Object(fields) = value else {
        return Err(to_error("", "it must be an object".to_owned()));
    };
    for field in ["apiKey", "key", "token"] {
        if fields.contains_key(field) {
            return Err(to_error(
                field,
                format!(
                    "keys do not belong in settings files: remove it, and name a variable in \
                        `apiKeyEnv`, or run `parallax auth add {name}`"
                ),
            ));
        }
    }
    let wire = match fields.get("wire") {
        None => built_in.map(|provider| provider.wire).ok_or_else(|| {
            to_error("wire", format!("it is missing: use one of {}", wire_names()))
        })?,
        Some(value) => WireKind::deserialize(value).map_err(|_| {
            to_error("wire", format!("unknown value {value}: use one of {}", wire_names()))
        })?,
    };
    let text =
        ProviderSetting::deserialize(value).map_err(|error| to_error("", error.to_string()))?;
    let (base_url, base_url_source) = match (text.base_url, built_in) {
        (Some(url), _) => (url.trim().to_owned(), format!("`providers.{name}.baseUrl`")),
        (None, Some(provider)) => (provider.base_url.clone(), provider.base_url_source.clone()),
        (None, None) => {
            return Err(to_error(
                "baseUrl",
                "it is missing: set the URL of the service".to_owned(),
            ));
        }
    };
    if let Some(what) = key_in_url(&base_url) {
        return Err(to_error(
            "baseUrl",
            format!(
                "keys do not belong in addresses: remove {what}, and name a variable in \
                    `apiKeyEnv`, or run `parallax auth add {name}`"
            ),
        ));
    }
    let is_moved = built_in.is_some_and(|provider| provider.base_url != base_url);
    let key_variables = match text.api_key_env {
        Some(OneOrMany::One(name)) => vec![name],
        Some(OneOrMany::Many(names)) => names,
        // A key of the provider is not sent to another address unless the entry says so.
        None if is_moved => Vec::new(),
        None => built_in.map(|provider| provider.key_variables.clone()).unwrap_or_default(),
    };
    let is_variable = |name: &String| {
        !name.starts_with(|letter: char| letter.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    if !key_variables.iter().all(|name| !name.is_empty() && is_variable(name)) {
        return Err(to_error(
            "apiKeyEnv",
            "it must be the name of an environment variable, not a key".to_owned(),
        ));
    }
    let token_variables = match built_in {
        Some(provider) if !is_moved => provider.token_variables.clone(),
        _ => Vec::new(),
    };
    let quirks = Quirks::for_provider(name, &base_url).overridden_by(&text.quirks);
    let read = |(index, model)| {
        read_model(model).map_err(|problem| to_error(&format!("models[{index}]"), problem))
    };
    let models = text.models.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok(Provider {
        name: name.to_owned(),
        wire,
        needs_key: text.api_key_command.is_some() || !key_variables.is_empty(),
        base_url,
        base_url_source,
        key_variables,
        token_variables,
        key_command: text.api_key_command,
        headers: text.headers.into_iter().collect(),
        models,
        quirks,
        routing: text.provider,
    })
}

fn wire_names() -> String {
    let names = WireKind::NAMES.iter().map(|(name, _)| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(settings: Value) -> Result<Providers, ProviderError> {
        Providers::from_settings(Some(&settings), &|_| None)
    }

    #[test]
    fn prefix_split_at_the_first_colon() {
        let providers = Providers::default();
        let (provider, id) = providers.split("ollama:qwen3:8b").expect("a provider");
        assert_eq!((provider.name.as_str(), id), ("ollama", "qwen3:8b"));
        assert!(providers.split("gemini-3-pro").is_none());
        assert_eq!(providers.unknown_prefix("nope:x"), Some("nope"));
        assert_eq!(providers.unknown_prefix("script:demo"), None);
        assert!(providers.prefixes().contains("`openai:`"));
    }

    #[test]
    fn settings_entry_is_a_prefix() {
        let providers = read(json!({"gw": {"wire": "openai-chat", "baseUrl": "https://gw.example/v1",
            "apiKeyEnv": "GW_KEY", "headers": {"X-Team": "a"},
            "models": ["small", {"id": "big", "contextWindow": 1000, "price": {"input": 1, "output": 2}}],
            "quirks": {"echoReasoning": true}}}))
        .expect("valid");
        let (provider, id) = providers.split("gw:big").expect("a provider");
        assert_eq!(id, "big");
        assert_eq!(provider.key_variables, ["GW_KEY"]);
        assert!(provider.needs_key && provider.quirks.echo_reasoning());
        assert_eq!(provider.models[1].context_window, Some(1000));
        assert_eq!(provider.models[1].price.map(|price| price.short_prompts.output), Some(2.0));
    }

    #[test]
    fn invalid_entries_name_the_entry_and_the_field() {
        for (settings, words) in [
            (json!({"gw": {"baseUrl": "http://x"}}), vec!["providers.gw.wire", "openai-chat"]),
            (json!({"gw": {"wire": "smoke", "baseUrl": "http://x"}}), vec!["gw.wire", "smoke"]),
            (json!({"gw": {"wire": "openai-chat"}}), vec!["gw.baseUrl", "missing"]),
            (
                json!({"gw": {"wire": "openai-chat", "baseUrl": "http://x", "apiKey": "sk-1"}}),
                vec!["gw.apiKey", "parallax auth add gw"],
            ),
            (
                json!({"openai": {"apiKeyEnvironment": "X"}}),
                vec!["providers.openai", "apiKeyEnvironment", "apiKeyEnv`"],
            ),
            (json!({"openai": {"models": ["a", 5]}}), vec!["openai.models[1]", "object"]),
            (
                json!({"openai": {"models": [{"id": "a", "contextWindow": "big"}]}}),
                vec!["openai.models[0]", "big"],
            ),
            (
                json!({"openai": {"models": [{"id": "a", "window": 5}]}}),
                vec!["openai.models[0]", "window", "contextWindow"],
            ),
            (json!({"gemini": {"wire": "gemini"}}), vec!["providers.gemini"]),
            (json!({"a:b": {}}), vec!["providers.a:b"]),
            (json!({"gw": 1}), vec!["providers.gw", "object"]),
            (json!([]), vec!["maps names to entries"]),
        ] {
            let error = read(settings.clone()).expect_err("invalid").to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{settings}: {error}");
            assert!(!error.contains("sk-1"), "{error}");
        }
    }

    #[test]
    fn key_of_a_provider_is_not_sent_to_a_moved_address() {
        let moved = json!({"openai": {"baseUrl": "https://evil.example/v1"}});
        let providers = read(moved).expect("valid");
        let provider = providers.get("openai").expect("built in");
        assert!(provider.key_variables.is_empty() && !provider.needs_key);
        let own = json!({"openai": {"headers": {"X-A": "b"}}});
        let providers = read(own).expect("valid");
        assert_eq!(providers.get("openai").expect("built in").key_variables, ["OPENAI_API_KEY"]);
    }

    #[test]
    fn ollama_host_is_completed() {
        for (host, base) in [
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("box", "http://box:11434"),
            ("box:1", "http://box:1"),
            (":99", "http://127.0.0.1:99"),
            ("https://box.example/x/", "https://box.example/x"),
            ("http://box.example/", "http://box.example"),
            ("[::1]:7", "http://[::1]:7"),
        ] {
            assert_eq!(ollama_base(host), base, "{host}");
        }
    }
}
