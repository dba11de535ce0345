//! Finds the API key of a provider.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use parallax_models::Provider;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::secret::Secret;

use crate::{ProviderManager, failure};

/// Timeout of `apiKeyCommand`.
const KEY_COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// Maximum bytes of the command's output.
const MAX_KEY: u64 = 64 * 1024;

/// An API key and how it is sent.
pub(crate) struct ProviderKey {
    pub(crate) key: Secret,
    /// Whether it is sent as `Authorization: Bearer` instead of in the API's own header.
    pub(crate) bearer: bool,
}

/// Describes what to check if the key is missing or rejected.
pub(crate) fn key_hint(provider: &Provider) -> String {
    let variables: Vec<String> = provider
        .key_variables
        .iter()
        .chain(&provider.token_variables)
        .map(|name| format!("`{name}`"))
        .collect();
    let stored = format!("the key stored by `parallax auth add {}`", provider.name);
    match (&provider.key_command, variables.is_empty()) {
        (Some(_), _) => format!("what `providers.{}.apiKeyCommand` prints", provider.name),
        (None, true) if !provider.needs_key => format!(
            "{stored}, or the variable named in `providers.{}.apiKeyEnv` (without one, no key is sent)",
            provider.name
        ),
        (None, true) => stored,
        (None, false) => format!("{} or {stored}", variables.join(", ")),
    }
}

impl ProviderManager {
    /// Returns the variables that locate Google Cloud credentials. A project's variables are
    /// ignored.
    pub fn google_variables(&self) -> Vec<(OsString, OsString)> {
        parallax_gemini::CREDENTIAL_VARIABLES
            .iter()
            .filter_map(|name| Some((name.into(), self.config.user_variable(name)?.into())))
            .collect()
    }

    /// Returns the key of a provider from the environment, its command, or storage. Blocking.
    ///
    /// # Errors
    /// Returns an error if a required key is missing or the command fails.
    pub(crate) fn provider_key(&self, provider: &Provider) -> Result<Option<ProviderKey>, Failure> {
        let variable = |name: &String| {
            let value = self.config.environment.get(name).map(str::trim);
            value.filter(|value| !value.is_empty()).map(Secret::new)
        };
        let found = |key: Secret, bearer: bool| Ok(Some(ProviderKey { key, bearer }));
        if let Some((name, key)) = &self.typed_key
            && *name == provider.name
        {
            return found(key.clone(), false);
        }
        if let Some(key) = provider.key_variables.iter().find_map(variable) {
            return found(key, false);
        }
        if let Some(key) = provider.token_variables.iter().find_map(variable) {
            return found(key, true);
        }
        if let Some(command) = &provider.key_command {
            let key = key_of_command(command, &self.config.dirs.user);
            return key.map(|key| Some(ProviderKey { key, bearer: false })).ok_or_else(|| {
                let (name, limit) = (&provider.name, KEY_COMMAND_LIMIT.as_secs());
                failure(
                    FailureKind::Auth,
                    format!(
                        "the command in `providers.{name}.apiKeyCommand` failed, printed nothing, \
                            or ran for more than {limit} s"
                    ),
                )
            });
        }
        let (dirs, keychain) = (&self.config.dirs, &self.config.keychain);
        let stored = parallax_config::stored_provider_key(dirs, keychain, &provider.name)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        if let Some(key) = stored {
            return found(key, false);
        }
        if !provider.needs_key {
            return Ok(None);
        }
        let name = &provider.name;
        let variables: Vec<String> =
            provider.key_variables.iter().map(|name| format!("`{name}`")).collect();
        Err(failure(
            FailureKind::Auth,
            format!(
                "no key for the provider `{name}`: set {} or run `parallax auth add {name}`",
                variables.join(" or ")
            ),
        ))
    }
}

/// Runs a command of the user's settings and returns the key that it prints.
fn key_of_command(command: &str, directory: &Path) -> Option<Secret> {
    let time = KEY_COMMAND_LIMIT;
    let output =
        parallax_exec::program::output("sh", ["-c", command], directory, &[], MAX_KEY, time)?;
    let key = String::from_utf8(output).ok()?;
    let key = key.trim();
    (!key.is_empty()).then(|| Secret::new(key))
}
