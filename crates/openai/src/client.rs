//! The client: URLs, headers, and the handling of rejected requests.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_http::reqwest::header::HeaderMap;
use parallax_http::url::Url;
use parallax_model_http::{
    BaseUrlError, CallIdFormat, DeclarationCache, Decoder, Dialogue, ErrorClass, ErrorResponse,
    HeaderError, HttpModel, HttpRequest, ImmediateRetry, ListedModel, OpaqueFormat,
    RejectedSettings, RequestHeaders, ResponseMode, SendAttempt, TransportOptions, Wire, model_id,
    parse_base, secret_values, url_with_path,
};
use parallax_models::{MaxTokensField, Quirks};
use parallax_protocol::model::{ModelCatalog, ModelError, Request, ToolSet};
use parallax_protocol::secret::Secret;
use parallax_protocol::{BoxFuture, Object};
use serde_json::Value;

use crate::chat_request::{self, ChatRequestContext};
use crate::chat_response::ChatDecoder;
use crate::errors;
use crate::generation::Generation;
use crate::listing;
use crate::local_server::{LocalModelInfo, LocalServer, ServerKind};
use crate::ollama_request::{self, OllamaRequestContext};
use crate::ollama_response::OllamaDecoder;
use crate::rejected_fields::RejectedFields;
use crate::responses_request::{self, ResponsesRequestContext};
use crate::responses_response::ResponsesDecoder;

/// The API of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/responses`; servers without it are used through Chat Completions.
    Responses,
    /// `/chat/completions`.
    Chat,
    /// Ollama's `/api/chat`.
    Ollama,
}

/// How to reach a service.
#[derive(Debug, Clone)]
pub struct OpenAiOptions {
    /// The API.
    pub api: Api,
    /// The name of the provider.
    pub provider: String,
    /// The base URL.
    pub base_url: String,
    /// Where the base URL comes from, for messages.
    pub base_url_source: String,
    /// The key, sent as `Authorization: Bearer`.
    pub key: Option<Secret>,
    /// What to check when the service rejects the key.
    pub credentials_hint: String,
    /// Additional headers, which override the default ones.
    pub headers: Vec<(String, String)>,
    /// The version in `User-Agent`.
    pub version: String,
    /// The deviations of the service from the standard.
    pub quirks: Quirks,
    /// OpenRouter's `provider` setting.
    pub routing: Option<Object>,
    /// Whether the service is a local server, which provides information about its models.
    pub is_local: bool,
    /// The key of the session for the service's prompt cache.
    pub cache_key: Option<String>,
    /// Proxies, attempts, and timeouts.
    pub transport: TransportOptions,
}

/// Creates the model of a service.
///
/// # Errors
/// Returns an error if the base URL is invalid.
pub fn model(
    options: OpenAiOptions,
    catalog: Arc<dyn ModelCatalog>,
) -> Result<HttpModel, BaseUrlError> {
    let base = parse_base(&options.base_url, &options.base_url_source)?;
    let mut transport = options.transport.clone();
    transport.secrets.extend(options.key.clone());
    transport.secrets.extend(secret_values(&options.headers));
    let is_openai = base.host_str() == Some("api.openai.com");
    let kind = match (options.api, options.provider.as_str()) {
        (Api::Ollama, _) => ServerKind::Ollama,
        (_, "lmstudio") => ServerKind::LmStudio,
        _ => ServerKind::OpenAi,
    };
    let local = options.is_local.then(|| LocalServer::new(&options.provider, kind, base.clone()));
    let wire = OpenAiWire {
        base,
        is_openai,
        catalog: catalog.clone(),
        declarations: DeclarationCache::default(),
        uses_chat: AtomicBool::new(options.api == Api::Chat),
        local,
        no_stream_options: AtomicBool::new(false),
        other_max_tokens: AtomicBool::new(false),
        rejected_settings: RejectedSettings::default(),
        rejected_fields: RejectedFields::default(),
        has_responses: AtomicBool::new(false),
        rejected_reasoning: Mutex::default(),
        options,
    };
    Ok(HttpModel::new(wire, transport, catalog))
}

struct OpenAiWire {
    options: OpenAiOptions,
    base: Url,
    is_openai: bool,
    catalog: Arc<dyn ModelCatalog>,
    declarations: DeclarationCache,
    /// Whether the server lacks the Responses API.
    uses_chat: AtomicBool,
    /// Information from a local server.
    local: Option<LocalServer>,
    /// Features that the server rejected, which are not sent again.
    no_stream_options: AtomicBool,
    other_max_tokens: AtomicBool,
    /// Generation settings that models do not accept.
    rejected_settings: RejectedSettings,
    /// Fields of the default request that models do not accept.
    rejected_fields: RejectedFields,
    /// Whether the Responses API answered.
    has_responses: AtomicBool,
    /// Hashes of reasoning that the service rejected.
    rejected_reasoning: Mutex<HashSet<u64>>,
}

impl OpenAiWire {
    fn api(&self) -> Api {
        match self.options.api {
            Api::Responses if self.uses_chat.load(Ordering::Relaxed) => Api::Chat,
            api => api,
        }
    }

