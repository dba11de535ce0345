//! API keys: where they come from, verifying them, and storing them.

use parallax_config::{ConfigError, StoredKey, key_of_reference, stored_key, stored_kinds};
use parallax_gemini::{Auth, AuthError, AuthKind, Gemini, GeminiOptions, resolve_auth};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::model::ModelError;
use parallax_protocol::secret::{Secret, SecretRecipient};

use crate::key_validation::require_valid_key;
use crate::provider_credentials::{KeySource, ProviderCredential};
use crate::{ProviderManager, failure};

pub use parallax_config::KeyKind;

/// How a session would authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// With available credentials.
    Found {
        /// The method as in `security.auth.selectedType`.
        method: &'static str,
        /// Where the key was found.
        source: CredentialSource,
    },
    /// No authentication is needed, because a script or a recording provides the responses.
    NotNeeded,
    /// No usable credentials were found.
    Missing {
        /// The reason and the solution.
        reason: String,
    },
}

/// Where a key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialSource {
    /// In environment variables or a `.env` file.
    Environment,
    /// In Parallax's own storage or that of Gemini CLI.
    Stored,
}

impl ProviderManager {
    /// Returns how a session would authenticate. Blocking.
    pub fn credential(&self) -> Credential {
        if self.is_scripted {
            return Credential::NotNeeded;
        }
        let table = self.model_table();
        let name = table.resolve(&self.model);
        if let Some((provider, _)) = table.providers().split(&name) {
            let source =
                match provider.key_variables.iter().chain(&provider.token_variables).any(|name| {
                    self.config.environment.get(name).is_some_and(|value| !value.trim().is_empty())
                }) {
                    true => CredentialSource::Environment,
                    false => CredentialSource::Stored,
                };
            return match self.provider_key(provider) {
                Ok(Some(_)) => Credential::Found { method: "provider-key", source },
                Ok(None) => Credential::NotNeeded,
                Err(failure) => Credential::Missing { reason: failure.message },
            };
        }
        self.gemini_credential()
    }

    /// Returns how requests to the Gemini API would authenticate, whatever the model of the session.
    /// Blocking.
    pub fn gemini_credential(&self) -> Credential {
        match self.auth() {
            Ok((auth, source)) => Credential::Found { method: auth.kind().as_str(), source },
            Err(failure) => Credential::Missing { reason: failure.message },
        }
    }

    /// Verifies the key with a request to the provider that uses no model, sent the same way as a
    /// session's requests.
    ///
    /// # Errors
    /// [`FailureKind::Auth`] if the key is rejected, another kind if it could not be verified (for
    /// example no network or a wrong base URL).
    pub async fn check_key(&self, kind: KeyKind, key: &Secret) -> Result<(), Failure> {
        let key = Secret::new(key.expose().trim());
        if key.is_empty() {
            return Err(failure(FailureKind::Auth, "the key is empty".to_owned()));
        }
        let auth = match kind {
            KeyKind::GeminiApi => Auth::ApiKey(key),
            KeyKind::VertexExpress => Auth::VertexExpress(key),
        };
        let env = |name: &str| self.config.environment.get(name).map(str::to_owned);
        let mut options = GeminiOptions::from_env(auth, &env);
        options.version = self.version.to_owned();
        let gemini = Gemini::new(options)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        gemini.check().await.map(drop).map_err(model_failure)
    }

