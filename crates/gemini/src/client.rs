//! The Gemini API as a model.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_google_auth::{CLOUD_PLATFORM, TokenPurpose, TokenSource};
use parallax_http::ClientOptions;
use parallax_http::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use parallax_http::url::Url;
use parallax_model_http::{
    Decoder, ErrorClass, ErrorResponse, EventError, HttpModel, HttpRequest, ImmediateRetry,
    ListedModel, RejectedSettings, ResponseMode, SendAttempt, Transport, TransportOptions, Wire,
    secret_values, user_agent,
};
use parallax_models::{ModelTable, is_utility};
use parallax_protocol::model::{
    Answer, Chunk, Model, ModelCatalog, ModelError, Request, ServerAddress, StreamEvent,
};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};
use serde_json::Value;

use crate::auth::Auth;
use crate::body::{body_with_settings, generation_settings};
use crate::chunk::{ChunkError, read_chunk};
use crate::credential_hints::{CREDENTIALS, PROJECT_CREDENTIALS};
use crate::endpoint::{self, Endpoint, EndpointError, EndpointParts};
use crate::error_classification::classify;
use crate::headers::{HeaderParts, headers};
use crate::listing;

/// Variables that locate application default credentials.
pub const CREDENTIAL_VARIABLES: &[&str] = &[
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    "APPDATA",
    "HOME",
    "GCE_METADATA_HOST",
    "GOOGLE_CLOUD_QUOTA_PROJECT",
];

/// How to reach the service. [`GeminiOptions::new`] gives the defaults,
/// [`GeminiOptions::from_env`] adds the environment.
#[derive(Debug, Clone)]
pub struct GeminiOptions {
    /// The credentials.
    pub auth: Auth,
    /// A base URL that overrides those of the environment.
    pub base_url: Option<String>,
    /// `GOOGLE_GEMINI_BASE_URL`.
    pub gemini_base_url: Option<String>,
    /// `GOOGLE_VERTEX_BASE_URL`.
    pub vertex_base_url: Option<String>,
    /// `GOOGLE_CLOUD_LOCATION`: `us` and `eu` are regions of Vertex AI.
    pub location: Option<String>,
    /// `GOOGLE_GENAI_API_VERSION`, overrides the service's default.
    pub api_version: Option<String>,
    /// Send the key as `Authorization: Bearer`
    /// (`GEMINI_API_KEY_AUTH_MECHANISM=bearer`).
    pub bearer: bool,
    /// The user's headers ([`parallax_model_http::parse_custom_headers`]).
    pub custom_headers: Vec<(String, String)>,
    /// `billing.vertexAi.requestType`.
    pub vertex_request_type: Option<String>,
    /// `billing.vertexAi.sharedRequestType`.
    pub vertex_shared_request_type: Option<String>,
    /// Variables that locate application default credentials.
    pub variables: Vec<(OsString, OsString)>,
    /// The provider name that prefixes model names. The prefix is not sent.
    pub prefix: Option<String>,
    /// The version in `User-Agent`.
    pub version: String,
    /// The user's surface in `User-Agent` (`GEMINI_CLI_SURFACE`).
    pub surface: String,
    /// The model table.
    pub models: Arc<ModelTable>,
    /// Proxies, attempts, and timeouts.
    pub transport: TransportOptions,
}

impl GeminiOptions {
    /// Returns the defaults with these credentials.
    pub fn new(auth: Auth) -> Self {
        Self {
            auth,
            base_url: None,
            gemini_base_url: None,
            vertex_base_url: None,
            location: None,
            api_version: None,
            bearer: false,
            custom_headers: Vec::new(),
            vertex_request_type: None,
            vertex_shared_request_type: None,
            variables: Vec::new(),
            prefix: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            surface: "terminal".to_owned(),
            models: Arc::default(),
            transport: TransportOptions::default(),
        }
    }

    /// Returns the defaults with the environment: base URLs, API version, key mechanism, custom
    /// headers, surface, extra roots. `PARALLAX_RETRY_BASE_MS` shortens the backoff, for tests
    /// against scripted servers.
    pub fn from_env(auth: Auth, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let mut options = Self::new(auth);
        options.gemini_base_url = get("GOOGLE_GEMINI_BASE_URL");
        options.vertex_base_url = get("GOOGLE_VERTEX_BASE_URL");
        options.location = get("GOOGLE_CLOUD_LOCATION");
        options.api_version = get("GOOGLE_GENAI_API_VERSION");
        options.bearer = get("GEMINI_API_KEY_AUTH_MECHANISM")
            .is_some_and(|word| word.trim().eq_ignore_ascii_case("bearer"));
        if let Some(text) = get("GEMINI_CLI_CUSTOM_HEADERS") {
            options.custom_headers = parallax_model_http::parse_custom_headers(&text);
        }
        if let Some(surface) = get("GEMINI_CLI_SURFACE") {
            options.surface = surface;
        }
        options.transport = TransportOptions::from_env(env);
        options.variables = CREDENTIAL_VARIABLES
            .iter()
            .filter_map(|name| Some((OsString::from(name), OsString::from(get(name)?))))
            .collect();
        options
    }
}

