//! The authentication methods, and how a client authenticates.

use std::ffi::OsString;

use parallax_protocol::Object;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::secret::Secret;
use parallax_sdk::SessionConfig;
use parallax_sdk::credential::{Credential, KeyKind};
use parallax_sdk::settings::SettingScope;
use serde_json::{Value, json};

use crate::rpc::{RpcError, text};

const API_KEY: &str = "gemini-api-key";
const VERTEX_AI: &str = "vertex-ai";
const GATEWAY: &str = "gateway";
/// The sign-in of Gemini CLI with a Google account, which its clients name. Here, the configured
/// credentials are used instead.
const GOOGLE_ACCOUNT: &str = "oauth-personal";
const SELECTED: &str = "security.auth.selectedType";

/// How a client authenticated, for the sessions that it opens afterwards.
#[derive(Clone, Default)]
pub struct Authentication {
    /// The method as in `security.auth.selectedType`; `None`: as configured.
    pub method: Option<String>,
    /// Environment variables that replace those of the process.
    pub variables: Vec<(OsString, OsString)>,
}

/// An `authenticate` request.
pub(crate) enum AuthRequest {
    GeminiKey(Option<Secret>),
    VertexAi(Option<Secret>),
    Gateway {
        base_url: String,
        headers: Vec<(String, String)>,
    },
    Provider {
        name: String,
        key: Option<Secret>,
    },
    /// What is configured: nothing is selected or stored.
    Configured,
}

/// Returns the methods for the result of `initialize`.
pub(crate) fn methods(providers: &[String], sets_up: bool) -> Value {
    let mut methods = vec![
        json!({"id": API_KEY, "name": "Gemini API key", "description": "Use a Gemini API key",
            "_meta": {"api-key": {"provider": "google"}}}),
        json!({"id": VERTEX_AI, "name": "Vertex AI",
            "description": "Use a Google Cloud project or a Vertex AI API key",
            "_meta": {"api-key": {"provider": "google"}}}),
        json!({"id": GATEWAY, "name": "Gateway",
            "description": "Use a gateway that implements the Gemini API",
            "_meta": {"gateway": {"protocol": "google", "restartRequired": "false"}}}),
        json!({"id": GOOGLE_ACCOUNT, "name": "Configured credentials",
            "description": "Use the credentials of the settings and the environment"}),
    ];
    for name in providers {
        methods.push(json!({"id": name, "name": format!("API key for {name}"),
            "description": format!("Use an API key for {name} for models named `{name}:MODEL`"),
            "_meta": {"api-key": {"provider": name}}}));
    }
    if sets_up {
        methods.push(json!({"id": "setup", "name": "Set up in the terminal",
            "description": "Choose a provider and enter its key", "type": "terminal",
            "args": ["--setup"]}));
    }
    Value::Array(methods)
}

/// Reads the parameters of `authenticate`.
///
/// # Errors
/// Returns an error if the gateway is malformed.
pub(crate) fn read(params: &Object) -> Result<AuthRequest, RpcError> {
    let meta = params.get("_meta").unwrap_or(&Value::Null);
    let key = match meta.get("api-key") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) if !key.trim().is_empty() => Some(Secret::new(key.trim())),
        Some(_) => {
            return Err(RpcError::invalid_params("`_meta.api-key` must be a non-empty string"));
        }
    };
    match text(params, "methodId")? {
        API_KEY => Ok(AuthRequest::GeminiKey(key)),
        VERTEX_AI => Ok(AuthRequest::VertexAi(key)),
        GATEWAY => read_gateway(meta.get("gateway")),
        GOOGLE_ACCOUNT => Ok(AuthRequest::Configured),
        "setup" => Err(RpcError::invalid_params(
            "the method `setup` runs in a terminal: start `parallax --setup`",
        )),
        name => Ok(AuthRequest::Provider { name: name.to_owned(), key }),
    }
}