    fn dialogue(&self, request: &Request) -> Dialogue {
        let (format, ids) = match self.api() {
            Api::Responses => (OpaqueFormat::Responses, CallIdFormat::Max64),
            Api::Chat if self.options.quirks.short_call_ids == Some(true) => {
                (OpaqueFormat::Chat, CallIdFormat::Alphanumeric9)
            }
            // OpenAI accepts no longer ones, and gateways may forward to it.
            Api::Chat => (OpaqueFormat::Chat, CallIdFormat::Max40),
            Api::Ollama => (OpaqueFormat::None, CallIdFormat::Max64),
        };
        Dialogue::with_ids(&request.contents, &request.model, format, ids)
    }

    fn quirks(&self) -> Quirks {
        let mut quirks = self.options.quirks.clone();
        if self.no_stream_options.load(Ordering::Relaxed) {
            quirks.usage_in_stream = Some(false);
        }
        if self.other_max_tokens.load(Ordering::Relaxed) {
            quirks.max_tokens_field = Some(match quirks.max_tokens_field {
                Some(MaxTokensField::MaxCompletionTokens) => MaxTokensField::MaxTokens,
                _ => MaxTokensField::MaxCompletionTokens,
            });
        }
        quirks
    }

    fn rejected_reasoning(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.rejected_reasoning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the reasoning of this request out of later ones. `None` if there is none.
    fn reject_reasoning(&self, request: &Request) -> Option<ImmediateRetry> {
        let dialogue = self.dialogue(request);
        let mut rejected = self.rejected_reasoning();
        let known = rejected.len();
        rejected.extend(responses_request::reasoning(&dialogue));
        (rejected.len() > known).then(|| ImmediateRetry {
            notice: Some(
                "The service cannot read the reasoning of earlier answers (for example, from \
                 another account), so it is not sent again"
                    .to_owned(),
            ),
        })
    }

    fn headers<'a>(&'a self, model: &'a str) -> RequestHeaders<'a> {
        RequestHeaders {
            custom: &self.options.headers,
            version: &self.options.version,
            model,
            bearer: self.options.key.as_ref(),
            named_key: None,
        }
    }

    fn model_info(&self, model: &str) -> LocalModelInfo {
        self.local.as_ref().map(|local| local.model_info(model)).unwrap_or_default()
    }

    fn no_tools(&self, model: &str) -> String {
        match self.options.api {
            Api::Ollama => format!(
                "the model `{model}` at `{}` does not support tools, which the agent requires: \
                    use one whose capabilities include `tools` (`ollama show MODEL` lists them)",
                self.base
            ),
            _ => format!(
                "the chat template of the model at `{}` does not support tools, which the agent \
                    requires: start the server with `--jinja --chat-template-file FILE` and a \
                    template that supports them, or use another model",
                self.base
            ),
        }
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        let (model, quirks) = (model_id(&request.model), self.quirks());
        let mut settings = self.catalog.configured_generation(request);
        self.rejected_settings.filter(&request.model, &mut settings);
        let mut generation = Generation::read(&settings);
        let facts = self.model_info(model);
        if facts.lacks_thinking {
            generation.effort = None;
        }
        let declarations = self.declarations.get(&request.tools);
        let dialogue = self.dialogue(request).reading(|mime| {
            let is_seen = !(facts.lacks_vision && mime.starts_with("image/"));
            is_seen && self.catalog.accepts_mime(&request.model, mime)
        });
        let cache_key = self.options.cache_key.as_deref();
        let cache_key = cache_key.filter(|_| quirks.cache_key != Some(false));
        let dialogue = responses_request::without_reasoning(dialogue, &self.rejected_reasoning());
        let mut body = match self.api() {
            Api::Responses => {
                return responses_request::body(
                    request,
                    dialogue,
                    &ResponsesRequestContext {
                        model,
                        quirks: &quirks,
                        generation: &generation,
                        declarations: &declarations,
                        cache_key,
                        lacks_reasoning: self.catalog.thinks(&request.model) == Some(false),
                        rejected: &self.rejected_fields,
                    },
                );
            }
            Api::Chat => chat_request::body(
                request,
                dialogue,
                &ChatRequestContext {
                    model,
                    quirks: &quirks,
                    accepts_files: self.is_openai || self.options.provider == "openrouter",
                    routing: self.options.routing.as_ref(),
                    generation: &generation,
                    declarations: &declarations,
                    cache_key: cache_key.filter(|_| quirks.cache_key == Some(true)),
                },
            ),
            Api::Ollama => ollama_request::body(
                request,
                dialogue,
                &OllamaRequestContext {
                    model,
                    generation: &generation,
                    declarations: &declarations,
                    context: self.catalog.limits(&request.model).context,
                    think: !facts.lacks_thinking,
                },
            ),
        };
        if let Value::Object(fields) = &mut body {
            self.rejected_fields.filter(&request.model, fields);
        }
        // Values cannot fail to serialize into memory.
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

impl Wire for OpenAiWire {
    fn base(&self) -> &Url {
        &self.base
    }

    fn http_request(
        &self,
        request: &Request,
        _delivery: ResponseMode,
        _attempt: SendAttempt<'_>,
    ) -> Result<HttpRequest, ModelError> {
        let options = &self.options;
        if self.model_info(model_id(&request.model)).lacks_tools
            && matches!(request.tools, ToolSet::Functions(_))
        {
            return Err(ModelError::BadRequest {
                status: 400,
                code: None,
                message: self.no_tools(model_id(&request.model)),
            });
        }
        let path = match self.api() {
            Api::Responses => "responses",
            Api::Chat => "chat/completions",
            Api::Ollama => "api/chat",
        };
        let headers = self.headers(model_id(&request.model)).build().map_err(|HeaderError| {
            ModelError::Auth {
                status: None,
                message: format!(
                    "the API key contains characters that are invalid in an HTTP header: check {}",
                    options.credentials_hint
                ),
            }
        })?;
        Ok(HttpRequest {
            url: url_with_path(&self.base, path),
            headers,
            body: self.body(request).into(),
        })
    }

    fn before_request<'a>(&'a self, request: &'a Request) -> Option<BoxFuture<'a, bool>> {
        let local = self.local.as_ref()?;
        Some(Box::pin(async move {
            let model = model_id(&request.model);
            let is_found = local.inspect(model).await;
            if let Some(tokens) = local.model_info(model).context {
                // Ollama allocates memory for the requested window, so large windows are limited.
                let limit = self.catalog.limits(&request.model).context;
                let is_asked = self.options.api == Api::Ollama;
                self.catalog.note_context(
                    &request.model,
                    if is_asked { tokens.min(limit) } else { tokens },
                );
            }
            is_found
        }))
    }

    fn after_response<'a>(&'a self, request: &'a Request) -> Option<BoxFuture<'a, ()>> {
        let local = self.local.as_ref()?;
        Some(Box::pin(async move {
            if let Some(tokens) = local.inspect_loaded(model_id(&request.model)).await {
                self.catalog.note_context(&request.model, tokens);
            }
        }))
    }

    fn notice(&self, request: &Request) -> Option<String> {
        self.local.as_ref()?.warning(model_id(&request.model))
    }

    fn listing(&self) -> Option<(Url, HeaderMap)> {
        let path = if self.options.api == Api::Ollama { "api/tags" } else { "models" };
        let headers = self.headers("").build().ok()?;
        Some((url_with_path(&self.base, path), headers))
    }

    fn read_listing(&self, response: &Value) -> Vec<ListedModel> {
        listing::read(response)
    }

    fn decoder(&self, request: &Request, _delivery: ResponseMode) -> Box<dyn Decoder> {
        let declarations = self.declarations.get(&request.tools);
        match self.api() {
            Api::Responses => {
                self.has_responses.store(true, Ordering::Relaxed);
                Box::new(ResponsesDecoder::new(declarations))
            }
            Api::Chat => Box::new(ChatDecoder::new(declarations)),
            Api::Ollama => Box::new(OllamaDecoder::new(declarations)),
        }
    }

    fn classify(&self, response: &ErrorResponse) -> ErrorClass {
        errors::classify(response)
    }

    fn credentials_hint(&self) -> String {
        self.options.credentials_hint.clone()
    }

    fn recover(&self, response: &ErrorResponse, request: &mut Request) -> Option<ImmediateRetry> {
        let message = response.payload.message.to_lowercase();
        // A flag that is already set did not help.
        let set = |flag: &AtomicBool, notice: Option<String>| {
            (!flag.swap(true, Ordering::Relaxed)).then_some(ImmediateRetry { notice })
        };
        let names_model = message.contains("model")
            || response.payload.status.as_deref() == Some("model_not_found");
        // Before the next check: an error about encrypted content may be one about all of it.
        if matches!(response.status, 400 | 422)
            && let Some(recovery) = self.rejected_fields.learn(response, &request.model)
        {
            return Some(recovery);
        }
        if self.api() == Api::Responses
            && matches!(response.status, 400 | 404)
            && errors::rejects_reasoning(response)
        {
            return self.reject_reasoning(request);
        }
        if self.api() == Api::Chat
            && response.status == 400
            && errors::rejects_signature(response)
            && let Some(recovery) = self.reject_reasoning(request)
        {
            return Some(recovery);
        }
        if self.api() == Api::Responses
            && !self.is_openai
            && !self.has_responses.load(Ordering::Relaxed)
            && (matches!(response.status, 405 | 501) || response.status == 404 && !names_model)
        {
            let provider = &self.options.provider;
            let notice = format!(
                "`{provider}` does not support the Responses API; using Chat Completions instead \
                    (`\"wire\": \"openai-chat\"` in `providers.{provider}` avoids the attempt)"
            );
            return set(&self.uses_chat, Some(notice));
        }
        if !matches!(response.status, 400 | 422) {
            return None;
        }
        if message.contains("stream_options") {
            return set(&self.no_stream_options, None);
        }
        if message.contains("max_tokens") && message.contains("max_completion_tokens") {
            return set(&self.other_max_tokens, None);
        }
        let settings = self.catalog.configured_generation(request);
        self.rejected_settings.learn(response, &request.model, &settings)
    }
}