/// The Gemini API. Cheap to create: nothing is loaded or opened before the first request.
#[derive(Clone)]
pub struct Gemini {
    model: HttpModel,
    inner: Arc<ClientState>,
}

pub(crate) struct ClientState {
    pub(crate) options: GeminiOptions,
    pub(crate) endpoint: Endpoint,
    /// Tokens of a Google Cloud project.
    tokens: Option<TokenSource>,
    /// Models of utility requests that the service does not offer.
    missing: Mutex<Vec<String>>,
    /// Generation settings that models do not accept.
    rejected: RejectedSettings,
}

impl ClientState {
    /// Returns the headers with the token of a Google Cloud project; `None` for keys.
    pub(crate) fn authorize(&self) -> Option<BoxFuture<'_, Result<HeaderMap, ModelError>>> {
        let tokens = self.tokens.as_ref()?;
        let Auth::VertexProject { project, .. } = &self.options.auth else { return None };
        Some(Box::pin(async move {
            let failed = |message: String| ModelError::Auth { status: None, message };
            let token = tokens.token().await.map_err(|error| failed(error.to_string()))?;
            let invalid = |_| failed("the token contains invalid characters".to_owned());
            let mut headers = HeaderMap::new();
            let mut bearer: HeaderValue = format!("Bearer {token}").parse().map_err(invalid)?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
            let payer = tokens.quota_project().await.unwrap_or_else(|| project.clone());
            if let Ok(payer) = payer.parse() {
                headers.insert("x-goog-user-project", payer);
            }
            Ok(headers)
        }))
    }

    /// Returns the id of a model at the service.
    fn model_id<'a>(&self, name: &'a str) -> &'a str {
        let prefix = self.options.prefix.as_deref();
        let id = prefix.and_then(|prefix| name.strip_prefix(prefix)?.strip_prefix(':'));
        id.unwrap_or(name)
    }
}

impl Gemini {
    /// Creates the model.
    ///
    /// # Errors
    /// Returns an error if a base URL is invalid.
    pub fn new(options: GeminiOptions) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::new(
            &options.auth,
            &EndpointParts {
                explicit: options.base_url.as_deref(),
                gemini_base: options.gemini_base_url.as_deref(),
                vertex_base: options.vertex_base_url.as_deref(),
                location: options.location.as_deref(),
                version: options.api_version.as_deref(),
            },
        )?;
        let mut transport = options.transport.clone();
        transport.secrets.extend(options.auth.key().cloned());
        transport.secrets.extend(secret_values(&options.custom_headers));
        let models = options.models.clone();
        let tokens = matches!(options.auth, Auth::VertexProject { .. }).then(|| {
            let http = ClientOptions {
                proxy: transport.proxy.clone(),
                extra_roots: transport.extra_roots.clone(),
                ..ClientOptions::default()
            };
            let scopes = vec![CLOUD_PLATFORM.to_owned()];
            TokenSource::new(TokenPurpose::Access(scopes), &options.variables, &http)
        });
        let inner = Arc::new(ClientState {
            options,
            endpoint,
            tokens,
            missing: Mutex::default(),
            rejected: RejectedSettings::default(),
        });
        let model = HttpModel::new(GeminiWire(inner.clone()), transport, models);
        Ok(Self { model, inner })
    }

    /// Loads the trust store and opens a connection while the user types, to speed up the first
    /// request. No key is sent; failures are ignored. Does nothing for a plain `http://` base.
    pub async fn warm_up(&self) {
        self.transport().warm_up(self.inner.endpoint.base()).await;
    }

    /// Returns the base URL of the service.
    pub fn base_url(&self) -> &Url {
        self.inner.endpoint.base()
    }

    pub(crate) fn inner(&self) -> &ClientState {
        &self.inner
    }

    pub(crate) fn transport(&self) -> &Transport {
        self.model.transport()
    }

    /// Returns the models of the service that generate text. Vertex AI has no list.
    ///
    /// # Errors
    /// Returns an error if the service cannot be reached in time or rejects the request.
    pub async fn list(&self, limit: Duration) -> Result<Vec<ListedModel>, ModelError> {
        self.model.list(limit).await
    }

    fn lock_missing(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.inner.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a utility request. If its model does not exist for this key, the next one of the table
    /// is used.
    async fn answer(
        self,
        mut request: Request,
        cancel: CancellationToken,
    ) -> Result<Answer, ModelError> {
        loop {
            let model = request.model.clone();
            let models = &self.inner.options.models;
            let replacement = models.replacement(&model).filter(|_| is_utility(&request));
            let replacement = replacement.map(str::to_owned);
            if let Some(other) = &replacement
                && self.lock_missing().contains(&model)
            {
                request.model.clone_from(other);
                continue;
            }
            let retry_request = replacement.is_some().then(|| request.clone());
            let call = self.model.call(request, ResponseMode::Whole);
            match (call.collect(&cancel).await, replacement, retry_request) {
                (Err(ModelError::ModelNotFound { .. }), Some(other), Some(mut retry_request)) => {
                    tracing::info!(%model, %other, "the model does not exist; using another one");
                    self.lock_missing().push(model);
                    retry_request.model = other;
                    request = retry_request;
                }
                (result, _, _) => return result,
            }
        }
    }
}