fn read_gateway(gateway: Option<&Value>) -> Result<AuthRequest, RpcError> {
    let invalid = |message: &str| Err(RpcError::invalid_params(message));
    let Some(Value::Object(gateway)) = gateway else {
        return invalid("`_meta.gateway` must be an object with `baseUrl` and `headers`");
    };
    let base_url = text(gateway, "baseUrl")?;
    let has_host = ["http://", "https://"]
        .iter()
        .any(|scheme| base_url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    if !has_host || base_url.chars().any(|char| char.is_control() || char == ' ') {
        return invalid("`_meta.gateway.baseUrl` must be an http or https URL");
    }
    let mut headers = Vec::new();
    match gateway.get("headers") {
        None | Some(Value::Null) => {}
        Some(Value::Object(given)) => {
            for (name, value) in given {
                let Some(value) = value.as_str() else {
                    return invalid("the values of `_meta.gateway.headers` must be strings");
                };
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                if name.is_empty()
                    || !name.bytes().all(is_name)
                    || value.chars().any(char::is_control)
                {
                    return invalid("`_meta.gateway.headers` contains an invalid header");
                }
                headers.push((name.clone(), value.to_owned()));
            }
        }
        Some(_) => return invalid("`_meta.gateway.headers` must be an object"),
    }
    Ok(AuthRequest::Gateway { base_url: base_url.to_owned(), headers })
}

impl AuthRequest {
    /// Returns how later sessions authenticate.
    pub(crate) fn authentication(&self) -> Authentication {
        let method = |name: &str| Some(name.to_owned());
        match self {
            Self::GeminiKey(_) => Authentication { method: method(API_KEY), ..<_>::default() },
            Self::VertexAi(_) => Authentication { method: method(VERTEX_AI), ..<_>::default() },
            Self::Gateway { base_url, headers } => {
                let headers: Vec<String> =
                    headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                let variables = [
                    ("GOOGLE_GEMINI_BASE_URL", base_url.clone()),
                    ("GEMINI_CLI_CUSTOM_HEADERS", headers.join(",")),
                ];
                Authentication {
                    method: method(GATEWAY),
                    variables: variables.map(|(name, value)| (name.into(), value.into())).into(),
                }
            }
            // The prefix of the model selects the provider.
            Self::Provider { .. } | Self::Configured => Authentication::default(),
        }
    }

    /// Stores what later sessions need, and checks that they can authenticate. A gateway applies to
    /// this connection only: its URL belongs to the client, and the terminal would lack it.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if credentials are missing or cannot be stored.
    pub(crate) fn store(&self, launch: &SessionConfig) -> Result<(), Failure> {
        let select = |method: &str| {
            launch
                .settings_manager()
                .set(SettingScope::User, SELECTED, Some(&json!(method)))
                .map(drop)
        };
        match self {
            Self::GeminiKey(Some(key)) => {
                launch.provider_manager().store_key(KeyKind::GeminiApi, key)?
            }
            Self::VertexAi(Some(key)) => {
                launch.provider_manager().store_key(KeyKind::VertexExpress, key)?
            }
            Self::Provider { name, key: Some(key) } => {
                return launch.provider_manager().store_provider_key(name, key).map(drop);
            }
            Self::Provider { name, key: None } => {
                return launch.provider_manager().require_provider_key(name);
            }
            Self::Configured => {
                return match launch.provider_manager().credential() {
                    Credential::Missing { reason } => {
                        Err(Failure { kind: FailureKind::Auth, message: reason, status: None })
                    }
                    _ => Ok(()),
                };
            }
            Self::GeminiKey(None) | Self::VertexAi(None) | Self::Gateway { .. } => {}
        }
        if let Credential::Missing { reason } = launch.provider_manager().gemini_credential() {
            let message = match self {
                Self::GeminiKey(_) => format!("{reason}. A client can pass `_meta.api-key`"),
                _ => reason,
            };
            return Err(Failure { kind: FailureKind::Auth, message, status: None });
        }
        match self {
            Self::GeminiKey(_) => select(API_KEY),
            Self::VertexAi(_) => select(VERTEX_AI),
            Self::Gateway { .. } | Self::Provider { .. } | Self::Configured => Ok(()),
        }
    }
}
