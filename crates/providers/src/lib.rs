//! The model providers: their keys, the models they list, and one [`Model`] for all of them.
//!
//! [`ProviderManager`] is what a front end uses; [`ProviderModels`] answers the requests of a
//! session.
//!
//! [`Model`]: parallax_protocol::model::Model

pub mod credential;
mod discovered_models;
mod google_credentials;
mod key_renewal;
mod key_validation;
pub mod model_listing;
pub mod model_test;
pub mod provider_credentials;
mod provider_keys;
mod provider_models;

use std::sync::Arc;

use parallax_config::Config;
use parallax_models::{ModelChoice, ModelTable, Providers};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::secret::Secret;

use crate::provider_credentials::KeySource;

pub use model_test::{ModelTestReport, TestStep};
pub use provider_models::ProviderModels;

/// Lists and tests the models of the providers, and manages their keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProviderManager {
    /// The configuration of the user and the project.
    pub config: Arc<Config>,
    /// The authentication method to use instead of the selected one, as in
    /// `security.auth.selectedType`.
    pub auth_method: Option<String>,
    /// Version of the program, sent to the provider.
    pub version: &'static str,
    /// The requested model.
    pub model: String,
    /// Whether a script or a recording provides the responses.
    pub is_scripted: bool,
    /// A key to use for the named provider instead of the configured one, to verify it before it is
    /// stored.
    pub typed_key: Option<(String, Secret)>,
}

impl ProviderManager {
    /// Returns the model table with additions from settings.
    pub fn model_table(&self) -> ModelTable {
        // A session with invalid model settings cannot be opened.
        self.checked_model_table().unwrap_or_default()
    }

    /// Returns the model table with the providers of the settings.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid.
    pub fn checked_model_table(&self) -> Result<ModelTable, Failure> {
        let settings = &self.config.settings;
        let table = settings
            .model_configs()
            .map_or_else(|| Ok(ModelTable::default()), ModelTable::from_settings)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        // A project's variables must not change where the user's API keys are sent.
        let env = |name: &str| self.config.user_variable(name).map(str::to_owned);
        let providers = Providers::from_settings(settings.providers(), &env)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        let (providers, dirs) = (Arc::new(providers), self.config.dirs.clone());
        let of = Arc::clone(&providers);
        let stored = Arc::new(move || discovered_models::read(&dirs, &of));
        let (dirs, base_url) = (self.config.dirs.clone(), self.gemini_base_url());
        let cached_gemini_models =
            Arc::new(move || discovered_models::read_gemini(&dirs, &base_url));
        let table = table.with_max_attempts(settings.max_attempts()).with_providers(providers);
        Ok(table.with_discovered(stored).with_discovered_gemini(cached_gemini_models))
    }

    /// Returns the configured base URL of the Gemini API; empty: the default.
    fn gemini_base_url(&self) -> String {
        let url = self.config.environment.get("GOOGLE_GEMINI_BASE_URL");
        url.unwrap_or_default().trim_end_matches('/').to_owned()
    }

    /// Returns the models for the model dialog, built-in names first.
    pub fn model_choices(&self) -> Vec<ModelChoice> {
        self.model_table().choices()
    }

    /// Returns the names of the models of providers that are known without a request; of the
    /// built-in table, those of providers with a key. Reads no key from a keychain. Blocking.
    pub fn models_of_providers(&self) -> Vec<String> {
        // A session with invalid settings cannot be opened.
        let credentials = self.provider_credentials().unwrap_or_default();
        let with_key = |name: &str| {
            let found = credentials.iter().find(|it| it.provider == name);
            found.is_some_and(|it| {
                matches!(it.source, KeySource::Variable(_) | KeySource::Command | KeySource::Stored)
            })
        };
        let mut names = self.model_table().provider_model_names(with_key);
        if self.has_additional_vertex() {
            let vertex_models = self.models_without_request().into_iter();
            names.extend(vertex_models.filter(|it| it.provider == "vertex").map(|it| it.name));
        }
        names
    }

    /// Returns the name of the requested model with aliases resolved.
    pub fn resolved_model(&self) -> String {
        self.model_table().resolve(&self.model)
    }

    /// Returns the error for a model name that no provider can have.
    pub fn model_error(&self, name: &str) -> Option<String> {
        provider_models::invalid_name(&self.model_table(), name)
    }

    /// Returns a warning about a model name that this version does not know.
    pub fn model_warning(&self, name: &str) -> Option<String> {
        let table = self.model_table();
        if table.is_known_name(name) {
            return None;
        }
        let choices = table.choices();
        let near =
            parallax_config::similar_names(name, choices.iter().map(|choice| choice.name.as_str()));
        let mut near: Vec<String> = near.into_iter().map(|name| format!("`{name}`")).collect();
        let other_provider_names = provider_models::with_prefix(&table, name);
        near.splice(0..0, other_provider_names.into_iter().map(|name| format!("`{name}`")));
        let suggestion = match near.is_empty() {
            true => String::new(),
            false => format!(" (did you mean {}?)", near.join(", ")),
        };
        let price = match table.price(&table.resolve(name)) {
            Some(_) => "",
            None => "; its price is unknown and not included in the cost",
        };
        Some(format!(
            "Unknown model `{name}`{suggestion}. It is requested as is, because the service or a \
             gateway may provide it{price}."
        ))
    }

    /// Returns the size of the model's context window in tokens.
    pub fn context_window(&self, model: &str) -> u64 {
        let table = self.model_table();
        table.limits(&table.resolve(model)).context
    }
}

/// Creates a failure that occurs before the session runs.
fn failure(kind: FailureKind, message: String) -> Failure {
    Failure { kind, message, status: None }
}