impl Model for Gemini {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        self.model.stream(request, cancel)
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        Box::pin(self.clone().answer(request, cancel))
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        self.model.catalog()
    }

    fn server_address(&self, model: &str) -> Option<ServerAddress> {
        self.model.server_address(model)
    }
}

struct GeminiWire(Arc<ClientState>);

impl Wire for GeminiWire {
    fn base(&self) -> &Url {
        self.0.endpoint.base()
    }

    fn http_request(
        &self,
        request: &Request,
        delivery: ResponseMode,
        attempt: SendAttempt<'_>,
    ) -> Result<HttpRequest, ModelError> {
        let options = &self.0.options;
        let is_retry = attempt.number > 1 || request.is_retry;
        let parts = HeaderParts {
            bearer: options.bearer,
            custom: &options.custom_headers,
            user_agent: &user_agent(&options.version, &request.model, &options.surface),
            vertex_request_type: options.vertex_request_type.as_deref(),
            vertex_shared_request_type: options.vertex_shared_request_type.as_deref(),
        };
        let headers = headers(&options.auth, &parts).map_err(|_| ModelError::Auth {
            status: None,
            message: "the API key contains characters that are invalid in an HTTP header: \
                set `GEMINI_API_KEY` (or `GOOGLE_API_KEY`) again"
                .to_owned(),
        })?;
        let method = match delivery {
            ResponseMode::Stream => endpoint::Method::Stream,
            ResponseMode::Whole => endpoint::Method::Generate,
        };
        let mut settings = generation_settings(request, &options.models, is_retry);
        self.0.rejected.filter(&request.model, &mut settings);
        Ok(HttpRequest {
            url: self.0.endpoint.url(self.0.model_id(&request.model), method),
            headers,
            body: body_with_settings(request, settings, attempt.continuation).into(),
        })
    }

    fn authorize(&self) -> Option<BoxFuture<'_, Result<HeaderMap, ModelError>>> {
        self.0.authorize()
    }

    fn reject_authorization(&self, headers: &HeaderMap) -> Option<BoxFuture<'_, bool>> {
        let tokens = self.0.tokens.as_ref()?;
        let bearer = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let token = bearer.strip_prefix("Bearer ")?.to_owned();
        Some(Box::pin(async move {
            tokens.reject(&token).await;
            true
        }))
    }

    fn listing(&self) -> Option<(Url, HeaderMap)> {
        let options = &self.0.options;
        let parts = HeaderParts {
            bearer: options.bearer,
            custom: &options.custom_headers,
            user_agent: &user_agent(&options.version, "", &options.surface),
            vertex_request_type: None,
            vertex_shared_request_type: None,
        };
        Some((self.0.endpoint.models_url()?, headers(&options.auth, &parts).ok()?))
    }

    fn read_listing(&self, response: &Value) -> Vec<ListedModel> {
        listing::read(response)
    }

    fn decoder(&self, _request: &Request, _delivery: ResponseMode) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder)
    }

    fn classify(&self, response: &ErrorResponse) -> ErrorClass {
        classify(response)
    }

    fn recover(&self, response: &ErrorResponse, request: &mut Request) -> Option<ImmediateRetry> {
        let settings = generation_settings(request, &self.0.options.models, request.is_retry);
        self.0.rejected.learn(response, &request.model, &settings)
    }

    fn credentials_hint(&self) -> String {
        match self.0.options.auth {
            Auth::VertexProject { .. } => PROJECT_CREDENTIALS.to_owned(),
            _ => CREDENTIALS.to_owned(),
        }
    }
}

/// Each event is a chunk.
struct GeminiDecoder;

impl Decoder for GeminiDecoder {
    fn event(&mut self, data: &[u8], chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        let chunk = read_chunk(data).map_err(|error| match error {
            ChunkError::NotJson => EventError::NotJson,
            ChunkError::Refused(payload) => EventError::Refused(payload),
        })?;
        chunks.push_back(chunk);
        Ok(())
    }
}