    /// Stores the key for this and later sessions, replacing a stored key of its kind. It is used if
    /// the environment has none. Of two stored keys, the one stored last is used for models without
    /// a provider, unless the settings select the other. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn store_key(&self, kind: KeyKind, key: &Secret) -> Result<(), Failure> {
        require_valid_key(key)?;
        let stored = StoredKey { kind, key: key.clone() };
        parallax_config::store_key(&self.config.dirs, &self.config.keychain, &stored)
            .map_err(config_failure)
    }

    /// Deletes the stored key of a kind, or all of them without one, and returns whether there was
    /// one. Environment variables are not changed. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn forget_key(&self, kind: Option<KeyKind>) -> Result<bool, Failure> {
        let (dirs, keychain) = (&self.config.dirs, &self.config.keychain);
        let forgotten = match kind {
            Some(kind) => parallax_config::forget_key(dirs, keychain, kind),
            None => parallax_config::forget_keys(dirs, keychain),
        };
        forgotten.map_err(config_failure)
    }

    /// Returns the kinds of the stored keys, the one that was stored last first. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn stored_key_kinds(&self) -> Result<Vec<KeyKind>, Failure> {
        stored_kinds(&self.config.dirs).map_err(config_failure)
    }

    /// Returns the credentials of a session from the environment and settings, or the stored key if
    /// they contain none.
    pub fn auth(&self) -> Result<(Auth, CredentialSource), Failure> {
        self.auth_of(None)
    }

    /// Whether Vertex AI can be used with a project, although models without a prefix are those of
    /// another service.
    pub(crate) fn has_additional_vertex(&self) -> bool {
        let is_project =
            |found: Result<(Auth, _), _>| matches!(found, Ok((Auth::VertexProject { .. }, _)));
        // The variables are checked first, because the other check may read a key from a keychain.
        self.config.environment.get("GOOGLE_CLOUD_PROJECT").is_some()
            && is_project(self.auth_of(Some(AuthKind::VertexAi.as_str())))
            && !is_project(self.auth())
    }

    /// Like [`ProviderManager::auth`], but for this method instead of the selected one.
    pub(crate) fn auth_of(
        &self,
        method: Option<&str>,
    ) -> Result<(Auth, CredentialSource), Failure> {
        let settings = &self.config.settings;
        let selected = method
            .map(str::to_owned)
            .or_else(|| self.auth_method.clone())
            .or_else(|| settings.auth_selected_type());
        let enforced = settings.auth_enforced_type();
        let resolve = |env: &dyn Fn(&str) -> Option<String>| {
            let external = settings.auth_is_external();
            resolve_auth(env, selected.as_deref(), enforced.as_deref(), external)
        };
        let env = |name: &str| self.config.environment.get(name).map(str::to_owned);
        let output = resolve(&env);
        if output.as_ref().is_ok_and(|auth| auth.key().is_some()) {
            return with_source(output, CredentialSource::Environment);
        }
        if self.has_key_variable() {
            return with_source(output, CredentialSource::Environment);
        }
        for kind in self.stored_or_reference_kinds().map_err(config_failure)? {
            let stored = self.stored_key(kind).map_err(config_failure)?;
            let Some(StoredKey { kind, key }) = stored else { continue };
            let with_kept = resolve(&|name: &str| match (kind, name) {
                (KeyKind::GeminiApi, "GEMINI_API_KEY")
                | (KeyKind::VertexExpress, "GOOGLE_API_KEY") => Some(key.expose().to_owned()),
                (KeyKind::VertexExpress, "GOOGLE_GENAI_USE_VERTEXAI") => Some("true".to_owned()),
                _ => env(name),
            });
            if with_kept.as_ref().is_ok_and(|auth| auth.key().is_some()) {
                return with_source(with_kept, CredentialSource::Stored);
            }
        }
        let is_missing =
            matches!(output, Err(AuthError::NotConfigured | AuthError::Missing { .. }));
        if is_missing && let Some((others, advice)) = self.other_providers() {
            let reason = match &output {
                // The user selected a method of Google, so its message comes first.
                Err(error @ AuthError::Missing { .. }) => format!("{error}. {others}: {advice}"),
                _ => format!(
                    "{NO_GEMINI_KEY}, but {others}: {advice}; for Gemini models, run \
                     `parallax auth add gemini` or set `GEMINI_API_KEY`"
                ),
            };
            return Err(failure(FailureKind::Auth, reason));
        }
        // No stored key fits the selected method.
        with_source(output, CredentialSource::Environment)
    }

    /// Returns what a user without a key of Google has set up instead, and how to use it: keys of
    /// other providers, entries of the settings, and local servers with an address.
    fn other_providers(&self) -> Option<(String, String)> {
        let mut found = self.hosted_credentials();
        let own = self.providers_of_settings().into_iter();
        found.extend(own.filter(|it| it.source != KeySource::Missing));
        found.extend(self.local_servers_with_address());
        let first = found.first()?.provider.clone();
        let names: Vec<String> = found.iter().map(ProviderCredential::description).collect();
        let found = match names.as_slice() {
            [only] => format!("{only} was found"),
            all => format!("{} were found", all.join(", ")),
        };
        let advice = format!(
            "choose a model with `-m {first}:MODEL` (`parallax models list {first}` lists them) or \
             `model.name` in the settings"
        );
        Some((found, advice))
    }

    /// Returns the kinds of the keys stored by Parallax or, if there are none, of the one that Gemini
    /// CLI may have stored.
    fn stored_or_reference_kinds(&self) -> Result<Vec<KeyKind>, ConfigError> {
        let kinds = stored_kinds(&self.config.dirs)?;
        Ok(if kinds.is_empty() { vec![KeyKind::GeminiApi] } else { kinds })
    }

    /// Returns the key stored by Parallax, or else by Gemini CLI. The system keychain is accessed
    /// for the latter only if Gemini CLI's settings select an API key.
    fn stored_key(&self, kind: KeyKind) -> Result<Option<StoredKey>, ConfigError> {
        let keychain = &self.config.keychain;
        if let Some(ours) = stored_key(&self.config.dirs, keychain, kind)? {
            return Ok(Some(ours));
        }
        let selected = self.config.settings.auth_selected_type();
        let is_kept = selected.as_deref() == Some(KeyKind::GeminiApi.as_str());
        Ok(key_of_reference(keychain, is_kept))
    }

    fn has_key_variable(&self) -> bool {
        let names = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
        names.iter().any(|name| self.config.environment.get(name).is_some())
    }

    /// Returns all API keys of the program, to redact them from text.
    pub fn own_keys(&self) -> Vec<String> {
        // An unused stored key is not loaded.
        let kinds = match self.has_key_variable() {
            true => Vec::new(),
            false => self.stored_or_reference_kinds().unwrap_or_default(),
        };
        let stored = kinds.into_iter().filter_map(|kind| self.stored_key(kind).ok().flatten());
        let table = self.model_table();
        let provider_variables = table
            .providers()
            .iter()
            .flat_map(|provider| provider.key_variables.iter().chain(&provider.token_variables));
        ["GEMINI_API_KEY", "GOOGLE_API_KEY", "PARALLAX_API_KEY", "PARALLAX_GEMINI_API_KEY"]
            .into_iter()
            .chain(provider_variables.map(String::as_str))
            .filter_map(|name| self.config.environment.get(name))
            .map(str::to_owned)
            .chain(self.header_secrets())
            .chain(stored.map(|stored| stored.key.expose().to_owned()))
            .collect()
    }
}

