//! Strings of a request that differ in every run of the same program: paths, ids, process numbers,
//! times. They are left out of the comparison of a replayed request with the recorded one.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Ids of processes, calls, and sessions, and points in time.
static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "${id}"),
        (r"\b(PGID|PIDs|PID): \d+(?:, \d+)*", "$1: ${number}"),
        (r"_\d{13}_(\d+)\b", "_${time}_$1"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?", "${time}"),
        // A hash without letters, where git writes one.
        (r"(?m)(^|commit |\[[\w/.-]+ )\d{7,40}\b", "$1${hash}"),
    ];
    let compiled = patterns.into_iter().filter_map(|(pattern, name)| {
        // The patterns are constant and valid.
        Regex::new(pattern).ok().map(|pattern| (pattern, name))
    });
    compiled.collect()
});
/// A word that may be the hash of a git object.
static HASH: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{7,40}\b").ok());

/// What differs in every run.
#[derive(Debug, Clone, Default)]
pub(crate) struct VolatileText {
    /// Directories as JSON writes them, the longest first, and what replaces them.
    directories: Vec<(String, &'static str)>,
}

impl VolatileText {
    /// Collects the strings of a run in a directory, by a user with a home directory.
    pub(crate) fn new(directory: &Path, home: &Path) -> Self {
        let text = |path: &Path| {
            let quoted = serde_json::Value::from(path.to_string_lossy()).to_string();
            quoted.trim_matches('"').to_owned()
        };
        let named = [(directory, "${cwd}"), (home, "${home}")];
        let mut directories: Vec<(String, &str)> = named
            .into_iter()
            .filter(|(path, _)| path.parent().is_some())
            .map(|(path, name)| (text(path), name))
            .collect();
        directories.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self { directories }
    }

    /// Returns the JSON of a content with names in their place. The result is only compared, so
    /// its line breaks are not escaped.
    pub(crate) fn replace<'a>(&self, mut json: Cow<'a, str>) -> Cow<'a, str> {
        if json.contains("\\n") {
            json = Cow::Owned(json.replace("\\n", "\n"));
        }
        for (path, name) in &self.directories {
            if json.contains(path.as_str()) {
                json = Cow::Owned(json.replace(path.as_str(), name));
            }
        }
        for (pattern, name) in PATTERNS.iter() {
            if pattern.is_match(&json) {
                // `${` would be a group.
                let template = name.replace("${", "$${");
                json = Cow::Owned(pattern.replace_all(&json, template.as_str()).into_owned());
            }
        }
        if let Some(hash) = HASH.as_ref()
            && hash.is_match(&json)
        {
            let replaced = hash.replace_all(&json, |found: &Captures<'_>| {
                let word = found.get(0).map_or("", |word| word.as_str());
                let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
                let has_letter = word.bytes().any(|byte| byte.is_ascii_lowercase());
                // Numbers and words are not hashes.
                if has_digit && has_letter { "${hash}".to_owned() } else { word.to_owned() }
            });
            json = Cow::Owned(replaced.into_owned());
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volatile_strings_are_replaced() {
        let texts = VolatileText::new(Path::new("/home/me/run-1"), Path::new("/home/me"));
        for (text, replaced) in [
            ("in /home/me/run-1/a.txt", "in ${cwd}/a.txt"),
            ("/home/me/.parallax/x", "${home}/.parallax/x"),
            ("Process Group PGID: 4711", "Process Group PGID: ${number}"),
            ("Background PIDs: 12, 345 end", "Background PIDs: ${number} end"),
            ("read_file_1764450000123_7.txt", "read_file_${time}_7.txt"),
            ("0198c2f4-1111-7222-8333-0123456789ab", "${id}"),
            ("at 2026-11-29T18:44:01.123Z on", "at ${time} on"),
            ("commit 4f2a9c1 fixes", "commit ${hash} fixes"),
            (r"of a file\naffc0c5 start\n1234567 end", "of a file\n${hash} start\n${hash} end"),
            ("port 8443, 1234567, defaced, feedback", "port 8443, 1234567, defaced, feedback"),
        ] {
            assert_eq!(texts.replace(text.into()), replaced);
        }
        let nothing = VolatileText::new(Path::new("/"), Path::new(""));
        assert_eq!(nothing.replace("/a/b".into()), "/a/b");
    }
}
