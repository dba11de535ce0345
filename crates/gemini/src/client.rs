//! The Gemini API as a model.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_http::reqwest;
use parallax_http::{ClientOptions, Redirects};
use parallax_models::{ModelTable, is_utility};
use parallax_protocol::model::{Answer, Model, ModelCatalog, ModelError, Request, StreamEvent};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken};
use tokio::sync::OnceCell;

use crate::auth::Auth;
use crate::endpoint::{Endpoint, EndpointError, EndpointParts, Method};
use crate::model_call::ModelRequestCall;
use crate::retry::{Backoff, MAX_ATTEMPTS, UTILITY_ATTEMPTS};

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
    /// The user's headers ([`crate::parse_custom_headers`]).
    pub custom_headers: Vec<(String, String)>,
    /// `billing.vertexAi.requestType`.
    pub vertex_request_type: Option<String>,
    /// `billing.vertexAi.sharedRequestType`.
    pub vertex_shared_request_type: Option<String>,
    /// The version in `User-Agent`.
    pub version: String,
    /// The user's surface in `User-Agent` (`GEMINI_CLI_SURFACE`).
    pub surface: String,
    /// The configured proxy; `None` = the system's.
    pub proxy: Option<String>,
    /// PEM files with additional trusted roots.
    pub extra_roots: Vec<PathBuf>,
    /// The model table.
    pub models: Arc<ModelTable>,
    /// `general.maxAttempts`: 1 to 10.
    pub max_attempts: u32,
    /// How long a stream, or the wait for it, may be silent.
    pub idle_timeout: Duration,
    /// `general.retryFetchErrors`: whether unclear network errors and truncated JSON are retried.
    pub retry_fetch_errors: bool,
    pub(crate) backoff: Backoff,
}

impl GeminiOptions {
    /// The defaults with these credentials.
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
            version: env!("CARGO_PKG_VERSION").to_owned(),
            surface: "terminal".to_owned(),
            proxy: None,
            extra_roots: Vec::new(),
            models: Arc::default(),
            max_attempts: MAX_ATTEMPTS,
            idle_timeout: Duration::from_secs(120),
            retry_fetch_errors: true,
            backoff: Backoff::default(),
        }
    }

    /// The defaults with the environment: base URLs, API version, key mechanism, custom headers,
    /// surface, extra roots. `PARALLAX_RETRY_BASE_MS` shortens the backoff, for tests against
    /// scripted servers.
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
            options.custom_headers = crate::parse_custom_headers(&text);
        }
        if let Some(surface) = get("GEMINI_CLI_SURFACE") {
            options.surface = surface;
        }
        options.extra_roots = parallax_http::extra_roots_from_env(env);
        options.backoff = Backoff::from_env(get("PARALLAX_RETRY_BASE_MS").as_deref());
        options
    }
}

/// The Gemini API. Cheap to create: nothing is loaded or opened before the first request.
#[derive(Clone)]
pub struct Gemini {
    inner: Arc<ClientState>,
}

pub(crate) struct ClientState {
    pub(crate) options: GeminiOptions,
    pub(crate) endpoint: Endpoint,
    client: OnceCell<reqwest::Client>,
    /// Models of utility requests that the service does not have.
    missing: Mutex<Vec<String>>,
}

impl Gemini {
    /// Creates the model.
    ///
    /// # Errors
    /// When a base URL is invalid.
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
        let inner =
            ClientState { options, endpoint, client: OnceCell::new(), missing: Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Loads the trust store and opens a connection while the user types, to speed up the first
    /// request. No key is sent; failures are ignored. Does nothing for a plain `http://` base.
    pub async fn warm_up(&self) {
        if self.inner.endpoint.is_plain() {
            return;
        }
        if let Ok(client) = self.inner.client().await {
            let request = client.head(self.inner.endpoint.base().clone());
            let _ = request.timeout(Duration::from_secs(10)).send().await;
        }
    }
}

impl Gemini {
    pub(crate) fn inner(&self) -> &ClientState {
        &self.inner
    }
}

impl ClientState {
    /// The client, built on first use and off the async threads.
    pub(crate) async fn client(&self) -> Result<&reqwest::Client, ModelError> {
        self.client
            .get_or_try_init(|| async {
                let options = ClientOptions {
                    proxy: self.options.proxy.clone(),
                    system_proxy: !self.endpoint.is_local(),
                    extra_roots: self.options.extra_roots.clone(),
                    redirects: Redirects::None,
                    plain_http: self.endpoint.is_plain(),
                    ..ClientOptions::default()
                };
                let failed = |message: String| ModelError::Unavailable {
                    status: None,
                    delay: None,
                    class: "network",
                    message,
                };
                if options.plain_http {
                    return parallax_http::client(&options).map_err(|e| failed(e.to_string()));
                }
                tokio::task::spawn_blocking(move || parallax_http::client(&options))
                    .await
                    .map_err(|error| failed(error.to_string()))?
                    .map_err(|error| failed(error.to_string()))
            })
            .await
    }

    /// Redacts our secrets in a text from outside.
    pub(crate) fn redact(&self, text: String) -> String {
        match self.options.auth.key().map(|key| key.expose()) {
            Some(key) if key.len() >= 8 && text.contains(key) => text.replace(key, "[secret]"),
            _ => text,
        }
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a utility request. If its model does not exist for this key, the next one of the table
    /// is used.
    async fn answer(
        self: Arc<Self>,
        mut request: Request,
        cancel: CancellationToken,
    ) -> Result<Answer, ModelError> {
        loop {
            let model = request.model.clone();
            let replacement = self
                .options
                .models
                .replacement(&model)
                .filter(|_| is_utility(&request))
                .map(str::to_owned);
            if let Some(other) = &replacement
                && self.missing().contains(&model)
            {
                request.model.clone_from(other);
                continue;
            }
            let again = replacement.is_some().then(|| request.clone());
            let call =
                ModelRequestCall::new(self.clone(), request, Method::Generate, UTILITY_ATTEMPTS);
            match (call.collect(&cancel).await, replacement, again) {
                (Err(ModelError::ModelNotFound { .. }), Some(other), Some(mut again)) => {
                    tracing::info!(%model, %other, "the model is not there, another is asked");
                    self.missing().push(model);
                    again.model = other;
                    request = again;
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
        let attempts = self.inner.options.max_attempts;
        ModelRequestCall::new(self.inner.clone(), request, Method::Stream, attempts)
            .into_stream(cancel)
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        Box::pin(self.inner.clone().answer(request, cancel))
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        &*self.inner.options.models
    }
}
