//! Distinguishes slash commands from prompts.

/// Classification of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashKind<'a> {
    /// A text for the model.
    Text,
    /// A slash command.
    Command {
        /// Name without the slash.
        name: &'a str,
        /// Text after the name, without leading spaces.
        arguments: &'a str,
    },
}

/// Classifies a prompt. `//`, `/*`, a single `/`, a space before the `/`, and a first word with a
/// second `/` in it (a path) are text.
pub fn classify(prompt: &str) -> SlashKind<'_> {
    let Some(rest) = prompt.strip_prefix('/') else { return SlashKind::Text };
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    if name.is_empty() || name.starts_with('*') || name.contains('/') {
        return SlashKind::Text;
    }
    SlashKind::Command { name, arguments: arguments.trim_start() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slash_paths_and_comments_are_plain_text() {
        for text in
            ["", "hello", "/", "/ x", "//x", "/* x */", "/etc/hosts says", "a /b", "/a/", " /a"]
        {
            assert_eq!(classify(text), SlashKind::Text, "{text}");
        }
        assert_eq!(classify("/stats"), SlashKind::Command { name: "stats", arguments: "" });
        assert_eq!(
            classify("/git:commit  a /b"),
            SlashKind::Command { name: "git:commit", arguments: "a /b" }
        );
    }
}
