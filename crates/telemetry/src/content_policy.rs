//! Which text of a conversation telemetry may contain. Nothing else reads `logPrompts`.

/// Maximum length in bytes of an identifier.
const MAX_IDENTIFIER: usize = 200;
/// Recorded in place of an identifier that is free text.
const INVALID_IDENTIFIER: &str = "invalid";

/// Decides what is recorded of text that the user, a model, a tool, a hook, or a service wrote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentPolicy {
    logs_contents: bool,
}

impl ContentPolicy {
    /// `logs_contents`: `telemetry.logPrompts`.
    pub(crate) fn new(logs_contents: bool) -> Self {
        Self { logs_contents }
    }

    /// Returns a content if contents are recorded.
    pub(crate) fn content<T>(self, content: impl FnOnce() -> T) -> Option<T> {
        self.logs_contents.then(content)
    }

    /// Returns what is recorded as the message of an error: its text, which can quote prompts,
    /// files, and outputs, or else only its class.
    pub(crate) fn error_message(self, class: &str, text: &str) -> String {
        self.content(|| text.to_owned()).unwrap_or_else(|| class.to_owned())
    }

    /// Returns an identifier that a model or service chose, such as the name of a tool. Free text
    /// is content even there.
    pub(crate) fn identifier(self, text: &str) -> &str {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/@+~=#".contains(&byte);
        let is_identifier = text.len() <= MAX_IDENTIFIER && text.bytes().all(is_part);
        match is_identifier || self.logs_contents {
            true => text,
            false => INVALID_IDENTIFIER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_recorded_only_if_contents_are_enabled() {
        let (with, without) = (ContentPolicy::new(true), ContentPolicy::new(false));
        assert_eq!(with.content(|| "text"), Some("text"));
        assert_eq!(without.content(|| "text"), None);
        assert_eq!(with.error_message("api", "a secret"), "a secret");
        assert_eq!(without.error_message("api", "a secret"), "api");
        for name in ["mcp_github_search", "gemini-3.8-flash", "models/x:y@1", "STOP", "aGk="] {
            assert_eq!(without.identifier(name), name);
        }
        let long = "x".repeat(MAX_IDENTIFIER + 1);
        for text in ["a secret", "caf\u{e9}", "a\nb", &long] {
            assert_eq!(without.identifier(text), INVALID_IDENTIFIER);
            assert_eq!(with.identifier(text), text);
        }
    }
}
