//! Lists the models of all providers: those known without a request, and those that providers
//! report.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parallax_model_http::ListedModel;
use parallax_models::{ModelCapabilities, ModelTable, Provider, ThinkingControl};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::price::Price;

use crate::credential::model_failure;
use crate::{ProviderManager, ProviderModels, discovered_models, failure};

/// A model that can be selected.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownModel {
    /// Full name, as for `--model`.
    pub name: String,
    /// Name of the provider.
    pub provider: String,
    /// Display name or short description; may be empty.
    pub description: String,
    /// Context window in tokens.
    pub context_window: u64,
    /// Whether the provider or the settings state the context window; otherwise it is a guess.
    pub context_is_known: bool,
    /// Maximum output in tokens.
    pub max_output: u64,
    /// The list price, if known.
    pub price: Option<Price>,
    /// The kinds of input, and how its thinking is controlled.
    pub abilities: ModelCapabilities,
}

impl KnownModel {
    /// Returns the same model of Vertex AI.
    pub fn for_vertex(&self) -> Self {
        let name = format!("vertex:{}", self.name);
        Self { name, provider: "vertex".to_owned(), ..self.clone() }
    }
}

/// The models of a provider, or why they could not be listed.
#[derive(Debug)]
pub struct ProviderListing {
    /// Name of the provider.
    pub provider: String,
    /// The base URL.
    pub base_url: String,
    /// The models.
    pub models: Result<Vec<KnownModel>, Failure>,
}

impl ProviderManager {
    /// Returns the models of the Gemini API and of the settings, which are known without a request.
    pub fn models_without_request(&self) -> Vec<KnownModel> {
        let table = self.model_table();
        let google = table
            .choices()
            .into_iter()
            .filter(|it| it.name == it.model)
            .map(|choice| to_known_model(&table, "gemini", choice.name, choice.doc, None));
        let google: Vec<KnownModel> = google.collect();
        // Vertex AI has no list; it offers the models of the Gemini API.
        let vertex_models: Vec<KnownModel> = match self.has_additional_vertex() {
            true => google.iter().map(KnownModel::for_vertex).collect(),
            false => Vec::new(),
        };
        let configured_models = table.providers().iter().flat_map(|provider| {
            provider.models.iter().map(|model| {
                let listed = ListedModel {
                    context_window: model.context_window,
                    max_output: model.max_output,
                    ..ListedModel::default()
                };
                let name = format!("{}:{}", provider.name, model.id);
                to_known_model(&table, &provider.name, name, String::new(), Some(&listed))
            })
        });
        google.into_iter().chain(vertex_models).chain(configured_models).collect()
    }

    /// Returns the thinking levels of a model; none if they are unknown.
    pub fn thinking_levels(&self, model: &str) -> Vec<String> {
        let table = self.model_table();
        match table.capabilities(&table.resolve(model)).thinking {
            ThinkingControl::Levels(levels) => levels,
            ThinkingControl::Unknown | ThinkingControl::Off | ThinkingControl::Budget => Vec::new(),
        }
    }

    /// Like [`ProviderManager::list_models`], for a blocking thread of the runtime.
    pub fn list_models_blocking(
        &self,
        only: Option<&str>,
        limit: Duration,
    ) -> Vec<ProviderListing> {
        tokio::runtime::Handle::current().block_on(self.list_models(only, limit))
    }

