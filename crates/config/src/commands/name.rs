//! Derives the name of a command from the path of its file.

use std::path::Path;

/// Maximum number of characters of one segment.
const SEGMENT: usize = 50;

/// Returns the name: `git/commit.toml` becomes `git:commit`. Invalid characters become `_`; long
/// segments are truncated.
pub(super) fn command_name(relative: &Path) -> String {
    let stem = relative.with_extension("");
    let segments: Vec<String> =
        stem.components().map(|part| segment(&part.as_os_str().to_string_lossy())).collect();
    segments.join(":")
}

fn segment(text: &str) -> String {
    let clean = |char: char| match char {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' | '.' => char,
        _ => '_',
    };
    let mut segment: String = text.chars().map(clean).collect();
    // The segment is ASCII at this point.
    if segment.len() > SEGMENT {
        segment.truncate(SEGMENT - 3);
        segment.push_str("...");
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_name_joins_directories_and_replaces_odd_characters() {
        for (path, name) in [
            ("git/commit.toml", "git:commit"),
            ("a b/ü:c.md", "a_b:__c"),
            ("v1.2.toml", "v1.2"),
            (".hidden.toml", ".hidden"),
        ] {
            assert_eq!(command_name(Path::new(path)), name);
        }
        let long = command_name(&Path::new(&"x".repeat(60)).with_extension("toml"));
        assert_eq!(long, format!("{}...", "x".repeat(47)));
    }
}
