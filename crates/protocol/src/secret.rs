//! A text that no log, error or journal ever shows.

use std::borrow::Cow;

/// An API key or token. `Debug` and `Display` print a fixed mark; the text is
/// reached only through [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The text itself, for the one place that puts it on the wire.
    pub fn expose(&self) -> &str {
        &self.0
    }
    /// Whether there is no text at all (a gateway may need no key).
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

/// What takes secrets out of texts before they are written to a file of the
/// session.
pub trait Redact: Send + Sync + std::fmt::Debug {
    /// The text without its secrets; borrowed when there is none.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}
