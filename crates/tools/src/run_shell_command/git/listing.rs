//! Lists the entries of a configuration, including those of included files.

use std::path::{Path, PathBuf};

use super::{SIZE, git_config};
use crate::small_files::bytes_of;

/// Maximum number of files that are followed.
const MAX_FILES: usize = 32;

/// Returns keys (lowercase except for their middle part) and values; `None` if git cannot list them
/// all. Conditionally included files count as included, because the condition may hold when the
/// command runs.
pub(super) fn entries(file: &Path, directory: &Path) -> Option<Vec<(String, String)>> {
    let text = bytes_of(file, SIZE).and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(entries) = text.and_then(|text| plain_entries(&text)) {
        return Some(entries);
    }
    let mut all = Vec::new();
    let mut files = vec![file.to_owned()];
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        next += 1;
        let arguments = ["--show-origin", "--includes", "--file"];
        let file = file.to_string_lossy();
        let listed = git_config(
            &arguments.iter().copied().chain([&*file, "--list"]).collect::<Vec<_>>(),
            directory,
        )?;
        let text = String::from_utf8_lossy(&listed).into_owned();
        let mut fields = text.split('\0');
        while let (Some(origin), Some(entry)) = (fields.next(), fields.next()) {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
            if key.starts_with("includeif.") && key.ends_with(".path") {
                let included = included_path(origin, value, directory);
                if included.exists() && !files.contains(&included) {
                    if files.len() >= MAX_FILES {
                        return None;
                    }
                    files.push(included);
                }
            }
            all.push((key.to_owned(), value.to_owned()));
        }
    }
    Some(all)
}

/// Returns the entries of a file whose lines all have the simplest form, as git itself writes them:
/// no quotes except in the second part of a section, no escapes, and no includes. Returns `None`
/// for any other file, which only git can interpret; that takes milliseconds.
fn plain_entries(text: &str) -> Option<Vec<(String, String)>> {
    let is_plain = |text: &str| {
        text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\#;".contains(&byte))
    };
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
    };
    let mut entries = Vec::new();
    let mut section: Option<String> = None;
    for line in text.split('\n') {
        let line = line.trim_matches([' ', '\t']);
        if line.is_empty() {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let (name, inner) = match header.strip_suffix('"') {
                Some(header) => header.split_once(" \"").map(|(name, it)| (name, Some(it)))?,
                None => (header, None),
            };
            let inner_is_plain = inner.is_none_or(|inner| is_plain(inner) && !inner.contains(']'));
            if !is_name(name) || !inner_is_plain || name.to_ascii_lowercase().starts_with("include")
            {
                return None;
            }
            let name = name.to_ascii_lowercase();
            section = Some(inner.map_or(name.clone(), |inner| format!("{name}.{inner}")));
            continue;
        }
        let (key, value) = line.split_once('=')?;
        let (key, value) =
            (key.trim_end_matches([' ', '\t']), value.trim_start_matches([' ', '\t']));
        if !is_name(key) || !is_plain(value) {
            return None;
        }
        entries.push((
            format!("{}.{}", section.as_ref()?, key.to_ascii_lowercase()),
            value.to_owned(),
        ));
    }
    Some(entries)
}

/// Resolves an included path relative to the file that includes it.
fn included_path(origin: &str, value: &str, directory: &Path) -> PathBuf {
    if let Some(rest) = value.strip_prefix("~/") {
        return PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(rest);
    }
    let origin = directory.join(origin.strip_prefix("file:").unwrap_or(origin));
    origin.parent().unwrap_or(directory).join(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORDINARY: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\
        \tlogallrefupdates = true\n[user]\n\tname = A B\n\temail = a@b\n\
        [remote \"Origin\"]\n\turl = https://x.example/y.git\n\
        \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n";

    fn read_with_git(file: &Path) -> Option<Vec<(String, String)>> {
        let name = file.to_string_lossy();
        let listed = git_config(&["--file", &name, "--list"], file.parent()?)?;
        let text = String::from_utf8(listed).ok()?;
        let entries = text.split_terminator('\0');
        // A key without `=` has no line of its own.
        let pair = |entry: &str| {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, "-"));
            (key.to_owned(), value.to_owned())
        };
        Some(entries.map(pair).collect())
    }

    #[test]
    fn ordinary_config_is_parsed_and_git_reads_others() {
        assert_eq!(plain_entries(ORDINARY).map(|entries| entries.len()), Some(8));
        for line in [
            "[include]\n\tpath = x",
            "[includeIf \"gitdir:/\"]\n\tpath = x",
            "[core \"a\\\"]\"]\n",
            "[core.x]\n",
            "[core] pager = x",
            "[core]\n\tpager",
            "[core]\n\tpager = \"x\"",
            "[core]\n\tpager = x\\\n y",
            "[core]\n\tpager = x # y",
            "[core]\r\n\tpager = x",
            "\u{feff}[core]",
            "pager = x",
        ] {
            assert_eq!(plain_entries(line), None, "{line:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn parsed_config_matches_git(
            lines in proptest::collection::vec(
                prop_oneof![
                    "\\[[a-zA-Z-]{1,6}\\][ \t]?",
                    "[ \t]?\\[[a-zA-Z]{1,5} \"[a-zA-Z./ -]{0,6}\"\\]",
                    "[ \t]?[a-zA-Z][a-zA-Z0-9-]{0,6} ?=[ \t]?[a-zA-Z0-9+:/*@.= \t'-]{0,12}",
                    "[ \ta-zA-Z=\\[\\]#;\"\\\\-]{0,9}",
                ],
                0..7,
            ),
        ) {
            let directory = tempfile::tempdir().expect("a directory");
            let file = directory.path().join("config");
            let text = lines.join("\n");
            std::fs::write(&file, &text).expect("a file");
            if let Some(entries) = plain_entries(&text) {
                prop_assert_eq!(Some(entries), read_with_git(&file), "{:?}", text);
            }
        }
    }
}
