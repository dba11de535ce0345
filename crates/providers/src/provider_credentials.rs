//! API keys of providers: finding, verifying, and storing them.

use std::time::Duration;

use parallax_models::{ModelTable, Provider, Providers, hosted_providers};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::secret::Secret;

use crate::key_validation::require_valid_key;
use crate::{ProviderManager, failure};

/// Timeout of verifying a key.
const CHECK_LIMIT: Duration = Duration::from_secs(20);

/// The prefixes of Google's services.
const GOOGLE: [&str; 2] = ["gemini", "vertex"];

/// Where the key of a provider comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// This environment variable.
    Variable(String),
    /// The command in the settings that prints it.
    Command,
    /// Parallax's own storage.
    Stored,
    /// No key was found.
    Missing,
    /// No key is needed.
    NotNeeded,
    /// The credentials of a Google Cloud project.
    Project,
}

/// A provider and the source of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCredential {
    /// Name of the provider.
    pub provider: String,
    /// The base URL.
    pub base_url: String,
    /// Environment variables that may contain a key.
    pub variables: Vec<String>,
    /// Source of the key.
    pub source: KeySource,
}

impl ProviderCredential {
    /// Returns the source of the key and the provider, for messages.
    pub fn description(&self) -> String {
        let provider = &self.provider;
        match &self.source {
            KeySource::Variable(name) => format!("`{name}` (`{provider}`)"),
            KeySource::NotNeeded => format!("the provider `{provider}`"),
            _ => format!("a key of `{provider}`"),
        }
    }
}

/// A key that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedKey {
    /// Whether it is in the system keychain; otherwise it is in a file.
    pub in_keychain: bool,
    /// Why it could not be verified.
    pub unchecked: Option<String>,
}

impl ProviderManager {
    /// Returns all providers with the sources of their keys. Reads no key from a keychain.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if the file of stored keys is invalid.
    pub fn provider_credentials(&self) -> Result<Vec<ProviderCredential>, Failure> {
        let stored = parallax_config::stored_providers(&self.config.dirs)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        let table = self.checked_model_table()?;
        Ok(table.providers().iter().map(|it| self.credential_of(it, &stored)).collect())
    }

    /// Returns the hosted providers for which there is a key. Reads no key from a keychain.
    /// Blocking.
    pub fn hosted_credentials(&self) -> Vec<ProviderCredential> {
        // A session with invalid settings cannot be opened.
        let mut credentials = self.provider_credentials().unwrap_or_default();
        credentials.retain(|credential| {
            let is_hosted =
                hosted_providers().any(|(name, _)| name == credential.provider.as_str());
            is_hosted && credential.source != KeySource::Missing
        });
        credentials
    }

    /// Returns the well-known local servers whose address is set. They may not be running.
    pub(crate) fn local_servers_with_address(&self) -> Vec<ProviderCredential> {
        let table = self.model_table();
        let built_in = Providers::built_in(&|_| None);
        let is_found = |it: &&Provider| {
            !it.needs_key && built_in.get(&it.name).is_some() && it.is_configured()
        };
        table.providers().iter().filter(is_found).map(|it| self.credential_of(it, &[])).collect()
    }

    /// Returns the providers of the settings (`providers`), except for those that are built in.
    /// Blocking.
    pub fn providers_of_settings(&self) -> Vec<ProviderCredential> {
        let built_in = Providers::built_in(&|_| None);
        let entries = self.config.settings.providers().and_then(serde_json::Value::as_object);
        let is_own = |name: &str| {
            entries.is_some_and(|all| all.contains_key(name)) && built_in.get(name).is_none()
        };
        // A session with invalid settings cannot be opened.
        let mut credentials = self.provider_credentials().unwrap_or_default();
        credentials.retain(|credential| is_own(&credential.provider));
        credentials
    }

    pub(crate) fn credential_of(
        &self,
        provider: &Provider,
        stored: &[String],
    ) -> ProviderCredential {
        let variables: Vec<String> =
            provider.key_variables.iter().chain(&provider.token_variables).cloned().collect();
        let is_set = |name: &&String| {
            self.config.environment.get(name).is_some_and(|value| !value.trim().is_empty())
        };
        let source = match variables.iter().find(is_set) {
            Some(name) => KeySource::Variable(name.clone()),
            None if provider.key_command.is_some() => KeySource::Command,
            None if stored.contains(&provider.name) => KeySource::Stored,
            None if provider.needs_key => KeySource::Missing,
            None => KeySource::NotNeeded,
        };
        ProviderCredential {
            provider: provider.name.clone(),
            base_url: provider.base_url.clone(),
            variables,
            source,
        }
    }