/// How the message about missing keys of Google begins if there are keys of other providers.
pub const NO_GEMINI_KEY: &str = "no credentials for Gemini models are configured";

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of `map_err`")]
fn config_failure(error: ConfigError) -> Failure {
    failure(FailureKind::Config, error.to_string())
}

impl ProviderManager {
    /// Returns the values of variables in headers, for providers and the web search.
    fn header_secrets(&self) -> Vec<String> {
        let values = self.config.environment.secret_values(SecretRecipient::Provider);
        values.iter().map(|value| value.expose().to_owned()).collect()
    }
}

fn with_source(
    output: Result<Auth, AuthError>,
    source: CredentialSource,
) -> Result<(Auth, CredentialSource), Failure> {
    match output {
        Ok(auth) => Ok((auth, source)),
        Err(error) => Err(failure(FailureKind::Auth, error.to_string())),
    }
}

/// Converts a model error to a failure.
pub fn model_failure(error: ModelError) -> Failure {
    match error {
        ModelError::Auth { status, message } => {
            Failure { kind: FailureKind::Auth, message, status }
        }
        ModelError::Unavailable { status, message, .. } => {
            Failure { kind: FailureKind::Api, message, status }
        }
        other => {
            Failure { kind: FailureKind::Api, status: other.status(), message: other.to_string() }
        }
    }
}

/// Returns the display name of an authentication method.
pub fn method_name(method: &str) -> &'static str {
    match method {
        word if word == AuthKind::ApiKey.as_str() => "Gemini API key",
        word if word == AuthKind::VertexAi.as_str() => "Vertex AI",
        word if word == AuthKind::Gateway.as_str() => "gateway",
        "provider-key" => "API key of the provider",
        _ => "unknown",
    }
}
