//! The models of all providers behind one [`Model`]. The prefix of a model name selects the
//! provider, which is opened at its first request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use parallax_anthropic::AnthropicOptions;
use parallax_devtools::SessionTap;
use parallax_gemini::{Auth, AuthKind, Gemini, GeminiOptions};
use parallax_model_http::{HttpModel, TransportOptions, WireTap};
use parallax_models::{ModelTable, Provider, WireKind};
use parallax_openai::{Api, OpenAiOptions};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::{
    Answer, Model, ModelCatalog, ModelError, Request, ServerAddress, StreamEvent,
};
use parallax_protocol::secret::{Secret, SecretRecipient};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken, Object};
use tokio_util::task::AbortOnDropHandle;

use crate::provider_keys::key_hint;
use crate::{ProviderManager, discovered_models, failure};

/// How long a connection to a server on this machine or network may take.
const LOCAL_CONNECT_TIME: Duration = Duration::from_millis(1500);
/// After how much silence of such a server a notice names it. It may be loading the model.
const SILENCE: Duration = Duration::from_millis(1900);
/// Map key of the Gemini API client.
const GEMINI: &str = "gemini";
/// The provider that reports details about its models.
const ANTHROPIC: &str = "anthropic";
/// Map key and prefix of models requested through Vertex AI, whatever the settings select.
const VERTEX: &str = "vertex";
const VERTEX_PREFIX: &str = "vertex:";
/// Timeout of requesting a model description.
const DESCRIPTION_LIMIT: Duration = Duration::from_secs(10);
/// Idle timeout of a response. Hosted models may think for minutes without sending anything.
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// The models of all providers.
#[derive(Clone)]
pub struct ProviderModels {
    pub(crate) manager: ProviderManager,
    pub(crate) table: Arc<ModelTable>,
    /// Identifies the session for prompt caches.
    session: String,
    open: Arc<Mutex<BTreeMap<String, Arc<dyn Model>>>>,
    secrets: Arc<Mutex<Vec<Secret>>>,
    /// The Anthropic client, used to describe models.
    model_describer: Arc<Mutex<Option<Arc<HttpModel>>>>,
    /// Running requests for descriptions by model; they end with the session.
    refreshes: Arc<Mutex<BTreeMap<String, AbortOnDropHandle<()>>>>,
    /// Observes requests and responses.
    tap: Option<Arc<SessionTap>>,
}

impl ProviderModels {
    /// Answers the requests of a session.
    pub fn new(manager: ProviderManager, table: Arc<ModelTable>, session: &SessionId) -> Self {
        Self {
            manager,
            table,
            session: session.to_string(),
            open: Arc::default(),
            secrets: Arc::default(),
            model_describer: Arc::default(),
            refreshes: Arc::default(),
            tap: None,
        }
    }

    /// Passes requests and responses to a tap.
    #[must_use]
    pub fn with_tap(mut self, tap: Option<&Arc<SessionTap>>) -> Self {
        self.tap = tap.cloned();
        self
    }

    /// Returns the API keys of the opened providers.
    pub fn secrets(&self) -> Vec<Secret> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the client for a model name. Blocks when it is opened.
    ///
    /// # Errors
    /// Returns an error if the prefix is unknown, or the provider's settings or credentials are
    /// invalid.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, Failure> {
        if let Some(message) = invalid_name(&self.table, name) {
            return Err(failure(FailureKind::Input, message));
        }
        let provider = self.table.providers().split(name).map(|(provider, _)| provider);
        let is_vertex = name.starts_with(VERTEX_PREFIX);
        if let Some(model) = self.find_open(name) {
            return Ok(model);
        }
        let key = self.provider_key(name);
        // Opened without holding the lock, so that a slow key command does not block other
        // providers.
        let model: Arc<dyn Model> = match provider {
            Some(provider) => self.provider(provider)?,
            None => Arc::new(self.gemini(is_vertex)?),
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let model = open.entry(key.to_owned()).or_insert(model).clone();
        drop(open);
        self.refresh_description(name);
        Ok(model)
    }

