//! The keys of providers: where each one is, and storing another one.

use std::time::Duration;

use parallax_models::{ModelTable, Provider};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::secret::Secret;

use crate::launch::{Launch, failure};

/// How long the check of a key may take.
const CHECK_LIMIT: Duration = Duration::from_secs(20);

/// Where the key of a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In this environment variable.
    Variable(String),
    /// The command in the settings prints it.
    Command,
    /// It was stored by this program.
    Stored,
    /// There is none.
    Missing,
    /// There is none, and none is needed.
    NotNeeded,
}

/// A provider and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCredential {
    /// The provider's name.
    pub provider: String,
    /// Its base URL.
    pub base_url: String,
    /// Variables that may hold a key.
    pub variables: Vec<String>,
    /// Where the key is.
    pub source: KeySource,
}

impl Launch {
    /// All providers and where their keys are. No key is read from a keychain. Blocking.
    ///
    /// # Errors
    /// When the file of stored keys is not usable.
    pub fn provider_credentials(&self) -> Result<Vec<ProviderCredential>, Failure> {
        let stored = parallax_config::stored_providers(&self.config.homes)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        let table = self.checked_model_table()?;
        Ok(table.providers().iter().map(|it| self.credential_of(it, &stored)).collect())
    }

    fn credential_of(&self, provider: &Provider, stored: &[String]) -> ProviderCredential {
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

    /// The provider of this name.
    ///
    /// # Errors
    /// When there is none: it names those that there are.
    pub fn require_provider(&self, name: &str) -> Result<ModelTable, Failure> {
        let table = self.checked_model_table()?;
        if table.providers().get(name).is_some() {
            return Ok(table);
        }
        let known: Vec<String> =
            table.providers().iter().map(|provider| format!("`{}`", provider.name)).collect();
        Err(failure(
            FailureKind::Input,
            format!(
                "unknown provider `{name}`: use one of {}, or define `providers.{name}` in the \
                    settings",
                known.join(", ")
            ),
        ))
    }

    /// Stores the key of a provider; returns whether it is in the system's keychain. Blocking.
    ///
    /// # Errors
    /// When the provider is unknown, the key is empty, or the file cannot be written.
    pub fn store_provider_key(&self, provider: &str, key: &Secret) -> Result<bool, Failure> {
        self.require_provider(provider)?;
        let key = Secret::new(key.expose().trim());
        if key.is_empty() {
            return Err(failure(FailureKind::Input, "the key is empty".to_owned()));
        }
        let config = &self.config;
        parallax_config::store_provider_key(&config.homes, &config.keychain, provider, &key)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// The stored key of a provider. Blocking.
    ///
    /// # Errors
    /// When the file is not usable, or the keychain does not answer.
    pub fn stored_provider_key(&self, provider: &str) -> Result<Option<Secret>, Failure> {
        let config = &self.config;
        parallax_config::stored_provider_key(&config.homes, &config.keychain, provider)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Removes the stored key of a provider; returns whether there was one. Blocking.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remove_provider_key(&self, provider: &str) -> Result<bool, Failure> {
        let config = &self.config;
        parallax_config::remove_provider_key(&config.homes, &config.keychain, provider)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Stores a key that the provider accepts; a rejected one leaves the stored key as it was.
    /// Returns why the key could not be checked, if so.
    ///
    /// # Errors
    /// [`FailureKind::Auth`] when the provider rejects the key; when it cannot be stored.
    pub async fn add_provider_key(
        &self,
        provider: &str,
        key: &Secret,
    ) -> Result<Option<String>, Failure> {
        let previous = self.stored_provider_key(provider).ok().flatten();
        self.store_provider_key(provider, key)?;
        match self.check_provider(provider).await {
            Ok(()) => Ok(None),
            Err(failure) if failure.kind == FailureKind::Auth => {
                match previous {
                    Some(key) => self.store_provider_key(provider, &key).map(drop)?,
                    None => self.remove_provider_key(provider).map(drop)?,
                }
                Err(failure)
            }
            Err(failure) => Ok(Some(failure.message)),
        }
    }

    /// Checks the key of a provider with the request that lists its models.
    ///
    /// # Errors
    /// [`FailureKind::Auth`] when the service rejects the key, another kind when it cannot be
    /// checked.
    pub async fn check_provider(&self, provider: &str) -> Result<(), Failure> {
        self.require_provider(provider)?;
        match self.list_models(Some(provider), CHECK_LIMIT).await.pop() {
            Some(listing) => listing.models.map(drop),
            None => Ok(()),
        }
    }
}
