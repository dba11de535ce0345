//! Secret text that never appears in logs, errors, or journals.

use std::borrow::Cow;

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

/// Redacts secrets in texts before they are written to a file of the session.
pub trait Redact: Send + Sync + std::fmt::Debug {
    /// Returns the text without secrets; borrowed if it contains none.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}
