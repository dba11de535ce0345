//! The entries of a configuration, with those of the files that it includes.

use std::path::{Path, PathBuf};

use super::git_config;

/// Files that are followed.
const MOST_FILES: usize = 32;

/// Keys (in lower case but for their middle) and values; `None` when git cannot
/// list them all. Files that are included under a condition count as included:
/// the condition may hold when the command runs.
pub(super) fn entries(file: &Path, directory: &Path) -> Option<Vec<(String, String)>> {
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
                let included = included(origin, value, directory);
                if included.exists() && !files.contains(&included) {
                    if files.len() >= MOST_FILES {
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

/// The file that a value names, as seen from the file that it stands in.
fn included(origin: &str, value: &str, directory: &Path) -> PathBuf {
    if let Some(rest) = value.strip_prefix("~/") {
        return PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(rest);
    }
    let origin = directory.join(origin.strip_prefix("file:").unwrap_or(origin));
    origin.parent().unwrap_or(directory).join(value)
}
