//! Files dragged into the terminal arrive as pasted paths.

use std::path::{Path, PathBuf};

/// Maximum size in bytes of a paste that can be a list of files.
const MAX_BYTES: usize = 8 * 1024;

/// Converts pasted text that consists only of paths of existing files to `@path` words. Paths are
/// plain, escaped with backslashes, or in single quotes; only absolute ones and those below the
/// home directory count, as terminals insert them.
pub fn to_at_paths(
    text: &str,
    home: Option<&Path>,
    exists: &dyn Fn(&Path) -> bool,
) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_BYTES || !text.starts_with(['/', '~', '\'', 'f']) {
        return None;
    }
    // A plain path may contain spaces; escaped and quoted ones are separated by spaces.
    let paths = if is_path(text, home, exists) {
        vec![text.to_owned()]
    } else {
        let paths = split(text)?;
        paths.iter().all(|path| is_path(path, home, exists)).then_some(paths)?
    };
    let words: Vec<String> = paths
        .iter()
        .map(|path| format!("@{}", escape(path.trim_start_matches("file://"))))
        .collect();
    Some(words.join(" ") + " ")
}

fn is_path(path: &str, home: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> bool {
    let path = path.trim_start_matches("file://");
    let full = match path.strip_prefix("~/") {
        Some(rest) => home.map(|home| home.join(rest)),
        None => path.starts_with('/').then(|| PathBuf::from(path)),
    };
    !path.contains('\n') && full.is_some_and(|full| exists(&full))
}

/// Splits a shell line into words without quotes and backslashes.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' => loop {
                match chars.next()? {
                    '\'' => break,
                    char => word.push(char),
                }
            },
            '\\' => word.push(chars.next()?),
            char if char.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            char => word.push(char),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    Some(words)
}

/// Converts a path to an `@` word: delimiters are escaped with a backslash, and control characters
/// are written as numbers.
pub fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for char in path.chars() {
        if char.is_control() {
            escaped.extend(char.escape_unicode());
            continue;
        }
        if char.is_whitespace() || "\\,;!?()[]{}\"".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_with_control_characters_is_quoted() {
        assert_eq!(escape("e\u{1b}v il\n"), "e\\u{1b}v\\ il\\u{a}");
    }

    #[test]
    fn only_existing_dropped_paths_are_quoted() {
        let exists = |path: &Path| {
            ["/a/b c.txt", "/a/d.txt", "/home/x/e"].iter().any(|known| path == Path::new(known))
        };
        let words = |text| to_at_paths(text, Some(Path::new("/home/x")), &exists);
        for (text, expected) in [
            ("/a/d.txt", Some("@/a/d.txt ")),
            ("/a/b c.txt", Some("@/a/b\\ c.txt ")),
            ("/a/b\\ c.txt /a/d.txt\n", Some("@/a/b\\ c.txt @/a/d.txt ")),
            ("'/a/b c.txt' '/a/d.txt'", Some("@/a/b\\ c.txt @/a/d.txt ")),
            ("~/e", Some("@~/e ")),
            ("file:///a/d.txt", Some("@/a/d.txt ")),
            ("/a/d.txt and more", None),
            ("/a/nothing", None),
            ("'/a/d.txt", None),
            ("d.txt", None),
            ("", None),
        ] {
            assert_eq!(words(text).as_deref(), expected, "{text}");
        }
    }
}