    /// Checks that a provider exists and returns the model table.
    ///
    /// # Errors
    /// Returns an error that lists the known providers if it does not exist.
    pub fn require_provider(&self, name: &str) -> Result<ModelTable, Failure> {
        let table = self.checked_model_table()?;
        if table.providers().get(name).is_some() {
            return Ok(table);
        }
        let known: Vec<String> = GOOGLE
            .into_iter()
            .chain(table.providers().iter().map(|it| it.name.as_str()))
            .map(|name| format!("`{name}`"))
            .collect();
        Err(failure(
            FailureKind::Input,
            format!(
                "unknown provider `{name}`: use one of {}, or define `providers.{name}` in the \
                    settings",
                known.join(", ")
            ),
        ))
    }

    /// Returns the names of the providers that need a key.
    pub fn providers_with_keys(&self) -> Vec<String> {
        let table = self.model_table();
        let providers = table.providers().iter().filter(|provider| provider.needs_key);
        providers.map(|provider| provider.name.clone()).collect()
    }

    /// Checks that the key of a provider is available. Blocking.
    ///
    /// # Errors
    /// Returns an error if the provider is unknown or its key is missing.
    pub fn require_provider_key(&self, name: &str) -> Result<(), Failure> {
        let table = self.require_provider(name)?;
        match table.providers().get(name) {
            Some(provider) => self.provider_key(provider).map(drop),
            None => Ok(()),
        }
    }

    /// Stores the key of a provider. Returns whether it is in the system keychain. Blocking.
    ///
    /// # Errors
    /// Returns an error if the provider is unknown, the key is empty, or the file cannot be
    /// written.
    pub fn store_provider_key(&self, provider: &str, key: &Secret) -> Result<bool, Failure> {
        self.require_provider(provider)?;
        let key = Secret::new(key.expose().trim());
        require_valid_key(&key)?;
        let config = &self.config;
        parallax_config::store_provider_key(&config.dirs, &config.keychain, provider, &key)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Returns the stored key of a provider. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file is invalid or the keychain does not respond.
    pub fn stored_provider_key(&self, provider: &str) -> Result<Option<Secret>, Failure> {
        let config = &self.config;
        parallax_config::stored_provider_key(&config.dirs, &config.keychain, provider)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Removes the stored key of a provider and returns whether there was one. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn remove_provider_key(&self, provider: &str) -> Result<bool, Failure> {
        let config = &self.config;
        parallax_config::remove_provider_key(&config.dirs, &config.keychain, provider)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Stores a key unless the provider rejects it; then the stored key stays unchanged.
    ///
    /// # Errors
    /// [`FailureKind::Auth`] if the provider rejects the key or no header can contain it, another
    /// kind if it cannot be stored.
    pub async fn add_provider_key(
        &self,
        provider: &str,
        key: &Secret,
    ) -> Result<AddedKey, Failure> {
        let key = Secret::new(key.expose().trim());
        require_valid_key(&key)?;
        let typed_key = Some((provider.to_owned(), key.clone()));
        let unchecked = match (Self { typed_key, ..self.clone() }).check_provider(provider).await {
            Ok(()) => None,
            Err(failure) if failure.kind == FailureKind::Auth => return Err(failure),
            Err(failure) => Some(failure.message),
        };
        let in_keychain = self.store_provider_key(provider, &key)?;
        Ok(AddedKey { in_keychain, unchecked })
    }

    /// Verifies the key of a provider by listing its models.
    ///
    /// # Errors
    /// [`FailureKind::Auth`] if the provider rejects the key, another kind if it could not be
    /// verified.
    pub async fn check_provider(&self, provider: &str) -> Result<(), Failure> {
        self.require_provider(provider)?;
        match self.list_models(Some(provider), CHECK_LIMIT).await.pop() {
            Some(listing) => listing.models.map(drop),
            None => Ok(()),
        }
    }
}