    /// Returns the client for a model name if an earlier request opened it.
    fn find_open(&self, name: &str) -> Option<Arc<dyn Model>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let model = open.get(self.provider_key(name)).cloned()?;
        drop(open);
        self.refresh_description(name);
        Some(model)
    }

    /// Returns the name of the provider of a model, under which its client is kept.
    fn provider_key(&self, model: &str) -> &str {
        match self.table.providers().split(model) {
            Some((provider, _)) => provider.name.as_str(),
            None if model.starts_with(VERTEX_PREFIX) => VERTEX,
            None => GEMINI,
        }
    }

    /// Closes the client for a model, so that the next request reads the key again.
    pub(crate) fn close(&self, model: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(self.provider_key(model));
    }

    fn transport(&self) -> TransportOptions {
        let settings = &self.manager.config.settings;
        let env = |name: &str| self.manager.config.environment.get(name).map(str::to_owned);
        let mut transport = TransportOptions::from_env(&env);
        transport.max_attempts = settings.max_attempts();
        transport.retry_fetch_errors = settings.retry_fetch_errors();
        if let Some(timeout) = settings.stream_idle_timeout() {
            transport.idle_timeout = timeout;
        }
        let values = self.manager.config.environment.secret_values(SecretRecipient::Provider);
        transport.secrets.extend(values);
        transport.tap = self.tap.clone().map(|tap| tap as Arc<dyn WireTap>);
        transport
    }

    /// Returns the client of the Gemini API or of Vertex AI. Blocking.
    ///
    /// # Errors
    /// Returns an error if its credentials are missing or invalid.
    pub(crate) fn gemini(&self, is_vertex: bool) -> Result<Gemini, Failure> {
        let env = |name: &str| self.manager.config.environment.get(name).map(str::to_owned);
        let (auth, _) = match is_vertex {
            true => self.manager.auth_of(Some(AuthKind::VertexAi.as_str()))?,
            false => self.manager.auth()?,
        };
        self.remember_secret(auth.key());
        let options = GeminiOptions {
            prefix: is_vertex.then(|| VERTEX.to_owned()),
            version: self.manager.version.to_owned(),
            models: self.table.clone(),
            transport: self.transport(),
            variables: self.manager.google_variables(),
            ..GeminiOptions::from_env(auth, &env)
        };
        Gemini::new(options).map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    fn provider(&self, provider: &Provider) -> Result<Arc<dyn Model>, Failure> {
        match self.http_model(provider)? {
            Some(model) => {
                let model = Arc::new(model);
                if provider.name == ANTHROPIC {
                    let mut describer =
                        self.model_describer.lock().unwrap_or_else(PoisonError::into_inner);
                    *describer = Some(model.clone());
                }
                Ok(model)
            }
            None => {
                let key = self.manager.provider_key(provider)?;
                self.remember_secret(key.as_ref().map(|it| &it.key));
                let mut options = GeminiOptions::new(Auth::Gateway(key.map(|it| it.key)));
                options.base_url = Some(provider.base_url.clone());
                options.custom_headers = provider.headers.clone();
                options.prefix = Some(provider.name.clone());
                options.version = self.manager.version.to_owned();
                options.models = self.table.clone();
                options.transport = self.transport();
                let gemini = Gemini::new(options);
                Ok(Arc::new(
                    gemini.map_err(|error| failure(FailureKind::Config, error.to_string()))?,
                ))
            }
        }
    }

    /// Requests the description of a model from Anthropic, at most once a day, in parallel to the
    /// first request.
    fn refresh_description(&self, name: &str) {
        let describer = self.model_describer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(client), Some((provider, id))) = (describer, self.table.providers().split(name))
        else {
            return;
        };
        let mut refreshes = self.refreshes.lock().unwrap_or_else(PoisonError::into_inner);
        if provider.name != ANTHROPIC || refreshes.contains_key(name) {
            return;
        }
        let (dirs, provider) = (self.manager.config.dirs.clone(), provider.clone());
        let (id, table) = (id.to_owned(), self.table.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let description_task = runtime.spawn(async move {
            let (task_dirs, of, model) = (dirs.clone(), provider.clone(), id.clone());
            let look = move || discovered_models::is_fresh(&task_dirs, &of, &model);
            if tokio::task::spawn_blocking(look).await.unwrap_or(true) {
                return;
            }
            match client.describe(&id, DESCRIPTION_LIMIT).await {
                Ok(Some(model)) => {
                    let save_task =
                        move || discovered_models::cache_models(&dirs, &provider, &[model]);
                    if let Ok(models) = tokio::task::spawn_blocking(save_task).await {
                        table.discover(models);
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::debug!("no description of `{id}`: {error}"),
            }
        });
        refreshes.insert(name.to_owned(), AbortOnDropHandle::new(description_task));
    }

    /// Returns the client of a provider, or `None` if it uses the Gemini API.
    ///
    /// # Errors
    /// Returns an error if its settings or credentials are invalid.
    pub(crate) fn http_model(&self, provider: &Provider) -> Result<Option<HttpModel>, Failure> {
        if provider.wire == WireKind::Gemini {
            return Ok(None);
        }
        let key = self.manager.provider_key(provider)?;
        self.remember_secret(key.as_ref().map(|it| &it.key));
        let mut transport = self.transport();
        if transport.idle_timeout == TransportOptions::default().idle_timeout {
            transport.idle_timeout = IDLE_LIMIT;
        }
        if provider.is_local() || provider.is_on_loopback() {
            // Retrying does not help with a server on this machine.
            transport.connect_attempts = 1;
            transport.connect_timeout = Some(LOCAL_CONNECT_TIME);
            transport.silence_notice = Some(SILENCE);
        }
        let version = self.manager.version.to_owned();
        let api = match provider.wire {
            WireKind::OpenAiResponses => Api::Responses,
            WireKind::OpenAiChat | WireKind::Gemini => Api::Chat,
            WireKind::Ollama => Api::Ollama,
            WireKind::Anthropic => {
                let bearer = key.as_ref().is_some_and(|it| it.bearer);
                let options = AnthropicOptions {
                    base_url: provider.base_url.clone(),
                    base_url_source: provider.base_url_source.clone(),
                    key: key.map(|it| it.key),
                    bearer,
                    credentials_hint: key_hint(provider),
                    headers: provider.headers.clone(),
                    version,
                    transport,
                };
                let model = parallax_anthropic::model(options, self.table.clone());
                return model
                    .map(Some)
                    .map_err(|error| failure(FailureKind::Config, error.to_string()));
            }
        };
        let is_router = provider.name == "openrouter";
        let options = OpenAiOptions {
            api,
            provider: provider.name.clone(),
            base_url: provider.base_url.clone(),
            base_url_source: provider.base_url_source.clone(),
            key: key.map(|it| it.key),
            credentials_hint: key_hint(provider),
            headers: provider.headers.clone(),
            version,
            quirks: provider.quirks.clone(),
            routing: provider.routing.clone().or_else(|| is_router.then(Object::new)),
            is_local: provider.is_local(),
            cache_key: Some(self.session.clone()),
            transport,
        };
        let model = parallax_openai::model(options, self.table.clone());
        model.map(Some).map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    fn remember_secret(&self, key: Option<&Secret>) {
        if let Some(tap) = &self.tap {
            tap.add_secrets(key.map(|key| key.expose().to_owned()));
        }
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).extend(key.cloned());
    }

    /// Returns the client for a request. It is opened on a blocking thread, because getting the key
    /// may need a keychain or a command; once open, it costs a request nothing.
    pub(crate) async fn client(
        self,
        name: String,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Model>, ModelError> {
        if invalid_name(&self.table, &name).is_none()
            && let Some(model) = self.find_open(&name)
        {
            return Ok(model);
        }
        let client_task = tokio::task::spawn_blocking(move || self.model(&name));
        let opened = tokio::select! {
            opened = client_task => opened,
            () = cancel.cancelled() => return Err(ModelError::Cancelled),
        };
        let stopped = |message: String| ModelError::BadRequest { status: 400, code: None, message };
        opened.map_err(|error| stopped(error.to_string()))?.map_err(|failed| match failed.kind {
            FailureKind::Auth => ModelError::Auth { status: None, message: failed.message },
            _ => stopped(failed.message),
        })
    }
}

impl Model for ProviderModels {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        self.clone().stream_renewing_key(request, cancel).into_stream().flatten().boxed()
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        Box::pin(self.clone().generate_renewing_key(request, cancel))
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        &*self.table
    }

    fn server_address(&self, model: &str) -> Option<ServerAddress> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = open.get(self.provider_key(model))?;
        opened.server_address(model)
    }
}

/// Returns the error for a model name without a provider that exists, or without a model, which
/// every request would have.
pub(crate) fn invalid_name(table: &ModelTable, name: &str) -> Option<String> {
    let providers = table.providers();
    if let Some(prefix) = providers.unknown_prefix(name).filter(|_| !table.is_known_name(name)) {
        let known = providers.prefixes();
        return Some(format!(
            "unknown provider `{prefix}` in the model name `{name}`: use one of {known}, or define \
             `providers.{prefix}` in the settings"
        ));
    }
    if providers.get(name).is_some() && !table.is_known_name(name) {
        return Some(format!(
            "`{name}` is a provider: name one of its models as `{name}:MODEL`; `parallax models list \
             {name}` lists them"
        ));
    }
    let (provider, id) = match providers.split(name) {
        Some((provider, id)) => (provider.name.as_str(), id),
        None => ("gemini", name.strip_prefix("gemini:").or(name.is_empty().then_some(""))?),
    };
    if id.trim().is_empty() {
        return Some(format!(
            "`{name}` lacks a model name: `parallax models list {provider}` lists the models"
        ));
    }
    id.contains(char::is_whitespace).then(|| format!("the model name `{name}` contains a space"))
}

/// Returns the full names that a name without a prefix, or with one in another form
/// (`openai/gpt-…`), may mean.
pub(crate) fn with_prefix(table: &ModelTable, name: &str) -> Vec<String> {
    let id = name.rsplit('/').next().unwrap_or(name);
    let full = table.providers().iter().map(|provider| format!("{}:{id}", provider.name));
    let mut found: Vec<String> = full.filter(|name| table.is_listed(name)).collect();
    found.sort();
    found.truncate(SUGGESTED);
    found
}

/// Maximum number of suggested names.
const SUGGESTED: usize = 3;
