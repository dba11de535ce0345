//! Secret text that never appears in logs, errors, or journals.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// An API key or token. `Debug` and `Display` print a fixed placeholder; the text is accessible
/// only through [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// Returns the text, for the code that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
    /// Whether the text is empty (a gateway may not need a key).
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// Redacts secrets in text before it is written to a file of the session.
pub trait Redact: Send + Sync + std::fmt::Debug {
    /// Returns the text without secrets; borrowed if it contains none.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

/// Who gets the secret in an environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretRecipient {
    /// Another service, such as an MCP server. Commands get the variable only if the user lists it.
    Service,
    /// A model provider or the web search. Commands never get the variable.
    Provider,
}

/// The environment variables from which the configuration takes secrets. Names are registered
/// wherever a variable is expanded into a secret; clones share one registry, so that the
/// environments of later child processes lack all of them.
#[derive(Debug, Clone, Default)]
pub struct SecretVariables(Arc<Mutex<BTreeMap<String, SecretRecipient>>>);

impl SecretVariables {
    /// Registers a variable. If several recipients get it, the stricter one counts.
    pub fn insert(&self, name: &str, recipient: SecretRecipient) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = names.entry(name.to_uppercase()).or_insert(recipient);
        *entry = (*entry).max(recipient);
    }

    /// Returns all variables, in upper case, with their recipients.
    pub fn snapshot(&self) -> BTreeMap<String, SecretRecipient> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