    /// Requests the models of all providers in parallel. Providers without a key are skipped unless
    /// `only` names them.
    pub async fn list_models(&self, only: Option<&str>, limit: Duration) -> Vec<ProviderListing> {
        let table = Arc::new(self.model_table());
        let clients = ProviderModels::new(self.clone(), table.clone(), &SessionId(String::new()));
        let is_selected = |provider: &&Provider| match only {
            Some(name) => provider.name == name,
            None => true,
        };
        let listings = table.providers().iter().filter(is_selected).map(|provider| {
            let (clients, owned) = (clients.clone(), provider.clone());
            // Getting the key may block on a keychain or a command.
            let client_task = tokio::task::spawn_blocking(move || clients.http_model(&owned));
            async move {
                let opened = tokio::time::timeout(limit, client_task).await;
                let models = match opened.unwrap_or_else(|_| Ok(Err(key_timeout_failure(limit)))) {
                    Err(stopped) => Err(failure(FailureKind::Config, stopped.to_string())),
                    Ok(client) => match client {
                        Ok(Some(client)) => {
                            let listed = client.list(limit).await.map_err(model_failure);
                            if let Ok(listed) = &listed {
                                self.cache_discovered(provider, listed).await;
                            }
                            listed
                        }
                        Ok(None) => Ok(Vec::new()),
                        // The provider is not configured.
                        Err(_) if only.is_none() => return None,
                        Err(failure) => Err(failure),
                    },
                };
                // A local server at its default address may not exist.
                if only.is_none() && models.is_err() && !provider.is_configured() {
                    return None;
                }
                let models = models.map(|models| {
                    // With what was just cached.
                    let table = self.model_table();
                    let known = models.into_iter().map(|it| {
                        let name = format!("{}:{}", provider.name, it.id);
                        let description = it.name.clone().unwrap_or_default();
                        to_known_model(&table, &provider.name, name, description, Some(&it))
                    });
                    known.collect()
                });
                Some(ProviderListing {
                    provider: provider.name.clone(),
                    base_url: provider.base_url.clone(),
                    models,
                })
            }
        });
        join_all(listings).await.into_iter().flatten().collect()
    }
}

impl ProviderManager {
    /// Requests the models of the Gemini API, with the credentials of a session; `None` without
    /// credentials.
    pub async fn list_gemini_models(&self, limit: Duration) -> Option<ProviderListing> {
        let table = Arc::new(self.model_table());
        let clients = ProviderModels::new(self.clone(), table, &SessionId(String::new()));
        // Getting the key may block on a keychain.
        let client_task = tokio::task::spawn_blocking(move || clients.gemini(false));
        let client = match tokio::time::timeout(limit, client_task).await {
            Ok(Ok(client)) => client.ok()?,
            Ok(Err(_)) | Err(_) => return None,
        };
        let listed = client.list(limit).await.map_err(model_failure);
        if let Ok(listed) = &listed {
            let (dirs, base_url, listed) =
                (self.config.dirs.clone(), self.gemini_base_url(), listed.clone());
            let caching = move || {
                discovered_models::cache_gemini_models(&dirs, &base_url, &listed);
            };
            // A failure is logged.
            let _ = tokio::task::spawn_blocking(caching).await;
        }
        let models = listed.map(|models| {
            let table = self.model_table();
            let known = models.into_iter().map(|it| {
                let description = it.name.clone().unwrap_or_default();
                to_known_model(&table, "gemini", it.id.clone(), description, Some(&it))
            });
            known.collect()
        });
        let (provider, base_url) = ("gemini".to_owned(), client.base_url().to_string());
        Some(ProviderListing { provider, base_url, models })
    }

    /// Caches what a provider listed for later sessions.
    async fn cache_discovered(&self, provider: &Provider, listed: &[ListedModel]) {
        let (dirs, provider, listed) =
            (self.config.dirs.clone(), provider.clone(), listed.to_vec());
        let save_task = move || drop(discovered_models::cache_models(&dirs, &provider, &listed));
        // A failure is logged.
        let _ = tokio::task::spawn_blocking(save_task).await;
    }
}

/// Describes a model. `listed`: what its provider reported.
pub(crate) fn to_known_model(
    table: &ModelTable,
    provider: &str,
    name: String,
    description: String,
    listed: Option<&ListedModel>,
) -> KnownModel {
    let limits = table.limits(&name);
    let window = listed.and_then(|it| it.context_window);
    KnownModel {
        provider: provider.to_owned(),
        description,
        context_window: window.unwrap_or(limits.context),
        context_is_known: window.is_some()
            || provider == "gemini"
            || table.is_listed(&name)
            || table.has_discovered_window(&name),
        max_output: listed.and_then(|it| it.max_output).unwrap_or(limits.output),
        price: table.price(&name),
        abilities: table.capabilities(&name),
        name,
    }
}

fn key_timeout_failure(limit: Duration) -> Failure {
    let seconds = limit.as_secs_f32();
    failure(FailureKind::Auth, format!("its key could not be read within {seconds} s"))
}
